"""Potentials between charges and their images along an axis, by direct sums and without the library."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

Potential = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Potentials at the distances of all pairs with an image each, by these images' numbers."""


def points(x: np.ndarray, _image: np.ndarray) -> np.ndarray:
    """1/r of the distances of all pairs with an image, and nothing of charges on one point."""
    return 1.0 / np.where(x == 0.0, np.inf, x)


def gaussians(widths: np.ndarray) -> Potential:
    """Those of Gaussian charges of some widths, and of each charge with itself, 1/(√π σ)."""
    alpha = 1.0 / np.sqrt(2.0 * (widths[:, None] ** 2 + widths**2))
    erf = np.vectorize(math.erf, otypes=[float])

    def pair(x: np.ndarray, _image: np.ndarray) -> np.ndarray:
        return np.where(x == 0.0, 2.0 * alpha / math.sqrt(math.pi), erf(alpha * x) / np.where(x == 0.0, 1.0, x))

    return pair


def potentials(r: np.ndarray, axis: np.ndarray, pair: Potential = points) -> np.ndarray:
    """The potential (N, N) of a unit charge and its images at another one, or at its own place, by sums over so many
    images to either side, less those of line charges as long. What is left out are powers of one over the number of
    images, which Richardson's scheme removes. Images are numbered from the positions as they are."""
    table = [_summed(r, axis, pair, 100 * 2**k) for k in range(6)]
    for power in range(1, 6):
        table = [(2**power * b - a) / (2**power - 1) for a, b in itertools.pairwise(table)]
    return table[0]


def _summed(r: np.ndarray, axis: np.ndarray, pair: Potential, images: int) -> np.ndarray:
    period = np.linalg.norm(axis)
    d = r[None] - r[:, None]
    nearest = -np.rint(d @ axis / period**2)
    found = np.full(d.shape[:2], -2.0 / period * np.log(2.0 * images))
    for image in range(-images, images + 1):
        n = nearest + image
        found += pair(np.linalg.norm(d + n[..., None] * axis, axis=-1), n)
    return found
