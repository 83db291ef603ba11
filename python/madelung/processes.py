"""One system over several processes: a particle mesh Ewald sum to which each process brings its own atoms.

```python
import torch.distributed as dist
from madelung.processes import TorchProcesses, particle_mesh_ewald

dist.init_process_group("gloo")
energy, forces = particle_mesh_ewald(TorchProcesses(), positions, charges, cell, accuracy=1e-6, compute_forces=True)
```

Atoms may be with any process; those of one that are near each other make little to send. Each process has the energies,
forces and charge gradients of its own atoms, and energies of the system and virials are shares that add up over the
processes. All call the sum, with the same cell and options; an error in one is an error in all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from madelung import _arguments as check
from madelung import _native

__all__ = ["Exchange", "JaxProcesses", "MpiProcesses", "TorchProcesses", "particle_mesh_ewald"]


class Exchange(Protocol):
    """Messages between processes."""

    rank: int
    """This process, from 0 on."""
    ranks: int
    """The number of processes."""

    def all_to_all(self, send: np.ndarray, sent: Sequence[int], received: Sequence[int]) -> np.ndarray:
        """Numbers from each process, `received` many, in exchange for the `sent` first, next, … numbers of `send`."""
        ...


class TorchProcesses:
    """Processes of `torch.distributed`, of a group or all of them, by a backend of the CPU such as `gloo`."""

    def __init__(self, group: Any = None) -> None:
        import torch.distributed as dist

        if not dist.is_initialized():
            raise RuntimeError("expected processes: torch.distributed.init_process_group comes first")
        self.group = group
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)

    def all_to_all(self, send: np.ndarray, sent: Sequence[int], received: Sequence[int]) -> np.ndarray:
        import torch
        import torch.distributed as dist

        found = torch.empty(sum(received), dtype=torch.float64)
        dist.all_to_all_single(found, torch.from_numpy(send), list(received), list(sent), group=self.group)
        return found.numpy()


class MpiProcesses:
    """Processes of a communicator of mpi4py."""

    def __init__(self, communicator: Any) -> None:
        self.communicator = communicator
        self.rank, self.ranks = communicator.Get_rank(), communicator.Get_size()

    def all_to_all(self, send: np.ndarray, sent: Sequence[int], received: Sequence[int]) -> np.ndarray:
        found = np.empty(sum(received))
        self.communicator.Alltoallv([send, (sent, None)], [found, (received, None)])
        return found


class JaxProcesses:
    """Processes of `jax.distributed`, by `jax.lax.all_to_all` between a device of each."""

    def __init__(self) -> None:
        import jax

        self.rank, self.ranks = jax.process_index(), jax.process_count()
        devices = [next(d for d in jax.devices() if d.process_index == p) for p in range(self.ranks)]
        spread = jax.sharding.PartitionSpec("process")
        mesh = jax.sharding.Mesh(devices, "process")
        self.sharding = jax.sharding.NamedSharding(mesh, spread)

        def of_part(part: Any) -> Any:
            return jax.lax.all_to_all(part, "process", 0, 0, tiled=True)

        self.exchanged = jax.jit(jax.shard_map(of_part, mesh=mesh, in_specs=spread, out_specs=spread))

    def all_to_all(self, send: np.ndarray, sent: Sequence[int], received: Sequence[int]) -> np.ndarray:
        # Parts of one length, a power of two from that of the longest on, so that few lengths are compiled. A number
        # goes as two integers, whatever the precision of JAX.
        longest = int(self._exchanged(np.full((self.ranks, 1), max(sent), np.int32)).max())
        parts = np.zeros((self.ranks, 1 << max(longest - 1, 0).bit_length()))
        for part, own in zip(parts, np.split(send, np.cumsum(sent)[:-1])):
            part[: len(own)] = own
        found = self._exchanged(parts.view(np.int32)).view(np.float64)
        return np.concatenate([part[:n] for part, n in zip(found, received)])

    def _exchanged(self, parts: np.ndarray) -> np.ndarray:
        import jax

        whole = jax.make_array_from_process_local_data(self.sharding, parts)
        return np.array(self.exchanged(whole).addressable_shards[0].data)


def particle_mesh_ewald(
    exchange: Exchange,
    positions: Any,
    charges: Any,
    cell: Any,
    alpha: float | None = None,
    *,
    cutoff: float | None = None,
    mesh_dimensions: Sequence[int] | None = None,
    spline_order: int | None = None,
    accuracy: float | None = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "system",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
) -> tuple[Any, ...]:
    """Coulomb energy of the charges of a crystal that several processes share, by particle mesh Ewald.

    Args:
        exchange: The processes: `TorchProcesses()`, `MpiProcesses(comm)`, `JaxProcesses()`, or any `Exchange`.
        positions: (N, 3) in L, those of this process' own atoms, of which there may be none; NumPy, PyTorch or JAX.
        charges: (N,) in e.
        cell: (3, 3), rows are the lattice vectors.
        alpha: Splitting parameter in 1/L.
        cutoff: Radius of the sum over pairs in L.
        mesh_dimensions: Nodes along the lattice vectors.
        spline_order: Order of the splines.
        accuracy: RMS force error in units of q²_rms/(V/N)^(2/3), for which numbers that are not given are chosen, as
            for atoms that fill the cell; None: 1e-6, or what is given as it is.
        prefactor: Factor of energies: 14.3996454784 for eV and Å.
        energy_reduction: `"system"`, this process' share (1,) of the energy, or `"atom"`, energies (N,) of its atoms.
        compute_forces: Forces −∂E/∂r (N, 3) of the whole energy, after the energies.
        compute_charge_gradients: Site potentials ∂E/∂q (N,), after these.
        compute_virial: This process' share (3, 3) of the virial −∂E/∂ε, last.

    Returns:
        The energies and what else is asked for, float64 (in JAX as far as it has that). With tensors of PyTorch a share
        of the energy is in the graph: its gradients by own positions and charges are those of the energy of all
        processes. Energies of atoms and the other results are in no graph, nor is what arrays of JAX give, which are
        values outside of `jit`.
    """
    asked = [compute_forces, compute_charge_gradients, compute_virial]
    parameters = {
        "alpha": alpha,
        "cutoff": cutoff,
        "mesh_dimensions": mesh_dimensions,
        "spline_order": spline_order,
        "accuracy": accuracy,
        "prefactor": prefactor,
    }

    def summed(arrays: Callable[[], Sequence[Any]], wanted: Sequence[bool]) -> list[np.ndarray | None]:
        try:
            check.word("energy_reduction", energy_reduction, ("atom", "system"))
            for name, x in zip(("compute_forces", "compute_charge_gradients", "compute_virial"), asked):
                check.flag(name, x)
            r, q, h = arrays()
            r = check.reals("positions", r, ("N", 3)).astype(np.float64)
            q = check.reals("charges", q, (len(r),)).astype(np.float64)
            h = check.reals("cell", h, (3, 3)).astype(np.float64)
            numbers = {name: _number(name, x) for name, x in parameters.items()}
        except Exception:
            # The others wait for this process, or its word that it has an error.
            _native.withdraw_from_domain(exchange)
            raise
        *found, virial = _native.ewald_of_domain(exchange, r, q, h, numbers, [energy_reduction == "atom", *wanted])
        return [*found, None if virial is None else virial[0]]

    torch, jax = (sys.modules.get(name) for name in ("torch", "jax"))
    if torch is not None and isinstance(positions, torch.Tensor):
        from madelung.torch._processes import of_tensors

        fixed = {"cell": cell, **parameters}
        return of_tensors(summed, positions, charges, fixed, asked, energy_reduction == "atom")
    found = summed(lambda: (positions, charges, cell), asked)
    results = [x for x in found if x is not None]
    if jax is not None and isinstance(positions, jax.Array):
        return tuple(jax.numpy.asarray(x) for x in results)
    return tuple(results)


def _number(name: str, x: Any) -> Any:
    """A parameter, or None, as the compiled part takes it."""
    if x is None:
        return None
    if name == "mesh_dimensions":
        nodes = check.integer_list(name, x)
        if len(nodes) != 3 or min(nodes) < 1:
            check.refuse(name, "three integers from 1 up", x)
        return list(nodes)
    if name == "spline_order":
        return check.at_least_one(name, x)
    return check.number(name, x) if name == "prefactor" else check.positive(name, x)
