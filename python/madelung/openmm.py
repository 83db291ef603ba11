"""Coulomb sums of Madelung as a force of OpenMM.

```python
from openmm.app import ForceField, PDBFile, PME
from madelung.openmm import take_coulomb

pdb = PDBFile("water.pdb")
system = ForceField("amber14/tip3p.xml").createSystem(pdb.topology, nonbondedMethod=PME)
take_coulomb(system, accuracy=1e-6)
```

The force is an `openmm.PythonForce`: OpenMM hands positions and the cell to it on the host, in nm, and takes energy and
forces in kJ/mol. It can be serialised with its system.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from madelung import _arguments as check
from madelung._sums import METHODS, Method, chosen, summed
from madelung.forcefield import COULOMB, from_openmm
from madelung.numpy import NeighborList

try:
    import openmm
    from openmm import unit
except ImportError:
    raise ImportError("madelung.openmm needs OpenMM: pip install openmm") from None
if not hasattr(openmm, "PythonForce"):
    raise ImportError(f"madelung.openmm needs an OpenMM with PythonForce, as 8.6 has it, not {openmm.__version__}")

__all__ = ["coulomb_force", "take_coulomb"]

# Largest strain of the cell, as the norm of its matrix, under which a sum keeps its parameters.
_SAME_SHAPE = 0.1


class _Coulomb:
    """The Coulomb energy of a state of OpenMM, and its forces; with a skin in nm, within which a list is kept."""

    def __init__(
        self, charges: Any, exclusions: Any, accuracy: float, method: Method | None, skin: float, is_periodic: bool
    ) -> None:
        self._of = charges, exclusions, accuracy, method, skin, is_periodic
        # Cell, parameters, search and list of the states before.
        self._kept: tuple[Any, Any, NeighborList, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Its arguments: parameters and lists are found again."""
        return {"_of": self._of, "_kept": None}

    def __call__(self, state: Any) -> tuple[float, npt.NDArray[np.float64]]:
        charges, exclusions, _, _, _, is_periodic = self._of
        r = np.asarray(state.getPositions(asNumpy=True).value_in_unit(unit.nanometer))
        check.fits("charges", charges, (len(r),))
        given: dict[str, Any] = {"prefactor": COULOMB, "exclusions": exclusions, "compute_forces": True}
        cell, parameters = None, None
        if is_periodic:
            cell = np.asarray(state.getPeriodicBoxVectors(asNumpy=True).value_in_unit(unit.nanometer))
            parameters, given["neighbors"] = self._near(r, cell)
        energies, forces = summed((r, charges, cell), (is_periodic,) * 3, parameters, **given)
        return float(energies.sum()), forces

    def _near(self, r: Any, cell: Any) -> tuple[Any, Any]:
        """Parameters, chosen anew where the cell has become another one, and a list, anew where atoms have moved."""
        charges, _, accuracy, method, skin, _ = self._of
        if self._kept is None or np.linalg.norm(np.linalg.solve(self._kept[0], cell) - np.eye(3), 2) > _SAME_SHAPE:
            parameters = chosen((r, charges, cell), (True,) * 3, method, accuracy, None, None, None)
            self._kept = cell, parameters, NeighborList(parameters.cutoff, skin), None
        before, parameters, search, known = self._kept
        near = search.allocate(r, cell) if known is None else search.update(known, r, cell)
        self._kept = before, parameters, search, near
        return parameters, near


def coulomb_force(
    charges: npt.ArrayLike,
    *,
    periodic: bool = True,
    exclusions: Any = None,
    accuracy: float = 1e-6,
    method: Method | None = None,
    skin: float = 0.1,
) -> Any:
    """An `openmm.PythonForce`: the Coulomb energy of charges, by Ewald's sum of a periodic box, else of all pairs.

    Args:
        charges: (N,), in elementary charges.
        periodic: whether all axes are periodic, or none.
        exclusions: pairs (P, 2) that are left out, or a tuple of pairs and factors (P,) of their energies.
        accuracy: target for the RMS force error, in units of q²_rms/(V/N)^(2/3) times e²/4πε₀.
        method: "ewald", the sum over waves, or "pme", the one on a mesh. None: the one that costs less.
        skin: in nm; neighbours within cutoff + skin are kept until an atom has moved by more than half of it.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; what is wrong with a
            state is an `openmm.OpenMMException` with the same words.
    """
    q = np.asarray(check.reals("charges", charges, ("N",)), np.float64).copy()
    if not np.isfinite(q).all():
        check.refuse("charges", "finite numbers", q[~np.isfinite(q)][0])
    if method is not None:
        check.word("method", method, METHODS[:2])
    of = (check.positive("accuracy", accuracy), method, check.number("skin", skin), check.flag("periodic", periodic))
    force = openmm.PythonForce(_Coulomb(q, exclusions, *of))
    force.setUsesPeriodicBoundaryConditions(periodic)
    force.setName("madelung")
    return force


def take_coulomb(system: Any, *, accuracy: float = 1e-6, method: Method | None = None, skin: float = 0.1) -> Any:
    """Adds the Coulomb energy of a `System`'s `NonbondedForce`, as Madelung sums it, and takes it away from that force,
    which keeps its Lennard-Jones potentials: charges of particles and of exceptions become 0.

    Args:
        system: an `openmm.System` with one `NonbondedForce` of NoCutoff, Ewald, PME or LJPME.
        accuracy: as of `coulomb_force`, as are the others.

    Returns:
        The force that was added.
    """
    if not isinstance(system, openmm.System):
        check.refuse("system", "an openmm.System", check.described(system), TypeError)
    found = [force for force in system.getForces() if isinstance(force, openmm.NonbondedForce)]
    if len(found) != 1:
        check.refuse("system", "one NonbondedForce", f"{len(found)} of them")
    (nonbonded,) = found
    alone = openmm.System()
    for k in range(system.getNumParticles()):
        alone.addParticle(system.getParticleMass(k))
    alone.addForce(openmm.XmlSerializer.clone(nonbonded))
    field = from_openmm(alone)
    exclusions = (field.excluded, field.factors) if len(field.excluded) else None
    of = {"accuracy": accuracy, "method": method, "skin": skin}
    force = coulomb_force(field.charges, periodic=field.cutoff is not None, exclusions=exclusions, **of)
    for k in range(nonbonded.getNumParticles()):
        _, sigma, epsilon = nonbonded.getParticleParameters(k)
        nonbonded.setParticleParameters(k, 0.0, sigma, epsilon)
    for k in range(nonbonded.getNumExceptions()):
        i, j, _, sigma, epsilon = nonbonded.getExceptionParameters(k)
        nonbonded.setExceptionParameters(k, i, j, 0.0, sigma, epsilon)
    system.addForce(force)
    return force
