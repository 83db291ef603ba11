"""One batch of systems over several devices: `shard_map` over four devices of the host, and several processes.

Each device gets some of the systems with their lists and computes their energies and forces; nothing is gathered on the
way. The result is the same, bit for bit, as on one device.

    python examples/jax_sharded.py                  # four devices of this process
    python examples/jax_sharded.py --processes 2    # two processes with two devices each, by `jax.distributed`
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from madelung.jax import ewald_summation, generate_miller_indices, neighbor_list

SYSTEMS, ATOMS, DEVICES = 8, 24, 4
ALPHA, CUTOFF, K_CUTOFF = 0.55, 5.0, 4.0
CAPACITY = 2000


def batch() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Charges at random places of small cells: positions (S, N, 3), charges (S, N), cells (S, 3, 3)."""
    random = np.random.default_rng(0)
    cells = 7.0 * np.eye(3) + 0.4 * random.random((SYSTEMS, 3, 3))
    sites = np.stack(np.meshgrid(*[np.arange(3)] * 3, indexing="ij"), -1).reshape(-1, 3)[:ATOMS]
    places = (sites + 0.5 * random.random((SYSTEMS, ATOMS, 3))) / 3
    return places @ cells, random.normal(size=(SYSTEMS, ATOMS)), cells


def energies_and_forces(miller: Any) -> Any:
    """A function of one system. The waves are those of a cell that all systems are close to."""

    def of_one(positions: Any, charges: Any, cell: Any) -> Any:
        pairs, ptr, shifts, *_, overflow = neighbor_list(positions, CUTOFF, cell, capacity=CAPACITY)
        energy, forces = ewald_summation(
            positions,
            charges,
            cell,
            ALPHA,
            cutoff=CUTOFF,
            miller_indices=miller,
            neighbor_list=pairs,
            neighbor_ptr=ptr,
            neighbor_shifts=shifts,
            energy_reduction="system",
            compute_forces=True,
        )
        return energy[0], forces, overflow

    return jax.vmap(of_one)


def sharded(arrays: Sequence[np.ndarray]) -> tuple[Any, Any]:
    """The results over all devices, and the function that gave them with its arguments, to look at."""
    mesh, spec = Mesh(np.array(jax.devices()), ("systems",)), PartitionSpec("systems")
    place = NamedSharding(mesh, spec)
    spread = [jax.make_array_from_callback(x.shape, place, lambda index, x=x: x[index]) for x in arrays]
    of_all = energies_and_forces(waves(arrays[2]))
    function = jax.jit(jax.shard_map(of_all, mesh=mesh, in_specs=(spec,) * 3, out_specs=(spec,) * 3))
    assert "all-gather" not in function.lower(*spread).compile().as_text()
    return function(*spread)


def waves(cells: np.ndarray) -> Any:
    return generate_miller_indices(cells.mean(0), K_CUTOFF)[0]


def compare(arrays: Sequence[np.ndarray]) -> int:
    """What this process has of the results against those of one device."""
    found = sharded(arrays)
    own = [jax.device_put(x, jax.local_devices()[0]) for x in arrays]
    expected = jax.jit(energies_and_forces(waves(arrays[2])))(*own)
    assert not np.asarray(expected[2]).any(), "the capacity is too small"
    count = 0
    for x, y in zip(found, expected):
        for shard in x.addressable_shards:
            assert np.array_equal(shard.data, np.asarray(y)[shard.index])
            count += 1
    mine = [shard.index[0] for shard in found[0].addressable_shards]
    print(
        f"process {jax.process_index()} of {jax.process_count()}: systems "
        f"{', '.join(f'{s.start or 0} to {(s.stop or SYSTEMS) - 1}' for s in mine)} on {len(mine)} devices, "
        "the same bits as on one device"
    )
    return count


def several(processes: int) -> int:
    """The same program once for each process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [sys.executable, __file__, "--processes", str(processes), "--coordinator", address, "--index"]
    running = [subprocess.Popen([*command, str(n)]) for n in range(processes)]
    return max(abs(process.wait()) for process in running)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--processes", type=int, default=1, choices=[1, 2, 4])
    parser.add_argument("--coordinator", help=argparse.SUPPRESS)
    parser.add_argument("--index", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.processes > 1 and given.coordinator is None:
        return several(given.processes)
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_num_cpu_devices", DEVICES // given.processes)
    if given.coordinator is not None:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(given.coordinator, given.processes, given.index)
    compare([np.asarray(x) for x in map(jnp.asarray, batch())])
    return 0


if __name__ == "__main__":
    sys.exit(main())
