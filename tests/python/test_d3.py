"""D3 against the reference implementation (s-dftd3, in Fortran), and its derivatives against each other."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

import madelung.jax
import madelung.numpy
from conftest import required
from differences import fourth_order
from madelung.d3 import D3, Elements

required("ase")
required("dftd3")
ase_build = required("ase.build")
calculators = required("madelung.ase")
interface = required("dftd3.interface")

BOHR = 0.529177210903
HARTREE = 27.211386245988
# In bohr, for crystals too.
PAIRS, COUNTED, TRIPLES = 25.0, 18.0, 11.0


def correction(**fields) -> D3:
    """D3 of PBE with all terms, in eV and Å."""
    given = {"s6": 1.0, "s8": 0.7875, "a1": 0.4289, "a2": 4.4407, "s9": 1.0, "length": "angstrom", "energy": "eV"}
    cutoffs = dict(
        zip(("cutoff", "coordination_cutoff", "three_body_cutoff"), np.array([PAIRS, COUNTED, TRIPLES]) * BOHR)
    )
    return D3(**(given | cutoffs | {"tables": Elements.of_package()} | fields))


def structure(name: str):
    """A molecule or a crystal of ASE's, its atoms displaced at random."""
    if name == "complex":
        atoms = ase_build.molecule("C6H6") + ase_build.molecule("CH3CH2Cl")
        atoms.positions[12:] += [0.5, 0.3, 3.4]
    elif name == "heavy":
        atoms = ase_build.molecule("SiH4") + ase_build.molecule("H2O")
        atoms.symbols[:5] = ["Fe", "I", "Br", "Au", "U"]
        atoms.positions[:5] *= 1.7
        atoms.positions[5:] += [0.0, 0.0, 3.6]
    elif name == "salt":
        atoms = ase_build.bulk("NaCl", "rocksalt", 5.64, cubic=True)
    elif name == "slab":
        atoms = ase_build.graphene("CN", a=2.5) + ase_build.molecule("CO")
        atoms.positions[2:] += [0.3, 0.4, 3.1]
        atoms.set_cell([[2.5, 0.0, 0.0], [-1.25, 2.165, 0.0], [0.0, 0.0, 30.0]])
        atoms.pbc = (True, True, False)
    else:
        atoms = ase_build.bulk("Si", "diamond", 5.43)
        sheared = np.array([[1.01, 0.03, 0.0], [0.0, 0.98, 0.01], [0.0, 0.0, 1.02]])
        atoms.set_cell(atoms.cell.array @ sheared, scale_atoms=True)
    atoms.positions += np.random.default_rng(0).normal(scale=0.05, size=atoms.positions.shape)
    return atoms


def reference(atoms, s9: float = 1.0, hessian: bool = False):
    """Energy, forces and virial, or the second derivatives, of the reference implementation."""
    periodic = {"lattice": atoms.cell.array / BOHR, "periodic": atoms.pbc} if atoms.pbc.any() else {}
    model = interface.DispersionModel(atoms.numbers, atoms.positions / BOHR, **periodic)
    model.set_realspace_cutoff(PAIRS, TRIPLES, COUNTED)
    damping = interface.RationalDampingParam(s6=1.0, s8=0.7875, a1=0.4289, a2=4.4407, s9=s9, alp=14.0)
    if hessian:
        return model.get_hessian(damping)["hessian"] * HARTREE / BOHR**2
    found = model.get_dispersion(damping, grad=True)
    return found["energy"] * HARTREE, -found["gradient"] * HARTREE / BOHR, -found["virial"] * HARTREE


def arguments(atoms) -> dict:
    cell = {"cell": atoms.cell.array, "pbc": atoms.pbc} if atoms.pbc.any() else {}
    return {"positions": atoms.positions, "numbers": atoms.numbers} | cell


STRUCTURES = ["complex", "heavy", "salt", "slab", "silicon"]


@pytest.mark.parametrize("s9", [0.0, 1.0])
@pytest.mark.parametrize("name", STRUCTURES)
def test_energies_forces_and_virials_are_those_of_the_reference(name, s9):
    atoms = structure(name)
    energy, forces, virial = correction(s9=s9)(**arguments(atoms), compute_forces=True, compute_virial=True)
    e, f, w = reference(atoms, s9)
    assert energy == pytest.approx([e], rel=1e-9)
    assert abs(forces - f).max() < 1e-9 * abs(f).max() + 1e-12
    assert abs(virial - w).max() < 1e-9 * abs(w).max()


def test_second_derivatives_are_those_of_the_reference():
    jax = required("jax")
    atoms = structure("complex")
    elements = tuple(np.unique(atoms.numbers))
    with jax.enable_x64(True):
        numbers = jax.numpy.asarray(atoms.numbers)
        d3 = correction(s9=0.0, elements=elements)
        r = jax.numpy.asarray(atoms.positions)
        pairs = madelung.jax.find_neighbors(r, PAIRS * BOHR)
        energy = jax.jit(lambda r, z: d3(r, z, neighbors=pairs).sum())
        found = np.asarray(jax.jit(jax.hessian(energy))(r, numbers))
        with pytest.raises(Exception, match=r"`elements: map`: expected elements from 0 to below 3"):
            energy(r, numbers.at[0].set(2)).block_until_ready()
    want = reference(atoms, 0.0, hessian=True).reshape(found.shape)
    assert abs(found - want).max() < 1e-7 * abs(want).max()


