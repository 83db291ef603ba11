"""Charge equilibration under `jit`, `vmap` and in whole graphs of PyTorch, against eager calls and dense solutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import madelung.numpy as mn
from conftest import required
from test_equilibration import ATOMS, CELL, atoms, dense

torch, jax = required("torch"), required("jax")
import jax.numpy as jnp  # noqa: E402

import madelung.jax as mj  # noqa: E402
import madelung.torch as mt  # noqa: E402

pytestmark = pytest.mark.usefixtures("double_precision")

# Gaussian charges differ from points up to 11 widths of at most 0.9; what these parameters leave out is 1e-16.
REACH, ALPHA, K_CUTOFF = 9.9, 0.6, 7.2
NAMES = ("positions", "electronegativity", "hardness", "widths", "cell", "total_charge")
LISTS = ("neighbor_list", "neighbor_ptr", "neighbor_shifts")
Arrays = dict[str, np.ndarray]


def system(kind: str) -> tuple[Arrays, dict[str, Any]]:
    """The arrays of a call, any of which may be traced, and all else that a traced call needs, as arrays of NumPy."""
    r, _, widths, chi, eta = atoms(3)
    cell, given = CELL, {"alpha": ALPHA, "cutoff": REACH, "energy_reduction": "system"}
    more: Arrays = {}
    if kind == "crystals":
        other = atoms(4)
        r, widths, chi, eta = (np.concatenate([x, other[n]]) for x, n in ((r, 0), (widths, 2), (chi, 3), (eta, 4)))
        cell, more["batch_idx"] = np.stack([CELL, 1.1 * CELL]), np.repeat([0, 1], ATOMS).astype(np.int32)
        more["total_charge"] = np.array([0.6, -0.2])
    if kind == "slab":
        cell, more["external_field"] = np.diag([7.0, 7.0, 30.0]), np.array([0.05, -0.1, 0.2])
        given |= {"pbc": [True, True, False], "slab_correction": True, "slab_height": 30.0}
    if kind == "molecule":
        cell, more["total_charge"] = None, np.array([0.4, -0.7])
        more |= {"held_charges": np.array([0.25, -0.3]), "external_field": np.array([0.05, -0.1, 0.2])}
        given |= {
            "molecule_idx": np.array([0, 1, 0, 0, 1, 1, 0, 1], np.int32),
            "held_atoms": np.array([2, 4], np.int32),
        }
        del given["alpha"]
    elif kind == "mesh":
        given["mesh_dimensions"] = (12, 12, 12)
    else:
        slabs = {k: given[k] for k in ("pbc", "slab_height") if k in given}
        given |= zip(("miller_indices", "miller_batch_idx"), mn.generate_miller_indices(cell, K_CUTOFF, **slabs))
    found = mn.neighbor_list(r, REACH, cell, given.get("pbc"), batch_idx=more.get("batch_idx"))
    given |= zip(LISTS, found)
    arrays = dict(zip(NAMES, (r, chi, eta, widths, cell, np.array(0.6)))) | more
    return {name: x for name, x in arrays.items() if x is not None}, given


def of(make: Any, given: dict[str, Any]) -> dict[str, Any]:
    return {name: make(x) if isinstance(x, np.ndarray) else x for name, x in given.items()}


def apart(kind: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The arrays that derivatives are taken by, the indices of systems, and the settings."""
    arrays, given = system(kind)
    reals = {name: jnp.asarray(x) for name, x in arrays.items() if name != "batch_idx"}
    return reals, of(jnp.asarray, {k: x for k, x in arrays.items() if k == "batch_idx"}), of(jnp.asarray, given)


KINDS = pytest.mark.parametrize("kind", ["crystals", "molecule", "slab", "mesh"])


def loss(given: dict[str, Any]) -> Any:
    """A function of charges and energies of the arrays that are traced."""

    def value(x: dict[str, Any]) -> Any:
        q, energies = mj.qeq(**x, **given)
        return (q**3).sum() + energies.sum()

    return value


def close(got: Any, want: Any, error: float = 1e-12) -> None:
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        y = np.asarray(y)
        np.testing.assert_allclose(np.asarray(x), y, rtol=0, atol=error * max(1.0, np.abs(y).max(initial=0.0)))


