"""Batches of structures, and Born effective charges, as pure functions of arrays.

The sums are `madelung.jax`'s functions, whose numbers (`sigma`, `alpha`) may be leaves of a tree of parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from madelung import _arguments as check
from madelung import _polarisation
from madelung._collate import collated
from madelung.jax._functions import find_neighbors, latent_ewald_lists, segment_mean

__all__ = ["born_charges", "collate"]


def collate(
    structures: Iterable[Any],
    *,
    per_system: Sequence[str] = (),
    cutoff: float | None = None,
    dl: float | None = None,
) -> dict[str, Any]:
    """A batch of structures: arrays of atoms one after the other, arrays of systems along a new first axis.

    Args:
        structures: mappings of arrays: `positions` (n, 3), and as far as there are `cell` (3, 3) and `pbc` (3,) (a
            structure without a cell has no periodic axes), and others under any names. Or `Atoms` of ASE: their
            positions, cell, periodic axes and charges, the initial ones or those of a calculator's results.
        per_system: names of arrays that belong to systems. Numbers do in any case, and so do quantities of systems by
            their names, also behind a prefix such as `dft_`: stress, virial, strain and quadrupole of shape (3, 3),
            (9,) or (6,), polarizability (3, 3), dipole, polarization and field (3,). Other arrays have a row for each
            atom.
        cutoff: of `neighbors`, what `madelung.jax.find_neighbors` finds. None: they are not looked for.
        dl: of `latent_ewald`, what `madelung.jax.latent_ewald_lists` gives, to be handed on to
            `latent_ewald(…, **batch["latent_ewald"])`. None: that is left out.

    Returns:
        Arrays under the names of the structures' arrays, `cell` (B, 3, 3), zero without periodic axes, `pbc` (B, 3) and
        `batch_idx` (N,), and `neighbors` and `latent_ewald` where these are asked for: a pytree.

    Raises:
        TypeError, ValueError: For structures that do not fit together, with the name of the array.
    """
    batch: dict[str, Any] = {name: jnp.asarray(x) for name, x in collated(structures, per_system).items()}
    atoms = {name: batch[name] for name in ("cell", "pbc", "batch_idx")}
    if cutoff is not None:
        batch["neighbors"] = find_neighbors(batch["positions"], cutoff, **atoms)
    if dl is not None:
        batch["latent_ewald"] = latent_ewald_lists(batch["positions"], dl=dl, **atoms)
    return batch


def born_charges(
    charges: Callable[[jax.Array], jax.Array],
    positions: jax.Array,
    cell: jax.Array | None = None,
    batch_idx: jax.Array | None = None,
    *,
    epsilon: float = 1.0,
    remove_mean: bool = True,
) -> jax.Array:
    """Born effective charges ∂P_a/∂r_ib of charges that depend on the positions.

    P is Σ q r where there is no cell. In a periodic system phases along the lattice vectors take its place, as the
    polarisation is known up to the images of atoms there.

    Args:
        charges: gives the charges (N,) at positions (N, 3).
        positions: (N, 3).
        cell: (3, 3), for all systems, or (B, 3, 3), one for each under `jit` with `batch_idx`; zero or None: without
            periodic axes. With some periodic axes the result is NaN.
        batch_idx: (N,), the system of each atom. None: one system.
        epsilon: high-frequency permittivity ε of the medium; latent charges are smaller than physical ones by √ε.
        remove_mean: whether each system's charges count without their mean.

    Returns:
        (N, 3, 3): atom, direction of the polarisation, direction of the displacement.

    Raises:
        ValueError: For charges (N, C).
    """
    atoms = positions.shape[0]
    lattice = jnp.zeros((1, 3, 3), positions.dtype) if cell is None else cell.reshape(-1, 3, 3)
    idx = jnp.zeros(atoms, jnp.int32) if batch_idx is None else batch_idx
    systems = None if len(lattice) == 1 and batch_idx is not None else len(lattice)
    of = jnp.zeros_like(idx) if len(lattice) == 1 else idx
    axes = (lattice != 0.0).any(-1)
    periodic = axes.all(-1)[of]
    unit = jnp.where((axes.any(-1) & ~axes.all(-1))[of][:, None, None], jnp.nan, jnp.eye(3, dtype=positions.dtype))
    cells = jnp.where(periodic[:, None, None], lattice[of], unit)

    def parts(r: jax.Array) -> tuple[jax.Array, jax.Array]:
        q = charges(r)
        check.fits("charges", q, (atoms,))
        if remove_mean:
            q = q - segment_mean(q, idx, systems)[idx]
        return _polarisation.parts(jnp, r, q, _polarisation.phases(jnp, r, cells), periodic)

    real, imaginary = (jnp.moveaxis(x, 1, 0) for x in jax.jacrev(parts)(positions))
    phase = _polarisation.phases(jnp, positions, cells)
    return epsilon**0.5 * _polarisation.born_charges(jnp, real, imaginary, phase, cells, periodic)