@pytest.mark.parametrize("name", ["complex", "salt"])
def test_gradients_of_forces_are_differences(name):
    torch = required("torch")
    atoms = structure(name)
    # No pair is near a cutoff: all of them are within in the complex, and two shells of neighbours in the salt.
    cutoffs = ("cutoff", "coordination_cutoff", "three_body_cutoff")
    d3 = correction(**dict.fromkeys(cutoffs, 20.0 if name == "complex" else 4.45))
    given = arguments(atoms)
    rng = np.random.default_rng(2)
    weights, step = (rng.normal(size=atoms.positions.shape) for _ in range(2))

    def loss(h: float) -> float:
        _, forces = d3(**(given | {"positions": atoms.positions + h * step}), compute_forces=True)
        return float((weights * forces).sum())

    tensors = {x: torch.tensor(a) for x, a in given.items()}
    r = tensors["positions"].requires_grad_()
    _, forces = d3(**tensors, compute_forces=True)
    (slope,) = torch.autograd.grad((torch.tensor(weights) * forces).sum(), r)
    assert (slope.numpy() * step).sum() == pytest.approx(fourth_order(loss, 4e-4), rel=1e-7)


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_libraries_agree(library):
    module = required(library)
    atoms, d3 = structure("slab"), correction()
    given = arguments(atoms)
    want = d3(**given, compute_forces=True, compute_virial=True)
    with module.enable_x64(True) if library == "jax" else nullcontext():
        own = module.numpy.asarray if library == "jax" else module.as_tensor
        tensors = {x: a if x == "pbc" else own(a) for x, a in given.items()}
        found = d3(**tensors, compute_forces=True, compute_virial=True)
    for x, y in zip(found, want):
        np.testing.assert_allclose(np.asarray(x), y, rtol=1e-12, atol=1e-14)


def test_a_batch_has_the_numbers_of_its_systems():
    structures, d3 = [structure(name) for name in ("salt", "silicon")], correction()
    together = {
        "positions": np.concatenate([a.positions for a in structures]),
        "numbers": np.concatenate([a.numbers for a in structures]),
        "cell": np.stack([a.cell.array for a in structures]),
        "batch_idx": np.repeat(np.arange(2, dtype=np.int32), [len(a) for a in structures]),
    }
    wanted = {"compute_forces": True, "compute_virial": True}
    alone = [d3(**arguments(a), **wanted) for a in structures]
    energy, forces, virial = d3(**together, **wanted)
    atoms = d3(**together, energy_reduction="atom")
    np.testing.assert_allclose(energy, np.concatenate([e for e, _, _ in alone]), rtol=1e-12)
    np.testing.assert_allclose(np.bincount(together["batch_idx"], atoms), energy, rtol=1e-12)
    np.testing.assert_allclose(forces, np.concatenate([f for _, f, _ in alone]), atol=1e-12)
    np.testing.assert_allclose(virial, np.stack([w for _, _, w in alone]), atol=1e-11)


@pytest.mark.parametrize("name", ["complex", "slab", "silicon"])
def test_the_calculator_of_ase(name):
    atoms, d3 = structure(name), correction()
    energy, forces, virial = d3(**arguments(atoms), compute_forces=True, compute_virial=True)
    atoms.calc = calculators.D3Calculator(d3)
    assert atoms.get_potential_energy() == pytest.approx(energy[0], rel=1e-12)
    np.testing.assert_allclose(atoms.get_forces(), forces, atol=1e-12)
    if name != "complex":
        np.testing.assert_allclose(-atoms.get_stress(voigt=False) * atoms.get_volume(), virial, atol=1e-11)
    atoms.positions += 0.1 * np.random.default_rng(3).normal(size=atoms.positions.shape)
    assert atoms.get_potential_energy() == pytest.approx(d3(**arguments(atoms))[0], rel=1e-12)
    # Other axes, in the same cell, and another number of atoms.
    for changed in (False, (True, False, False)) if name != "complex" else ():
        atoms.pbc = changed
        assert atoms.get_potential_energy() == pytest.approx(d3(**arguments(atoms))[0], rel=1e-12)
    atoms.calc, calculator = None, atoms.calc
    fewer = atoms[:2]
    fewer.calc = calculator
    assert fewer.get_potential_energy() == pytest.approx(d3(**arguments(fewer))[0], rel=1e-12)
    with pytest.raises(ValueError, match='`d3`: expected one with length="angstrom"'):
        calculators.D3Calculator(replace(d3, length="nm"))


