"""Ewald sums of the systems in `ewald_references.json`, in extended precision and apart from the library.

Needs NumPy, with the 80-bit `longdouble` of x86, and mpmath (for erfc). Each system is summed with two splitting
parameters, and the difference shows the error that remains: at most 1e-17 of an array's RMS, the rounding of
`longdouble` in sums of some 1e5 terms.

    python tests/data/make_ewald_references.py          compares every stored value with the sum
    python tests/data/make_ewald_references.py --write  writes the file anew, from the structures that stand in it
"""

import argparse
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from mpmath import mp, mpf

FILE = Path(__file__).with_name("ewald_references.json")
VALUES = ("energy", "atom_energies", "forces", "charge_gradients", "virial")
REAL = np.longdouble
# α·cutoff and k_cutoff/2α: what lies beyond is exp(−6.9²) = 2e-21 of a term.
CONVERGED = REAL(6.9)
PI = REAL("3.14159265358979323846264338327950288")
# Wave vectors in a block: with 801 atoms, 6 MB of phases.
BLOCK = 256
mp.prec = 80


@np.vectorize
def erfc(x: np.longdouble) -> np.longdouble:
    """The complementary error function, between the 64 bits of `longdouble` and the 80 of mpmath by two doubles."""
    high = float(x)
    value = mp.erfc(mpf(high) + mpf(float(x - high)))
    high = float(value)
    return REAL(high) + REAL(float(value - high))


def inverse(cell: np.ndarray) -> tuple[np.ndarray, np.longdouble]:
    """The columns b_i with a_i·b_j = δ_ij, and the volume."""
    a, b, c = cell
    columns = np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)], axis=1)
    determinant = a @ columns[:, 0]
    return columns / determinant, abs(determinant)


def integers(reach: np.ndarray) -> Iterator[np.ndarray]:
    """Integer vectors within `reach` of zero, by component."""
    ranges = [np.arange(-n, n + 1) for n in np.ceil(reach).astype(int)]
    return (np.array(n) for n in itertools.product(*ranges))


def sums(case: dict, scale: float) -> dict[str, np.ndarray]:
    """The energies and first derivatives of a system, split at `scale` times √π (N/V²)^(1/6)."""
    r, q, cell = (np.array(case[name], dtype=REAL) for name in ("positions", "charges", "cell"))
    b, volume = inverse(cell)
    alpha = scale * np.sqrt(PI) * (len(q) / volume**2) ** (REAL(1) / 6)
    forces, potentials, virial = np.zeros_like(r), np.zeros_like(q), np.zeros((3, 3), dtype=REAL)

    # Real space: the pairs of each image of the cell.
    cutoff = CONVERGED / alpha
    apart = np.ptp(r @ b, axis=0)
    for n in integers(cutoff * np.linalg.norm(b, axis=0) + apart):
        d = r[None] + n @ cell - r[:, None]
        distance = np.sqrt((d**2).sum(-1))
        i, j = np.nonzero((distance < cutoff) & (distance > 0))
        if not len(i):
            continue
        d, x = d[i, j], distance[i, j]
        value = erfc(alpha * x) / x
        slope = (value + 2 * alpha / np.sqrt(PI) * np.exp(-((alpha * x) ** 2))) / x**2
        np.add.at(potentials, i, q[j] * value)
        np.add.at(forces, i, -(q[i] * q[j] * slope)[:, None] * d)
        virial += (q[i] * q[j] * slope / 2)[:, None].T * d.T @ d

    # Reciprocal space: one of k and −k, which give the same.
    k_cutoff = 2 * alpha * CONVERGED
    reach = k_cutoff * np.linalg.norm(cell, axis=1) / (2 * PI)
    half = np.array([n for n in integers(reach) if tuple(n) > (0, 0, 0)])
    waves = 2 * PI * half @ b.T
    waves = waves[(waves**2).sum(1) <= k_cutoff**2]
    for block in range(0, len(waves), BLOCK):
        k = waves[block : block + BLOCK]
        squared = (k**2).sum(1)
        green = 8 * PI / volume * np.exp(-squared / (4 * alpha**2)) / squared
        cosine, sine = np.cos(k @ r.T), np.sin(k @ r.T)
        real, imaginary = cosine @ q, sine @ q
        potentials += (green * real) @ cosine + (green * imaginary) @ sine
        along = (green * real)[:, None] * sine - (green * imaginary)[:, None] * cosine
        forces += q[:, None] * (along.T @ k)
        energies = green * (real**2 + imaginary**2) / 2
        by_wave = 2 * energies * (1 / squared + 1 / (4 * alpha**2))
        virial += energies.sum() * np.eye(3) - (by_wave[:, None] * k).T @ k

    # Self energy, and the uniform background of a charged cell.
    background = -PI * q.sum() / (alpha**2 * volume)
    potentials += background - 2 * alpha / np.sqrt(PI) * q
    virial += q.sum() * background / 2 * np.eye(3)

    energies = q * potentials / 2
    found = (energies.sum(), energies, forces, potentials, virial)
    return dict(zip(VALUES, map(np.asarray, found)))


def rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(x))))


def differences(case: dict, other: dict, found: dict[str, np.ndarray]) -> dict[str, float]:
    """RMS differences over the RMS of an array; over that of the potentials times q for forces, which symmetry may
    make zero."""
    scales = {name: rms(found[name]) for name in VALUES}
    scales["forces"] = max(scales["forces"], rms(found["atom_energies"]))
    return {name: rms(np.asarray(other[name], dtype=REAL) - found[name]) / scales[name] for name in VALUES}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--write", action="store_true", help="writes the values into the file")
    write = arguments.parse_args().write
    cases = json.loads(FILE.read_text())
    for case in cases:
        found = sums(case, 2.0)
        for title, other in (("split elsewhere", sums(case, 2.3)), ("stored", case)):
            print(case["name"], title, {name: f"{x:.0e}" for name, x in differences(case, other, found).items()})
        case.update({name: np.asarray(found[name], dtype=np.float64).tolist() for name in VALUES})
    if write:
        FILE.write_text("[" + ",\n".join(map(json.dumps, cases)) + "]\n")


if __name__ == "__main__":
    main()