@KINDS
def test_values_under_jit(kind: str) -> None:
    reals, batch, given = apart(kind)
    everything = {"compute_forces": True, "compute_virial": True}
    eager = mj.qeq(**reals, **batch, **given, **everything)
    close(jax.jit(lambda x, idx: mj.qeq(**x, **idx, **given, **everything))(reals, batch), eager)
    arrays, settings = system(kind)
    close(eager, mn.qeq(**arrays, **settings, **everything), 1e-14)
    if kind == "crystals":
        for b, cell in enumerate(arrays["cell"]):
            each = [arrays[name][b * ATOMS : (b + 1) * ATOMS] for name in NAMES[:4]]
            want, lowest = dense(*each, cell, arrays["total_charge"][b])
            close((eager[0][b * ATOMS : (b + 1) * ATOMS], eager[1][b]), (want, lowest), 1e-11)


@KINDS
def test_derivatives_under_jit(kind: str) -> None:
    """Of both modes, against eager ones and differences of fourth order: these err by h⁴ and by rounding over h."""
    reals, batch, given = apart(kind)
    # Called under another `jit`, so that its arrays are gone when the rules of derivatives run.
    f = jax.jit(loss(batch | given))
    rng = np.random.default_rng(0)
    moves = {name: jnp.asarray(rng.normal(size=x.shape)) for name, x in reals.items()}
    gradient, h = jax.jit(jax.value_and_grad(f)), 1e-3
    found = gradient(reals)
    close(found, jax.value_and_grad(loss(batch | given))(reals))

    def inner(x: Any) -> Any:
        return sum((g * moves[name]).sum() for name, g in x.items())

    def product(x: Any) -> Any:
        """A Hessian times the direction, by a backward pass over a backward pass."""
        return jax.grad(lambda x: inner(jax.grad(f)(x)))(x)

    at = [gradient({name: x + n * h * moves[name] for name, x in reals.items()}) for n in (-2, -1, 1, 2)]
    slope, twice = jax.tree.map(lambda a, b, c, d: (a - 8.0 * b + 8.0 * c - d) / (12.0 * h), *at)
    forward = jax.jit(lambda x: jax.jvp(jax.value_and_grad(f), (x,), (moves,))[1])(reals)
    close(forward[0], inner(found[1]))
    close(forward, (slope, twice), 1e-8)
    if kind == "mesh":
        close(jax.jit(product)(reals), forward[1], 1e-11)


def test_gradients_of_forces_under_jit() -> None:
    reals, batch, given = apart("crystals")

    def value(r: Any) -> Any:
        _, _, forces = mj.qeq(**reals | {"positions": r}, **batch, **given, compute_forces=True)
        return (forces**2).sum()

    close(jax.jit(jax.grad(value))(reals["positions"]), jax.grad(value)(reals["positions"]), 1e-11)


@pytest.mark.parametrize(
    ("kind", "name"), [("crystals", "hardness"), ("molecule", "electronegativity"), ("mesh", "positions")]
)
def test_vmap_is_a_loop(kind: str, name: str) -> None:
    reals, batch, given = apart(kind)
    if name == "hardness":
        # Whatever is not mapped has values, by which all that is left open is chosen.
        given = {"accuracy": 1e-13}
    several = jnp.stack([reals[name], 1.01 * reals[name]])
    f = jax.value_and_grad(lambda x: loss(batch | given)(reals | {name: x}))
    each = [f(x) for x in several]
    close(jax.vmap(f)(several), jax.tree.map(lambda *x: jnp.stack(x), *each))


def test_vmap_of_lists() -> None:
    """Each element has neighbours of its own, which a search with a capacity finds."""
    reals, _, given = apart("mesh")
    given = {name: x for name, x in given.items() if name not in LISTS}
    moved = jnp.stack([reals["positions"], reals["positions"] + 0.05 * jnp.sin(jnp.arange(24.0)).reshape(8, 3)])

    def value(r: Any) -> Any:
        lists = dict(zip(LISTS, mj.neighbor_list(r, REACH, reals["cell"], capacity=2000)))
        return loss(given | lists)(reals | {"positions": r})

    each = [jax.value_and_grad(loss(given))(reals | {"positions": r}) for r in moved]
    got = jax.jit(jax.vmap(jax.value_and_grad(value)))(moved)
    for n, (energy, gradient) in enumerate(each):
        close((got[0][n], got[1][n]), (energy, gradient["positions"]), 1e-11)