def test_a_batch_index_of_numpy_beside_tensors():
    torch = required("torch")
    atoms = structure("salt")
    cells, idx = np.stack([atoms.cell.array] * 2), np.repeat(np.arange(2), [4, 4])
    want = correction()(atoms.positions, atoms.numbers, cells, batch_idx=idx)
    tensors = (torch.tensor(x) for x in (atoms.positions, atoms.numbers, cells))
    np.testing.assert_allclose(correction()(*tensors, batch_idx=idx), want, rtol=1e-12)


def test_units_are_named():
    atoms = structure("complex")
    d3 = correction()
    names = ("cutoff", "coordination_cutoff", "three_body_cutoff")
    other = replace(d3, length="nm", energy="kJ/mol", **{x: getattr(d3, x) / 10.0 for x in names})
    energy, forces = d3(atoms.positions, atoms.numbers, compute_forces=True)
    e, f = other(atoms.positions / 10.0, atoms.numbers, compute_forces=True)
    assert e == pytest.approx(energy * 96.48533212331, rel=1e-11)
    np.testing.assert_allclose(f, forces * 964.8533212331, rtol=1e-10, atol=1e-10)


def test_functionals_have_the_parameters_of_the_reference():
    atoms = structure("complex")
    for name in ("pbe", "b3lyp", "r2scan"):
        found = D3.of_functional(name, length="bohr", energy="hartree", three_body=True)
        model = interface.DispersionModel(atoms.numbers, atoms.positions / BOHR)
        model.set_realspace_cutoff(60.0, 40.0, 40.0)
        want = model.get_dispersion(interface.RationalDampingParam(method=name, atm=True), grad=False)["energy"]
        assert found(atoms.positions / BOHR, atoms.numbers) == pytest.approx([float(want)], rel=1e-9)


def test_float32_far_from_every_reference():
    """An atom of more neighbours than any reference of its element: the weights of all underflow."""
    rng = np.random.default_rng(1)
    around = rng.normal(size=(20, 3))
    positions = np.concatenate([np.zeros((1, 3)), 1.15 * around / np.linalg.norm(around, axis=1)[:, None]])
    numbers = np.array([6] + [1] * 20)
    d3 = correction(s9=0.0)
    count = d3.coordination_numbers(positions, numbers)[0]
    assert count > 15.0
    energy, forces = d3(positions, numbers, compute_forces=True)
    e, f = d3(positions.astype(np.float32), numbers, compute_forces=True)
    assert e.dtype == f.dtype == np.float32
    assert e == pytest.approx(energy, rel=1e-5)
    assert abs(f - forces).max() < 1e-5 * abs(forces).max()


def test_coordination_numbers_of_molecules():
    """Those of H₂ and of carbon in methane are the largest that the references have."""
    references = Elements.of_package().references
    for name, z in (("H2", 1), ("CH4", 6)):
        atoms = ase_build.molecule(name)
        found = correction().coordination_numbers(atoms.positions, atoms.numbers)
        assert found[0] == pytest.approx(references[z].max(), abs=2e-2)


def test_lists_that_are_too_short():
    atoms = structure("salt")
    short = madelung.numpy.find_neighbors(atoms.positions, 3.0, atoms.cell.array)
    for name in ("neighbors", "near"):
        with pytest.raises(ValueError, match=f"`{name}`: expected a list for a cutoff of .* or more, got one for 3"):
            correction()(**arguments(atoms), **{name: short})
        with pytest.raises(TypeError, match=f"`{name}`: expected what `find_neighbors`"):
            correction()(**arguments(atoms), **{name: 3})


def test_no_atoms():
    energy, forces = correction()(np.zeros((0, 3)), np.zeros(0, int), compute_forces=True)
    assert energy.tolist() == [0.0] and forces.shape == (0, 3)


BAD = {
    "numbers": ({"numbers": np.array([1.0] * 20)}, TypeError, "`numbers`: expected integers"),
    "unknown": (
        {"numbers": np.array([0] + [1] * 19)},
        ValueError,
        "`numbers`: expected atomic numbers from 1 to 103, got 0",
    ),
    "few": ({"numbers": np.array([1, 6])}, ValueError, "`numbers`"),
    "reduction": ({"energy_reduction": "sum"}, ValueError, "`energy_reduction`"),
    "batch": ({"batch_idx": np.zeros(20, np.int32)}, ValueError, "`cell`"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_named(name):
    changed, kind, said = BAD[name]
    atoms = structure("complex")
    with pytest.raises(kind, match=said):
        correction()(**(arguments(atoms) | changed))


@pytest.mark.parametrize(
    "changed", [{"length": "Å"}, {"energy": "Ha"}, {"cutoff": -1.0}, {"a1": "0.4"}, {"elements": (0,)}]
)
def test_bad_fields_are_named(changed):
    with pytest.raises((TypeError, ValueError), match=f"`{next(iter(changed))}`"):
        correction(**changed)


def test_elements_that_were_not_named():
    atoms = structure("complex")
    with pytest.raises(ValueError, match="`numbers`: expected elements among"):
        correction(elements=(1, 6))(**arguments(atoms))
    with pytest.raises(ValueError, match="`name`"):
        D3.of_functional("no such functional", length="bohr", energy="hartree")
