"""Results of public functions that are no arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class EwaldParameters:
    """Parameters of an Ewald sum. For a batch, arrays (B,)."""

    alpha: Any
    """Splitting parameter, in 1/L."""
    cutoff: Any
    """Radius of the real-space sum, in L. It may exceed the cell."""
    k_cutoff: Any
    """Radius of the reciprocal sum, in radians per L."""
    predicted_force_error: Any
    """Expected RMS error of the forces, in units of q²_rms/(V/N)^(2/3)."""