def test_systems_without_a_minimum_are_nan() -> None:
    reals, batch, given = apart("crystals")
    bad = reals["hardness"].at[ATOMS:].set(-2.0)
    with pytest.raises(ValueError, match="`hardness`: expected numbers so large .*system 1"):
        mj.qeq(**reals | {"hardness": bad}, **batch, **given)

    def results(x: Any) -> Any:
        return mj.qeq(**reals | {"hardness": x}, **batch, **given, compute_forces=True, compute_virial=True)

    good = results(reals["hardness"])
    for x, y in zip(jax.jit(results)(bad), good):
        half = len(y) // 2
        assert np.isnan(x[half:]).all()
        close(x[:half], y[:half])
    # Of a batch by `vmap` one element alone is spoilt, in all that derivatives are taken by.
    gradient = jax.grad(lambda x, r: loss(batch | given)(reals | {"hardness": x, "positions": r}), (0, 1))
    both = jax.vmap(gradient, (0, None))(jnp.stack([bad, reals["hardness"]]), reals["positions"])
    assert np.isnan(both[0][0][ATOMS:]).all() and np.isnan(both[1][0]).all()
    close([x[1] for x in both], gradient(reals["hardness"], reals["positions"]))


@pytest.mark.parametrize("name", ["electronegativity", "hardness", "total_charge"])
def test_numbers_that_are_not_finite_are_nan(name: str) -> None:
    reals, batch, given = apart("crystals")
    bad = reals[name].at[-1].set(jnp.nan)
    q, energies = jax.jit(lambda x: mj.qeq(**reals | {name: x}, **batch, **given))(bad)
    assert np.isnan(q[ATOMS:]).all() and np.isnan(energies[1])
    assert np.isfinite(q[:ATOMS]).all() and np.isfinite(energies[0])


def test_totals_of_held_charges_that_do_not_fit_are_nan() -> None:
    reals, batch, given = apart("crystals")
    given |= {"held_atoms": np.arange(ATOMS, dtype=np.int32), "held_charges": jnp.full(ATOMS, 0.5)}
    q, _ = jax.jit(lambda x: mj.qeq(**reals | {"total_charge": x}, **batch, **given))(jnp.array([3.0, 0.0]))
    assert np.isnan(q[:ATOMS]).all() and np.isfinite(q[ATOMS:]).all()
    q, _ = jax.jit(lambda x: mj.qeq(**reals | {"total_charge": x}, **batch, **given))(jnp.array([4.0, 0.0]))
    np.testing.assert_allclose(q[:ATOMS], 0.5, rtol=0, atol=0)


@pytest.mark.parametrize("missing", ["alpha", "miller_indices", "neighbor_list", "mesh_dimensions"])
def test_what_is_missing_is_named(missing: str) -> None:
    reals, batch, given = apart("mesh" if missing == "mesh_dimensions" else "crystals")
    gone = LISTS if missing == "neighbor_list" else (missing,)
    given = {name: x for name, x in given.items() if name not in (*gone, "miller_batch_idx" * (missing[0] == "m"))}
    with pytest.raises(ValueError, match="make the neighbour list, cutoffs, alpha and Miller indices, and give them"):
        jax.jit(lambda x: mj.qeq(**x, **batch, **given))(reals)


@pytest.mark.parametrize("name", ["molecule_idx", "held_atoms"])
def test_indices_of_constraints_have_values(name: str) -> None:
    reals, batch, given = apart("molecule")
    index = given.pop(name)
    with pytest.raises(ValueError, match=f"`{name}`: expected an array with a value"):
        jax.jit(lambda i: mj.qeq(**reals, **batch, **given, **{name: i}))(index)


@pytest.mark.parametrize(
    ("kind", "changed", "message"),
    [
        ("crystals", {"mesh_dimensions": (12, 12, 12)}, "`mesh_dimensions`: expected it or `miller_indices`, got both"),
        ("crystals", {"method": "pme"}, '`miller_indices`: expected None with `method="pme"`'),
        ("mesh", {"method": "ewald"}, '`mesh_dimensions`: expected None with `method="ewald"`'),
        ("mesh", {"k_cutoff": 4.0}, "`mesh_dimensions`: expected it or `k_cutoff`, got both"),
        ("mesh", {"cutoff": 5.0}, "`cutoff`: expected at least .* with a width of"),
    ],
)
def test_parameters_that_do_not_fit(kind: str, changed: dict[str, Any], message: str) -> None:
    arrays, given = system(kind)
    with pytest.raises(ValueError, match=message):
        mn.qeq(**arrays, **given | changed)


