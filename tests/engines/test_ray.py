"""The example of energies by Ray: against one process, with a process that dies, and with rows that are wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray

import madelung
from madelung.numpy import ewald_summation
from madelung.units import EV_ANGSTROM

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
sys.path.append(str(EXAMPLES))
import ray_energies  # noqa: E402

ROWS = 16


# Processes of Ray, also those of the script, as important as others of a busy machine, and as quiet.
os.environ |= {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    # Workers import the example too.
    path = os.pathsep.join([str(EXAMPLES), *filter(None, [os.environ.get("PYTHONPATH")])])
    runtime = {"env_vars": {**ray_energies.RUNTIME["env_vars"], "PYTHONPATH": path}}
    ray.init(num_cpus=2, runtime_env=runtime, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def structures() -> pa.Table:
    return ray_energies.rock_salt(200, seed=3)


@pytest.fixture(scope="module")
def expected(structures: pa.Table) -> np.ndarray:
    """Each structure alone, in this process."""

    def energy(row: dict[str, Any]) -> float:
        system = np.reshape(row["positions"], (-1, 3)), np.array(row["charges"]), np.reshape(row["cell"], (3, 3))
        return ewald_summation(*system, accuracy=1e-6, energy_reduction="system", prefactor=EV_ANGSTROM)[0]

    return np.array([energy(row) for row in structures.to_pylist()])


@pytest.fixture
def files(structures: pa.Table, tmp_path: Path) -> tuple[Path, Path]:
    """A file of structures, whose groups of rows are no multiple of blocks, and one of energies."""
    pq.write_table(structures, tmp_path / "structures.parquet", row_group_size=90)
    return tmp_path / "structures.parquet", tmp_path / "energies.parquet"


def check(target: Path, expected: np.ndarray) -> None:
    found = pq.read_table(target)
    assert found["id"].to_pylist() == list(range(len(expected)))
    assert np.array_equal(found["energy"], expected)


def test_one_process_has_the_same_bits(files: Any, expected: np.ndarray) -> None:
    assert ray_energies.compute(*files, rows=ROWS) == len(expected)
    check(files[1], expected)


def test_a_process_that_dies_loses_nothing(files: Any, expected: np.ndarray, tmp_path: Path, monkeypatch: Any) -> None:
    """It is killed in the middle, with a block that it has computed and not given."""
    energies, died = ray_energies.energies, tmp_path / "died"

    def dying(block: pa.RecordBatch, accuracy: float) -> pa.Table:
        found = energies(block, accuracy)
        if block["id"][0].as_py() == 5 * ROWS and not died.exists():
            died.write_text(f"{madelung.get_num_threads()} {os.getpid()}")
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    monkeypatch.setattr(ray_energies, "energies", dying)
    assert ray_energies.compute(*files, rows=ROWS) == len(expected)
    check(files[1], expected)
    threads, process = map(int, died.read_text().split())
    assert threads == 1 and process != os.getpid()


def spoilt(structures: pa.Table, column: str, change: Any) -> pa.Table:
    """One row is changed."""
    rows = structures.to_pylist()
    rows[77][column] = change(rows[77][column])
    return pa.Table.from_pylist(rows, structures.schema)


@pytest.mark.parametrize(
    ("column", "change", "message"),
    [
        ("charges", lambda x: None, "`charges`: expected numbers, got none"),
        ("charges", lambda x: [None, *x[1:]], "`charges`: expected finite numbers, got nan"),
        ("positions", lambda x: x[:-1], r"`positions`: expected (\d+) numbers, got (?!\1)\d+$"),
        ("positions", lambda x: [np.nan, *x[1:]], "`positions`: expected finite numbers, got nan"),
        ("positions", lambda x: [*x[:3], *x[:3], *x[6:]], "`positions`"),
        ("cell", lambda x: None, "`cell`: expected 9 numbers, got none"),
        ("cell", lambda x: [1.0] * 9, "`cell`"),
    ],
    ids=["no charges", "null charge", "short positions", "nan", "coincident", "no cell", "singular"],
)
def test_a_row_that_is_wrong(structures: pa.Table, column: str, change: Any, message: str) -> None:
    (block,) = spoilt(structures, column, change).to_batches()
    with pytest.raises(ValueError, match=f"^row 77: {message}"):
        ray_energies.energies(block, 1e-6)


def test_a_row_that_is_wrong_ends_the_run(structures: pa.Table, files: Any) -> None:
    pq.write_table(spoilt(structures, "charges", lambda x: None), files[0])
    with pytest.raises(ray.exceptions.RayTaskError) as raised:
        ray_energies.compute(*files, rows=ROWS)
    assert str(raised.value.cause) == "row 77: `charges`: expected numbers, got none"
    # Neither a file nor a part of one.
    assert [file.name for file in files[1].parent.iterdir()] == ["structures.parquet"]


def test_columns_that_are_wrong(structures: pa.Table, files: Any) -> None:
    for table, message in (
        (
            structures.drop_columns("charges"),
            "`charges`: expected a column of lists of floating-point numbers, got none",
        ),
        (structures.set_column(3, "cell", pa.array(["P1"] * 200)), "`cell`: expected a column of lists"),
        (structures.set_column(0, "id", pa.array([*range(199), None])), "none in row 199 of the file"),
    ):
        pq.write_table(table, files[0])
        with pytest.raises(ValueError, match=message):
            ray_energies.compute(*files, rows=ROWS)


def test_the_script(structures: pa.Table, files: Any) -> None:
    """A refused row is its status and a line; so is a file that is there already."""
    pq.write_table(spoilt(structures, "charges", lambda x: None), files[0])
    command = [sys.executable, str(EXAMPLES / "ray_energies.py"), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert f"{files[0]}: row 77: `charges`: expected numbers, got none" in done.stderr.splitlines()
    files[1].touch()
    with pytest.raises(SystemExit, match="2"):
        ray_energies.main([*map(str, files)])
