"""The Coulomb sum of a system, over waves, on a mesh or over all pairs, as programs choose it."""

from __future__ import annotations

import contextlib
from typing import Any, Literal

import numpy as np

from madelung import _arguments as check
from madelung import _native
from madelung._functions.plans import parameters
from madelung._functions.sum_arguments import arguments
from madelung.numpy import (
    EwaldParameters,
    PmeParameters,
    coulomb,
    estimate_ewald_parameters,
    estimate_pme_parameters,
    ewald_summation,
    particle_mesh_ewald,
)
from madelung.numpy._framework import Numpy

Method = Literal["ewald", "pme", "direct"]
METHODS = ("ewald", "pme", "direct")
Parameters = EwaldParameters | PmeParameters | None
"""Parameters of Ewald's sum; None for a sum over all pairs, with all images along a single periodic axis."""


def chosen(
    system: tuple[Any, Any, Any],
    pbc: Any,
    method: Method | None,
    accuracy: float | None,
    alpha: float | None,
    cutoff: float | None,
    k_cutoff: float | None,
) -> Parameters:
    """The parameters of a sum: positions, charges, cell and its periodic axes; without a method those of the one that
    costs less."""
    if np.sum(pbc) < 2:
        for name, given in (("alpha", alpha), ("cutoff", cutoff), ("k_cutoff", k_cutoff)):
            if given is not None:
                check.refuse(name, "None with at most one periodic axis, where all pairs are summed", given)
        if method not in (None, "direct"):
            check.refuse("method", "'direct' with at most one periodic axis", repr(method))
        return None
    if method == "direct":
        check.refuse("method", "'ewald' or 'pme' with two or three periodic axes", repr(method))
    if method == "pme" and k_cutoff is not None:
        check.refuse("k_cutoff", "None on a mesh", k_cutoff)
    on_mesh = method == "pme"
    given = {"pbc": pbc, "slab_correction": True, "alpha": alpha, "cutoff": cutoff, "accuracy": accuracy}
    if method is None and k_cutoff is None and _native.meshes_reach(accuracy):
        of = arguments(*system, **given)
        # What is given may leave no mesh.
        with contextlib.suppress(ValueError):
            on_mesh = parameters(Numpy, of, "mesh").cost < parameters(Numpy, of, "waves").cost
    if on_mesh:
        return estimate_pme_parameters(*system, accuracy, cutoff, alpha=alpha, pbc=pbc)
    return estimate_ewald_parameters(*system, accuracy, cutoff, alpha=alpha, k_cutoff=k_cutoff, pbc=pbc)


def summed(system: tuple[Any, Any, Any], pbc: Any, parameters: Parameters, **options: Any) -> Any:
    """The results of a sum with these parameters, taken as they are, or with given waves; slabs are corrected."""
    if parameters is None:
        return ewald_summation(*system, pbc=pbc, **options) if np.any(pbc) else coulomb(*system[:2], **options)
    if not np.all(pbc):
        options = {"pbc": pbc, "slab_correction": True, "slab_height": parameters.slab_height or None, **options}
    given = {"cutoff": parameters.cutoff, **options}
    if isinstance(parameters, EwaldParameters):
        waves = {} if "miller_indices" in given else {"k_cutoff": parameters.k_cutoff}
        return ewald_summation(*system, parameters.alpha, **waves, **given)
    mesh = {"mesh_dimensions": parameters.mesh_dimensions, "spline_order": parameters.spline_order}
    return particle_mesh_ewald(*system, parameters.alpha, **mesh, **given)
