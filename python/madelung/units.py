"""Units of energies.

Energies are in e²/L, with L the length unit of the positions, unless a call is given a `prefactor`.
"""

from __future__ import annotations

import math

__all__ = ["EV_ANGSTROM", "GPA", "LATENT_EWALD"]

EV_ANGSTROM: float = 14.3996454784
"""e²/(4πε₀) in eV·Å, CODATA 2018: the `prefactor` for energies in eV from lengths in Å."""

GPA: float = 160.2176634
"""1 eV/Å³ in GPa, exact since the SI of 2019."""

LATENT_EWALD: float = 90.4756 / (2.0 * math.pi)
"""e²/(4πε₀) in eV·Å from 1/(2ε₀) = 90.4756 eV·Å/e², as latent Ewald sums round it: the `prefactor` of `latent_ewald`
for networks that were trained with that."""
