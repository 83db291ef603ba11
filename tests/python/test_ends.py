"""Ends of pair potentials and their tails: by what defines each, and by quadrature; in every namespace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import required
from differences import check_torch, fourth_order
from test_potentials import CELL, FORMULAS, NAMES, TABLES, ions

torch, jax = required("torch"), required("jax")

import madelung.jax as mj  # noqa: E402
import madelung.torch as mt  # noqa: E402

CUTOFF, ONSET = 2.7, 1.9
ENDS: dict[str, dict[str, Any]] = {
    "taper": {"onset": ONSET},
    "switch": {"end": "switch", "onset": ONSET},
    "force-switch": {"end": "force-switch", "onset": ONSET},
    "shift": {"end": "shift"},
    "force-shift": {"end": "force-shift"},
    "cut": {"end": "cut"},
}


def dimers(name: str, r: Any, types: tuple[int, int], **given: Any) -> tuple[Any, Any]:
    """Energies of two atoms at each of some distances, each pair a system, and the forces on the second along x."""
    r = np.asarray(r)
    positions = np.zeros((2 * len(r), 3))
    positions[1::2, 0] = r
    idx, kinds = np.repeat(np.arange(len(r)), 2).astype(np.int32), np.tile(types, len(r)).astype(np.int32)
    energy, forces = getattr(mn, name)(
        positions,
        kinds,
        *TABLES[name],
        CUTOFF,
        np.zeros((len(r), 3, 3)),
        batch_idx=idx,
        energy_reduction="system",
        compute_forces=True,
        **given,
    )
    return energy, forces[1::2, 0]


def plain(name: str, r: Any, types: tuple[int, int] = (0, 1)) -> Any:
    """Energies of two types without an end."""
    return FORMULAS[name](np.asarray(r), *[t[types] for t in TABLES[name]])


@pytest.mark.parametrize("name", NAMES)
def test_what_defines_each(name: str) -> None:
    near, far = np.linspace(1.0, ONSET, 12), np.linspace(ONSET, CUTOFF, 24)[1:-1]
    scale = np.abs(plain(name, near)).max()
    at_end = CUTOFF * (1 - 1e-9)
    for end, given in ENDS.items():
        energies, forces = dimers(name, [*near, *far, at_end], (0, 1), **given)
        inner, outer, last = energies[:12], energies[12:-1], energies[-1]
        if end == "cut":
            assert np.abs(energies - plain(name, [*near, *far, at_end])).max() < 1e-14 * scale
            continue
        # Energies end at 0, and so do forces, but for a shift.
        assert abs(last) < 1e-8 * scale, end
        assert end == "shift" or abs(forces[-1]) < 1e-8 * scale, end
        less = np.concatenate([plain(name, near) - inner, plain(name, far) - outer])
        r = np.concatenate([near, far])
        if end in ("taper", "switch"):
            x = (far - ONSET) / (CUTOFF - ONSET)
            z = (far**2 - ONSET**2) / (CUTOFF**2 - ONSET**2)
            kept = 1 - 10 * x**3 + 15 * x**4 - 6 * x**5 if end == "taper" else 1 - 3 * z**2 + 2 * z**3
            expected = np.concatenate([0.0 * near, plain(name, far) * (1 - kept)])
            assert np.abs(less - expected).max() < 1e-14 * scale, end
            continue
        # What is taken off has a form, and its numbers follow from the conditions at the end.
        x = np.maximum(r - ONSET, 0.0)
        powers = {"shift": [r**0], "force-shift": [r**0, r], "force-switch": [r**0, x**3, x**4]}[end]
        basis = np.stack(powers, 1)
        _, residual, rank, _ = np.linalg.lstsq(basis, less, rcond=None)
        assert rank == len(powers) and residual[0] ** 0.5 < 1e-13 * scale, end
        if end == "force-switch":
            # The slope of the force ends at 0, too.
            below = CUTOFF - np.array([1e-3, 2e-3])
            forces = dimers(name, below, (0, 1), **given)[1]
            assert np.abs(forces).max() < 1e-4 * scale and forces[1] / forces[0] == pytest.approx(4.0, rel=0.02)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", ["born_mayer", "lennard_jones", "tang_toennies", "yukawa"])
def test_tails(name: str, end: str) -> None:
    """Against the midpoint rule for V less the energy of a dimer; derivatives against differences."""
    r, types = ions()
    of, given = getattr(mn, name), {"cutoff": CUTOFF, **ENDS[end]}

    def total(positions: Any = r, cell: Any = CELL, tables: Any = TABLES[name], **wanted: Any) -> Any:
        return of(positions, types, *tables, cell=cell, energy_reduction="system", **given, **wanted)

    counts = np.bincount(types)
    # Of r from 0 on: where energies have no end they are equal bit for bit, however large.
    inside = np.linspace(0.4, CUTOFF, 20001)
    inside = 0.5 * (inside[1:] + inside[:-1])
    u = (np.arange(200000) + 0.5) / 200000
    expected = 0.0
    for a, b in np.ndindex(2, 2):
        lost = plain(name, inside, (a, b)) - dimers(name, inside, (a, b), **ENDS[end])[0]
        constant = lost[0] * 0.4**3 / 3
        line = 0.0
        if end == "force-shift":
            slope = (lost[1] - lost[0]) / (inside[1] - inside[0])
            first = lost[0] - slope * inside[0]
            constant, line = first * 0.4**3 / 3, slope * 0.4**4 / 4
        within = (inside**2 * lost).sum() * (CUTOFF - 0.4) / 20000
        beyond = (plain(name, CUTOFF / u, (a, b)) * CUTOFF**3 / u**4).sum() / 200000
        expected += counts[a] * counts[b] * (constant + line + within + beyond)
    expected *= 2 * np.pi / abs(np.linalg.det(CELL))
    energy, forces, virial = total(tail_correction=True, compute_forces=True, compute_virial=True)
    without = total(compute_forces=True, compute_virial=True)
    # The midpoint rule of 20,000 intervals is wrong by h²/24 times the change of slopes.
    assert energy[0] - without[0][0] == pytest.approx(expected, rel=2e-7)
    assert np.array_equal(forces, without[1])
    assert np.abs(virial - without[2] - (energy[0] - without[0][0]) * np.eye(3)).max() < 1e-12 * abs(energy[0])
    atoms = of(r, types, *TABLES[name], cell=CELL, **given, tail_correction=True)
    assert atoms.sum() == pytest.approx(energy[0], rel=1e-13)


def gaps() -> tuple[Any, Any, Any, dict[str, float]]:
    """Few atoms, their types and cell, a cutoff and an onset that are no distances of theirs: at these the second or
    third derivatives jump."""
    rng = np.random.default_rng(12)
    cell = 1.7 * CELL
    r = (ions()[0] @ np.linalg.inv(CELL) @ cell)[::2] + 0.1 * rng.normal(size=(14, 3))
    d = r[None] - r[:, None] + (np.stack(np.meshgrid(*[[-1, 0, 1]] * 3), -1).reshape(-1, 1, 1, 3) @ cell)
    lengths = np.sort(np.linalg.norm(d, axis=-1).ravel())
    found = {}
    for name, about in (("cutoff", CUTOFF), ("onset", ONSET)):
        near = lengths[np.abs(lengths - about) < 0.15]
        widest = np.diff(near).argmax()
        assert np.diff(near)[widest] > 0.015
        found[name] = 0.5 * (near[widest] + near[widest + 1])
    return r, rng.integers(0, 2, 14).astype(np.int32), cell, found


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", ["buckingham", "mie", "morse"])
def test_derivatives_and_namespaces(name: str, end: str) -> None:
    r, types, lattice, between = gaps()
    given = {**ENDS[end], **between, "tail_correction": True}
    if "onset" not in ENDS[end]:
        del given["onset"]
    kinds = torch.tensor(types)

    def of(positions: Any, cell: Any, *tables: Any) -> Any:
        return getattr(mt, name)(positions, kinds, *tables, cell=cell, **given)

    arrays = [r, lattice, *TABLES[name]]
    check_torch(of, [torch.tensor(x) for x in arrays])
    expected = getattr(mn, name)(r, types, *TABLES[name], cell=lattice, **given)
    assert np.abs(of(*map(torch.tensor, arrays)).numpy() - expected).max() < 1e-14 * np.abs(expected).max()
    neighbors = mj.find_neighbors(jax.numpy.asarray(r), between["cutoff"], jax.numpy.asarray(lattice))

    @jax.jit
    def compiled(positions: Any, *tables: Any) -> Any:
        return getattr(mj, name)(
            positions, types, *tables, cell=jax.numpy.asarray(lattice), neighbors=neighbors, **given
        )

    found = compiled(jax.numpy.asarray(r), *TABLES[name])
    assert np.abs(found - expected).max() < 1e-14 * np.abs(expected).max()
    narrow = getattr(mn, name)(
        r.astype(np.float32),
        types,
        *[t.astype(np.float32) for t in TABLES[name]],
        cell=lattice.astype(np.float32),
        **given,
    )
    assert np.abs(narrow - expected).max() < 3e-6 * np.abs(expected).max()


def test_laws_without_a_tail() -> None:
    """Energies that fall too slowly have none."""
    r, types = ions()
    one = np.ones((2, 2))
    for name, tables in (("yukawa", (one, 0.01 * one)), ("mie", (one, one, 3.0 * one, 6.0 * one))):
        with pytest.raises(ValueError, match="`tail_correction`: .* slower ones of types 0 and 0"):
            getattr(mn, name)(r, types, *tables, CUTOFF, CELL, tail_correction=True)


def test_an_infinite_energy_at_the_cutoff() -> None:
    r, types = ions()
    one = np.ones((2, 2))
    tables = (one, one, 2000.0 * one, one, one)
    with pytest.raises(ValueError, match="`cutoff`: expected distances at which energies .*, from 2.7 on, got an inf"):
        mn.born_mayer(r, types, *tables, CUTOFF, CELL, end="shift")


def test_compiled_graphs() -> None:
    r, types = ions()
    given = [torch.tensor(x) for x in (r, types, *TABLES["lennard_jones"])]
    cell, neighbors = torch.tensor(CELL), mt.find_neighbors(torch.tensor(r), CUTOFF, torch.tensor(CELL))
    for end, options in ENDS.items():

        def of(*x: Any, options: Any = options) -> Any:
            return mt.lennard_jones(*x, CUTOFF, cell, neighbors=neighbors, tail_correction=True, **options)

        whole = torch.compile(of, fullgraph=True, backend="aot_eager")
        assert torch.equal(whole(*given), of(*given)), end


def test_batches_and_dispersion() -> None:
    """Systems of a batch have the tails of their own; with dispersion that of r⁻¹² alone."""
    r, types = ions()
    given = {"end": "shift", "tail_correction": True, "energy_reduction": "system"}
    cells = np.stack([CELL, 1.1 * CELL])
    both = mn.lennard_jones(
        np.concatenate([r, 1.1 * r]),
        np.concatenate([types, 1 - types]),
        *TABLES["lennard_jones"],
        CUTOFF,
        cells,
        batch_idx=np.repeat([0, 1], len(r)).astype(np.int32),
        **given,
    )
    alone = [
        mn.lennard_jones(x, kinds, *TABLES["lennard_jones"], CUTOFF, cell, **given)[0]
        for x, kinds, cell in ((r, types, CELL), (1.1 * r, 1 - types, cells[1]))
    ]
    assert both == pytest.approx(alone, rel=1e-14)
    # What r⁻¹² lacks beyond the cutoff falls with r⁻⁹.
    epsilon, sigma = np.array([0.2, 0.3]), np.array([0.9, 1.0])
    own = {"dispersion": "ewald", "accuracy": 1e-9, "mixing": "geometric", "energy_reduction": "system", "end": "cut"}
    near, far = (
        mn.lennard_jones(r, types, epsilon, sigma, x, CELL, tail_correction=True, **own)[0] for x in (4.0, 8.0)
    )
    assert near == pytest.approx(far, rel=1e-6)


def test_a_slope_of_differences() -> None:
    """The derivative of a shifted energy by a parameter has that of the shift."""
    r, types = ions()
    tables = [torch.tensor(x) for x in TABLES["morse"]]
    tables[1].requires_grad_()
    energy = mt.morse(torch.tensor(r), torch.tensor(types), *tables, CUTOFF, torch.tensor(CELL), end="force-shift")
    (slope,) = torch.autograd.grad(energy.sum(), [tables[1]])

    def moved(h: float) -> float:
        given = [x.numpy() if k != 1 else x.detach().numpy() + h for k, x in enumerate(tables)]
        return float(mn.morse(r, types, *given, CUTOFF, CELL, end="force-shift").sum())

    assert float(slope.sum()) == pytest.approx(fourth_order(moved, 1e-3), rel=1e-9)


@pytest.mark.parametrize(
    ("message", "given"),
    [
        ("`end`: expected 'taper' or 'switch' or", {"end": "smooth"}),
        ("`onset`: expected a distance below the cutoff, 2.7, got 2.7", {"onset": CUTOFF}),
        ('`onset`: expected None with `end="shift"`, got 1.9', {"end": "shift", "onset": ONSET}),
        ("`cell`: expected lattice vectors", {"tail_correction": True, "cell": None}),
        (
            "`pbc`: expected all axes periodic with `tail_correction`",
            {"tail_correction": True, "pbc": [True, True, False]},
        ),
        ("`tail_correction`: expected energies that fall fast beyond the cutoff", {"tail_correction": True}),
    ],
)
def test_errors(message: str, given: dict[str, Any]) -> None:
    r, types = ions()
    tables = [*TABLES["mie"][:3], np.full((2, 2), 3.0)]
    if "pbc" in given:
        given = {**given, "pbc": np.array(given["pbc"])}
    with pytest.raises(ValueError, match=".*") as error:
        mn.mie(r, types, *tables, CUTOFF, **{"cell": CELL, **given})
    assert message in str(error.value)
