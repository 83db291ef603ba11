"""Systems and stored references for all tests."""

import importlib.util
import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
DEVICE = os.environ.get("MADELUNG_TEST_DEVICE", "cpu")


def is_there(framework: str) -> bool:
    """Whether a framework is installed."""
    # The folder of the tests would do for a package without a file of its own.
    found = importlib.util.find_spec(framework)
    return found is not None and found.origin is not None


collect_ignore = [framework for framework in ("jax", "torch") if not is_there(framework)]


@dataclass(frozen=True)
class Case:
    """A periodic system and what an independent sum gave for it; see tests/data/README.md."""

    name: str
    positions: np.ndarray
    charges: np.ndarray
    cell: np.ndarray
    energy: float
    atom_energies: np.ndarray
    forces: np.ndarray
    charge_gradients: np.ndarray
    virial: np.ndarray

    @property
    def system(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.positions, self.charges, self.cell


def _load() -> dict[str, Case]:
    cases = json.loads((ROOT / "tests" / "data" / "ewald_references.json").read_text())
    arrays = ("positions", "charges", "cell", "atom_energies", "forces", "charge_gradients", "virial")
    return {
        case["name"]: Case(
            case["name"], energy=case["energy"], **{key: np.array(case[key], dtype=np.float64) for key in arrays}
        )
        for case in cases
    }


CASES = _load()


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture
def triclinic() -> Case:
    """Twenty charges with a net charge in a cell without right angles."""
    return CASES["triclinic_random_charged"]


def rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(x, dtype=np.float64)))) if np.size(x) else 0.0


def assert_close(found: np.ndarray, expected: np.ndarray, tolerance: float, least: float = 0.0) -> None:
    """RMS difference against `tolerance` times the RMS of what is expected, or `least` where that is larger.

    `least` is the scale of arrays that symmetry makes zero.
    """
    assert np.shape(found) == np.shape(expected)
    scale = max(rms(expected), least)
    error = rms(np.asarray(found, dtype=np.float64) - expected)
    assert error <= tolerance * scale, f"RMS error {error:.1e} against {tolerance:.0e} x {scale:.1e}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What takes an `op_case` is tested with every op of the registry."""
    if "op_case" in metafunc.fixturenames:
        from cases import OPS

        metafunc.parametrize("op_case", OPS.values(), ids=OPS, indirect=True)


@pytest.fixture
def op_case(request: pytest.FixtureRequest):
    """An op, with arguments made from its declaration."""
    from cases import make

    return make(request.param)


@pytest.fixture
def plain_case():
    """An op whose forward pass saves no gradients."""
    from cases import OPS, make

    return make(next(op for op in OPS.values() if not op.saves))


@pytest.fixture
def saving_case():
    """One whose forward pass does."""
    from cases import OPS, make

    return make(next(op for op in OPS.values() if op.saves))
