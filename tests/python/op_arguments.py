"""Arguments for every op, made from its declaration, as NumPy arrays and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from madelung._schema import counted

SYSTEMS, ROWS, KINDS = 2, 4, 2
# (K₁, K₂, K₃, order) of each system: all are others.
MESHES = [n for b in range(SYSTEMS) for n in (6, 7 - b % 2, 5 + b, 4 + b % 2)]


def _pairs(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A full list within systems, with images, an atom with its own image among them."""
    entries = set()
    for first in range(0, SYSTEMS * ROWS, ROWS):
        for i in range(first, first + ROWS):
            entries |= {(i, i, 1, 0, 0), (i, i, -1, 0, 0)}
            for j in range(i + 1, first + ROWS):
                s = (rng.integers(-1, 2, 3) * (rng.random() < 0.4)).tolist()
                entries |= {(i, j, *s), (j, i, *(-k for k in s))}
    rows = np.array(sorted(entries), dtype=np.int32)
    ptr = np.searchsorted(rows[:, 0], np.arange(SYSTEMS * ROWS + 1)).astype(np.int32)
    return ptr, rows[:, 1].copy(), rows[:, 2:].copy()


def arguments(op: Any, seed: int = 0) -> list[Any]:
    """The arguments of a call: two small systems, a full list with images, and so on. What is named here is what an
    argument must satisfy, never an op."""
    rng = np.random.default_rng(seed)
    systems = {a["systems"]: SYSTEMS for a in op.args if "systems" in a}
    into = [a["into"] for a in op.args if "into" in a]
    sizes = systems | {d: KINDS if into.count(d) == 1 else SYSTEMS * ROWS for d in into} | {"Axes": SYSTEMS}
    lists = dict(zip(("ptr", "others", "shifts"), _pairs(rng)))
    sizes |= {a["entries"]: len(lists["others"]) for a in op.args if a.get("entries")}
    for a in (a for a in op.args if a["kind"] == "mesh"):
        sizes |= dict(zip((a["nodes"], a["waves"]), counted(MESHES, SYSTEMS)))

    def shape(arg: dict[str, Any]) -> list[int]:
        return [s["const"] if "const" in s else sizes.get(s["dim"], SYSTEMS * ROWS) for s in arg["shape"]]

    def real(arg: dict[str, Any]) -> np.ndarray:
        if arg["zero"]:
            return np.zeros(0)
        x = rng.uniform(-1, 1, shape(arg))
        if x.shape == (KINDS, KINDS):
            # Parameters of potentials: steep ones would leave no digits to differences.
            return 0.3 + 0.1 * x
        # Kernels by themselves have no conditions: a root of a product of exponents needs one.
        if arg["constraint"] in ("positive", "not_negative") or arg["name"] == "exponents":
            return 0.8 + 0.2 * np.abs(x)
        if x.shape[1:] == (3, 3):
            return 0.2 * x + np.array([3.1, 3.4, -3.7])[:, None] * np.eye(3)
        if x.shape[1:] == (3,):
            # Points stay apart, so that differences of values tell derivatives.
            return 0.25 * x + 0.8 * (np.arange(len(x))[:, None] % ROWS)
        return x

    led: dict[tuple[str, str], Iterator[np.ndarray]] = {}

    def led_to(rows: str, dim: str) -> np.ndarray:
        """Elements of a dimension: where several maps lead there, those of a row differ."""
        if (rows, dim) not in led:
            those = np.tile(np.arange(sizes[dim], dtype=np.int32), (sizes.get(rows, SYSTEMS * ROWS), 1))
            led[rows, dim] = iter(rng.permuted(those, axis=1).T)
        return next(led[rows, dim]).copy()

    args: list[Any] = []
    for i in op.inputs:
        arg = op.args[i.arg]
        if i.part == "real":
            args.append(real(arg))
        elif i.part == "ints" and arg["name"].endswith("order"):
            # Places in a system.
            args.append(np.tile(rng.permutation(ROWS), SYSTEMS).astype(np.int32))
        elif i.part == "ints":
            # Never 0: wave vectors are made of integers, and that of 0 has no energy.
            args.append(rng.choice([-1, 1], shape(arg)).astype(np.int32))
        elif i.part == "batch_idx":
            args.append(np.arange(SYSTEMS, dtype=np.int32).repeat(ROWS))
        elif i.part == "systems":
            args.append(SYSTEMS)
        elif i.part in lists:
            args.append(lists[i.part])
        elif i.part == "list_kind":
            args.append(0)
        elif i.part == "map_of":
            # Of the rows, or of the pairs of a list.
            args.append(led_to(arg["rows"], arg["into"]))
        elif i.part == "meshes":
            args.append(MESHES)
        elif i.part == "scalar":
            # Ends begin well before the cutoff.
            args.append(float(rng.uniform(3.3, 3.6)) - (arg["name"] in ("taper", "switch", "bend")))
        elif i.part == "int_scalar":
            # Bits of periodic axes where there are no rows of them; room for the points of a query; the nearest images
            # alone.
            args.append({"axes": 7, "max_neighbors": 300}.get(i.name, 1))
        else:
            raise NotImplementedError(f"{op!r}: the tests have no {i.part} yet")
    return args
