"""Kernels in Python of every kind of parameter, arguments for them, and slow sums that say what they give."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import madelung.numpy
from madelung.kernels import (
    Array,
    Batch,
    HashGrid,
    Int,
    Kernel,
    Map,
    Mat2,
    Mat3,
    Mesh,
    Out,
    Pairs,
    Real,
    Vec2,
    Vec3,
    Vec4,
    Zero,
    dims,
    dot,
    erfc,
    exp,
    func,
    kernel,
    length,
    mat2,
    row,
    sqrt,
    vec2,
    vec4,
)

Atom, System, Type, Feature, Query, Point, Edge = dims("Atom System Type Feature Query Point Edge")
Node, Wave = dims("Node Wave")

CUTOFF = 3.2


@dataclass(frozen=True)
class Case:
    """A kernel, the arguments that it is differentiated by, the others, and its outputs by plain loops.

    A grid is a function that makes it of the other arguments.
    """

    kernel: Kernel
    smooth: dict[str, Any]
    rest: dict[str, Any]
    expected: Callable[..., Any]

    def __call__(self, *smooth: Any, **rest: Any) -> Any:
        """The kernel's outputs."""
        return self.kernel(**self.arguments({**dict(zip(self.smooth, smooth)), **(rest or self.rest)}))

    @staticmethod
    def arguments(given: dict[str, Any]) -> dict[str, Any]:
        """Arguments with their grids."""
        return {name: x(**given) if callable(x) else x for name, x in given.items()}


@kernel(fast=[("positions", "strain")])
def lennard_jones(
    i: Atom,
    positions: Array[Vec3, Atom],
    cell: Array[Mat3, System],
    strain: Zero[Mat3, System],
    σ: Array[Real],
    epsilon: Array[Real, System],
    cutoff: Real,
    atoms: Batch[Atom, System],
    pairs: Pairs[Atom],
    energy: Out[Real, Atom],
):
    b = atoms.of(i)
    e = 0.0
    for j, shift in pairs.row(i):
        d = positions[j] - positions[i] + shift @ cell[b]
        d = d + d @ strain[b]
        r2 = dot(d, d)
        if r2 < cutoff**2:
            s6 = (σ**2 / r2) ** 3
            e += 4 * epsilon[b] * (s6 * s6 - s6) * (1 - r2 / cutoff**2) ** 6
    energy[i] = e / 2


@func
def screened(r: Real, alpha: Real) -> Real:
    return erfc(alpha * r) / r


@kernel
def real_space(
    i: Atom,
    positions: Array[Vec3, Atom],
    charges: Array[Real, Atom],
    cell: Array[Mat3, System],
    alpha: Array[Real, System],
    cutoff: Real,
    atoms: Batch[Atom, System],
    pairs: Pairs[Atom],
    energy: Out[Real, Atom],
    total: Out[Real, System],
):
    b = atoms.of(i)
    e = 0.0
    for j, shift in pairs.row(i):
        r = length(positions[j] - positions[i] + shift @ cell[b])
        if r >= cutoff:
            continue
        e += charges[j] * screened(r, alpha[b]) * (1 - (r / cutoff) ** 2) ** 6
    energy[i] = 0.5 * charges[i] * e
    total[b] += 0.5 * charges[i] * e


@kernel
def embedded(
    i: Atom,
    positions: Array[Vec3, Atom],
    cell: Array[Mat3, System],
    amplitude: Array[Real, Type, Type],
    width: Array[Real, Type],
    types: Map[Atom, Type],
    atoms: Batch[Atom, System],
    pairs: Pairs[Atom],
    order: Int,
    energy: Out[Real, Atom],
):
    """The embedded-atom method: minus the root of a density, of an inverse power in pairs of types."""
    b = atoms.of(i)
    own = types.of(i)
    density = repulsion = 0
    for j, shift in pairs.row(i):
        other = types.of(j)
        r = length(positions[j] - positions[i] + shift @ cell[b])
        density += exp(-r / width[other])
        a = (amplitude[own, other] + amplitude[other, own]) / 2
        repulsion += a / r ** (2 * order)
    energy[i] = repulsion / 2 - sqrt(density) + (1 if order > 3 else 0)


