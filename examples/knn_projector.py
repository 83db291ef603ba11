"""A field from the nearest points: a network whose middle layer aggregates the features of the nearest points, in JAX.

Each point of a cloud, normally distributed, has a reading of a field. An MLP makes features of the points,
`madelung.jax.knn_aggregate` brings those of the nearest ones to the nodes of a grid by softmax(−d/σ), and a second MLP
reads the field off them; the width σ is trained, too. A step is one jitted function.

    python examples/knn_projector.py

A cut through the field, its reference and the loss are plotted to knn_projector.png.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from tqdm import tqdm

from madelung.jax import knn_aggregate

Parameters = dict[str, Any]


def mlp(key: jax.Array, *widths: int) -> list[tuple[jax.Array, jax.Array]]:
    """Weights and biases of linear layers."""
    keys = jax.random.split(key, len(widths) - 1)
    sizes = zip(keys, widths, widths[1:])
    return [(jax.random.normal(k, (m, n)) / m**0.5, jnp.zeros(n)) for k, m, n in sizes]


def applied(layers: list[tuple[jax.Array, jax.Array]], x: jax.Array) -> jax.Array:
    *first, (weights, bias) = layers
    for w, b in first:
        x = jax.nn.silu(x @ w + b)
    return x @ weights + bias


def projected(parameters: Parameters, queries: jax.Array, points: jax.Array, readings: jax.Array, k: int) -> jax.Array:
    """Features of points, brought to queries from the k nearest ones."""
    features = applied(parameters["of_points"], jnp.concatenate([points, readings], 1))
    at_queries = knn_aggregate(queries, points, features, k, jnp.exp(parameters["log_sigma"]))
    return applied(parameters["of_queries"], at_queries)


def field(r: jax.Array) -> jax.Array:
    """What the points read and the grid should show, (N, 1)."""
    x, y, z = 3.0 * r.T
    return (jnp.sin(x) * jnp.cos(y) + 0.5 * jnp.sin(2.0 * z) * jnp.cos(x))[:, None]


def plot(pictures: dict[str, jax.Array], losses: list[float], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (*cuts, curve) = pyplot.subplots(1, len(pictures) + 1, figsize=(4 * len(pictures) + 4, 3.6))
    for axis, (title, picture) in zip(cuts, pictures.items()):
        axis.imshow(picture, extent=(-1, 1, -1, 1), origin="lower", cmap="RdBu", vmin=-1.5, vmax=1.5)
        axis.set_title(title)
    curve.semilogy(losses)
    curve.set(title="loss", xlabel="step")
    figure.tight_layout()
    figure.savefig(file, dpi=120)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=100_000, help="points of the cloud")
    parser.add_argument("--edge", type=int, default=30, help="nodes of the grid along an edge")
    parser.add_argument("--k", type=int, default=7, help="points of a node")
    parser.add_argument("--hidden", type=int, default=25, help="features of a point")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--plot", type=Path, default=Path("knn_projector.png"))
    options = parser.parse_args(arguments)

    keys = jax.random.split(jax.random.key(0), 4)
    points = jax.random.normal(keys[0], (options.points, 3))
    edge = jnp.linspace(-1.0, 1.0, options.edge)
    queries = jnp.stack(jnp.meshgrid(edge, edge, edge, indexing="ij"), -1).reshape(-1, 3)
    readings, wanted = field(points) + 0.1 * jax.random.normal(keys[1], (options.points, 1)), field(queries)
    parameters = {
        "of_points": mlp(keys[2], 4, options.hidden, options.hidden),
        "of_queries": mlp(keys[3], options.hidden, options.hidden, 1),
        "log_sigma": jnp.log(0.1),
    }

    def loss(parameters: Parameters) -> jax.Array:
        return ((projected(parameters, queries, points, readings, options.k) - wanted) ** 2).mean()

    @jax.jit
    def step(parameters: Parameters, moments: Any, n: jax.Array) -> Any:
        """One of Adam (Kingma and Ba, arXiv:1412.6980)."""
        value, g = jax.value_and_grad(loss)(parameters)
        first, second = moments
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, g)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, g)
        rates = 1e-2 / (1 - 0.9**n), 1 / (1 - 0.999**n)
        moved = jax.tree.map(
            lambda p, m, v: p - rates[0] * m / (jnp.sqrt(rates[1] * v) + 1e-8), parameters, first, second
        )
        return moved, (first, second), value

    zeros = jax.tree.map(jnp.zeros_like, parameters)
    moments, losses = (zeros, zeros), []
    start = time.perf_counter()
    for n in tqdm(range(options.steps), disable=not sys.stderr.isatty()):
        parameters, moments, value = step(parameters, moments, n + 1.0)
        losses.append(float(value))
        if n == 0:
            start = time.perf_counter()  # The first step compiles.
    each = (time.perf_counter() - start) / max(1, options.steps - 1)
    seen = projected(parameters, queries, points, readings, options.k)
    print(f"{len(queries)} nodes, {len(points)} points, {options.hidden} features: {1e3 * each:.1f} ms a step")
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.4f}, sigma {float(jnp.exp(parameters['log_sigma'])):.3f}")
    shape = (options.edge,) * 3
    cuts = {"field": wanted, "from the points": seen}
    plot({title: x.reshape(shape)[:, :, options.edge // 2].T for title, x in cuts.items()}, losses, options.plot)
    return 0 if losses[-1] < 0.1 * losses[0] else 1


if __name__ == "__main__":
    sys.exit(main())
