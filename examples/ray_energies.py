"""Energies of a Parquet file: its structures in blocks, by the processes of a Ray cluster.

A row is a crystal: its `id`, `positions` (3N numbers, in Å), `charges` (N) and `cell` (9 numbers, row by row), where N
may differ from row to row. The file is read as it is computed, a block of rows is one call of one process, and a block
whose process has died is computed again. Energies, in eV, are written in the order of the file. A row that cannot be
computed ends the run, with its id and the reason, and no file is left.

    python examples/ray_energies.py                                         # a file of its own, on this machine
    python examples/ray_energies.py structures.parquet energies.parquet     # on the cores of this machine
    RAY_ADDRESS=HOST:6379 python examples/ray_energies.py FILE.parquet ENERGIES.parquet    # a cluster that runs
"""

from __future__ import annotations

import argparse
import collections
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import ray

from madelung.numpy import ewald_summation
from madelung.units import EV_ANGSTROM

COLUMNS = ("id", "positions", "charges", "cell")
# A process for each core has no use for threads.
RUNTIME = {"env_vars": {"MADELUNG_NUM_THREADS": "1"}}


def numbers(block: pa.RecordBatch, name: str, counts: np.ndarray | None = None) -> np.ndarray:
    """Numbers of a column of lists, row behind row: `counts` (B,) of them in the rows, or any but none."""
    found = np.asarray(pc.list_value_length(block[name]).fill_null(0))
    for row in np.flatnonzero(found < 1 if counts is None else found != counts)[:1]:
        expected = "numbers" if counts is None else f"{counts[row]} numbers"
        raise ValueError(f"row {block['id'][row]}: `{name}`: expected {expected}, got {found[row] or 'none'}")
    values = pc.list_flatten(block[name]).to_numpy(zero_copy_only=False).astype(np.float64)
    for at in np.flatnonzero(~np.isfinite(values))[:1]:
        row = np.repeat(np.arange(len(found)), found)[at]
        raise ValueError(f"row {block['id'][row]}: `{name}`: expected finite numbers, got {values[at]}")
    return values


def energies(block: pa.RecordBatch, accuracy: float) -> pa.Table:
    """Ids and energies of the structures of a block, in one call."""
    charges = numbers(block, "charges")
    atoms = np.asarray(pc.list_value_length(block["charges"]))
    positions = numbers(block, "positions", 3 * atoms).reshape(-1, 3)
    cells = numbers(block, "cell", np.full(len(atoms), 9)).reshape(-1, 3, 3)
    systems = np.repeat(np.arange(len(atoms), dtype=np.int32), atoms)
    given = {"accuracy": accuracy, "batch_idx": systems, "energy_reduction": "system", "prefactor": EV_ANGSTROM}
    try:
        return pa.table({"id": block["id"], "energy": ewald_summation(positions, charges, cells, **given)})
    except ValueError as error:
        if len(block) == 1:
            raise ValueError(f"row {block['id'][0]}: {error}") from None
        # Which row it is shows where each is computed alone.
        return pa.concat_tables(energies(block.slice(row, 1), accuracy) for row in range(len(block)))


def opened(source: Path) -> pq.ParquetFile:
    """A file that has the columns."""
    file = pq.ParquetFile(source)
    for name in COLUMNS:
        kind = file.schema_arrow.field(name).type if name in file.schema_arrow.names else None
        if kind is None or (name != "id" and not pa.types.is_floating(getattr(kind, "value_type", pa.null()))):
            expected = "a column" if name == "id" else "a column of lists of floating-point numbers"
            raise ValueError(f"`{name}`: expected {expected}, got {kind or 'none'}")
    return file


def blocks(file: pq.ParquetFile, rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of a file, read a block at a time."""
    done = 0
    for block in file.iter_batches(rows, columns=COLUMNS):
        for row in np.flatnonzero(block["id"].is_null())[:1]:
            raise ValueError(f"`id`: expected one in each row, got none in row {done + row} of the file")
        done += len(block)
        yield block


def compute(source: Path, target: Path, accuracy: float = 1e-6, rows: int = 256) -> int:
    """Writes the energies of a file of structures to another one, and gives their number."""
    file, task, pending = opened(source), ray.remote(energies), collections.deque()
    # Enough for all processes to be busy: a file may be larger than memory.
    ahead = 4 * int(ray.cluster_resources()["CPU"])
    part = target.with_name(target.name + ".part")
    try:
        with pq.ParquetWriter(
            part, pa.schema({"id": file.schema_arrow.field("id").type, "energy": pa.float64()})
        ) as out:
            for block in blocks(file, rows):
                pending.append(task.remote(block, accuracy))
                if len(pending) > ahead:
                    out.write_table(ray.get(pending.popleft()))
            while pending:
                out.write_table(ray.get(pending.popleft()))
        part.rename(target)
    finally:
        part.unlink(missing_ok=True)
    return pq.read_metadata(target).num_rows


def rock_salt(count: int, seed: int = 0) -> pa.Table:
    """Rattled rock salt of 8 to 64 ions."""
    random, rows = np.random.default_rng(seed), []
    for n in range(count):
        edges = random.choice([2, 4], 3)
        places = np.stack(np.meshgrid(*map(np.arange, edges), indexing="ij"), -1).reshape(-1, 3)
        positions = 2.82 * places + random.normal(0.0, 0.1, places.shape)
        charges, cell = 1.0 - 2.0 * (places.sum(1) % 2), np.diag(2.82 * edges)
        rows.append(dict(zip(COLUMNS, (n, positions.ravel(), charges, cell.ravel()))))
    return pa.Table.from_pylist(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", nargs="?", type=Path, metavar="STRUCTURES.parquet")
    parser.add_argument("target", nargs="?", type=Path, metavar="ENERGIES.parquet")
    parser.add_argument("--accuracy", type=float, default=1e-6, help="of forces, relative (default 1e-6)")
    parser.add_argument("--rows", type=int, default=256, help="structures of a block (default 256)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        source, target = options.source, options.target
        if source is None:
            source, target = Path(folder) / "structures.parquet", Path(folder) / "energies.parquet"
            pq.write_table(rock_salt(1000), source)
        elif target is None:
            parser.error("ENERGIES.parquet: expected the name of a file")
        elif target.exists():
            parser.error(f"{target}: it is there already")
        ray.init(runtime_env=RUNTIME, include_dashboard=False)
        start = time.perf_counter()
        try:
            count = compute(source, target, options.accuracy, options.rows)
        except (ValueError, ray.exceptions.RayTaskError) as error:
            print(f"{source}: {getattr(error, 'cause', error)}", file=sys.stderr)
            return 1
        print(f"{count} structures, {time.perf_counter() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