def test_overlapping_orbitals_in_a_list() -> None:
    """QTPIE under `jit` over a given list, which has to reach as far as orbitals do."""
    reals, batch, given = apart("crystals")
    given["orbital_exponents"] = jnp.asarray(np.random.default_rng(0).uniform(0.85, 1.2, 2 * ATOMS))
    f = loss(batch | given)
    close(jax.jit(jax.value_and_grad(f))(reals), jax.value_and_grad(f)(reals))
    exponents = {"orbital_exponents": given["orbital_exponents"], "accuracy": 1e-13}
    close(mj.qeq(**reals, **batch, **given)[0], mj.qeq(**reals, **batch, **exponents)[0], 1e-11)
    short = given | {"orbital_exponents": 0.2 * given["orbital_exponents"]}
    with pytest.raises(ValueError, match="`cutoff`: expected at least .*, as far as orbitals"):
        jax.jit(loss(batch | short))(reals)
    with pytest.raises(ValueError, match="`orbital_exponents`: expected an array with a value"):
        jax.jit(lambda a: loss(batch | given | {"orbital_exponents": a})(reals))(given["orbital_exponents"])


class Charges(torch.nn.Module):
    """Charges and all that comes with them."""

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__()
        self.given = given

    def forward(self, arrays: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return mt.qeq(**arrays, **self.given, compute_forces=True, compute_virial=True)


def leaves(arrays: Arrays) -> dict[str, torch.Tensor]:
    found = of(torch.tensor, arrays)
    return {name: x.requires_grad_(x.is_floating_point()) for name, x in found.items()}


@pytest.mark.parametrize(
    ("kind", "backend"), [("crystals", "aot_eager"), ("molecule", "aot_eager"), ("mesh", "inductor")]
)
def test_whole_graphs_of_pytorch(kind: str, backend: str) -> None:
    """Values, gradients, and gradients of forces and virials, with parameters and without."""
    torch._dynamo.reset()
    arrays, given = system(kind)
    if kind == "molecule":
        given = {name: x for name, x in given.items() if name not in (*LISTS, "cutoff")}
    f = Charges(of(torch.tensor, given))
    whole = torch.compile(f, fullgraph=True, dynamic=True, backend=backend)
    x, y = leaves(arrays), leaves(arrays)
    got, want = whole(x), f(y)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)
    by = [name for name in x if name != "batch_idx"]
    found, expected = (
        torch.autograd.grad(sum((o**2).sum() for o in out), [at[name] for name in by])
        for out, at in ((got, x), (want, y))
    )
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_exported_graphs_of_pytorch() -> None:
    arrays, given = system("mesh")
    f = Charges(of(torch.tensor, given))
    x = of(torch.tensor, arrays)
    exported = torch.export.export(f, (x,)).module()
    for a, b in zip(exported(x), f(x), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="`hardness`: expected numbers so large"):
        exported(x | {"hardness": x["hardness"] - 4.0})


def test_neighbors_in_graphs_of_pytorch() -> None:
    torch._dynamo.reset()
    arrays, _ = system("mesh")
    x = of(torch.tensor, arrays)
    neighbors = mt.find_neighbors(x["positions"], REACH, x["cell"])

    def charges(x: dict[str, torch.Tensor], neighbors: Any) -> torch.Tensor:
        return mt.qeq(**x, neighbors=neighbors, alpha=ALPHA, k_cutoff=K_CUTOFF)[0]

    whole = torch.compile(charges, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(whole(x, neighbors), charges(x, neighbors), rtol=0, atol=1e-12)


def test_transforms_of_pytorch() -> None:
    """`torch.func.grad`, where everything is given."""
    arrays, given = system("mesh")
    x, given = leaves(arrays), of(torch.tensor, given)

    def value(chi: torch.Tensor) -> torch.Tensor:
        others = {name: y.detach() for name, y in x.items()}
        return (mt.qeq(**others | {"electronegativity": chi}, **given)[0] ** 3).sum()

    chi = x["electronegativity"]
    (want,) = torch.autograd.grad(value(chi), chi)
    torch.testing.assert_close(torch.func.grad(value)(chi.detach()), want, rtol=0, atol=1e-12)
