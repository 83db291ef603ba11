"""Systems and stored references for all tests."""

import contextlib
import importlib
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import madelung
from madelung._native import isa
from shapes import covering

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DEVICE = os.environ.get("MADELUNG_TEST_DEVICE", "cpu")
# Of sums whose parameters are all open: a device has small systems over lists, the CPU directly.
METHOD: dict[str, Any] = {} if DEVICE == "cpu" else {"method": "list"}


OPTIONAL = {
    "torch": ("torch",),
    "jax": ("jax",),
    "ase": ("test_ase.py", "test_cli.py", "test_job_array.py"),
    "openmm": ("test_forcefield.py",),
    "dftd3": ("test_d3.py",),
    "cuda": (),
}
"""What a machine may lack, and the tests that are for nothing else: packages, and a PyTorch that the stand-ins for
CUDA's libraries serve."""
WITHOUT: set[str] = set()

TURN = os.environ.get("MADELUNG_TEST_TURN")
IN_TURN = {
    "jax/test_jax_axes.py": 3,
    "jax/test_jax_derivatives.py": 4,
    "jax/test_jax_functions.py": 4,
    "jax/test_jax_kernels.py": 3,
    "jax/test_jax_modes.py": 4,
    "kernels/test_by_chance.py": 10,
    "test_atomic_virials.py": 3,
    "test_cli.py": 4,
    "test_docs.py": 3,
    "test_ends.py": 3,
    "test_equilibration.py": 3,
    "test_equilibration_constraints.py": 3,
    "test_equilibration_traced.py": 4,
    "test_grids.py": 3,
    "test_job_array.py": 3,
    "test_kernels_llvm.py": 3,
    "test_knn.py": 5,
    "test_openmm_force.py": 3,
    "test_types.py": 3,
    "test_wires.py": 3,
    "torch/test_axes_in_graphs.py": 4,
    "torch/test_cuda_stand_in.py": 4,
    "torch/test_ddp.py": 4,
    "torch/test_graphs.py": 3,
}
"""Files of tests that take long and say much the same, and the number of turns, which is two for others: with
`MADELUNG_TEST_TURN`, a number that `.ci/run` takes from the commit, a run has every n-th of their tests; without it
all."""


def turn_within(name: str, turns: int) -> int | None:
    """The turn of what tests of a file do in so many turns themselves: every one of them meets every turn of the file.
    None where all is done."""
    return None if TURN is None else int(TURN) // IN_TURN.get(name, 2) % turns


def required(name: str) -> Any:
    """A package that tests need: they fail where it is missing, unless `--without` names it."""
    if name in WITHOUT:
        pytest.skip(f"--without {name}", allow_module_level=True)
    return importlib.import_module(name)


@pytest.fixture(scope="module")
def double_precision() -> Iterator[None]:
    """JAX with float64 and int64."""
    jax = required("jax")
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


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

    @property
    def least_forces(self) -> float:
        """The scale of forces of which symmetry leaves little or nothing: that of the potentials."""
        potentials = rms(self.charge_gradients)
        return potentials if rms(self.forces) < 1e-2 * potentials else 0.0


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