@kernel
def messages(
    i: Atom,
    positions: Array[Vec3, Atom],
    features: Array[Real, Atom, Feature],
    scale: Array[Real, Feature],
    width: Array[Real],
    pairs: Pairs[Atom],
    out: Out[Real, Atom, Feature],
):
    s = [0.0] * Feature
    norm = 0.0
    for j, _ in pairs.row(i):
        w = exp(-length(positions[j] - positions[i]) / width)
        norm += w
        for c in Feature:
            s[c] += w * features[j, c]
    for c in Feature:
        out[i, c] = scale[c] * s[c] / (1 + norm)


@kernel
def equivariant(
    i: Atom,
    positions: Array[Vec3, Atom],
    cell: Array[Mat3, System],
    features: Array[Real, Atom, Feature],
    vectors: Array[Vec3, Atom, Feature],
    mixing: Array[Mat2, System, Feature],
    atoms: Batch[Atom, System],
    pairs: Pairs[Atom],
    out: Out[Vec3, Atom, Feature],
    total: Out[Vec2, System, Feature],
):
    """Messages of vectors, mixed with the scalars of their channel (as Schütt et al. 2021)."""
    b = atoms.of(i)
    s = [Vec3(0, 0, 0)] * Feature
    for j, shift in pairs.row(i):
        d = positions[j] - positions[i] + shift @ cell[b]
        w = exp(-dot(d, d))
        for c in Feature:
            s[c] += w * (vectors[j, c] + features[j, c] * d)
    for c in Feature:
        gates = vec2(dot(s[c], vectors[i, c]), features[i, c]) @ mixing[b, c]
        out[i, c] = gates[0] * s[c] + gates.y * vectors[i, c]
        total[b, c] += gates * vectors[i, c, 2] * features[i, 3]


@kernel
def near(
    i: Query,
    queries: Array[Vec3, Query],
    points: Array[Vec3, Point],
    weights: Array[Real, Edge],
    pairs: Pairs[Query, Point, Edge],
    moment: Out[Vec3, Query],
    lengths: Out[Real, Edge],
):
    m = queries[i]
    for j, _, p in pairs.row(i):
        d = points[j] - queries[i]
        lengths[p] = length(d)
        m += weights[p] * dot(d, d) * d
    moment[i] = m


@func
def turned(v: Vec2) -> Vec2:
    return Vec2(-v.y, v.x)


@kernel
def flat(
    i: Atom,
    x: Array[Vec2, Atom],
    q: Array[Vec4, Atom],
    stretch: Array[Mat2, System],
    frame: Array[Mat2],
    atoms: Batch[Atom, System],
    pairs: Pairs[Atom],
    moment: Out[Vec2, Atom],
    mixed: Out[Vec4, Atom],
    spread: Out[Mat2, System],
):
    """Vectors and matrices of two and four, and their components by name and by number."""
    b = atoms.of(i)
    m = vec2(0.0, 0.0)
    s = stretch[b]
    p = q[i]
    for j, _ in pairs.row(i):
        d = (x[j] - x[i]) @ stretch[b]
        w = exp(-dot(d, d))
        m += w * d
        s += w * mat2(d, turned(d))
        p += w * q[j]
    moment[i] = m @ s if q[i, 3] > 0 else m / (1 + length(p))
    mixed[i] = vec4(p.w, p[0] * frame[1, 0], s[0, 1], row(s, 1).y)
    t = 0.0
    for k in range(4):
        t += p[k] * q[i, k]
    spread[b] += s @ s * t - frame


@kernel
def within(
    i: Atom,
    positions: Array[Vec3, Atom],
    charges: Array[Real, Atom],
    cell: Array[Mat3, System],
    radius: Real,
    atoms: Batch[Atom, System],
    grid: HashGrid[Atom, Atom],
    energy: Out[Real, Atom],
):
    """Weights that vanish at the radius, and the atom's own."""
    b = atoms.of(i)
    e = 0.0
    for j, shift in grid.query(positions[i], radius):
        d = positions[j] - positions[i] + shift @ cell[b]
        e += charges[j] * (1 - dot(d, d) / radius**2) ** 4
    energy[i] = e**2


@kernel
def interpolated(
    i: Atom,
    u: Array[Vec3, Atom],
    charges: Array[Real, Atom],
    potential: Array[Real, Node],
    atoms: Batch[Atom, System],
    mesh: Mesh[System, Node],
    energy: Out[Real, Atom],
):
    phi = 0
    for node, weight in mesh.around(atoms.of(i), u[i]):
        phi += weight * potential[node]
    energy[i] = charges[i] * phi


