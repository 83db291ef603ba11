"""Particles without charge on others (dummies, rows of zeros behind the last atom): every sum is as without them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import madelung.jax as mj
import madelung.numpy as mn
import madelung.torch as mt

N = 14
G = np.random.default_rng(5)
CELL = np.array([[6.0, 0.0, 0.0], [0.7, 5.5, 0.0], [-0.4, 0.6, 6.3]])
R = G.random((N, 3)) @ CELL
Q = np.tile([1.0, -1.0], N // 2)
# On an atom, on each other, and at the origin as padding has it.
ALL_R = np.concatenate([R, R[3:4], np.zeros((4, 3))])
ALL_Q = np.concatenate([Q, np.zeros(5)])
CUTOFF = 2.6
WAVES = mn.generate_miller_indices(CELL, 5.0)[0]
TYPES = (np.arange(N) % 2).astype(np.int32)
ALL_TYPES = np.concatenate([TYPES, np.full(5, 2, np.int32)])
# The third type has no wells.
EPSILON, SIGMA = np.pad([[0.3, 0.2], [0.2, 0.1]], (0, 1)), np.full((3, 3), 0.4)


def sums(m: Any, array: Any, neighbors: Any) -> dict[str, Any]:
    """Energy and forces of sums, as functions of positions and charges."""
    cell, waves, given = array(CELL), array(WAVES), {"neighbors": neighbors, "cutoff": CUTOFF}
    wanted = {"energy_reduction": "system", "compute_forces": True}
    epsilon, sigma, types = array(EPSILON), array(SIGMA), {N: array(TYPES), len(ALL_R): array(ALL_TYPES)}
    return {
        "waves": lambda r, q: m.ewald_summation(r, q, cell, 1.2, miller_indices=waves, **given, **wanted),
        "mesh": lambda r, q: m.particle_mesh_ewald(r, q, cell, 1.2, mesh_dimensions=(12, 12, 12), **given, **wanted),
        "open": lambda r, q: m.ewald_summation(r, q, None, **wanted),
        "dsf": lambda r, q: m.dsf(r, q, CUTOFF, 0.3, cell, neighbors=neighbors, **wanted),
        "lennard-jones": lambda r, q: m.lennard_jones(
            r, types[len(r)], epsilon, sigma, CUTOFF, cell=cell, neighbors=neighbors, **wanted
        ),
    }


SUMS = ("waves", "mesh", "open", "dsf", "lennard-jones")


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("way", ["numpy", "torch", "compiled", "jax", "jit"])
def test_sums_are_as_without_them(way: str, name: str) -> None:
    m, array = {"jax": (mj, jnp.asarray), "jit": (mj, jnp.asarray), "numpy": (mn, np.asarray)}.get(
        way, (mt, torch.from_numpy)
    )
    results = []
    with jax.enable_x64(True):
        for r, q in ((R, Q), (ALL_R, ALL_Q)):
            neighbors = m.find_neighbors(array(r), CUTOFF, array(CELL))
            call = sums(m, array, neighbors)[name]
            if way == "jit":
                call = jax.jit(call)
            elif way == "compiled":
                call = torch.compile(call, backend="eager", fullgraph=True)
            energy, forces = call(array(r), array(q))
            results.append((float(energy[0]), np.asarray(forces)))
    (energy, forces), (padded, of_all) = results
    assert padded == pytest.approx(energy, rel=1e-12)
    np.testing.assert_allclose(of_all[:N], forces, rtol=0, atol=1e-12 * np.abs(forces).max())
    assert not of_all[N:].any()


@pytest.mark.parametrize("name", SUMS[:4])
def test_two_charges_on_one_point_are_an_error(name: str) -> None:
    q = ALL_Q.copy()
    q[N] = 0.5
    call = sums(mn, np.asarray, mn.find_neighbors(ALL_R, CUTOFF, CELL))[name]
    with pytest.raises(ValueError, match=rf"`positions`: expected no two .*3 and {N}"):
        call(ALL_R, q)
