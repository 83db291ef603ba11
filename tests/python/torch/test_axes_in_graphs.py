"""Periodic axes as a tensor, as batches have them, in graphs and under transforms: one graph for all systems."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import madelung.torch as mt
from madelung.torch import nn

EVERYTHING = {"compute_forces": True, "compute_charge_gradients": True, "compute_virial": True}
CRYSTAL, SLAB, WIRE, OPEN = (True, True, True), (True, True, False), (False, True, False), (False, False, False)
BATCHES = {
    "crystals": [CRYSTAL, CRYSTAL],
    "molecules": [OPEN, OPEN],
    "slabs": [SLAB, (True, False, True)],
    "wires": [WIRE, (False, False, True)],
    "mixed": [CRYSTAL, OPEN, SLAB, WIRE],
}
HEIGHT, ATOMS = 30.0, 8


@pytest.fixture(autouse=True)
def _from_scratch() -> None:
    torch._dynamo.reset()


def batch(pbc: list[tuple[bool, ...]]) -> dict[str, torch.Tensor]:
    """Systems of one size, whose cells are zero along open axes, with lists and waves, as tensors alone."""
    g = torch.Generator().manual_seed(len(pbc))
    given = {"positions": 5.0 * torch.rand(len(pbc) * ATOMS, 3, generator=g, dtype=torch.float64)}
    given["charges"] = torch.randn(len(pbc) * ATOMS, generator=g, dtype=torch.float64)
    axes = torch.tensor(pbc)
    h = torch.tensor([[6.0, 0.0, 0.0], [0.5, 6.0, 0.0], [0.0, 0.3, 6.0]], dtype=torch.float64)
    given["cell"] = h * axes[:, :, None]
    idx = torch.arange(len(pbc), dtype=torch.int32).repeat_interleave(ATOMS)
    boundary = {"cell": given["cell"], "pbc": axes, "batch_idx": idx}
    names = ("neighbor_list", "neighbor_ptr", "neighbor_shifts")
    given |= dict(zip(names, mt.neighbor_list(given["positions"], 3.0, **boundary)))
    waves = mt.generate_miller_indices(given["cell"], 3.0, pbc=axes, slab_height=HEIGHT)
    return given | dict(zip(("miller_indices", "miller_batch_idx"), waves)) | {"pbc": axes, "batch_idx": idx}


def ewald(given: dict[str, Any], **options: Any) -> Any:
    options = {"slab_correction": True, "slab_height": HEIGHT, **EVERYTHING, **options}
    return mt.ewald_summation(alpha=0.9, cutoff=3.0, **given, **options)


def direct(given: dict[str, Any], **options: Any) -> Any:
    given = {name: x for name, x in given.items() if not name.startswith("neighbor")}
    return ewald(given, method="direct", **options)


def mesh(given: dict[str, Any], **options: Any) -> Any:
    given = {name: x for name, x in given.items() if not name.startswith("miller")}
    options = {"slab_correction": True, "slab_height": HEIGHT, **EVERYTHING, **options}
    return mt.particle_mesh_ewald(alpha=0.9, cutoff=3.0, mesh_dimensions=(12, 12, 32), **given, **options)


def with_exclusions(given: dict[str, Any], **options: Any) -> Any:
    return ewald(given, exclusions=torch.tensor([[0, 1], [ATOMS, ATOMS + 3]]), **options)


def with_widths(given: dict[str, Any], **options: Any) -> Any:
    return ewald(given, widths=torch.full_like(given["charges"], 0.2), **options)


def by_flags(given: dict[str, Any]) -> dict[str, Any]:
    """Results by flags of Python, by which a plan has the terms of these systems alone."""
    return given | {"pbc": given["pbc"].tolist()}


def close(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        assert (a - b).abs().max() <= 1e-12 * b.abs().max()


def slopes(f: Any, given: dict[str, Any]) -> tuple[Any, ...]:
    """The results, and gradients of a loss on all of them by positions and charges."""
    x = [given[name].clone().requires_grad_() for name in ("positions", "charges")]
    found = f(given | {"positions": x[0], "charges": x[1]})
    return *found, *torch.autograd.grad(sum((y * y).sum() for y in found), x)


@pytest.mark.parametrize("f", [ewald, direct, mesh, with_exclusions, with_widths])
def test_one_graph_for_all_kinds_of_systems(f: Any) -> None:
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    for kind in ("crystals", "molecules", "slabs", "wires", "mixed"):
        given = batch(BATCHES[kind])
        close(slopes(compiled, given), slopes(f, by_flags(given)))
    given = batch(BATCHES["mixed"])
    counter = torch._dynamo.testing.CompileCounter()
    counted = torch.compile(f, fullgraph=True, backend=counter)
    with torch.no_grad():
        for axes in (BATCHES["mixed"], BATCHES["mixed"][::-1]):
            now = given | {name: x for name, x in batch(axes).items() if name in ("cell", "pbc")}
            close(counted(now), f(by_flags(now)))
    assert counter.frame_count == 1


@pytest.mark.parametrize("f", [ewald, mesh])
def test_slabs_that_are_not_permitted_are_nan(f: Any) -> None:
    given = batch(BATCHES["mixed"])
    expected = f(by_flags(given))
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    for reduction in ("atom", "system"):
        options = {"slab_correction": False, "slab_height": None, "energy_reduction": reduction}
        energies, *found = compiled(given, **options)
        of = given["batch_idx"] if reduction == "atom" else torch.arange(4)
        assert energies[of == 2].isnan().all() and not energies[of != 2].isnan().any()
        for a, b in zip(found[:-1], expected[1:-1]):
            assert a[given["batch_idx"] == 2].isnan().all()
            rest = given["batch_idx"] != 2
            assert (a - b)[rest].abs().max() <= 1e-12 * b.abs().max()
        assert found[-1][2].isnan().all() and not found[-1][[0, 1, 3]].isnan().any()


class Sum(torch.nn.Module):
    def forward(self, given: dict[str, torch.Tensor]) -> Any:
        return ewald(given)


@pytest.mark.parametrize("strict", [True, False])
def test_export(strict: bool) -> None:
    given = batch(BATCHES["mixed"])
    exported = torch.export.export(Sum(), (given,), strict=strict).module()
    other = given | {name: x for name, x in batch(BATCHES["mixed"][::-1]).items() if name in ("cell", "pbc")}
    for now in (given, other):
        close(exported(now), ewald(by_flags(now)))


def test_vmap() -> None:
    """One system a call, whose axes are those of a row."""
    given = batch([CRYSTAL, OPEN, SLAB, WIRE])
    r, q = given["positions"].reshape(4, ATOMS, 3), given["charges"].reshape(4, ATOMS)
    waves = mt.generate_miller_indices(torch.eye(3, dtype=r.dtype) * 6.0, 3.0)[0]
    options = {"alpha": 0.9, "cutoff": 3.0, "miller_indices": waves, "method": "direct", "slab_correction": True}

    def f(r: Any, q: Any, h: Any, pbc: Any) -> Any:
        return mt.ewald_summation(r, q, h, pbc=pbc, slab_height=HEIGHT, **options, **EVERYTHING)

    found = torch.func.vmap(f)(r, q, given["cell"], given["pbc"])
    for b in range(4):
        close([x[b] for x in found], f(r[b], q[b], given["cell"][b], given["pbc"][b].tolist()))


@pytest.mark.parametrize("axes", ["mixed", "molecules"])
def test_batches_of_collate(axes: str) -> None:
    """Batches of `collate` in modules that are compiled whole."""
    pbc = [row for row in BATCHES[axes] if row != WIRE]
    given = batch(pbc)
    structures = [
        {name: given[name][b * ATOMS : (b + 1) * ATOMS] for name in ("positions", "charges")}
        | {"cell": given["cell"][b], "pbc": given["pbc"][b]}
        for b in range(len(pbc))
    ]
    of_batch = nn.collate(structures, cutoff=3.0)
    options = {"slab_correction": True, "slab_height": HEIGHT}
    waves = {name: given[name] for name in ("miller_indices", "miller_batch_idx")}
    for module, given in (
        (nn.EwaldSum(0.9), options | waves),
        (nn.ParticleMeshEwald(0.9, mesh_dimensions=(12, 12, 32)), options),
    ):
        expected = module(**of_batch, **given)
        assert torch.isfinite(expected).all()
        found = torch.compile(module, fullgraph=True, backend="aot_eager")(**of_batch, **given)
        close([found], [expected])
    # Nothing but the list given: parameters are chosen, as for each structure alone.
    found = nn.EwaldSum()(**nn.collate(structures, cutoff=6.0), slab_correction=True)
    for b, structure in enumerate(structures):
        alone = nn.EwaldSum()(**structure, cutoff=6.0, slab_correction=True)
        assert abs(found[b] - alone[0]) < 1e-5 * abs(alone[0])


def test_other_functions() -> None:
    """Functions of which a part asks for the axes."""
    given = batch(BATCHES["mixed"])
    names = ("positions", "charges", "cell", "pbc", "batch_idx")
    atoms = {name: given[name] for name in names}
    lists = {name: given[name] for name in ("neighbor_list", "neighbor_ptr", "neighbor_shifts")}
    atoms["cell"] = atoms["cell"] + torch.diag_embed((~given["pbc"]).double())
    widths = torch.full_like(given["charges"], 0.5)
    for f in (
        lambda atoms: mt.slab_correction(**atoms, **EVERYTHING),
        lambda atoms: mt.gaussian_correction(widths=widths, cutoff=3.0, **lists, **atoms, **EVERYTHING),
        lambda atoms: mt.dsf(cutoff=3.0, **lists, **atoms, **EVERYTHING),
        lambda atoms: mt.coulomb(cutoff=3.0, **lists, **atoms, **EVERYTHING),
    ):
        close(torch.compile(f, fullgraph=True, backend="aot_eager")(atoms), f(by_flags(atoms)))


def test_what_a_graph_cannot_have_is_named() -> None:
    given = batch(BATCHES["mixed"])
    for f, message in (
        (lambda given: ewald(given, exponent=6), "`pbc`: expected flags of Python with `exponent` above 1"),
        (lambda given: ewald(given | {"cell": None}), "`cell`: expected lattice vectors"),
        (lambda given: ewald({k: x for k, x in given.items() if k[:6] != "miller"}), "`pbc`"),
    ):
        with pytest.raises(Exception, match=message):
            torch.compile(f, fullgraph=True, backend="aot_eager")(given)