@kernel
def linked(
    i: Atom,
    x: Array[Vec3, Atom],
    strength: Array[Real, Atom],
    partner: Map[Atom, Atom],
    energy: Out[Real, Atom],
):
    """Bonds between atoms and their partners, of which an atom may have many, or itself: gradients go to both."""
    d = x[partner.of(i)] - x[i]
    energy[i] = strength[i] * strength[partner.of(i)] * exp(-dot(d, d)) + strength[i] ** 2


@kernel
def on_waves(w: Wave, scale: Array[Real, System], mesh: Mesh[System, Node, Wave], counted: Out[Real, Wave]):
    """How many waves of the mesh each of its half spectrum stands for."""
    counted[w] = scale[mesh.system(w)] * mesh.count(w)


def _listed(pairs: Any) -> list[tuple[int, int, np.ndarray]]:
    (rows, columns), _, shifts = pairs[:3]
    return list(zip(rows, columns, shifts))


def _lennard_jones(positions: Any, cell: Any, σ: Any, epsilon: Any, cutoff: Any, atoms: Any, pairs: Any) -> Any:
    e = np.zeros(len(positions))
    for i, j, s in _listed(pairs):
        r = np.linalg.norm(positions[j] - positions[i] + s @ cell[atoms[i]])
        taper = max(1 - (r / cutoff) ** 2, 0) ** 6
        e[i] += 2 * epsilon[atoms[i]] * ((σ / r) ** 12 - (σ / r) ** 6) * taper
    return e


def _real_space(
    positions: Any, charges: Any, cell: Any, alpha: Any, cutoff: Any, atoms: Any, pairs: Any
) -> tuple[Any, Any]:
    e, total = np.zeros(len(positions)), np.zeros(len(cell))
    for i, j, s in _listed(pairs):
        r = np.linalg.norm(positions[j] - positions[i] + s @ cell[atoms[i]])
        if r < cutoff:
            taper = (1 - (r / cutoff) ** 2) ** 6
            e[i] += charges[i] * charges[j] * math.erfc(alpha[atoms[i]] * r) / r / 2 * taper
    np.add.at(total, atoms, e)
    return e, total


def _embedded(
    positions: Any, cell: Any, amplitude: Any, width: Any, types: Any, atoms: Any, pairs: Any, order: Any
) -> Any:
    density, repulsion = np.zeros((2, len(positions)))
    for i, j, s in _listed(pairs):
        r = np.linalg.norm(positions[j] - positions[i] + s @ cell[atoms[i]])
        density[i] += np.exp(-r / width[types[j]])
        a = (amplitude[types[i], types[j]] + amplitude[types[j], types[i]]) / 2
        repulsion[i] += a * r ** (-2.0 * order)
    return repulsion / 2 - np.sqrt(density) + (order > 3)


def _messages(positions: Any, features: Any, scale: Any, width: Any, pairs: Any) -> Any:
    s, norm = np.zeros_like(features), np.ones(len(positions))
    for i, j, _ in _listed(pairs):
        w = np.exp(-np.linalg.norm(positions[j] - positions[i]) / width)
        s[i] += w * features[j]
        norm[i] += w
    return scale * s / norm[:, None]


def _equivariant(
    positions: Any, cell: Any, features: Any, vectors: Any, mixing: Any, atoms: Any, pairs: Any
) -> tuple[Any, Any]:
    s = np.zeros_like(vectors)
    for i, j, shift in _listed(pairs):
        d = positions[j] - positions[i] + shift @ cell[atoms[i]]
        s[i] += np.exp(-d @ d) * (vectors[j] + features[j][:, None] * d)
    gates = np.stack([(s * vectors).sum(-1), features], -1)
    gates = np.einsum("ica,icab->icb", gates, mixing[atoms])
    total = np.zeros(mixing.shape[:-1])
    np.add.at(total, atoms, gates * vectors[..., 2:] * features[:, 3, None, None])
    return gates[..., :1] * s + gates[..., 1:] * vectors, total


def _linked(x: Any, strength: Any, partner: Any) -> Any:
    return strength * strength[partner] * np.exp(-((x[partner] - x) ** 2).sum(1)) + strength**2


