"""Born effective charges from the derivatives of a polarisation, over the functions of an array library.

With the charges of a system minus their mean, the polarisation of a system without periodic axes is Σ q r. In a
periodic one it is known up to the image of each atom, and so defined by phases: P_a = Σ q exp(2πi s_a)/2πi along each
lattice vector, where a derivative by an atom is turned back by the atom's own phase (Zhong et al.,
arXiv:2504.05169). For charges that do not move with the atoms both give q times one.
"""

from __future__ import annotations

import math
from typing import Any


def phases(xp: Any, positions: Any, cells: Any) -> Any:
    """2π times the fractional coordinates (N, 3) of atoms, each in a cell (N, 3, 3)."""
    return 2.0 * math.pi * (positions[:, None, :] @ xp.linalg.inv(cells))[:, 0, :]


def parts(xp: Any, positions: Any, charges: Any, phase: Any, periodic: Any) -> tuple[Any, Any]:
    """Real and imaginary part (3,) of the polarisation, summed over systems; those of open systems are real."""
    q, of = charges[:, None], periodic[:, None]
    real = xp.where(of, q * xp.sin(phase) / (2.0 * math.pi), q * positions)
    imaginary = xp.where(of, -q * xp.cos(phase) / (2.0 * math.pi), xp.zeros_like(positions))
    return real.sum(0), imaginary.sum(0)


def born_charges(xp: Any, real: Any, imaginary: Any, phase: Any, cells: Any, periodic: Any) -> Any:
    """∂P_a/∂r_ib (N, 3, 3) from the derivatives of both parts, (N, 3, 3) each: atom, part, direction."""
    turned = real * xp.cos(phase)[:, :, None] + imaginary * xp.sin(phase)[:, :, None]
    along = xp.where(periodic[:, None, None], turned, real)
    return (cells[:, :, :, None] * along[:, :, None, :]).sum(1)
