"""Units of energies.

Energies are in e²/L, with L the length unit of the positions, unless a call is given a `prefactor`.
"""

from __future__ import annotations

__all__ = ["EV_ANGSTROM", "GPA"]

EV_ANGSTROM: float = 14.3996454784
"""e²/(4πε₀) in eV·Å, CODATA 2018: the `prefactor` for energies in eV from lengths in Å."""

GPA: float = 160.2176634
"""1 eV/Å³ in GPa, exact since the SI of 2019."""