def _near(queries: Any, points: Any, weights: Any, pairs: Any) -> tuple[Any, Any]:
    moment, lengths = queries.copy(), np.zeros(len(weights))
    for p, (i, j, _) in enumerate(_listed(pairs)):
        d = points[j] - queries[i]
        lengths[p] = np.linalg.norm(d)
        moment[i] += weights[p] * (d @ d) * d
    return moment, lengths


def _flat(x: Any, q: Any, stretch: Any, frame: Any, atoms: Any, pairs: Any) -> tuple[Any, Any, Any]:
    m, s, p = np.zeros_like(x), stretch[atoms], q.copy()
    for i, j, _ in _listed(pairs):
        d = (x[j] - x[i]) @ stretch[atoms[i]]
        w = np.exp(-d @ d)
        m[i] += w * d
        s[i] += w * np.array([d, [-d[1], d[0]]])
        p[i] += w * q[j]
    shrunk = m / (1 + np.linalg.norm(p, axis=1, keepdims=True))
    moment = np.where(q[:, 3:] > 0, np.einsum("ia,iab->ib", m, s), shrunk)
    mixed = np.stack([p[:, 3], p[:, 0] * frame[1, 0], s[:, 0, 1], s[:, 1, 1]], 1)
    spread = np.zeros_like(stretch)
    np.add.at(spread, atoms, s @ s * (p * q).sum(1)[:, None, None] - frame)
    return moment, mixed, spread


def _within(positions: Any, charges: Any, cell: Any, radius: float, atoms: Any, grid: Any) -> Any:
    images = np.stack(np.meshgrid(*[np.arange(-2, 3)] * 3), -1).reshape(-1, 3)
    shifted = positions[None, :, None] - positions[:, None, None] + (images @ cell[atoms])[None]
    squares = np.where((atoms[:, None] == atoms)[..., None], (shifted**2).sum(-1), radius**2)
    return (charges[:, None] * np.maximum(1 - squares / radius**2, 0) ** 4).sum((1, 2)) ** 2


def _spline(p: int, x: Any) -> Any:
    """The cardinal B-spline M_p, by truncated powers."""
    powers = sum((-1) ** k * math.comb(p, k) * np.maximum(x - k, 0) ** (p - 1) for k in range(p + 1))
    return np.where((x > 0) & (x < p), powers / math.factorial(p - 1), 0)


def _interpolated(u: Any, charges: Any, potential: Any, atoms: Any, mesh: Any) -> Any:
    e, first = np.zeros(len(u)), 0
    for b, (*sizes, p, o1, o2, o3, e1, e2, e3) in enumerate(mesh):
        nodes = np.stack(np.meshgrid(range(e1), range(e2), range(e3), indexing="ij"), -1).reshape(-1, 3)
        for i in np.flatnonzero(atoms == b):
            # Images of the nodes of the window, as far as coordinates and splines reach.
            places = u[i] * sizes - nodes - np.array([o1, o2, o3])
            distances = places[:, None] + np.arange(-6, 7)[:, None] * sizes
            weights = _spline(p, distances).sum(1).prod(1)
            e[i] = charges[i] * (weights @ potential[first : first + len(nodes)])
        first += len(nodes)
    return e


def _crystal(rng: Any) -> tuple[Any, Any, Any, Any]:
    """Atoms of two systems on rattled lattices, their cells and systems, and all pairs closer than the cutoff."""
    grid = np.stack(np.meshgrid(*[np.arange(2)] * 3, indexing="ij"), -1).reshape(-1, 3)
    cell = 4.0 * np.eye(3) + 0.3 * rng.uniform(-1, 1, (2, 3, 3))
    positions = np.concatenate([grid @ h / 2 for h in cell]) + 0.2 * rng.uniform(-1, 1, (16, 3))
    atoms = np.repeat(np.arange(2, dtype=np.int32), 8)
    return positions, cell, atoms, madelung.numpy.neighbor_list(positions, CUTOFF, cell, batch_idx=atoms)


