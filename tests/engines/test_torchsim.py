"""Coulomb sums as a model of TorchSim: against ASE's calculator, finite differences and TorchSim's own checks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_sim
from ase import Atoms
from ase.build import bulk
from torch_sim.autobatching import BinningAutoBatcher
from torch_sim.models import interface

from madelung.ase import Madelung
from madelung.torch import neighbor_list
from madelung.torchsim import MadelungModel
from madelung.units import EV_ANGSTROM

SALT = {"Na": 1.0, "Cl": -1.0}
# e²/(V/N)^(2/3) of rock salt, in eV/Å: the unit of an accuracy.
FORCE = EV_ANGSTROM / 2.82**2


def structures() -> list[Atoms]:
    """Three displaced crystals: of two sizes, and of a triclinic cell."""
    found = [bulk("NaCl", "rocksalt", a=5.64, cubic=True).repeat(n) for n in ((1, 1, 1), (2, 2, 2), (1, 1, 2))]
    found[2].set_cell(found[2].cell.array @ [[1.0, 0.1, 0.0], [0.0, 1.02, -0.05], [0.0, 0.0, 0.97]], scale_atoms=True)
    for seed, atoms in enumerate(found):
        atoms.rattle(0.05, seed=seed)
    return found


def state_of(model: MadelungModel, given: Any) -> Any:
    return torch_sim.initialize_state(given, model.device, model.dtype)


class Network(torch.nn.Module):
    """Charges from distances, smooth at the cutoff, and neutral."""

    cutoff = 4.0

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layers = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()

    def forward(self, state: Any) -> torch.Tensor:
        kind = (state.atomic_numbers == 17).long()
        of = {"batch_idx": state.system_idx, "return_distances": True}
        (i, j), _, _, d = neighbor_list(state.positions, self.cutoff, state.row_vector_cell, **of)
        near = torch.exp(-d / 2.0) * (1.0 - (d / self.cutoff) ** 2) ** 3
        features = near.new_zeros((len(kind), 2)).index_put((i.long(), kind[j.long()]), near, accumulate=True)
        charges = 1.0 - 2.0 * kind + 0.5 * self.layers(features)[:, 0]
        sums = charges.new_zeros(len(state.cell)).index_add(0, state.system_idx, charges)
        return charges - (sums / torch.bincount(state.system_idx))[state.system_idx]


def test_the_checks_of_torchsim() -> None:
    """Of crystals, from TorchSim 0.6 on of a molecule, too; they ask for the stress that was left out."""
    for charges in (
        {"Si": 1, "Fe": -1, "Mg": 2, "C": 0.1, "H": -0.1},
        lambda state: 0.1 * state.atomic_numbers.double(),
    ):
        model = MadelungModel(charges, compute_stress=False)
        interface.validate_model_outputs(model, model.device, model.dtype)
        assert model.compute_stress


@pytest.mark.parametrize("method", ["ewald", "pme"])
def test_crystals(method: Any) -> None:
    given = structures()
    model = MadelungModel(SALT, accuracy=1e-10, method=method)
    results = model(state_of(model, given))
    start = 0
    for k, atoms in enumerate(given):
        atoms.calc = Madelung(SALT, accuracy=1e-10)
        forces = results["forces"][start : start + len(atoms)].numpy()
        start += len(atoms)
        # Both have the error that was asked for, and up to 1.4 times it.
        error = 2.8e-10 * FORCE
        assert np.sqrt(((forces - atoms.get_forces()) ** 2).sum(1).mean()) < error
        assert float(results["energy"][k]) == pytest.approx(atoms.get_potential_energy(), abs=error * 2.82 * len(atoms))
        assert np.abs(results["stress"][k].numpy() - atoms.get_stress(voigt=False)).max() < error / 2.82**2
    assert results["partial_charges"].tolist() == [SALT[symbol] for atoms in given for symbol in atoms.symbols]


def test_boundaries() -> None:
    """A crystal, a slab, a wire and a molecule in one batch."""
    axes = [[True] * 3, [True, False, True], [False, False, True], [False] * 3]
    given = [structures()[0] for _ in axes]
    model = MadelungModel(SALT, accuracy=1e-9)
    state = state_of(model, given)
    state.pbc = torch.tensor(axes)
    results = model(state)
    for k, (atoms, pbc) in enumerate(zip(given, axes)):
        atoms.pbc, atoms.calc = pbc, Madelung(SALT, accuracy=1e-9)
        error = 2.8e-9 * FORCE
        forces = results["forces"][8 * k : 8 * k + 8].numpy()
        assert np.sqrt(((forces - atoms.get_forces()) ** 2).sum(1).mean()) < error
        assert float(results["energy"][k]) == pytest.approx(atoms.get_potential_energy(), abs=error * 2.82 * 8)
        stress = results["stress"][k].numpy()
        if any(pbc):
            assert np.abs(stress - atoms.get_stress(voigt=False)).max() < error / 2.82**2
        else:
            assert np.isnan(stress).all()
    # One flag for all systems.
    state.pbc = False
    assert model(state)["energy"].tolist() == pytest.approx([results["energy"][3].item()] * 4, rel=1e-12)


@pytest.mark.parametrize("charges", [SALT, Network()], ids=["by element", "of a network"])
def test_finite_differences(charges: Any) -> None:
    """Of the energy by positions and strain; those of charges from a network with the charges that change."""
    model = MadelungModel(charges, accuracy=1e-13)
    state, rng = state_of(model, structures()), np.random.default_rng(3)
    results = model(state)
    moved, strain = (torch.tensor(rng.normal(size=of.shape)) for of in (state.positions, state.cell))

    def energies(h: float, along_r: float, along_strain: float) -> torch.Tensor:
        other, grown = state.clone(), torch.eye(3) + h * along_strain * strain
        r = state.positions + h * along_r * moved
        other.positions = torch.einsum("na,nab->nb", r, grown[state.system_idx])
        other.row_vector_cell = state.row_vector_cell @ grown
        return model(other)["energy"]

    def difference(*along: float, h: float = 1e-3) -> torch.Tensor:
        near, far = (energies(k * h, *along) - energies(-k * h, *along) for k in (1, 2))
        return (8.0 * near - far) / (12.0 * h)

    work = -(results["forces"] * moved).sum(1)
    found = work.new_zeros(3).index_add(0, state.system_idx, work)
    torch.testing.assert_close(found, difference(1.0, 0.0), rtol=1e-7, atol=1e-8)
    volume = torch.linalg.det(state.cell).abs()
    found = volume * (results["stress"] * strain).sum((1, 2))
    torch.testing.assert_close(found, difference(0.0, 1.0), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("charges", [SALT, Network()], ids=["by element", "of a network"])
def test_dynamics_keep_the_energy(charges: Any, tmp_path: Path) -> None:
    model = MadelungModel(charges, compute_stress=False)
    files = [str(tmp_path / f"{k}.h5md") for k in range(3)]
    of_state: dict[str, Callable[[Any], torch.Tensor]] = {
        "potential": lambda state: state.energy,
        "kinetic": lambda state: (state.momenta**2 / (2.0 * state.masses[:, None])).sum()[None],
    }
    torch_sim.integrate(
        structures(),
        model,
        integrator=torch_sim.Integrator.nve if hasattr(torch_sim, "Integrator") else torch_sim.nve,
        n_steps=40,
        temperature=300.0,
        timestep=0.0005,
        trajectory_reporter={
            "filenames": files,
            "state_frequency": 40,
            "prop_calculators": {1: of_state},
            "trajectory_kwargs": {"coerce_to_float32": False},
        },
    )
    for file in files:
        with torch_sim.TorchSimTrajectory(file) as run:
            potential, kinetic = (run.get_array(name)[:, 0] for name in ("potential", "kinetic"))
        assert len(potential) >= 40
        exchanged = np.ptp(potential)
        assert exchanged > 0.05 * kinetic.mean()
        # Verlet's error is (ωΔt)²/4 of an energy; these ions oscillate, or run away, with ω < 0.07/fs.
        assert np.ptp(potential + kinetic) < (0.07 * 0.5) ** 2 / 4 * (kinetic.max() + exchanged)


def test_autobatching() -> None:
    """A system has the same bits with whichever others."""
    model = MadelungModel(SALT)
    state = state_of(model, structures())
    whole = model(state)
    batcher = BinningAutoBatcher(model, memory_scales_with=model.memory_scales_with, max_memory_scaler=70)
    batcher.load_states(state)
    batches = [batch[0] if isinstance(batch, tuple) else batch for batch in batcher]
    assert len(batches) == 2
    energies = sorted(x for batch in batches for x in model(batch)["energy"].tolist())
    assert energies == sorted(whole["energy"].tolist())


@pytest.mark.skipif(not hasattr(interface, "SumModel"), reason="TorchSim adds models from 0.6 on, for Python 3.12")
def test_a_sum_of_models() -> None:
    """Charges beside a potential of TorchSim are those beside ours."""
    from torch_sim.models.pair_potential import PairPotentialModel

    def born_mayer(d: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        # It ends as potentials of Madelung do, with three derivatives.
        x = ((d - 7.2) / 0.8).clamp(0.0, 1.0)
        return 0.211 * torch.exp((2.755 - d) / 0.317) * (1.0 - x**3 * (10.0 - 15.0 * x + 6.0 * x**2))

    charges = MadelungModel(SALT, accuracy=1e-10)
    of = {"device": charges.device, "dtype": charges.dtype, "compute_forces": True, "compute_stress": True}
    model = interface.SumModel(PairPotentialModel(born_mayer, cutoff=8.0, **of), charges)
    given = structures()
    results = model(state_of(charges, given))
    table = {"amplitude": 0.211, "steepness": 1 / 0.317, "sigma": 2.755, "c6": 0.0, "c8": 0.0}
    potentials = {"born_mayer": {pair: table for pair in ("Na-Na", "Na-Cl", "Cl-Cl")}}
    for k, atoms in enumerate(given):
        atoms.calc = Madelung(SALT, accuracy=1e-10, potentials=potentials, potential_cutoff=8.0)
        assert float(results["energy"][k]) == pytest.approx(atoms.get_potential_energy(), rel=1e-9)
        assert np.abs(results["stress"][k].numpy() - atoms.get_stress(voigt=False)).max() < 1e-9


def test_errors() -> None:
    for given, kind, message in (
        ({"charges": {"Xx": 1.0}}, ValueError, "`charges`: expected chemical symbols as keys"),
        ({"charges": {"Na": float("nan")}}, ValueError, "`charges\\['Na'\\]`: expected a finite number"),
        ({"charges": 1.0}, TypeError, "`charges`: expected a mapping or a function of a state, got 1.0"),
        ({"charges": SALT, "accuracy": 0.0}, ValueError, "`accuracy`"),
        ({"charges": SALT, "method": "direct"}, ValueError, "`method`: expected 'ewald' or 'pme'"),
        ({"charges": SALT, "compute_stress": None}, TypeError, "`compute_stress`"),
    ):
        with pytest.raises(kind, match=message):
            MadelungModel(**given)
    model = MadelungModel({"Na": 1.0})
    state = state_of(model, structures())
    for charges, kind, message in (
        ({"Na": 1.0}, ValueError, "`charges`: expected one for each element of the state, got none for Cl"),
        (lambda state: [1.0], TypeError, "`charges`: expected a tensor from the function, got list"),
        (lambda state: state.positions[:, :1], ValueError, r"`charges`: expected shape \(88,\), got \(88, 1\)"),
        (lambda state: state.positions[1:, 0], ValueError, r"`charges`: expected shape \(88,\), got \(87,\)"),
        (lambda state: state.positions[:, 0].float(), (TypeError, RuntimeError), "`charges`: expected"),
        (lambda state: state.positions[:, 0] / 0.0, (ValueError, RuntimeError), "`charges`: expected"),
    ):
        with pytest.raises(kind, match=message):
            MadelungModel(charges)(state)
    with pytest.raises(ValueError, match="`state`: expected torch.float32 on cpu, as of the model, got torch.float64"):
        MadelungModel(SALT, dtype=torch.float32, device="cpu")(state)
    with pytest.raises(TypeError, match="`state`: expected a SimState of TorchSim, got Atoms"):
        model(structures()[0])


def test_without_torchsim() -> None:
    program = "import sys; sys.modules['torch_sim'] = None; import madelung.torchsim"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert "ImportError: madelung.torchsim needs TorchSim: pip install torch-sim-atomistic" in done.stderr
