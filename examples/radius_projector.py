"""A field from points within a radius: a network whose middle layer aggregates features within a radius, in PyTorch.

Each point of a cloud has a reading of a field. An MLP makes features of the points, `madelung.torch.radius_aggregate`
brings them to the nodes of a grid, weighted by exp(−d/σ), and a second MLP reads the field off them; the width σ is
trained, too. The whole model is one graph (`torch.compile`, `fullgraph=True`).

    python examples/radius_projector.py

A cut through the field, its reference and the loss are plotted to radius_projector.png.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch
from tqdm import tqdm

from madelung.torch import radius_aggregate


class MLP(torch.nn.Sequential):
    """Two linear layers."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__(torch.nn.Linear(inputs, hidden), torch.nn.SiLU(), torch.nn.Linear(hidden, outputs))


class RadiusProjector(torch.nn.Module):
    """Features of points, brought to queries within a radius."""

    def __init__(self, inputs: int, hidden: int, outputs: int, radius: float) -> None:
        super().__init__()
        self.of_points, self.of_queries = MLP(inputs, hidden, hidden), MLP(hidden, hidden, outputs)
        self.log_sigma = torch.nn.Parameter(torch.tensor(0.5 * radius).log())
        self.radius = radius

    def forward(self, queries: torch.Tensor, points: torch.Tensor, readings: torch.Tensor) -> torch.Tensor:
        features = self.of_points(torch.cat([points, readings], 1))
        at_queries = radius_aggregate(queries, points, features, self.radius, self.log_sigma.exp())
        return self.of_queries(at_queries)


def field(r: torch.Tensor) -> torch.Tensor:
    """What the points read and the grid should show, (N, 1)."""
    x, y, z = (3.0 * r).unbind(1)
    return (torch.sin(x) * torch.cos(y) + 0.5 * torch.sin(2.0 * z) * torch.cos(x))[:, None]


def nodes(edge: int) -> torch.Tensor:
    """A grid of edge³ nodes on [−1, 1]³."""
    return torch.cartesian_prod(*[torch.linspace(-1.0, 1.0, edge)] * 3)


def plot(pictures: dict[str, torch.Tensor], losses: list[float], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(pictures) + 1, figsize=(4 * len(pictures) + 4, 3.6))
    for axis, (title, picture) in zip(axes, pictures.items()):
        image = axis.imshow(picture, extent=(-1, 1, -1, 1), origin="lower", cmap="RdBu", vmin=-1.5, vmax=1.5)
        axis.set_title(title)
        figure.colorbar(image, ax=axis, shrink=0.8)
    axes[-1].semilogy(losses)
    axes[-1].set(title="loss", xlabel="step")
    figure.tight_layout()
    figure.savefig(file, dpi=120)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=25_000, help="points of the cloud")
    parser.add_argument("--edge", type=int, default=30, help="nodes of the grid along an edge")
    parser.add_argument("--radius", type=float, default=0.2)
    parser.add_argument("--hidden", type=int, default=25, help="features of a point")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--plot", type=Path, default=Path("radius_projector.png"))
    options = parser.parse_args(arguments)

    torch.manual_seed(0)
    points, queries = 2.0 * torch.rand(options.points, 3) - 1.0, nodes(options.edge)
    readings, wanted = field(points) + 0.1 * torch.randn(options.points, 1), field(queries)
    model = RadiusProjector(4, options.hidden, 1, options.radius)
    run = model if options.eager else torch.compile(model, fullgraph=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses: list[float] = []
    start = time.perf_counter()
    for step in tqdm(range(options.steps), disable=not sys.stderr.isatty()):
        optimizer.zero_grad()
        loss = (run(queries, points, readings) - wanted).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step == 0:
            start = time.perf_counter()  # The first step compiles.
    each = (time.perf_counter() - start) / max(1, options.steps - 1)
    with torch.no_grad():
        seen = run(queries, points, readings)
    print(f"{len(queries)} nodes, {len(points)} points, {options.hidden} features: {1e3 * each:.1f} ms a step")
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.4f}, sigma {model.log_sigma.exp().item():.3f}")
    cuts = {"field": wanted, "from the points": seen}
    shape = (options.edge,) * 3
    pictures = {title: x.reshape(shape)[:, :, options.edge // 2].T for title, x in cuts.items()}
    plot(pictures, losses, options.plot)
    return 0 if losses[-1] < 0.1 * losses[0] else 1


if __name__ == "__main__":
    sys.exit(main())
