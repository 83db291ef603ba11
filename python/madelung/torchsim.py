"""A model of TorchSim: Coulomb sums of charges by element, or of charges that a network predicts, in eV and Å.

```python
import torch_sim
from ase.build import bulk
from madelung.torchsim import MadelungModel

model = MadelungModel({"Na": 1, "Cl": -1})
salt = torch_sim.initialize_state(bulk("NaCl", "rocksalt", a=5.64), model.device, model.dtype)
model(salt)["energy"]
```
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Literal

try:
    from torch_sim.models.interface import ModelInterface
    from torch_sim.state import SimState
except ImportError:
    raise ImportError("madelung.torchsim needs TorchSim: pip install torch-sim-atomistic") from None

import torch
from torch import Tensor

from madelung import _arguments as check
from madelung.ase import _checked_charges, atomic_numbers, chemical_symbols
from madelung.torch import ewald_summation, particle_mesh_ewald
from madelung.units import EV_ANGSTROM

__all__ = ["MadelungModel"]

_SUMS = {"ewald": ewald_summation, "pme": particle_mesh_ewald}


class MadelungModel(ModelInterface):
    """The Coulomb energy of each system of a state, with its derivatives.

    Results: `energy` (B,) in eV; `forces` (N, 3) in eV/Å, −dE/dr; `stress` (B, 3, 3) in eV/Å³, +(1/V) dE/dε (tensile
    positive), NaN where no axis is periodic or the cell has no volume; `partial_charges` (N,), those that were used, in
    elementary charges. None of them has a graph.

    Axes are periodic as `state.pbc` says, one flag, (3,) or (B, 3): crystals, slabs, with the correction for slabs, and
    wires and open systems, which are summed over all pairs, exactly. A charged cell has a uniform background.

    Parameters of a sum and neighbours are chosen in each call, for each system alone: results depend on nothing but the
    system, whichever others an autobatcher puts beside it. Parameters of crystals stay as long as the cell does.

    Args:
        charges: a mapping with the charge of each element, {"Na": 1, "Cl": -1}; or what predicts charges (N,) from a
            `SimState`, a function or a module. Forces and stress are those of the whole energy then, with the part of
            the charges, by autograd, as far as they have a graph that leads to `state.positions` and `state.cell`.
        accuracy: target for the RMS force error in units of q²_rms/(V/N)^(2/3) times e²/4πε₀. None: 1e-6, in float32
            1e-5.
        method: "ewald", the sum over waves, of small systems directly; or "pme", the one on a mesh, which costs less
            from some hundred atoms on.
        device: of the states. None: the GPU if there is one, as models of TorchSim have it.
        dtype: of the states.
        compute_forces, compute_stress: whether results have these; may be set later, too.

    Raises:
        TypeError, ValueError: here or at a call, with the name of the argument.
    """

    # In place of properties without a setter.
    compute_forces = True
    compute_stress = True

    def __init__(
        self,
        charges: Mapping[str, float] | Callable[[SimState], Tensor],
        *,
        accuracy: float | None = None,
        method: Literal["ewald", "pme"] = "ewald",
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float64,
        compute_forces: bool = True,
        compute_stress: bool = True,
    ) -> None:
        """The arguments are those of the class."""
        super().__init__()
        self._device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self._dtype = dtype
        # A density scales all lengths of the sum, but not those of a network.
        self._memory_scales_with = "n_atoms" if isinstance(charges, Mapping) else "n_atoms_x_density"
        if isinstance(charges, Mapping):
            charges = _ByElement(charges).to(self._device, dtype)
        if not callable(charges):
            check.refuse("charges", "a mapping or a function of a state", check.described(charges), TypeError)
        self.charges = charges
        self.accuracy = None if accuracy is None else check.positive("accuracy", accuracy)
        self.method = check.word("method", method, tuple(_SUMS))
        self.compute_forces = check.flag("compute_forces", compute_forces)
        self.compute_stress = check.flag("compute_stress", compute_stress)

    def forward(self, state: SimState, **_: Any) -> dict[str, Tensor]:
        """The results for a state."""
        if not isinstance(state, SimState):
            check.refuse("state", "a SimState of TorchSim", check.described(state), TypeError)
        of = state.positions
        if (of.device.type, of.dtype) != (self.device.type, self.dtype):
            check.refuse("state", f"{self.dtype} on {self.device}, as of the model", f"{of.dtype} on {of.device}")
        r, cell, system = of.detach(), state.row_vector_cell.detach(), state.system_idx
        pbc = torch.as_tensor(state.pbc, device=r.device).expand(len(cell), 3)

        with torch.enable_grad():
            positions, strain = r.clone().requires_grad_(), torch.zeros_like(cell).requires_grad_()
            moved = copy.copy(state)
            moved.positions = positions + torch.einsum("na,nab->nb", positions, strain[system])
            moved.row_vector_cell = cell + cell @ strain
            charges = self.charges(moved)
        if not isinstance(charges, Tensor):
            check.refuse("charges", "a tensor from the function", check.described(charges), TypeError)
        check.fits("charges", charges, (len(r),))

        # Of fixed charges, and the site potentials ∂E/∂q.
        energies, forces, potentials, virial = _SUMS[self.method](
            r, charges.detach(), cell,
            accuracy=self.accuracy, pbc=pbc, slab_correction=True, batch_idx=system, prefactor=EV_ANGSTROM,
            energy_reduction="system", compute_forces=True, compute_charge_gradients=True, compute_virial=True,
        )  # fmt: skip
        if charges.requires_grad:
            # dE/dr = ∂E/∂r + Σ ∂E/∂q ∂q/∂r, and the same by strain.
            by_r, by_strain = torch.autograd.grad(charges, (positions, strain), potentials, materialize_grads=True)
            forces, virial = forces - by_r, virial - by_strain
        results = {"energy": energies, "partial_charges": charges.detach()}
        if self.compute_forces:
            results["forces"] = forces
        if self.compute_stress:
            volumes = torch.linalg.det(cell).abs()
            volumes[(volumes == 0.0) | ~pbc.any(-1)] = torch.nan
            results["stress"] = -virial / volumes[:, None, None]
        return results


class _ByElement(torch.nn.Module):
    """The charges of a state's elements; NaN in the table of those that have none."""

    def __init__(self, charges: Mapping[str, float]) -> None:
        super().__init__()
        table = torch.full((len(chemical_symbols),), torch.nan, dtype=torch.float64)
        for symbol, charge in _checked_charges(dict(charges)).items():
            table[atomic_numbers[symbol]] = charge
        self.register_buffer("table", table)

    def forward(self, state: SimState) -> Tensor:
        charges = self.table[state.atomic_numbers]
        if (missing := charges.isnan()).any():
            symbols = sorted({chemical_symbols[number] for number in state.atomic_numbers[missing].tolist()})
            check.refuse("charges", "one for each element of the state", f"none for {', '.join(symbols)}")
        return charges