@pytest.fixture(scope="session", autouse=True)
def compiled_by_jax(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compiled code of XLA, half of the time of tests with JAX, is shared by all workers of a run."""
    if "jax" in sys.modules:
        own = tmp_path_factory.getbasetemp()
        folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "jax"
        config = sys.modules["jax"].config
        config.update("jax_compilation_cache_dir", str(folder))
        config.update("jax_persistent_cache_min_compile_time_secs", 0)
        config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@pytest.fixture(scope="module", autouse=True)
def forgotten_by_jax() -> Iterator[None]:
    """Compiled code of one file does not stay in the memory of a worker: gigabytes in all."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()


@pytest.fixture(autouse=True)
def nothing_stays_recorded() -> Iterator[None]:
    """Each test looks at the errors that it makes a device record: one that stays would be the next test's."""
    devices = range(0 if DEVICE == "cpu" else len(madelung.devices()) - 1)
    for ordinal in devices:
        # The one that left it has failed.
        with contextlib.suppress(ValueError):
            madelung.check_device(ordinal)
    yield
    for ordinal in devices:
        madelung.check_device(ordinal)


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture
def triclinic() -> Case:
    """Twenty charges with a net charge in a cell without right angles."""
    return CASES["triclinic_random_charged"]


def spawned(function: Callable[..., None], arguments: tuple[Any, ...], count: int) -> None:
    """Calls a function, with a number and arguments, in each of so many processes that PyTorch starts."""
    import torch

    running = torch.multiprocessing.spawn(function, arguments, count, join=False, daemon=True)
    try:
        # It raises what a process has raised, and ends the others then.
        while not running.join(timeout=60):
            pass
    finally:
        for each in running.processes:
            each.kill()
            each.join()


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
    """Tests of an `op_case` run with ops that have all pairs of traits, and slow ones, of a `trait_case`, with fewer
    that have all traits: see shapes.py."""
    for together, name in ((1, "trait_case"), (2, "op_case")):
        if name in metafunc.fixturenames:
            import cases

            ops = covering(cases.OPS, together)
            metafunc.parametrize(name, ops.values(), ids=ops, indirect=True)


def _case(request: pytest.FixtureRequest):
    """An op, with arguments made from its declaration."""
    from cases import make

    return make(request.param)


op_case = pytest.fixture(_case, name="op_case")
trait_case = pytest.fixture(_case, name="trait_case")


@pytest.fixture
def plain_case():
    """An op whose forward pass saves no gradients."""
    from cases import OPS, make

    return make(next(op for op in OPS.values() if not op.saves))


@pytest.fixture
def saving_case():
    """One whose forward pass does."""
    from cases import OPS, make

    def saves(op: Any) -> bool:
        return any(name.startswith("gradient by") for name in op.saves)

    return make(next(op for op in OPS.values() if saves(op)))


def pytest_addoption(parser: pytest.Parser) -> None:
    text = f"leaves out the tests that need these, by commas: {', '.join(OPTIONAL)}"
    parser.addoption("--without", default="", metavar="NAMES", help=text)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "host(reason): what is left out where MADELUNG_TEST_DEVICE is another device")
    config.addinivalue_line("markers", "cuda(lack): what fails if it lacks something, but for `--without cuda`")
    WITHOUT.update(filter(None, config.getoption("--without").split(",")))
    if unknown := WITHOUT.difference(OPTIONAL):
        raise pytest.UsageError(f"`--without`: expected some of {', '.join(OPTIONAL)}, got {', '.join(unknown)}")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """The folder, or the file, of a package that is left out."""
    left_out = {HERE / name for x in WITHOUT for name in OPTIONAL[x]}
    return None if left_out.isdisjoint([collection_path, *collection_path.parents]) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out tests whose turn it is not."""
    if TURN is None:
        return
    kept, others, seen = [], [], Counter[str]()
    for item in items:
        name = item.path.relative_to(HERE).as_posix()
        is_next = (seen[name] - int(TURN)) % IN_TURN.get(name, 2) == 0
        (kept if is_next else others).append(item)
        seen[name] += 1
    config.hook.pytest_deselected(items=others)
    items[:] = kept


def pytest_sessionstart(session: pytest.Session) -> None:
    """A line of the header, which `-q` shows too: results depend on the instruction set."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(f"madelung {madelung.__version__}: instruction set {isa()}, device {DEVICE}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    mark = item.get_closest_marker("host")
    if mark is not None and DEVICE != "cpu":
        pytest.skip(f"on the CPU alone: {mark.args[0]}")
    mark = item.get_closest_marker("cuda")
    if mark is not None and "cuda" in WITHOUT:
        pytest.skip("--without cuda")
    if mark is not None and mark.args[0] is not None:
        pytest.fail(f"{mark.args[0]}: `--without cuda` leaves these tests out", pytrace=False)
