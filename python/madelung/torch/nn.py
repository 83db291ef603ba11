"""Modules of charge sums, batches of structures, and Born effective charges.

The sums are `madelung.torch`'s functions; a module keeps their numbers, as buffers or to be trained.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from madelung import _arguments as check
from madelung import _polarisation
from madelung._collate import collated
from madelung.torch._functions import (
    ewald_summation,
    find_neighbors,
    latent_ewald,
    latent_ewald_lists,
    particle_mesh_ewald,
    segment_mean,
)

__all__ = ["EwaldSum", "LatentEwald", "ParticleMeshEwald", "born_charges", "collate"]

Reduction = Literal["atom", "system"]


class _ChargeSum(torch.nn.Module):
    """A sum whose first number is a buffer, or a parameter to be trained, and whose other options are kept."""

    def __init__(self, name: str, x: float | Tensor | None, learnable: bool, options: dict[str, Any]) -> None:
        super().__init__()
        self.number, self.options = name, options
        if x is None:
            if learnable:
                check.refuse(name, "a number, to be trained", "None")
            self.register_buffer(name, None)
            return
        value = x if isinstance(x, Tensor) else torch.tensor(x, dtype=torch.float64)
        if learnable:
            self.register_parameter(name, torch.nn.Parameter(value.detach().clone()))
        else:
            self.register_buffer(name, value)

    def extra_repr(self) -> str:
        """The numbers of the sum."""
        given = {self.number: getattr(self, self.number), **self.options}
        return ", ".join(f"{name}={x.tolist() if isinstance(x, Tensor) else x!r}" for name, x in given.items())


class EwaldSum(_ChargeSum):
    """`madelung.torch.ewald_summation` as a module.

    Args:
        alpha: splitting parameter in 1/L, one for all systems or (B,). None: chosen in each call.
        cutoff: radius of the real-space sum, in L.
        k_cutoff: radius of the reciprocal sum, in radians per L.
        accuracy: what parameters that are None are chosen for, and given ones have to meet where values can be read.
            None: 1e-6 for the former, and 1e-5 in float32.
        learnable: whether `alpha` is a parameter; with converged cutoffs nothing depends on it.
        prefactor: multiplies energies.
        energy_reduction: energies per "atom" or per "system".
    """

    def __init__(
        self,
        alpha: float | Tensor | None = None,
        cutoff: float | None = None,
        k_cutoff: float | None = None,
        accuracy: float | None = None,
        *,
        learnable: bool = False,
        prefactor: float = 1.0,
        energy_reduction: Reduction = "system",
    ) -> None:
        options = {"cutoff": cutoff, "k_cutoff": k_cutoff, "accuracy": accuracy}
        options |= {"prefactor": prefactor, "energy_reduction": energy_reduction}
        super().__init__("alpha", alpha, learnable, options)

    def forward(
        self,
        positions: Tensor,
        charges: Tensor,
        cell: Tensor,
        batch_idx: Tensor | None = None,
        pbc: Any = None,
        **given: Any,
    ) -> Any:
        """The energies; `given` are further arguments of the function, such as `neighbors`."""
        options = {**self.options, **given}
        if "miller_indices" in given:
            options["k_cutoff"] = None
        return ewald_summation(positions, charges, cell, self.alpha, batch_idx=batch_idx, pbc=pbc, **options)


class ParticleMeshEwald(_ChargeSum):
    """`madelung.torch.particle_mesh_ewald` as a module.

    Args:
        alpha: splitting parameter in 1/L, one for all systems or (B,). None: chosen in each call.
        cutoff: radius of the real-space sum, in L.
        mesh_dimensions: nodes of the mesh along each lattice vector.
        spline_order: order of the splines. None: as the function has it, 5 with a mesh, else the cheapest order.
        accuracy: what parameters that are None are chosen for, and given ones have to meet where values can be read.
            None: 1e-6 for the former, and 1e-5 in float32.
        learnable: whether `alpha` is a parameter.
        prefactor: multiplies energies.
        energy_reduction: energies per "atom" or per "system".
    """

    def __init__(
        self,
        alpha: float | Tensor | None = None,
        cutoff: float | None = None,
        mesh_dimensions: tuple[int, int, int] | None = None,
        spline_order: int | None = None,
        accuracy: float | None = None,
        *,
        learnable: bool = False,
        prefactor: float = 1.0,
        energy_reduction: Reduction = "system",
    ) -> None:
        options = {"cutoff": cutoff, "mesh_dimensions": mesh_dimensions, "spline_order": spline_order}
        options |= {"accuracy": accuracy}
        options |= {"prefactor": prefactor, "energy_reduction": energy_reduction}
        super().__init__("alpha", alpha, learnable, options)

    def forward(
        self,
        positions: Tensor,
        charges: Tensor,
        cell: Tensor,
        batch_idx: Tensor | None = None,
        pbc: Any = None,
        **given: Any,
    ) -> Any:
        """The energies; `given` are further arguments of the function, such as `neighbors`."""
        options = {**self.options, **given}
        return particle_mesh_ewald(positions, charges, cell, self.alpha, batch_idx=batch_idx, pbc=pbc, **options)


class LatentEwald(_ChargeSum):
    """`madelung.torch.latent_ewald` as a module.

    Args:
        sigma: width of the Gaussian charges, in L, one for all systems or (B,).
        dl: shortest wavelength of the sum over waves, in L.
        remove_self_interaction: whether the energy of each charge with itself is left out.
        learnable: whether `sigma` is a parameter.
        prefactor: multiplies energies; `madelung.units.LATENT_EWALD` is that of other implementations.
        energy_reduction: energies per "atom" or per "system".
    """

    def __init__(
        self,
        sigma: float | Tensor = 1.0,
        dl: float = 2.0,
        remove_self_interaction: bool = True,
        *,
        learnable: bool = False,
        prefactor: float = 1.0,
        energy_reduction: Reduction = "system",
    ) -> None:
        options = {"dl": dl, "remove_self_interaction": remove_self_interaction}
        options |= {"prefactor": prefactor, "energy_reduction": energy_reduction}
        super().__init__("sigma", sigma, learnable, options)

    def forward(
        self,
        positions: Tensor,
        charges: Tensor,
        cell: Tensor | None = None,
        batch_idx: Tensor | None = None,
        pbc: Any = None,
        **given: Any,
    ) -> Any:
        """The energies of charges (N,) or (N, C); `given` are further arguments of the function, such as those that
        `latent_ewald_lists` gives."""
        options = {**self.options, **given}
        return latent_ewald(positions, charges, cell, self.sigma, batch_idx=batch_idx, pbc=pbc, **options)


def collate(
    structures: Iterable[Any],
    *,
    per_system: Sequence[str] = (),
    cutoff: float | None = None,
    dl: float | None = None,
) -> dict[str, Any]:
    """A batch of structures: arrays of atoms one after the other, arrays of systems along a new first axis.

    To be given to a `DataLoader` as `collate_fn=functools.partial(collate, …)`.

    Args:
        structures: mappings of arrays or tensors of the host: `positions` (n, 3), and as far as there are `cell` (3, 3)
            and `pbc` (3,) (a structure without a cell has no periodic axes), and others under any names. Or `Atoms` of
            ASE: their positions, cell, periodic axes and charges, the initial ones or those of a calculator's results.
        per_system: names of arrays that belong to systems. Numbers do in any case, and so do quantities of systems by
            their names, also behind a prefix such as `dft_`: stress, virial, strain and quadrupole of shape (3, 3),
            (9,) or (6,), polarizability (3, 3), dipole, polarization and field (3,). Other arrays have a row for each
            atom.
        cutoff: of `neighbors`, what `madelung.torch.find_neighbors` finds. None: they are not looked for.
        dl: of `latent_ewald`, what `madelung.torch.latent_ewald_lists` gives, to be handed on to
            `LatentEwald(…)(…, **batch["latent_ewald"])`. None: that is left out.

    Returns:
        Tensors under the names of the structures' arrays, `cell` (B, 3, 3), zero without periodic axes, `pbc` (B, 3),
        `batch_idx` (N,), and `neighbors` and `latent_ewald` where these are asked for.

    Raises:
        TypeError, ValueError: For structures that do not fit together, with the name of the array.
    """
    batch: dict[str, Any] = {name: torch.from_numpy(x) for name, x in collated(structures, per_system).items()}
    atoms = {name: batch[name] for name in ("cell", "pbc", "batch_idx")}
    if cutoff is not None:
        batch["neighbors"] = find_neighbors(batch["positions"], cutoff, **atoms)
    if dl is not None:
        batch["latent_ewald"] = latent_ewald_lists(batch["positions"], dl=dl, **atoms)
    return batch


def born_charges(
    positions: Tensor,
    charges: Tensor,
    cell: Tensor | None = None,
    batch_idx: Tensor | None = None,
    *,
    epsilon: float = 1.0,
    remove_mean: bool = True,
    create_graph: bool = False,
) -> Tensor:
    """Born effective charges ∂P_a/∂r_ib of charges that depend on the positions.

    P is Σ q r where there is no cell. In a periodic system phases along the lattice vectors take its place, as the
    polarisation is known up to the images of atoms there.

    Args:
        positions: (N, 3), that require gradients.
        charges: (N,), in the graph of the positions.
        cell: (3, 3), for all systems, or (B, 3, 3); zero or None: without periodic axes.
        batch_idx: (N,), the system of each atom. None: one system.
        epsilon: high-frequency permittivity ε of the medium; latent charges are smaller than physical ones by √ε.
        remove_mean: whether each system's charges count without their mean.
        create_graph: whether the result is differentiable, for losses on it.

    Returns:
        (N, 3, 3): atom, direction of the polarisation, direction of the displacement.

    Raises:
        ValueError: For positions without gradients, charges (N, C), and cells with some periodic axes.
    """
    if not positions.requires_grad:
        check.refuse("positions", "a tensor that requires gradients", "one that does not")
    check.fits("charges", charges, (positions.shape[0],))
    lattice = positions.new_zeros(1, 3, 3) if cell is None else cell.reshape(-1, 3, 3)
    idx = torch.zeros(len(positions), dtype=torch.int32, device=positions.device) if batch_idx is None else batch_idx
    axes = (lattice != 0.0).any(-1)
    if (axes.any(-1) != axes.all(-1)).any():
        check.refuse("cell", "three lattice vectors, or none", lattice.tolist())
    of = torch.zeros_like(idx) if len(lattice) == 1 else idx
    periodic, unit = axes.all(-1)[of], torch.eye(3, dtype=positions.dtype, device=positions.device)
    cells = torch.where(periodic[:, None, None], lattice[of], unit)
    if remove_mean:
        systems = int(idx.max()) + 1 if len(idx) else 0
        charges = charges - segment_mean(charges, idx, systems)[idx]
    phase = _polarisation.phases(torch, positions, cells)
    both = _polarisation.parts(torch, positions, charges, phase, periodic)

    def derivatives(part: Tensor) -> Tensor:
        each = [torch.autograd.grad(x, positions, retain_graph=True, create_graph=create_graph)[0] for x in part]
        return torch.stack(each, 1)

    real, imaginary = map(derivatives, both)
    found = epsilon**0.5 * _polarisation.born_charges(torch, real, imaginary, phase, cells, periodic)
    return found if create_graph else found.detach()
