"""What the package says about itself."""

import ctypes.util
import importlib
import importlib.metadata
import os
import pickle
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import madelung
from conftest import ROOT
from madelung import _cuda, _native


def test_version_is_that_of_the_workspace():
    stated = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    assert madelung.__version__ == stated == importlib.metadata.version("madelung")


def test_the_registry():
    ops = {op["name"]: op for op in madelung.ops()}
    assert {"ewald_real_space", "ewald_reciprocal_space", "ewald_summation"} <= set(ops)
    assert all(op["namespace"] == "madelung" and op["version"] >= 1 and op["outputs"] for op in ops.values())


def test_devices():
    assert "cpu" in madelung.devices()


@pytest.mark.parametrize(("ordinal", "kind"), [(1.5, TypeError), ("0", TypeError), (None, TypeError), (-1, ValueError)])
def test_bad_ordinals(ordinal, kind):
    with pytest.raises(kind, match="`ordinal`: expected an integer"):
        madelung.check_device(ordinal)


def test_without_a_driver():
    """Only where there is none can it be seen what is said then."""
    if ctypes.util.find_library("cuda") is not None:
        pytest.skip("there is a driver")
    with pytest.raises(NotImplementedError, match="no NVIDIA driver"):
        madelung.check_device()


def test_folders_of_libraries_are_there():
    folders = _cuda.folders()
    assert len(set(folders)) == len(folders) and all(Path(folder).is_dir() for folder in folders)


def test_units():
    """e²/(4πε₀) from e (exact) and α, ħc of CODATA 2018: αħc in eV·Å."""
    assert pytest.approx(7.2973525693e-3 * 1973.269804, rel=1e-9) == madelung.units.EV_ANGSTROM


def test_typed():
    assert (ROOT / "python" / "madelung" / "py.typed").exists()
    stubs = (ROOT / "python" / "madelung" / "_native.pyi").read_text()
    public = {name for name in dir(_native) if not name.startswith("_")}
    assert set(re.findall(r"^(?:def|class) (\w+)", stubs, re.MULTILINE)) == public


@pytest.mark.parametrize("name", ["madelung", "madelung.numpy", "madelung.torch", "madelung.jax", "madelung.units"])
def test_public_names_are_there_and_listed(name):
    module = importlib.import_module(name)
    assert set(module.__all__) <= set(dir(module))
    assert all(getattr(module, each) is not None for each in module.__all__)
    if name == "madelung.jax":
        assert "TorchModule" in module.__all__


def test_help_of_the_calculator_is_ours():
    from madelung.ase import Madelung

    assert "restart" not in f"{Madelung.__doc__}{Madelung.__init__.__doc__}"
    assert "charges: a dict" in pydoc.plain(pydoc.render_doc(Madelung))


def test_functions_are_those_that_were_declared():
    subprocess.run([sys.executable, ROOT / "tools" / "functions.py", "--check"], check=True)


@pytest.mark.parametrize(
    ("namespace", "argument", "value"),
    [("numpy", "stream", 1), ("torch", "stream", 1), ("jax", "stream", 1), ("numpy", "hybrid_forces", True)],
)
def test_arguments_of_other_namespaces_are_refused(namespace, argument, value):
    module = importlib.import_module(f"madelung.{namespace}")
    array = importlib.import_module(namespace).asarray if namespace != "jax" else np.asarray
    r, q, h = (array(x) for x in (np.eye(2, 3), np.array([1.0, -1.0]), 4.0 * np.eye(3)))
    with pytest.raises(ValueError, match=rf"`{argument}`: expected (None|False), as `madelung.{namespace}` has no"):
        module.ewald_summation(r, q, h, **{argument: value})


@pytest.mark.parametrize("namespace", ["numpy", "torch", "jax", "cuda"])
def test_functions_are_pickled_by_name(namespace):
    function = importlib.import_module(f"madelung.{namespace}").ewald_summation
    assert pickle.loads(pickle.dumps(function)) == function


NONSENSE = {
    "sum_plan": ((np.zeros((2, 3)),), TypeError),
    "full_list": ((np.zeros((2, 3)), 4), AttributeError),
    "host_call": ((np.zeros((2, 3)), 1.0, None, None, None, None), TypeError),
    "miller_indices": ((None, "a"), TypeError),
    "neighbor_rows": ((np.zeros((2, 3)), None, 1.0, "a", True), TypeError),
    "set_threads": ((-1,), OverflowError),
}
"""Arguments that no call of the package gives, and the error: the compiled part says so and goes on."""


@pytest.mark.parametrize("name", NONSENSE)
def test_the_compiled_part_survives_nonsense(name):
    function, (arguments, kind) = getattr(_native, name), NONSENSE[name]
    with pytest.raises(kind) as raised:
        function(*arguments)
    assert type(raised.value) is kind and str(raised.value)
    with pytest.raises(TypeError, match="argument"):
        function(*range(30))


@pytest.mark.parametrize("suite", ["torch", "test_find_neighbors.py"])
def test_a_missing_package_is_a_failure_but_where_it_is_named(suite, tmp_path):
    """PyTorch, which cannot be imported here."""
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--collect-only",
        ROOT / "tests" / "python" / suite,
    ]

    def ran(*options):
        done = subprocess.run([*words, *options], env=environment, cwd=ROOT, capture_output=True, text=True)
        assert f"instruction set {_native.isa()}" in done.stdout, done.stdout + done.stderr
        return done.returncode, done.stdout

    code, said = ran()
    assert code == pytest.ExitCode.INTERRUPTED and "no torch here" in said, said
    code, said = ran("--without", "torch")
    assert code == pytest.ExitCode.NO_TESTS_COLLECTED and "no torch here" not in said, said
    done = subprocess.run(
        [*words, "--without", "tensorflow"], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR and "got tensorflow" in done.stderr