@lru_cache(maxsize=1)
def cases() -> dict[str, Case]:
    """The kernels with arguments."""
    rng = np.random.default_rng(7)
    positions, cell, atoms, pairs = _crystal(rng)
    bulk = {"atoms": atoms, "pairs": pairs}
    n = len(positions)
    open_pairs = madelung.numpy.neighbor_list(positions[:8], 3.0)
    queries, points = rng.uniform(0, 3, (5, 3)), rng.uniform(0, 3, (9, 3))
    counts = np.array([3, 0, 2, 4, 1])
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    rows, columns = np.repeat(np.arange(5), counts), rng.permutation(np.arange(20) % 9)[:10]
    between = (np.stack([rows, columns]).astype(np.int32), ptr, np.zeros((10, 3), np.int32))
    return {
        "lennard_jones": Case(
            lennard_jones,
            {"positions": positions, "cell": cell, "σ": np.array(1.9), "epsilon": np.array([0.5, 0.7])},
            {**bulk, "cutoff": CUTOFF},
            _lennard_jones,
        ),
        "real_space": Case(
            real_space,
            {
                "positions": positions,
                "charges": rng.normal(size=n),
                "cell": cell,
                "alpha": np.array([0.4, 0.6]),
            },
            {**bulk, "cutoff": CUTOFF},
            _real_space,
        ),
        "embedded": Case(
            embedded,
            {
                "positions": positions,
                "cell": cell,
                "amplitude": rng.uniform(1, 2, (3, 3)),
                "width": rng.uniform(1, 2, 3),
            },
            {**bulk, "types": rng.integers(0, 3, n).astype(np.int32), "order": 4},
            _embedded,
        ),
        "messages": Case(
            messages,
            {
                "positions": positions[:8],
                "features": rng.normal(size=(8, 5)),
                "scale": rng.normal(size=5),
                "width": np.array(1.3),
            },
            {"pairs": open_pairs},
            _messages,
        ),
        "near": Case(
            near,
            {"queries": queries, "points": points, "weights": rng.normal(size=10)},
            {"pairs": between},
            _near,
        ),
        "linked": Case(
            linked,
            {"x": 0.5 * positions, "strength": rng.normal(size=n)},
            {"partner": np.array([3, 3, 3, 3, 9, 4, *range(6, n)], np.int32)},
            _linked,
        ),
        "within": Case(
            within,
            {"positions": positions, "charges": rng.normal(size=n), "cell": cell},
            {
                "radius": CUTOFF,
                "atoms": atoms,
                "grid": lambda positions, cell, **_: HashGrid(positions, cell, capacity=2000),
            },
            _within,
        ),
        "interpolated": Case(
            interpolated,
            {
                "u": rng.uniform(-1, 2, (n, 3)),
                "charges": rng.normal(size=n),
                "potential": rng.normal(size=432),
            },
            # A window around the end of the cell, and one within it.
            {"atoms": atoms, "mesh": ((6, 7, 9, 6, 3, 0, 6, 6, 6, 6), (8, 6, 7, 6, 1, 2, 1, 6, 6, 6))},
            _interpolated,
        ),
        "flat": Case(
            flat,
            {
                "x": positions[:, :2].copy(),
                "q": rng.normal(size=(n, 4)),
                "stretch": np.eye(2) + 0.3 * rng.normal(size=(2, 2, 2)),
                "frame": rng.normal(size=(2, 2)),
            },
            bulk,
            _flat,
        ),
        "equivariant": Case(
            equivariant,
            {
                "positions": positions,
                "cell": cell,
                "features": rng.normal(size=(n, 5)),
                "vectors": rng.normal(size=(n, 5, 3)),
                "mixing": rng.normal(size=(2, 5, 2, 2)),
            },
            bulk,
            _equivariant,
        ),
    }


def tensors(x: Any) -> Any:
    """The arguments of a case, as PyTorch's tensors where they are arrays."""
    import torch

    if isinstance(x, np.ndarray):
        return torch.from_numpy(np.array(x))
    if isinstance(x, tuple):
        return tuple(map(tensors, x))
    return {k: tensors(v) for k, v in x.items()} if isinstance(x, dict) else x


def crystal() -> tuple[np.ndarray, np.ndarray]:
    """Positions and cell of 1,000 atoms, near the sites of a lattice: enough for lists in clusters."""
    sites = np.indices((10, 10, 10)).reshape(3, -1).T
    return 1.6 * sites + 0.1 * np.random.default_rng(0).normal(size=sites.shape), 16.0 * np.eye(3)
