"""Functions of arrays in the memory of CUDA devices: written by `tools/functions.py` from `madelung._functions`."""

from __future__ import annotations

from typing import Any, Literal, overload

from madelung._functions import (
    around,
    boundaries,
    ewald,
    gaussians,
    latent,
    mesh,
    neighbors,
    pair_sums,
    potentials,
    segments,
    verlet,
)
from madelung._functions.results import EwaldParameters, PmeParameters
from madelung._neighbors import Neighbors
from madelung.cuda._arrays import Array
from madelung.cuda._framework import opened

__all__ = [
    "born_mayer",
    "buckingham",
    "coulomb",
    "dsf",
    "estimate_ewald_parameters",
    "estimate_pme_parameters",
    "ewald_real_space",
    "ewald_reciprocal_space",
    "ewald_summation",
    "find_neighbors",
    "gaussian_correction",
    "generate_miller_indices",
    "knn",
    "knn_aggregate",
    "latent_ewald",
    "latent_ewald_lists",
    "lennard_jones",
    "needs_rebuild",
    "neighbor_list",
    "particle_mesh_ewald",
    "pme_reciprocal_space",
    "radius",
    "radius_aggregate",
    "segment_dot",
    "segment_max",
    "segment_mean",
    "segment_softmax",
    "segment_sum",
    "slab_correction",
    "spatial_order",
]


def knn(
    queries: Any,
    points: Any,
    k: int,
    cell: Any = None,
    pbc: Any = None,
    *,
    query_batch_idx: Any = None,
    batch_idx: Any = None,
    order: Any = None,
    return_shifts: bool = False,
    return_vectors: bool = False,
    stream: Any = None,
) -> tuple[Array, ...]:
    """The k nearest points of each query, exactly.

    With periodic axes every image counts as a point of its own, so k may exceed the number of points. A query that is
    on a point has it at distance zero, where the distance has a derivative of zero.

    Nothing is waited for, but a cell that is to be one for each of several systems.

    Args:
        queries: (M, 3), float32 or float64, anywhere. Those of half precision are searched in float32, and real results
            rounded back. In the memory of a device, and not of half precision.
        points: (N, 3), of the queries' dtype, anywhere. They may be the queries.
        k: how many points each query has, from 1 up.
        cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
        pbc: (3,) or (B, 3) of bool. None: all axes of a cell are periodic.
        query_batch_idx, batch_idx: (M,) and (N,), the system of each query and of each point, sorted: a query sees the
            points of its own.
        order: (N,), what `spatial_order` gives for the points, or gave before they moved: it saves time alone.
        return_shifts, return_vectors: whether the images S and the vectors are returned too.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        `indices` (M, k) int32 and `distances` (M, k), by distance, then index, then S; then, if asked for, shifts (M,
        k, 3) int32 and vectors (M, k, 3), r_j − q_i + S · cell.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name. ValueError also where a
        query has fewer than k points: the message says how many.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        queries,
        points,
        cell,
        query_batch_idx,
        batch_idx,
        order,
    ) = opened(
        stream,
        queries=queries,
        points=points,
        cell=cell,
        query_batch_idx=query_batch_idx,
        batch_idx=batch_idx,
        order=order,
    )
    return around.knn(
        f,
        queries,
        points,
        k,
        cell,
        pbc,
        query_batch_idx,
        batch_idx,
        order,
        return_shifts,
        return_vectors,
    )


def radius(
    queries: Any,
    points: Any,
    radius: float,
    cell: Any = None,
    pbc: Any = None,
    *,
    query_batch_idx: Any = None,
    batch_idx: Any = None,
    max_neighbors: int | None = None,
    capacity: int | None = None,
    order: Any = None,
    return_shifts: bool = False,
    return_vectors: bool = False,
    stream: Any = None,
) -> tuple[Array, ...]:
    """All points within a radius of each query: |r_j − q_i + S · cell| ≤ radius.

    With periodic axes every image counts as a point of its own. A query that is on a point has it at distance zero,
    where the distance has a derivative of zero.

    Without `capacity` the call waits for the number of pairs.

    Args:
        queries: (M, 3), float32 or float64, anywhere. Those of half precision are searched in float32, and real results
            rounded back. In the memory of a device, and not of half precision.
        points: (N, 3), of the queries' dtype, anywhere. They may be the queries.
        radius: largest distance of a point that counts, in L.
        cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
        pbc: (3,) or (B, 3) of bool. None: all axes of a cell are periodic.
        query_batch_idx, batch_idx: (M,) and (N,), the system of each query and of each point, sorted: a query sees the
            points of its own.
        max_neighbors: the most points that a query may have. None: as many as there are. None: offsets are not read.
        capacity: the most pairs that there may be. None: as many as there are. With one, arrays have that length,
            filled up with N, and zero in images and lengths.
        order: (N,), what `spatial_order` gives for the points, or gave before they moved: it saves time alone.
        return_shifts, return_vectors: whether the images S and the vectors are returned too.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        `query_ptr` (M+1,) int32, where the points of each query begin, `indices` (P,) int32 and `distances` (P,), by
        query, index and S; then, if asked for, shifts (P, 3) int32 and vectors (P, 3), r_j − q_i + S · cell.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name. ValueError also where
        points do not fit `max_neighbors` or `capacity`: the message has the size that is needed. A list is never cut
        short.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        queries,
        points,
        cell,
        query_batch_idx,
        batch_idx,
        order,
    ) = opened(
        stream,
        queries=queries,
        points=points,
        cell=cell,
        query_batch_idx=query_batch_idx,
        batch_idx=batch_idx,
        order=order,
    )
    return around.radius(
        f,
        queries,
        points,
        radius,
        cell,
        pbc,
        query_batch_idx,
        batch_idx,
        max_neighbors,
        capacity,
        order,
        return_shifts,
        return_vectors,
    )


def spatial_order(
    points: Any,
    cell: Any = None,
    pbc: Any = None,
    *,
    batch_idx: Any = None,
    stream: Any = None,
) -> Array:
    """An order in space of the points of each system, in which those that follow each other are neighbours.

    Given to searches as `order`, it saves them from finding one. Atoms that are sorted so (`points[order]`, of one
    system) make sums over neighbours faster. It follows Hilbert's curve.

    Nothing is waited for, but a cell that is to be one for each of several systems.

    Args:
        points: (N, 3), float32 or float64 or of half precision, anywhere.
        cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
        pbc: (3,) or (B, 3) of bool. None: all axes of a cell are periodic.
        batch_idx: (N,), the system of each point, sorted.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        (N,) int32: for each place the number of its point within its system, from 0 on.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        points,
        cell,
        batch_idx,
    ) = opened(
        stream,
        points=points,
        cell=cell,
        batch_idx=batch_idx,
    )
    return around.spatial_order(
        f,
        points,
        cell,
        pbc,
        batch_idx,
    )


def radius_aggregate(
    queries: Any,
    points: Any,
    features: Any,
    radius: float,
    sigma: Any,
    cell: Any = None,
    pbc: Any = None,
    *,
    weight: Literal["exp", "gaussian", "inverse"] = "exp",
    normalize: bool = True,
    eps: float = 1e-8,
    query_batch_idx: Any = None,
    batch_idx: Any = None,
    order: Any = None,
    max_neighbors: int | None = None,
    stream: Any = None,
) -> Array:
    """Features of the points within a radius of each query, weighted by distance.

    Points are searched for while their features are added up, and no list of pairs is kept: memory grows with points
    and queries. On a device each pass, forwards and backwards, has a list while it runs. A query that is on a point has
    it at distance zero, where the distance has a derivative of zero. Points enter and leave at the radius with the
    weight that they have there, which is no part of the derivatives.

    Derivatives by `call`. With `max_neighbors` nothing is waited for, but a cell that is to be one for each of several
    systems.

    Args:
        queries: (M, 3), float32 or float64, anywhere. Those of half precision are searched in float32, and real results
            rounded back. In the memory of a device, and not of half precision.
        points: (N, 3), of the queries' dtype, anywhere. They may be the queries.
        features: (N, F), of the queries' dtype, or of half precision.
        radius: largest distance of a point that counts, in L.
        sigma: length σ of the weight, one for all systems or (B,).
        cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
        pbc: (3,) or (B, 3) of bool. None: all axes of a cell are periodic.
        weight: exp(−d/σ), exp(−d²/2σ²) or 1/(d + σ), where d is the distance.
        normalize: whether sums are divided by the sum of their weights and `eps`.
        eps: added to the sum of weights: a query without a point then has zeros.
        query_batch_idx, batch_idx: (M,) and (N,), the system of each query and of each point, sorted: a query sees the
            points of its own.
        order: (N,), what `spatial_order` gives for the points, or gave before they moved: it saves time alone.
        max_neighbors: on a device the most points of a query, on average, for which there is memory; None: as many as
            there are, for whose number every pass waits. The CPU needs none.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        (M, F), Σ w f / (Σ w + eps) over the points, and images of points, within the radius of each query.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        queries,
        points,
        features,
        sigma,
        cell,
        query_batch_idx,
        batch_idx,
        order,
    ) = opened(
        stream,
        queries=queries,
        points=points,
        features=features,
        sigma=sigma,
        cell=cell,
        query_batch_idx=query_batch_idx,
        batch_idx=batch_idx,
        order=order,
    )
    return around.radius_aggregate(
        f,
        queries,
        points,
        features,
        radius,
        sigma,
        cell,
        pbc,
        weight,
        normalize,
        eps,
        query_batch_idx,
        batch_idx,
        order,
        max_neighbors,
    )


def knn_aggregate(
    queries: Any,
    points: Any,
    features: Any,
    k: int,
    sigma: Any,
    cell: Any = None,
    pbc: Any = None,
    *,
    weight: Literal["softmax", "gaussian", "inverse"] = "softmax",
    query_batch_idx: Any = None,
    batch_idx: Any = None,
    order: Any = None,
    stream: Any = None,
) -> Array:
    """Features of the k nearest points of each query, weighted by distance.

    With periodic axes every image counts as a point of its own. A query that is on a point has it at distance zero,
    where the distance has a derivative of zero.

    Derivatives by `call`. Nothing is waited for, but a cell that is to be one for each of several systems.

    Args:
        queries: (M, 3), float32 or float64, anywhere. Those of half precision are searched in float32, and real results
            rounded back. In the memory of a device, and not of half precision.
        points: (N, 3), of the queries' dtype, anywhere. They may be the queries.
        features: (N, F), of the queries' dtype, or of half precision.
        k: how many points each query has, from 1 up.
        sigma: length σ of the weight, one for all systems or (B,).
        cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
        pbc: (3,) or (B, 3) of bool. None: all axes of a cell are periodic.
        weight: exp(−d/σ), exp(−d²/2σ²) or 1/(d + σ), where d is the distance, relative to the largest: so weights never
            vanish together.
        query_batch_idx, batch_idx: (M,) and (N,), the system of each query and of each point, sorted: a query sees the
            points of its own.
        order: (N,), what `spatial_order` gives for the points, or gave before they moved: it saves time alone.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        (M, F), Σ w f / Σ w over the k nearest points of each query.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name. ValueError also where a
        query has fewer than k points: the message says how many.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        queries,
        points,
        features,
        sigma,
        cell,
        query_batch_idx,
        batch_idx,
        order,
    ) = opened(
        stream,
        queries=queries,
        points=points,
        features=features,
        sigma=sigma,
        cell=cell,
        query_batch_idx=query_batch_idx,
        batch_idx=batch_idx,
        order=order,
    )
    return around.knn_aggregate(
        f,
        queries,
        points,
        features,
        k,
        sigma,
        cell,
        pbc,
        weight,
        query_batch_idx,
        batch_idx,
        order,
    )


# fmt: off
@overload
def slab_correction(
    positions: Any, charges: Any, cell: Any, pbc: Any, *, batch_idx: Any = None, prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom", compute_forces: Literal[False] = False,
    compute_charge_gradients: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
) -> Array: ...
@overload
def slab_correction(
    positions: Any, charges: Any, cell: Any, pbc: Any, *, batch_idx: Any = None, prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
    compute_charge_gradients: bool = False, compute_virial: bool = False, stream: Any = None,
) -> tuple[Array, ...]: ...
# fmt: on
def slab_correction(
    positions: Any,
    charges: Any,
    cell: Any,
    pbc: Any,
    *,
    batch_idx: Any = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
    stream: Any = None,
) -> Array | tuple[Array, ...]:
    """The correction of a sum over the lattice for slabs, which are no lattice along their normal.

    (2π/V) [(Σ q z)² − Q Σ q z² − Q² L²/12] with the height z along the normal and the period L, in any cell, charged or
    not (Yeh and Berkowitz, J. Chem. Phys. 111, 3155 (1999); Ballenegger, Arnold and Cerdà, J. Chem. Phys. 131,
    094107 (2009)). To be added to an Ewald sum, as `slab_correction=True` does there. Atoms of a slab are not wrapped
    along its normal. Zero for all other systems.

    Args:
        positions: (N, 3), float32 or float64. In the memory of a device.
        charges: (N,), of the positions' dtype, as all real arrays. Or (N, C), C sets of charges, each with its own
            results. Without a list and parameters each set searches for itself. The call then waits for the charges and
            the results, which are split and joined on the host.
        cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness. With
            `batch_idx`, a cell (3, 3) makes the call wait.
        pbc: (3,) or (B, 3) of bool, the periodic axes: a system with two of them is a slab.
        batch_idx: (N,), the system of each atom, sorted. None: one system.
        prefactor: multiplies energies and every derivative of them.
        energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
        compute_forces, compute_charge_gradients, compute_virial: whether these are returned too.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q (N,)
        (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3)),
        where E is the sum of the energies. A single array comes unwrapped, several as a tuple. Of charges (N, C)
        energies and charge gradients are (N, C), or energies (B, C), forces (N, C, 3) and virials (C, 3, 3) or (B, C,
        3, 3).

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for two
        atoms on one point.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        positions,
        charges,
        cell,
        batch_idx,
    ) = opened(
        stream,
        positions=positions,
        charges=charges,
        cell=cell,
        batch_idx=batch_idx,
    )
    return boundaries.slab_correction(
        f,
        positions,
        charges,
        cell,
        pbc,
        batch_idx,
        (
            prefactor,
            energy_reduction,
            compute_forces,
            compute_charge_gradients,
            compute_virial,
            False,
        ),
    )


# fmt: off
@overload
def ewald_real_space(
    positions: Any, charges: Any, cell: Any, alpha: Any, *, neighbors: Neighbors | None = None,
    neighbor_list: Any = None, neighbor_ptr: Any = None, neighbor_shifts: Any = None, neighbor_matrix: Any = None,
    neighbor_matrix_shifts: Any = None, fill_value: int | None = None, half_fill: bool = False,
    cutoff: float | None = None, exponent: int = 1, batch_idx: Any = None, prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom", compute_forces: Literal[False] = False,
    compute_charge_gradients: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
) -> Array: ...
@overload
def ewald_real_space(
    positions: Any, charges: Any, cell: Any, alpha: Any, *, neighbors: Neighbors | None = None,
    neighbor_list: Any = None, neighbor_ptr: Any = None, neighbor_shifts: Any = None, neighbor_matrix: Any = None,
    neighbor_matrix_shifts: Any = None, fill_value: int | None = None, half_fill: bool = False,
    cutoff: float | None = None, exponent: int = 1, batch_idx: Any = None, prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
    compute_charge_gradients: bool = False, compute_virial: bool = False, stream: Any = None,
) -> tuple[Array, ...]: ...
# fmt: on
def ewald_real_space(
    positions: Any,
    charges: Any,
    cell: Any,
    alpha: Any,
    *,
    neighbors: Neighbors | None = None,
    neighbor_list: Any = None,
    neighbor_ptr: Any = None,
    neighbor_shifts: Any = None,
    neighbor_matrix: Any = None,
    neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None,
    half_fill: bool = False,
    cutoff: float | None = None,
    exponent: int = 1,
    batch_idx: Any = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
    stream: Any = None,
) -> Array | tuple[Array, ...]:
    """The real-space part of an Ewald sum: ½ Σ q_i q_j erfc(αr)/r over pairs closer than `cutoff`.

    Args:
        positions: (N, 3), float32 or float64. In the memory of a device.
        charges: (N,), of the positions' dtype, as all real arrays. Or (N, C), C sets of charges, each with its own
            results. Without a list and parameters each set searches for itself. The call then waits for the charges and
            the results, which are split and joined on the host.
        cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness. With
            `batch_idx`, a cell (3, 3) makes the call wait.
        alpha: splitting parameter in 1/L, one for all systems or (B,). The result does not depend on it, but for the
            error that the cutoffs leave.
        neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
            atoms, another cell or a smaller cutoff.
        neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than the
            cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or in a
            half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not at all.
            Without a list the call builds one. For that it waits.
        neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. It is read, and made a list on
            the host, as is a list without offsets.
        half_fill: whether the list that is given has every pair once. It is then made full on the host.
        cutoff: radius of the real-space sum, in L. May be left out where a list is given: then all its pairs count.
        exponent: p of the pair law q_i q_j/rᵖ, 1 to 6: 1 of charges, 6 of dispersion, with the coefficients √C₆ of
            atoms as charges and a prefactor of −1. For p = 3 systems are neutral.
        batch_idx: (N,), the system of each atom, sorted. None: one system.
        prefactor: multiplies energies and every derivative of them.
        energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
        compute_forces, compute_charge_gradients, compute_virial: whether these are returned too.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q (N,)
        (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3)),
        where E is the sum of the energies. A single array comes unwrapped, several as a tuple. Of charges (N, C)
        energies and charge gradients are (N, C), or energies (B, C), forces (N, C, 3) and virials (C, 3, 3) or (B, C,
        3, 3).

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for two
        atoms on one point.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        positions,
        charges,
        cell,
        alpha,
        neighbor_list,
        neighbor_ptr,
        neighbor_shifts,
        neighbor_matrix,
        neighbor_matrix_shifts,
        batch_idx,
    ) = opened(
        stream,
        positions=positions,
        charges=charges,
        cell=cell,
        alpha=alpha,
        neighbor_list=neighbor_list,
        neighbor_ptr=neighbor_ptr,
        neighbor_shifts=neighbor_shifts,
        neighbor_matrix=neighbor_matrix,
        neighbor_matrix_shifts=neighbor_matrix_shifts,
        batch_idx=batch_idx,
    )
    return ewald.ewald_real_space(
        f,
        positions,
        charges,
        cell,
        alpha,
        (
            neighbors,
            neighbor_list,
            neighbor_ptr,
            neighbor_shifts,
            neighbor_matrix,
            neighbor_matrix_shifts,
            fill_value,
            half_fill,
        ),
        cutoff,
        None,
        exponent,
        batch_idx,
        (
            prefactor,
            energy_reduction,
            compute_forces,
            compute_charge_gradients,
            compute_virial,
            False,
        ),
    )


# fmt: off
@overload
def ewald_reciprocal_space(
    positions: Any, charges: Any, cell: Any, alpha: Any, k_cutoff: Any = None, *, miller_indices: Any = None,
    miller_batch_idx: Any = None, exponent: int = 1, batch_idx: Any = None, prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom", compute_forces: Literal[False] = False,
    compute_charge_gradients: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
) -> Array: ...
@overload
def ewald_reciprocal_space(
    positions: Any, charges: Any, cell: Any, alpha: Any, k_cutoff: Any = None, *, miller_indices: Any = None,
    miller_batch_idx: Any = None, exponent: int = 1, batch_idx: Any = None, prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
    compute_charge_gradients: bool = False, compute_virial: bool = False, stream: Any = None,
) -> tuple[Array, ...]: ...
# fmt: on
def ewald_reciprocal_space(
    positions: Any,
    charges: Any,
    cell: Any,
    alpha: Any,
    k_cutoff: Any = None,
    *,
    miller_indices: Any = None,
    miller_batch_idx: Any = None,
    exponent: int = 1,
    batch_idx: Any = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
    stream: Any = None,
) -> Array | tuple[Array, ...]:
    """The reciprocal part of an Ewald sum, over 0 < |k| ≤ `k_cutoff`.

    The self term −α/√π Σq² and the uniform background −πQ²/(2α²V) of a charged cell are part of it.

    Args:
        positions: (N, 3), float32 or float64. In the memory of a device.
        charges: (N,), of the positions' dtype, as all real arrays. Or (N, C), C sets of charges, each with its own
            results. Without a list and parameters each set searches for itself. The call then waits for the charges and
            the results, which are split and joined on the host.
        cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness. With
            `batch_idx`, a cell (3, 3) makes the call wait.
        alpha: splitting parameter in 1/L, one for all systems or (B,). The result does not depend on it, but for the
            error that the cutoffs leave.
        k_cutoff: radius of the reciprocal sum, in radians per L, one for all systems or (B,). The cell is then read,
            for which the call waits.
        miller_indices, miller_batch_idx: in place of `k_cutoff` the wave vectors themselves, (K, 3), and the system of
            each, (K,), sorted, as `generate_miller_indices` returns them; the latter may be left out for one system.
        exponent: p of the pair law q_i q_j/rᵖ, 1 to 6: 1 of charges, 6 of dispersion, with the coefficients √C₆ of
            atoms as charges and a prefactor of −1. For p = 3 systems are neutral.
        batch_idx: (N,), the system of each atom, sorted. None: one system.
        prefactor: multiplies energies and every derivative of them.
        energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
        compute_forces, compute_charge_gradients, compute_virial: whether these are returned too.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q (N,)
        (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3)),
        where E is the sum of the energies. A single array comes unwrapped, several as a tuple. Of charges (N, C)
        energies and charge gradients are (N, C), or energies (B, C), forces (N, C, 3) and virials (C, 3, 3) or (B, C,
        3, 3).

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for two
        atoms on one point.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        positions,
        charges,
        cell,
        alpha,
        k_cutoff,
        miller_indices,
        miller_batch_idx,
        batch_idx,
    ) = opened(
        stream,
        positions=positions,
        charges=charges,
        cell=cell,
        alpha=alpha,
        k_cutoff=k_cutoff,
        miller_indices=miller_indices,
        miller_batch_idx=miller_batch_idx,
        batch_idx=batch_idx,
    )
    return ewald.ewald_reciprocal_space(
        f,
        positions,
        charges,
        cell,
        alpha,
        k_cutoff,
        (
            miller_indices,
            miller_batch_idx,
        ),
        None,
        exponent,
        batch_idx,
        (
            prefactor,
            energy_reduction,
            compute_forces,
            compute_charge_gradients,
            compute_virial,
            False,
        ),
    )


# fmt: off
@overload
def ewald_summation(
    positions: Any, charges: Any, cell: Any, alpha: Any = None, *, k_cutoff: Any = None, cutoff: Any = None,
    miller_indices: Any = None, miller_batch_idx: Any = None, neighbors: Neighbors | None = None,
    neighbor_list: Any = None, neighbor_ptr: Any = None, neighbor_shifts: Any = None, neighbor_matrix: Any = None,
    neighbor_matrix_shifts: Any = None, fill_value: int | None = None, half_fill: bool = False, exponent: int = 1,
    widths: Any = None, accuracy: float | None = None, pbc: Any = None, slab_correction: bool = False,
    slab_height: Any = None, method: Literal["direct", "list"] | None = None, batch_idx: Any = None,
    prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: Literal[False] = False, compute_charge_gradients: Literal[False] = False,
    compute_virial: Literal[False] = False, stream: Any = None,
) -> Array: ...
@overload
def ewald_summation(
    positions: Any, charges: Any, cell: Any, alpha: Any = None, *, k_cutoff: Any = None, cutoff: Any = None,
    miller_indices: Any = None, miller_batch_idx: Any = None, neighbors: Neighbors | None = None,
    neighbor_list: Any = None, neighbor_ptr: Any = None, neighbor_shifts: Any = None, neighbor_matrix: Any = None,
    neighbor_matrix_shifts: Any = None, fill_value: int | None = None, half_fill: bool = False, exponent: int = 1,
    widths: Any = None, accuracy: float | None = None, pbc: Any = None, slab_correction: bool = False,
    slab_height: Any = None, method: Literal["direct", "list"] | None = None, batch_idx: Any = None,
    prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
    compute_charge_gradients: bool = False, compute_virial: bool = False, stream: Any = None,
) -> tuple[Array, ...]: ...
# fmt: on
def ewald_summation(
    positions: Any,
    charges: Any,
    cell: Any,
    alpha: Any = None,
    *,
    k_cutoff: Any = None,
    cutoff: Any = None,
    miller_indices: Any = None,
    miller_batch_idx: Any = None,
    neighbors: Neighbors | None = None,
    neighbor_list: Any = None,
    neighbor_ptr: Any = None,
    neighbor_shifts: Any = None,
    neighbor_matrix: Any = None,
    neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None,
    half_fill: bool = False,
    exponent: int = 1,
    widths: Any = None,
    accuracy: float | None = None,
    pbc: Any = None,
    slab_correction: bool = False,
    slab_height: Any = None,
    method: Literal["direct", "list"] | None = None,
    batch_idx: Any = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
    stream: Any = None,
) -> Array | tuple[Array, ...]:
    """The Coulomb energy of periodic point charges, by Ewald's sum (Ann. Phys. 369, 253 (1921)).

    Crystals, slabs, wires and molecules may be in one batch: see `pbc`. A charged cell gets a uniform background.
    Those of `alpha`, `cutoff` and `k_cutoff` that are None are chosen for `accuracy`, for each system alone (see
    `estimate_ewald_parameters`); where all are, small systems are summed directly (see `method`). With
    `miller_indices`, in graphs, under transforms and on devices given parameters are taken as they are.

    With `alpha`, `cutoff`, `miller_indices` and a full list with its offsets and images nothing is waited for. Where
    `alpha`, `cutoff` or `k_cutoff` is chosen the call waits for charges and cell and reads them; without
    `miller_indices` it reads the cell.

    Args:
        positions: (N, 3), float32 or float64. In the memory of a device.
        charges: (N,), of the positions' dtype, as all real arrays. Or (N, C), C sets of charges, each with its own
            results. Without a list and parameters each set searches for itself. The call then waits for the charges and
            the results, which are split and joined on the host.
        cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness. With
            `batch_idx`, a cell (3, 3) makes the call wait.
        alpha: splitting parameter in 1/L, one for all systems or (B,). The result does not depend on it, but for the
            error that the cutoffs leave.
        k_cutoff: radius of the reciprocal sum, in radians per L, one for all systems or (B,). The cell is then read,
            for which the call waits.
        cutoff: radius of the real-space sum, in L, one for all systems or (B,); one is needed with a neighbour list.
        miller_indices, miller_batch_idx: in place of `k_cutoff` the wave vectors themselves, (K, 3), and the system of
            each, (K,), sorted, as `generate_miller_indices` returns them; the latter may be left out for one system.
        neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
            atoms, another cell or a smaller cutoff.
        neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than the
            cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or in a
            half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not at all.
            Without a list the call builds one. For that it waits.
        neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. It is read, and made a list on
            the host, as is a list without offsets.
        half_fill: whether the list that is given has every pair once. It is then made full on the host.
        exponent: p of the pair law q_i q_j/rᵖ, 1 to 6: 1 of charges, 6 of dispersion, with the coefficients √C₆ of
            atoms as charges and a prefactor of −1. For p = 3 systems are neutral.
        widths: (N,), the width σ of each charge, in L, above zero: Gaussian charges in place of points, see
            `gaussian_correction`. Pairs closer than 11 σ are searched for; of a list that is given all pairs count.
        accuracy: target for the RMS force error, in units of q²_rms/(V/N)^(2/3), from 1e-14 (1e-5 in float32) to below
            1. Parameters that are None are chosen for it, and given ones that cannot meet it are an error. None: given
            ones are taken as they are, and others are chosen for 1e-6 (1e-5 in float32).
        pbc: (3,) or (B, 3) of bool, the periodic axes. Three: Ewald's sum. None: an open system, whose sum is over all
            pairs, exactly, whatever list is given; its cell is not looked at. One: a wire, over all pairs and all
            images along the axis, exactly; of its cell the vector along the axis counts. Of a list the pairs of both
            count with `exclusions`, `widths` or an `exponent` alone. Two: a slab, with `slab_correction=True`. None for
            all: True, or without a cell False. An array of NumPy; True everywhere.
        slab_correction: whether systems may be periodic along two axes: they then get the correction for slabs, see
            `slab_correction`, and are summed in a cell of the library's own height, or of `slab_height`. The vector
            along the open axis does not count, and may be zero.
        slab_height: height of the cells of slabs along their normal, in L, one for all systems or (B,), for calls that
            cannot read values: the thickness of the slab and a gap g of at least the cutoff, whose error falls as
            exp(−2πg/L) with the longer period L along the slab: g = 2.1 L for 1e-6 of the forces. None: chosen for
            `accuracy` from cell and positions. With `miller_indices` and `mesh_dimensions`, which belong to a cell,
            that of the cell.
        method: "direct": all pairs and waves in one pass, without a list, for systems of some tens to a few hundred
            atoms and batches of them. The cutoff is then at most the smallest height of the cell, and half of it or all
            where it is chosen. "list": pairs of a list, which is given or searched for. None: "list" where a list or a
            parameter is given; else, for each system, the sum that costs less. That is the one over a list.
        batch_idx: (N,), the system of each atom, sorted. None: one system.
        prefactor: multiplies energies and every derivative of them.
        energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
        compute_forces, compute_charge_gradients, compute_virial: whether these are returned too.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q (N,)
        (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3)),
        where E is the sum of the energies. A single array comes unwrapped, several as a tuple. Of charges (N, C)
        energies and charge gradients are (N, C), or energies (B, C), forces (N, C, 3) and virials (C, 3, 3) or (B, C,
        3, 3).

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for two
        atoms on one point.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        positions,
        charges,
        cell,
        alpha,
        k_cutoff,
        cutoff,
        miller_indices,
        miller_batch_idx,
        neighbor_list,
        neighbor_ptr,
        neighbor_shifts,
        neighbor_matrix,
        neighbor_matrix_shifts,
        widths,
        slab_height,
        batch_idx,
    ) = opened(
        stream,
        positions=positions,
        charges=charges,
        cell=cell,
        alpha=alpha,
        k_cutoff=k_cutoff,
        cutoff=cutoff,
        miller_indices=miller_indices,
        miller_batch_idx=miller_batch_idx,
        neighbor_list=neighbor_list,
        neighbor_ptr=neighbor_ptr,
        neighbor_shifts=neighbor_shifts,
        neighbor_matrix=neighbor_matrix,
        neighbor_matrix_shifts=neighbor_matrix_shifts,
        widths=widths,
        slab_height=slab_height,
        batch_idx=batch_idx,
    )
    return ewald.ewald_summation(
        f,
        positions,
        charges,
        cell,
        alpha,
        k_cutoff,
        cutoff,
        (
            miller_indices,
            miller_batch_idx,
        ),
        (
            neighbors,
            neighbor_list,
            neighbor_ptr,
            neighbor_shifts,
            neighbor_matrix,
            neighbor_matrix_shifts,
            fill_value,
            half_fill,
        ),
        None,
        exponent,
        widths,
        accuracy,
        pbc,
        slab_correction,
        slab_height,
        method,
        batch_idx,
        (
            prefactor,
            energy_reduction,
            compute_forces,
            compute_charge_gradients,
            compute_virial,
            False,
        ),
    )


def estimate_ewald_parameters(
    positions: Any,
    charges: Any,
    cell: Any,
    accuracy: float | None = None,
    cutoff: Any = None,
    *,
    alpha: Any = None,
    k_cutoff: Any = None,
    exponent: int = 1,
    pbc: Any = None,
    slab_height: Any = None,
    batch_idx: Any = None,
) -> EwaldParameters:
    """The parameters that `ewald_summation` uses over a list: the cheapest for an accuracy.

    By the error estimates of Kolafa and Perram, Mol. Simul. 9, 351 (1992), for charges at random places. Errors of
    ordered and of small systems are smaller or larger, so the estimate that is chosen, and predicted, is about half of
    the accuracy.

    Arrays on a device are read, for which the call waits.

    Args:
        positions: (N, 3), float32 or float64. In the memory of a device.
        charges: (N,), of the positions' dtype, as all real arrays.
        cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness. With
            `batch_idx`, a cell (3, 3) makes the call wait.
        accuracy: target for the RMS force error, in units of q²_rms/(V/N)^(2/3), from 1e-14 (1e-5 in float32) to below
            1. Parameters that are None are chosen for it, and given ones that cannot meet it are an error. None: given
            ones are taken as they are, and others are chosen for 1e-6 (1e-5 in float32).
        cutoff: radius of the real-space sum, in L, one for all systems or (B,). Kept where it is given, as are `alpha`
            and `k_cutoff`.
        alpha: splitting parameter in 1/L, one for all systems or (B,).
        k_cutoff: radius of the reciprocal sum, in radians per L, one for all systems or (B,).
        exponent: p of the pair law q_i q_j/rᵖ, 1 to 6: 1 of charges, 6 of dispersion, with the coefficients √C₆ of
            atoms as charges and a prefactor of −1. For p = 3 systems are neutral.
        pbc: (3,) or (B, 3) of bool, the periodic axes, two or three. None: all axes of the cell.
        slab_height: height of the cells of slabs along their normal, in L, one for all systems or (B,), for calls that
            cannot read values: the thickness of the slab and a gap g of at least the cutoff, whose error falls as
            exp(−2πg/L) with the longer period L along the slab: g = 2.1 L for 1e-6 of the forces. None: chosen for
            `accuracy` from cell and positions. With `miller_indices` and `mesh_dimensions`, which belong to a cell,
            that of the cell.
        batch_idx: (N,), the system of each atom, sorted. None: one system.

    Returns:
        Numbers for one system; for a batch (a cell (B, 3, 3), or `batch_idx`) arrays (B,) of float64. They are arrays
        of NumPy.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        positions,
        charges,
        cell,
        cutoff,
        alpha,
        k_cutoff,
        slab_height,
        batch_idx,
    ) = opened(
        None,
        positions=positions,
        charges=charges,
        cell=cell,
        cutoff=cutoff,
        alpha=alpha,
        k_cutoff=k_cutoff,
        slab_height=slab_height,
        batch_idx=batch_idx,
    )
    return ewald.estimate_ewald_parameters(
        f,
        positions,
        charges,
        cell,
        accuracy,
        cutoff,
        alpha,
        k_cutoff,
        exponent,
        pbc,
        slab_height,
        batch_idx,
    )


def generate_miller_indices(
    cell: Any,
    k_cutoff: Any,
    *,
    pbc: Any = None,
    slab_height: Any = None,
    stream: Any = None,
) -> tuple[Array, Array]:
    """The wave vectors k = m · B with 0 < |k| ≤ `k_cutoff`, one of each two ±k, where B = 2π (cell⁻¹)ᵀ.

    To be given in place of `k_cutoff`, for cells that change so little that the set may stay.

    Calls that shall wait for nothing, and captures, need them.

    Args:
        cell: (3, 3) or (B, 3, 3), rows are lattice vectors. In the memory of a device; read.
        k_cutoff: in radians per L, one for all systems or (B,).
        pbc: (3,) or (B, 3) of bool, the periodic axes: systems with fewer than two have no waves, and slabs those of a
            cell of `slab_height`. None: all axes of the cell.
        slab_height: height of the cells of slabs along their normal, in L, one for all systems or (B,).
        stream: where the work is put, as for `ewald_summation`.

    Returns:
        `miller_indices` (K, 3) and `miller_batch_idx` (K,), the system of each, int32.

    Raises:
        TypeError, ValueError: For a cell that is singular or no array, and cutoffs that are not above zero.
    """
    (
        f,
        cell,
        k_cutoff,
        slab_height,
    ) = opened(
        stream,
        cell=cell,
        k_cutoff=k_cutoff,
        slab_height=slab_height,
    )
    return ewald.generate_miller_indices(
        f,
        cell,
        k_cutoff,
        pbc,
        slab_height,
    )


# fmt: off
@overload
def gaussian_correction(
    positions: Any, charges: Any, widths: Any, cell: Any = None, *, cutoff: float | None = None,
    neighbors: Neighbors | None = None, neighbor_list: Any = None, neighbor_ptr: Any = None,
    neighbor_shifts: Any = None, neighbor_matrix: Any = None, neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: Any = None,
    prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: Literal[False] = False, compute_charge_gradients: Literal[False] = False,
    compute_virial: Literal[False] = False, stream: Any = None,
) -> Array: ...
@overload
def gaussian_correction(
    positions: Any, charges: Any, widths: Any, cell: Any = None, *, cutoff: float | None = None,
    neighbors: Neighbors | None = None, neighbor_list: Any = None, neighbor_ptr: Any = None,
    neighbor_shifts: Any = None, neighbor_matrix: Any = None, neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: Any = None,
    prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
    compute_charge_gradients: bool = False, compute_virial: bool = False, stream: Any = None,
) -> tuple[Array, ...]: ...
# fmt: on
def gaussian_correction(
    positions: Any,
    charges: Any,
    widths: Any,
    cell: Any = None,
    *,
    cutoff: float | None = None,
    neighbors: Neighbors | None = None,
    neighbor_list: Any = None,
    neighbor_ptr: Any = None,
    neighbor_shifts: Any = None,
    neighbor_matrix: Any = None,
    neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None,
    half_fill: bool = False,
    pbc: Any = None,
    batch_idx: Any = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
    stream: Any = None,
) -> Array | tuple[Array, ...]:
    """The Coulomb energy of Gaussian charges less that of point charges: to be added to a sum of the latter.

    Charge i has the density q_i (2πσ_i²)^(−3/2) exp(−r²/2σ_i²). The sum is −½ Σ q_i q_j erfc(r/√(2(σ_i²+σ_j²)))/r
    over pairs, and Σ q_i²/(2√π σ_i), the energies of charges with themselves. With three periodic axes
    (2π/V) Σ q_i Σ q_i σ_i² is added, so that the whole has no term k = 0, as an Ewald sum of point charges has none:
    zero for a neutral cell, but part of ∂E/∂q.

    Args:
        positions: (N, 3), float32 or float64. In the memory of a device.
        charges: (N,), of the positions' dtype, as all real arrays. Or (N, C), C sets of charges, each with its own
            results. Without a list and parameters each set searches for itself. The call then waits for the charges and
            the results, which are split and joined on the host.
        widths: (N,), the width σ of each charge, in L, above zero.
        cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors. None: no axis is periodic.
        cutoff: pairs closer than it count, in L; the error is erfc(r/2σ) of the largest σ there. None: all pairs of a
            list that is given, or those closer than 11 σ.
        neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
            atoms, another cell or a smaller cutoff.
        neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than the
            cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or in a
            half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not at all.
            Without a list the call builds one. For that it waits.
        neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. It is read, and made a list on
            the host, as is a list without offsets.
        half_fill: whether the list that is given has every pair once. It is then made full on the host.
        pbc: (3,) or (B, 3) of bool. None: all axes of a cell are periodic.
        batch_idx: (N,), the system of each atom, sorted. None: one system.
        prefactor: multiplies energies and every derivative of them.
        energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
        compute_forces, compute_charge_gradients, compute_virial: whether these are returned too.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q (N,)
        (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3)),
        where E is the sum of the energies. A single array comes unwrapped, several as a tuple. Of charges (N, C)
        energies and charge gradients are (N, C), or energies (B, C), forces (N, C, 3) and virials (C, 3, 3) or (B, C,
        3, 3).

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for two
        atoms on one point.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        positions,
        charges,
        widths,
        cell,
        neighbor_list,
        neighbor_ptr,
        neighbor_shifts,
        neighbor_matrix,
        neighbor_matrix_shifts,
        batch_idx,
    ) = opened(
        stream,
        positions=positions,
        charges=charges,
        widths=widths,
        cell=cell,
        neighbor_list=neighbor_list,
        neighbor_ptr=neighbor_ptr,
        neighbor_shifts=neighbor_shifts,
        neighbor_matrix=neighbor_matrix,
        neighbor_matrix_shifts=neighbor_matrix_shifts,
        batch_idx=batch_idx,
    )
    return gaussians.gaussian_correction(
        f,
        positions,
        charges,
        widths,
        cell,
        cutoff,
        (
            neighbors,
            neighbor_list,
            neighbor_ptr,
            neighbor_shifts,
            neighbor_matrix,
            neighbor_matrix_shifts,
            fill_value,
            half_fill,
        ),
        pbc,
        batch_idx,
        (
            prefactor,
            energy_reduction,
            compute_forces,
            compute_charge_gradients,
            compute_virial,
            False,
        ),
    )


# fmt: off
@overload
def latent_ewald(
    positions: Any, charges: Any, cell: Any = None, sigma: Any = 1.0, dl: Any = 2.0, *,
    remove_self_interaction: bool = True, miller_indices: Any = None, miller_batch_idx: Any = None,
    neighbors: Neighbors | None = None, pbc: Any = None, batch_idx: Any = None, prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom", compute_forces: Literal[False] = False,
    compute_charge_gradients: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
) -> Array: ...
@overload
def latent_ewald(
    positions: Any, charges: Any, cell: Any = None, sigma: Any = 1.0, dl: Any = 2.0, *,
    remove_self_interaction: bool = True, miller_indices: Any = None, miller_batch_idx: Any = None,
    neighbors: Neighbors | None = None, pbc: Any = None, batch_idx: Any = None, prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
    compute_charge_gradients: bool = False, compute_virial: bool = False, stream: Any = None,
) -> tuple[Array, ...]: ...
# fmt: on
def latent_ewald(
    positions: Any,
    charges: Any,
    cell: Any = None,
    sigma: Any = 1.0,
    dl: Any = 2.0,
    *,
    remove_self_interaction: bool = True,
    miller_indices: Any = None,
    miller_batch_idx: Any = None,
    neighbors: Neighbors | None = None,
    pbc: Any = None,
    batch_idx: Any = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
    stream: Any = None,
) -> Array | tuple[Array, ...]:
    """The electrostatic energy of latent charges: Gaussians of width σ, without a background.

    The charge part of Latent Ewald Summation (Cheng, npj Comput. Mater. 11, 80 (2025)). Periodic systems:
    (2π/V) Σ_k exp(−σ²k²/2)/k² |S(k)|² over 0 < |k| ≤ 2π/dl, without the energy of each charge with itself. Systems
    without periodic axes: ½ Σ q_i q_j erf(r/√2σ)/r over all pairs. A batch may hold both. The prefactor of networks
    that were trained with another implementation is `madelung.units.LATENT_EWALD`.

    The call waits for the cell, and with channels for the charges and the results, which are split and added up on the
    host.

    Args:
        positions: (N, 3), float32 or float64. In the memory of a device.
        charges: (N,), or (N, C) for C channels, whose energies add up; of the positions' dtype.
        cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors. Zero, or None for all systems: without
            periodic axes. It is read, for which the call waits.
        sigma: width σ of the Gaussian charges, in L, one for all systems or (B,). Numbers of the host.
        dl: shortest wavelength of the sum over waves, in L, one for all systems or (B,): 0 < |k| ≤ 2π/dl. It is part of
            the model, as the sum need not be converged there. Not looked at with `miller_indices`.
        remove_self_interaction: whether the energy q²/(σ√(2π)) of each charge with itself is left out.
        miller_indices, miller_batch_idx, neighbors: what `latent_ewald_lists` gives for these systems; without it the
            call makes it.
        pbc: (3,) or (B, 3) of bool, all True or all False for each system. None: systems are periodic whose cell is not
            zero. An array of NumPy.
        batch_idx: (N,), the system of each atom, sorted. None: one system.
        prefactor: multiplies energies and every derivative of them.
        energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
        compute_forces, compute_charge_gradients, compute_virial: whether these are returned too.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q (of
        the shape of the charges) (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without
        `batch_idx`, else (B, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a
        tuple.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for two
        atoms on one point.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        positions,
        charges,
        cell,
        sigma,
        dl,
        miller_indices,
        miller_batch_idx,
        batch_idx,
    ) = opened(
        stream,
        positions=positions,
        charges=charges,
        cell=cell,
        sigma=sigma,
        dl=dl,
        miller_indices=miller_indices,
        miller_batch_idx=miller_batch_idx,
        batch_idx=batch_idx,
    )
    return latent.latent_ewald(
        f,
        positions,
        charges,
        cell,
        sigma,
        dl,
        remove_self_interaction,
        (
            miller_indices,
            miller_batch_idx,
        ),
        neighbors,
        pbc,
        batch_idx,
        (
            prefactor,
            energy_reduction,
            compute_forces,
            compute_charge_gradients,
            compute_virial,
            False,
        ),
    )


def latent_ewald_lists(
    positions: Any,
    cell: Any = None,
    dl: Any = 2.0,
    *,
    pbc: Any = None,
    batch_idx: Any = None,
    stream: Any = None,
) -> dict[str, Any]:
    """What `latent_ewald` sums over, to be given to it: `latent_ewald(…, **latent_ewald_lists(…))`.

    For any positions of the atoms, and for cells that change so little that the set of waves may stay.

    Arrays on a device are read, for which the call waits.

    Args:
        positions: (N, 3); only their number counts. In the memory of a device.
        cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors. Zero, or None for all systems: without
            periodic axes. It is read, for which the call waits.
        dl: shortest wavelength of the sum over waves, in L, one for all systems or (B,): 0 < |k| ≤ 2π/dl. It is part of
            the model, as the sum need not be converged there.
        pbc: (3,) or (B, 3) of bool, all True or all False for each system. None: systems are periodic whose cell is not
            zero. An array of NumPy.
        batch_idx: (N,), the system of each atom, sorted. None: one system.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        `neighbors`, all pairs of atoms of systems without periodic axes; `miller_indices` and `miller_batch_idx`, the
        waves of the others with 0 < |k| ≤ 2π/dl.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        positions,
        cell,
        dl,
        batch_idx,
    ) = opened(
        stream,
        positions=positions,
        cell=cell,
        dl=dl,
        batch_idx=batch_idx,
    )
    return latent.latent_ewald_lists(
        f,
        positions,
        cell,
        dl,
        pbc,
        batch_idx,
    )


# fmt: off
@overload
def pme_reciprocal_space(
    positions: Any, charges: Any, cell: Any, alpha: Any, *,
    mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None,
    mesh_spacing: float | None = None, spline_order: int | tuple[int, ...] | None = None, exponent: int = 1,
    batch_idx: Any = None, prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: Literal[False] = False, compute_charge_gradients: Literal[False] = False,
    compute_virial: Literal[False] = False, stream: Any = None,
) -> Array: ...
@overload
def pme_reciprocal_space(
    positions: Any, charges: Any, cell: Any, alpha: Any, *,
    mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None,
    mesh_spacing: float | None = None, spline_order: int | tuple[int, ...] | None = None, exponent: int = 1,
    batch_idx: Any = None, prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False, compute_charge_gradients: bool = False, compute_virial: bool = False,
    stream: Any = None,
) -> tuple[Array, ...]: ...
# fmt: on
def pme_reciprocal_space(
    positions: Any,
    charges: Any,
    cell: Any,
    alpha: Any,
    *,
    mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None,
    mesh_spacing: float | None = None,
    spline_order: int | tuple[int, ...] | None = None,
    exponent: int = 1,
    batch_idx: Any = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
    stream: Any = None,
) -> Array | tuple[Array, ...]:
    """The reciprocal part of an Ewald sum on a mesh (Essmann et al., J. Chem. Phys. 103, 8577 (1995)).

    The self term −α/√π Σq² and the uniform background −πQ²/(2α²V) of a charged cell are part of it. The influence
    function is the one that gives the least error of the energy; forces are exact derivatives of that energy, so it is
    conserved, and their sum is not exactly zero.

    Args:
        positions: (N, 3), float32 or float64. In the memory of a device.
        charges: (N,), of the positions' dtype, as all real arrays. Or (N, C), C sets of charges, each with its own
            results. Without a list and parameters each set searches for itself. The call then waits for the charges and
            the results, which are split and joined on the host.
        cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness. With
            `batch_idx`, a cell (3, 3) makes the call wait.
        alpha: splitting parameter in 1/L, one for all systems or (B,). The result does not depend on it, but for the
            error that the cutoffs leave.
        mesh_dimensions: nodes of the mesh along each lattice vector, three integers, for all systems or for each (B,
            3). They are Python integers, so that shapes are known in graphs and under `jit`.
        mesh_spacing: in their place, how far apart nodes may be along a lattice vector, in L. The cell is then read,
            for which the call waits.
        spline_order: order p of the splines, 4 to 8, for all systems or for each: they are polynomials of degree p − 1,
            over p nodes of each axis. None: 5 with a mesh, else the order at which the sum costs the least for its
            accuracy.
        exponent: p of the pair law q_i q_j/rᵖ, 1 to 6: 1 of charges, 6 of dispersion, with the coefficients √C₆ of
            atoms as charges and a prefactor of −1. For p = 3 systems are neutral.
        batch_idx: (N,), the system of each atom, sorted. None: one system.
        prefactor: multiplies energies and every derivative of them.
        energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
        compute_forces, compute_charge_gradients, compute_virial: whether these are returned too.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q (N,)
        (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3)),
        where E is the sum of the energies. A single array comes unwrapped, several as a tuple. Of charges (N, C)
        energies and charge gradients are (N, C), or energies (B, C), forces (N, C, 3) and virials (C, 3, 3) or (B, C,
        3, 3).

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for two
        atoms on one point.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        positions,
        charges,
        cell,
        alpha,
        batch_idx,
    ) = opened(
        stream,
        positions=positions,
        charges=charges,
        cell=cell,
        alpha=alpha,
        batch_idx=batch_idx,
    )
    return mesh.pme_reciprocal_space(
        f,
        positions,
        charges,
        cell,
        alpha,
        (
            mesh_dimensions,
            mesh_spacing,
            spline_order,
        ),
        None,
        exponent,
        batch_idx,
        (
            prefactor,
            energy_reduction,
            compute_forces,
            compute_charge_gradients,
            compute_virial,
            False,
        ),
    )


# fmt: off
@overload
def particle_mesh_ewald(
    positions: Any, charges: Any, cell: Any, alpha: Any = None, *,
    mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None,
    mesh_spacing: float | None = None, spline_order: int | tuple[int, ...] | None = None, cutoff: Any = None,
    neighbors: Neighbors | None = None, neighbor_list: Any = None, neighbor_ptr: Any = None,
    neighbor_shifts: Any = None, neighbor_matrix: Any = None, neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None, half_fill: bool = False, exponent: int = 1, widths: Any = None,
    accuracy: float | None = None, pbc: Any = None, slab_correction: bool = False, slab_height: Any = None,
    batch_idx: Any = None, prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: Literal[False] = False, compute_charge_gradients: Literal[False] = False,
    compute_virial: Literal[False] = False, stream: Any = None,
) -> Array: ...
@overload
def particle_mesh_ewald(
    positions: Any, charges: Any, cell: Any, alpha: Any = None, *,
    mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None,
    mesh_spacing: float | None = None, spline_order: int | tuple[int, ...] | None = None, cutoff: Any = None,
    neighbors: Neighbors | None = None, neighbor_list: Any = None, neighbor_ptr: Any = None,
    neighbor_shifts: Any = None, neighbor_matrix: Any = None, neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None, half_fill: bool = False, exponent: int = 1, widths: Any = None,
    accuracy: float | None = None, pbc: Any = None, slab_correction: bool = False, slab_height: Any = None,
    batch_idx: Any = None, prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False, compute_charge_gradients: bool = False, compute_virial: bool = False,
    stream: Any = None,
) -> tuple[Array, ...]: ...
# fmt: on
def particle_mesh_ewald(
    positions: Any,
    charges: Any,
    cell: Any,
    alpha: Any = None,
    *,
    mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None,
    mesh_spacing: float | None = None,
    spline_order: int | tuple[int, ...] | None = None,
    cutoff: Any = None,
    neighbors: Neighbors | None = None,
    neighbor_list: Any = None,
    neighbor_ptr: Any = None,
    neighbor_shifts: Any = None,
    neighbor_matrix: Any = None,
    neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None,
    half_fill: bool = False,
    exponent: int = 1,
    widths: Any = None,
    accuracy: float | None = None,
    pbc: Any = None,
    slab_correction: bool = False,
    slab_height: Any = None,
    batch_idx: Any = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
    stream: Any = None,
) -> Array | tuple[Array, ...]:
    """The Coulomb energy of periodic point charges, with the reciprocal part of Ewald's sum on a mesh.

    Time goes with N log N, where that of `ewald_summation` goes with N^(3/2). A charged cell gets a uniform background.
    Those of `alpha`, `cutoff` and the mesh that are None are chosen for `accuracy` (see `estimate_pme_parameters`), for
    each system as if it were alone.
    In graphs, under transforms and on devices given parameters are taken as they are.

    With `alpha`, `cutoff`, `mesh_dimensions` and a full list with its offsets and images nothing is waited for.
    Otherwise the call waits for charges and cell and reads them.

    Args:
        positions: (N, 3), float32 or float64. In the memory of a device.
        charges: (N,), of the positions' dtype, as all real arrays. Or (N, C), C sets of charges, each with its own
            results. Without a list and parameters each set searches for itself. The call then waits for the charges and
            the results, which are split and joined on the host.
        cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness. With
            `batch_idx`, a cell (3, 3) makes the call wait.
        alpha: splitting parameter in 1/L, one for all systems or (B,). The result does not depend on it, but for the
            error that the cutoffs leave.
        mesh_dimensions: nodes of the mesh along each lattice vector, three integers, for all systems or for each (B,
            3). They are Python integers, so that shapes are known in graphs and under `jit`.
        mesh_spacing: in their place, how far apart nodes may be along a lattice vector, in L. The cell is then read,
            for which the call waits.
        spline_order: order p of the splines, 4 to 8, for all systems or for each: they are polynomials of degree p − 1,
            over p nodes of each axis. None: 5 with a mesh, else the order at which the sum costs the least for its
            accuracy.
        cutoff: radius of the real-space sum, in L, one for all systems or (B,); one is needed with a neighbour list.
        neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
            atoms, another cell or a smaller cutoff.
        neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than the
            cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or in a
            half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not at all.
            Without a list the call builds one. For that it waits.
        neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. It is read, and made a list on
            the host, as is a list without offsets.
        half_fill: whether the list that is given has every pair once. It is then made full on the host.
        exponent: p of the pair law q_i q_j/rᵖ, 1 to 6: 1 of charges, 6 of dispersion, with the coefficients √C₆ of
            atoms as charges and a prefactor of −1. For p = 3 systems are neutral.
        widths: (N,), the width σ of each charge, in L, above zero: Gaussian charges in place of points, see
            `gaussian_correction`. Pairs closer than 11 σ are searched for; of a list that is given all pairs count.
        accuracy: target for the RMS force error, in units of q²_rms/(V/N)^(2/3), from 1e-14 (1e-5 in float32) to below
            1. Parameters that are None are chosen for it, and given ones that cannot meet it are an error. None: given
            ones are taken as they are, and others are chosen for 1e-6 (1e-5 in float32).
        pbc: (3,) or (B, 3) of bool, the periodic axes. Three: Ewald's sum. None: an open system, whose sum is over all
            pairs, exactly, whatever list is given; its cell is not looked at. One: a wire, over all pairs and all
            images along the axis, exactly; of its cell the vector along the axis counts. Of a list the pairs of both
            count with `exclusions`, `widths` or an `exponent` alone. Two: a slab, with `slab_correction=True`. None for
            all: True, or without a cell False. An array of NumPy; True everywhere.
        slab_correction: whether systems may be periodic along two axes: they then get the correction for slabs, see
            `slab_correction`, and are summed in a cell of the library's own height, or of `slab_height`. The vector
            along the open axis does not count, and may be zero.
        slab_height: height of the cells of slabs along their normal, in L, one for all systems or (B,), for calls that
            cannot read values: the thickness of the slab and a gap g of at least the cutoff, whose error falls as
            exp(−2πg/L) with the longer period L along the slab: g = 2.1 L for 1e-6 of the forces. None: chosen for
            `accuracy` from cell and positions. With `miller_indices` and `mesh_dimensions`, which belong to a cell,
            that of the cell.
        batch_idx: (N,), the system of each atom, sorted. None: one system.
        prefactor: multiplies energies and every derivative of them.
        energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
        compute_forces, compute_charge_gradients, compute_virial: whether these are returned too.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q (N,)
        (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3)),
        where E is the sum of the energies. A single array comes unwrapped, several as a tuple. Of charges (N, C)
        energies and charge gradients are (N, C), or energies (B, C), forces (N, C, 3) and virials (C, 3, 3) or (B, C,
        3, 3).

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for two
        atoms on one point.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        positions,
        charges,
        cell,
        alpha,
        cutoff,
        neighbor_list,
        neighbor_ptr,
        neighbor_shifts,
        neighbor_matrix,
        neighbor_matrix_shifts,
        widths,
        slab_height,
        batch_idx,
    ) = opened(
        stream,
        positions=positions,
        charges=charges,
        cell=cell,
        alpha=alpha,
        cutoff=cutoff,
        neighbor_list=neighbor_list,
        neighbor_ptr=neighbor_ptr,
        neighbor_shifts=neighbor_shifts,
        neighbor_matrix=neighbor_matrix,
        neighbor_matrix_shifts=neighbor_matrix_shifts,
        widths=widths,
        slab_height=slab_height,
        batch_idx=batch_idx,
    )
    return mesh.particle_mesh_ewald(
        f,
        positions,
        charges,
        cell,
        alpha,
        (
            mesh_dimensions,
            mesh_spacing,
            spline_order,
        ),
        cutoff,
        (
            neighbors,
            neighbor_list,
            neighbor_ptr,
            neighbor_shifts,
            neighbor_matrix,
            neighbor_matrix_shifts,
            fill_value,
            half_fill,
        ),
        None,
        exponent,
        widths,
        accuracy,
        pbc,
        slab_correction,
        slab_height,
        batch_idx,
        (
            prefactor,
            energy_reduction,
            compute_forces,
            compute_charge_gradients,
            compute_virial,
            False,
        ),
    )


def estimate_pme_parameters(
    positions: Any,
    charges: Any,
    cell: Any,
    accuracy: float | None = None,
    cutoff: Any = None,
    *,
    alpha: Any = None,
    mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None,
    mesh_spacing: float | None = None,
    spline_order: int | tuple[int, ...] | None = None,
    exponent: int = 1,
    pbc: Any = None,
    slab_height: Any = None,
    batch_idx: Any = None,
) -> PmeParameters:
    """The parameters that `particle_mesh_ewald` uses: the cheapest for an accuracy, and the error that is expected.

    The real-space error is that of Kolafa and Perram, Mol. Simul. 9, 351 (1992); that of the mesh comes from the
    nearest aliases of each wave, between charges at random places and of a charge with itself. Measured errors were 0.7
    times the estimate in the median, less in crystals, and up to twice the estimate where cells are long and thin.
    Parameters that are chosen have an estimate of 5/8 of the accuracy.

    Arrays on a device are read, for which the call waits.

    Args:
        positions: (N, 3), float32 or float64. In the memory of a device.
        charges: (N,), of the positions' dtype, as all real arrays.
        cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness. With
            `batch_idx`, a cell (3, 3) makes the call wait.
        accuracy: target for the RMS force error, in units of q²_rms/(V/N)^(2/3), from 1e-14 (1e-5 in float32) to below
            1. Parameters that are None are chosen for it, and given ones that cannot meet it are an error. None: given
            ones are taken as they are, and others are chosen for 1e-6 (1e-5 in float32).
        cutoff: radius of the real-space sum, in L, one for all systems or (B,). Kept where it is given, as are `alpha`
            and the mesh.
        alpha: splitting parameter in 1/L, one for all systems or (B,).
        mesh_dimensions: nodes of the mesh along each lattice vector, three integers, for all systems or for each (B,
            3). They are Python integers, so that shapes are known in graphs and under `jit`.
        mesh_spacing: in their place, how far apart nodes may be along a lattice vector, in L. The cell is then read,
            for which the call waits.
        spline_order: order p of the splines, 4 to 8, for all systems or for each: they are polynomials of degree p − 1,
            over p nodes of each axis. None: 5 with a mesh, else the order at which the sum costs the least for its
            accuracy.
        exponent: p of the pair law q_i q_j/rᵖ, 1 to 6: 1 of charges, 6 of dispersion, with the coefficients √C₆ of
            atoms as charges and a prefactor of −1. For p = 3 systems are neutral.
        pbc: (3,) or (B, 3) of bool, the periodic axes, two or three. None: all axes of the cell.
        slab_height: height of the cells of slabs along their normal, in L, one for all systems or (B,), for calls that
            cannot read values: the thickness of the slab and a gap g of at least the cutoff, whose error falls as
            exp(−2πg/L) with the longer period L along the slab: g = 2.1 L for 1e-6 of the forces. None: chosen for
            `accuracy` from cell and positions. With `miller_indices` and `mesh_dimensions`, which belong to a cell,
            that of the cell.
        batch_idx: (N,), the system of each atom, sorted. None: one system.

    Returns:
        Numbers for one system; for a batch (a cell (B, 3, 3), or `batch_idx`) arrays (B,) of float64. They are arrays
        of NumPy.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        positions,
        charges,
        cell,
        cutoff,
        alpha,
        slab_height,
        batch_idx,
    ) = opened(
        None,
        positions=positions,
        charges=charges,
        cell=cell,
        cutoff=cutoff,
        alpha=alpha,
        slab_height=slab_height,
        batch_idx=batch_idx,
    )
    return mesh.estimate_pme_parameters(
        f,
        positions,
        charges,
        cell,
        accuracy,
        cutoff,
        alpha,
        (
            mesh_dimensions,
            mesh_spacing,
            spline_order,
        ),
        exponent,
        pbc,
        slab_height,
        batch_idx,
    )


def neighbor_list(
    positions: Any,
    cutoff: Any,
    cell: Any = None,
    pbc: Any = None,
    batch_idx: Any = None,
    batch_ptr: Any = None,
    *,
    half_fill: bool = False,
    format: Literal["coo", "csr", "matrix"] = "coo",
    max_neighbors: int | None = None,
    capacity: int | None = None,
    fill_value: int | None = None,
    return_distances: bool = False,
    return_vectors: bool = False,
    types: Any = None,
    centers: Any = None,
    sources: Any = None,
    source_batch_idx: Any = None,
    method: Literal["cell_list", "brute_force"] | None = None,
    stream: Any = None,
) -> tuple[Any, ...]:
    """All pairs of atoms and images closer than `cutoff` (strictly).

    The cell may have any shape and handedness and may be smaller than the cutoff. Rows are ordered by i, then j, then
    S, and the list depends neither on the method nor on the number of threads.

    The list is made on the device, for images up to 500 boxes away along the first axis and 1000 along the others.
    Without a capacity the call waits once, for the number of pairs; with one it waits for nothing.

    Args:
        positions: (N, 3), float32 or float64, anywhere: they need not lie inside the cell. In the memory of a device.
        cutoff: in the unit of the positions. Several numbers in a tuple, for a list each, from one search; with `types`
            (T, T), for two types each, and 0 where they are no pair.
        cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
        pbc: (3,) or (B, 3) of bool, or one for all axes. None: all axes of a cell are periodic. An array of NumPy.
        batch_idx: (N,), the system of each atom, sorted. Without a cell for each system its last one is read.
        batch_ptr: (B+1,), where each system begins. It is read.
        half_fill: every pair once (i < j, and of an atom's own images one of each two) instead of from both sides.
        format: which arrays are returned, see below. A "matrix" is made on the host.
        max_neighbors: the most pairs that an atom may have, and the width of a matrix. None: as many as it has. Makes
            the list on the host.
        capacity: the most pairs that the list may have, within the largest of several cutoffs. None: as many as it has.
            With one, arrays have that length, with N, and zero in images, behind the last pair, whose number is the
            last of `neighbor_ptr`. A list of more has no pair at all; `madelung.check_device` raises that, and every
            function that is given the list makes NaN of it.
        fill_value: the entry behind the neighbours of a row of a matrix. None: N.
        return_distances, return_vectors: whether |r_ij| and r_ij of each pair are returned, zero in the padding.
        types: (N,), the type of each atom, from 0 on. Makes the list on the host.
        centers: (M,), rising indices of the atoms whose neighbours are wanted, which become rows 0 to M − 1 of the
            list. None: all. Makes the list on the host.
        sources, source_batch_idx: (M, 3), points that are the neighbours of atoms in place of other atoms, and the
            system of each (M,). One that is on an atom is a neighbour at distance zero. Makes the list on the host.
        method: None chooses by the size of the system. There is one on a device, and the list is the same.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        For "coo": `neighbor_list` (2, P), `neighbor_ptr` (N+1,), `neighbor_shifts` (P, 3);
        for "csr": `neighbor_ptr` (N+1,), `indices` (P,), `neighbor_shifts` (P, 3);
        for "matrix": `neighbor_matrix` (N, M), `num_neighbors` (N,), `neighbor_matrix_shifts` (N, M, 3);
        all int32; then distances (P,) or (N, M) and vectors (P, 3) or (N, M, 3) if asked for.
        For several cutoffs, a tuple with these of each.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name. ValueError also where
        the list does not fit `max_neighbors` or `capacity`: the message has the size that is needed. A list is never
        cut short.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        positions,
        cell,
        batch_idx,
        batch_ptr,
        types,
        centers,
        sources,
        source_batch_idx,
    ) = opened(
        stream,
        positions=positions,
        cell=cell,
        batch_idx=batch_idx,
        batch_ptr=batch_ptr,
        types=types,
        centers=centers,
        sources=sources,
        source_batch_idx=source_batch_idx,
    )
    return neighbors.neighbor_list(
        f,
        positions,
        cutoff,
        cell,
        pbc,
        batch_idx,
        batch_ptr,
        half_fill,
        format,
        max_neighbors,
        capacity,
        fill_value,
        return_distances,
        return_vectors,
        types,
        centers,
        sources,
        source_batch_idx,
        method,
    )


def find_neighbors(
    positions: Any,
    cutoff: float,
    cell: Any = None,
    pbc: Any = None,
    batch_idx: Any = None,
    batch_ptr: Any = None,
    *,
    form: Literal["clusters", "rows"] | None = None,
    stream: Any = None,
) -> Neighbors:
    """All pairs of atoms and images closer than `cutoff` (strictly), in the form that is fastest to use.

    The pairs of `neighbor_list`; sums over them, and the search, take about half of the time that they take with plain
    arrays. The clusters are those of S. Páll and B. Hess, Comput. Phys. Commun. 184, 2641 (2013).

    The call waits once, for the number of pairs.

    Args:
        positions: (N, 3), float32 or float64, anywhere: they need not lie inside the cell. In the memory of a device.
        cutoff: in the unit of the positions.
        cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
        pbc: (3,) or (B, 3) of bool, or one for all axes. None: all axes of a cell are periodic. An array of NumPy.
        batch_idx: (N,), the system of each atom, sorted. Without a cell for each system its last one is read.
        batch_ptr: (B+1,), where each system begins. It is read.
        form: how the pairs are kept. None: in clusters of atoms that are neighbours in space where that is faster (a
            system of 512 atoms or more, with some hundred neighbours each, on the CPU), else in rows. A system's
            results do not depend on its batch. In rows on a device.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        The neighbours, for the argument `neighbors` of other functions.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        positions,
        cell,
        batch_idx,
        batch_ptr,
    ) = opened(
        stream,
        positions=positions,
        cell=cell,
        batch_idx=batch_idx,
        batch_ptr=batch_ptr,
    )
    return neighbors.find_neighbors(
        f,
        positions,
        cutoff,
        cell,
        pbc,
        batch_idx,
        batch_ptr,
        form,
    )


# fmt: off
@overload
def coulomb(
    positions: Any, charges: Any, cell: Any = None, *, cutoff: float | None = None, alpha: float = 0.0,
    neighbors: Neighbors | None = None, neighbor_list: Any = None, neighbor_ptr: Any = None,
    neighbor_shifts: Any = None, neighbor_matrix: Any = None, neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None, half_fill: bool = False, exponent: int = 1, pbc: Any = None, batch_idx: Any = None,
    prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: Literal[False] = False, compute_charge_gradients: Literal[False] = False,
    compute_virial: Literal[False] = False, stream: Any = None,
) -> Array: ...
@overload
def coulomb(
    positions: Any, charges: Any, cell: Any = None, *, cutoff: float | None = None, alpha: float = 0.0,
    neighbors: Neighbors | None = None, neighbor_list: Any = None, neighbor_ptr: Any = None,
    neighbor_shifts: Any = None, neighbor_matrix: Any = None, neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None, half_fill: bool = False, exponent: int = 1, pbc: Any = None, batch_idx: Any = None,
    prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
    compute_charge_gradients: bool = False, compute_virial: bool = False, stream: Any = None,
) -> tuple[Array, ...]: ...
# fmt: on
def coulomb(
    positions: Any,
    charges: Any,
    cell: Any = None,
    *,
    cutoff: float | None = None,
    alpha: float = 0.0,
    neighbors: Neighbors | None = None,
    neighbor_list: Any = None,
    neighbor_ptr: Any = None,
    neighbor_shifts: Any = None,
    neighbor_matrix: Any = None,
    neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None,
    half_fill: bool = False,
    exponent: int = 1,
    pbc: Any = None,
    batch_idx: Any = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
    stream: Any = None,
) -> Array | tuple[Array, ...]:
    """The Coulomb energy over pairs: ½ Σ q_i q_j erfc(αr)/r, over all pairs of a molecule or those within a cutoff.

    Open systems (no cell) need no cutoff: the sum is exact. Over pairs within a cutoff it converges slowly, if at all;
    see `dsf`, and `ewald_summation` for periodic systems.

    Args:
        positions: (N, 3), float32 or float64. In the memory of a device.
        charges: (N,), of the positions' dtype, as all real arrays. Or (N, C), C sets of charges, each with its own
            results. Without a list and parameters each set searches for itself. The call then waits for the charges and
            the results, which are split and joined on the host.
        cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors. None: no axis is periodic.
        cutoff: pairs closer than it count, in L. None: all pairs of systems without a periodic axis, whatever list is
            given; of others, or with damping, all pairs of the list.
        alpha: damping α in 1/L, from 0 up.
        neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
            atoms, another cell or a smaller cutoff.
        neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than the
            cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or in a
            half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not at all.
            Without a list the call builds one. For that it waits.
        neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. It is read, and made a list on
            the host, as is a list without offsets.
        half_fill: whether the list that is given has every pair once. It is then made full on the host.
        exponent: p of the pair law q_i q_j/rᵖ, 1 to 6: 1 of charges, 6 of dispersion, with the coefficients √C₆ of
            atoms as charges and a prefactor of −1. For p = 3 systems are neutral.
        pbc: (3,) or (B, 3) of bool. None: all axes of a cell are periodic.
        batch_idx: (N,), the system of each atom, sorted. None: one system.
        prefactor: multiplies energies and every derivative of them.
        energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
        compute_forces, compute_charge_gradients, compute_virial: whether these are returned too.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q (N,)
        (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3)),
        where E is the sum of the energies. A single array comes unwrapped, several as a tuple. Of charges (N, C)
        energies and charge gradients are (N, C), or energies (B, C), forces (N, C, 3) and virials (C, 3, 3) or (B, C,
        3, 3).

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for two
        atoms on one point.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        positions,
        charges,
        cell,
        neighbor_list,
        neighbor_ptr,
        neighbor_shifts,
        neighbor_matrix,
        neighbor_matrix_shifts,
        batch_idx,
    ) = opened(
        stream,
        positions=positions,
        charges=charges,
        cell=cell,
        neighbor_list=neighbor_list,
        neighbor_ptr=neighbor_ptr,
        neighbor_shifts=neighbor_shifts,
        neighbor_matrix=neighbor_matrix,
        neighbor_matrix_shifts=neighbor_matrix_shifts,
        batch_idx=batch_idx,
    )
    return pair_sums.coulomb(
        f,
        positions,
        charges,
        cell,
        cutoff,
        alpha,
        (
            neighbors,
            neighbor_list,
            neighbor_ptr,
            neighbor_shifts,
            neighbor_matrix,
            neighbor_matrix_shifts,
            fill_value,
            half_fill,
        ),
        None,
        exponent,
        pbc,
        batch_idx,
        (
            prefactor,
            energy_reduction,
            compute_forces,
            compute_charge_gradients,
            compute_virial,
            False,
        ),
    )


# fmt: off
@overload
def dsf(
    positions: Any, charges: Any, cutoff: float, alpha: Any = 0.2, cell: Any = None, *,
    neighbors: Neighbors | None = None, neighbor_list: Any = None, neighbor_ptr: Any = None,
    neighbor_shifts: Any = None, neighbor_matrix: Any = None, neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: Any = None,
    prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: Literal[False] = False, compute_charge_gradients: Literal[False] = False,
    compute_virial: Literal[False] = False, stream: Any = None,
) -> Array: ...
@overload
def dsf(
    positions: Any, charges: Any, cutoff: float, alpha: Any = 0.2, cell: Any = None, *,
    neighbors: Neighbors | None = None, neighbor_list: Any = None, neighbor_ptr: Any = None,
    neighbor_shifts: Any = None, neighbor_matrix: Any = None, neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: Any = None,
    prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
    compute_charge_gradients: bool = False, compute_virial: bool = False, stream: Any = None,
) -> tuple[Array, ...]: ...
# fmt: on
def dsf(
    positions: Any,
    charges: Any,
    cutoff: float,
    alpha: Any = 0.2,
    cell: Any = None,
    *,
    neighbors: Neighbors | None = None,
    neighbor_list: Any = None,
    neighbor_ptr: Any = None,
    neighbor_shifts: Any = None,
    neighbor_matrix: Any = None,
    neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None,
    half_fill: bool = False,
    pbc: Any = None,
    batch_idx: Any = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_charge_gradients: bool = False,
    compute_virial: bool = False,
    stream: Any = None,
) -> Array | tuple[Array, ...]:
    """The damped shifted force sum of Fennell and Gezelter, J. Chem. Phys. 124, 234104 (2006).

    With v(r) = erfc(αr)/r, ½ Σ q_i q_j [v(r) − v(r_c) − v′(r_c)(r − r_c)] over pairs closer than r_c, and of each
    charge with itself −q²[v(r_c)/2 − r_c v′(r_c)/2 + α/√π]: energies and forces go to zero at the cutoff. An
    approximation of Ewald's sum for disordered, neutral systems, whose time goes with N.

    Args:
        positions: (N, 3), float32 or float64. In the memory of a device.
        charges: (N,), of the positions' dtype, as all real arrays. Or (N, C), C sets of charges, each with its own
            results. Without a list and parameters each set searches for itself. The call then waits for the charges and
            the results, which are split and joined on the host.
        cutoff: radius r_c of the sum, in L.
        alpha: damping α in 1/L, one for all systems or (B,).
        cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors. None: no axis is periodic.
        neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
            atoms, another cell or a smaller cutoff.
        neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than the
            cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or in a
            half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not at all.
            Without a list the call builds one. For that it waits.
        neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. It is read, and made a list on
            the host, as is a list without offsets.
        half_fill: whether the list that is given has every pair once. It is then made full on the host.
        pbc: (3,) or (B, 3) of bool. None: all axes of a cell are periodic.
        batch_idx: (N,), the system of each atom, sorted. None: one system.
        prefactor: multiplies energies and every derivative of them.
        energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
        compute_forces, compute_charge_gradients, compute_virial: whether these are returned too.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q (N,)
        (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3)),
        where E is the sum of the energies. A single array comes unwrapped, several as a tuple. Of charges (N, C)
        energies and charge gradients are (N, C), or energies (B, C), forces (N, C, 3) and virials (C, 3, 3) or (B, C,
        3, 3).

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for two
        atoms on one point.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        positions,
        charges,
        alpha,
        cell,
        neighbor_list,
        neighbor_ptr,
        neighbor_shifts,
        neighbor_matrix,
        neighbor_matrix_shifts,
        batch_idx,
    ) = opened(
        stream,
        positions=positions,
        charges=charges,
        alpha=alpha,
        cell=cell,
        neighbor_list=neighbor_list,
        neighbor_ptr=neighbor_ptr,
        neighbor_shifts=neighbor_shifts,
        neighbor_matrix=neighbor_matrix,
        neighbor_matrix_shifts=neighbor_matrix_shifts,
        batch_idx=batch_idx,
    )
    return pair_sums.dsf(
        f,
        positions,
        charges,
        cutoff,
        alpha,
        cell,
        (
            neighbors,
            neighbor_list,
            neighbor_ptr,
            neighbor_shifts,
            neighbor_matrix,
            neighbor_matrix_shifts,
            fill_value,
            half_fill,
        ),
        pbc,
        batch_idx,
        (
            prefactor,
            energy_reduction,
            compute_forces,
            compute_charge_gradients,
            compute_virial,
            False,
        ),
    )


# fmt: off
@overload
def born_mayer(
    positions: Any, types: Any, amplitude: Any, steepness: Any, sigma: Any, c6: Any, c8: Any, cutoff: float,
    cell: Any = None, *, taper: float | None = None, neighbors: Neighbors | None = None, neighbor_list: Any = None,
    neighbor_ptr: Any = None, neighbor_shifts: Any = None, neighbor_matrix: Any = None,
    neighbor_matrix_shifts: Any = None, fill_value: int | None = None, half_fill: bool = False, pbc: Any = None,
    batch_idx: Any = None, prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
) -> Array: ...
@overload
def born_mayer(
    positions: Any, types: Any, amplitude: Any, steepness: Any, sigma: Any, c6: Any, c8: Any, cutoff: float,
    cell: Any = None, *, taper: float | None = None, neighbors: Neighbors | None = None, neighbor_list: Any = None,
    neighbor_ptr: Any = None, neighbor_shifts: Any = None, neighbor_matrix: Any = None,
    neighbor_matrix_shifts: Any = None, fill_value: int | None = None, half_fill: bool = False, pbc: Any = None,
    batch_idx: Any = None, prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False, compute_virial: bool = False, stream: Any = None,
) -> tuple[Array, ...]: ...
# fmt: on
def born_mayer(
    positions: Any,
    types: Any,
    amplitude: Any,
    steepness: Any,
    sigma: Any,
    c6: Any,
    c8: Any,
    cutoff: float,
    cell: Any = None,
    *,
    taper: float | None = None,
    neighbors: Neighbors | None = None,
    neighbor_list: Any = None,
    neighbor_ptr: Any = None,
    neighbor_shifts: Any = None,
    neighbor_matrix: Any = None,
    neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None,
    half_fill: bool = False,
    pbc: Any = None,
    batch_idx: Any = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_virial: bool = False,
    stream: Any = None,
) -> Array | tuple[Array, ...]:
    """Born–Mayer–Huggins potential: A exp(B(σ − r)) − C/r⁶ − D/r⁸, of molten and crystalline salts.

    Huggins and Mayer, J. Chem. Phys. 1, 643 (1933); parameters of the alkali halides: Fumi and Tosi, J. Phys. Chem.
    Solids 25, 31 and 45 (1964), where B = 1/ρ. The parameters of two types are the mean of both elements of a table.

    Args:
        positions: (N, 3), float32 or float64. In the memory of a device.
        types: (N,), the type of each atom, from 0 to below K.
        amplitude: (K, K), the energy A. One of NumPy is copied to the device.
        steepness: (K, K), the inverse length B = 1/ρ. One of NumPy is copied to the device.
        sigma: (K, K), the length σ. One of NumPy is copied to the device.
        c6: (K, K), the dispersion coefficient C. One of NumPy is copied to the device.
        c8: (K, K), the dispersion coefficient D. One of NumPy is copied to the device.
        cutoff: radius of the sum, in L.
        cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
        taper: distance from which the energy of a pair is multiplied by 1 − 10x³ + 15x⁴ − 6x⁵, where x goes from 0
            there to 1 at the cutoff, so that it vanishes with two continuous derivatives. None: nine tenths of the
            cutoff. At the cutoff or beyond: the energy is cut off.
        neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
            atoms, another cell or a smaller cutoff.
        neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than the
            cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or in a
            half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not at all.
            Without a list the call builds one. For that it waits.
        neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. It is read, and made a list on
            the host, as is a list without offsets.
        half_fill: whether the list that is given has every pair once. It is then made full on the host.
        pbc: (3,) or (B, 3) of bool. None: all axes of a cell are periodic. An array of NumPy.
        batch_idx: (N,), the system of each atom, sorted. None: one system.
        prefactor: multiplies energies and every derivative of them.
        energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
        compute_forces, compute_virial: whether these are returned too.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        The energies, (N,) or (B,), a pair's energy split half and half between its atoms, followed by the requested
        ones of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3)),
        where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for two
        atoms on one point.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        positions,
        types,
        amplitude,
        steepness,
        sigma,
        c6,
        c8,
        cell,
        neighbor_list,
        neighbor_ptr,
        neighbor_shifts,
        neighbor_matrix,
        neighbor_matrix_shifts,
        batch_idx,
    ) = opened(
        stream,
        positions=positions,
        types=types,
        amplitude=amplitude,
        steepness=steepness,
        sigma=sigma,
        c6=c6,
        c8=c8,
        cell=cell,
        neighbor_list=neighbor_list,
        neighbor_ptr=neighbor_ptr,
        neighbor_shifts=neighbor_shifts,
        neighbor_matrix=neighbor_matrix,
        neighbor_matrix_shifts=neighbor_matrix_shifts,
        batch_idx=batch_idx,
    )
    return potentials.born_mayer(
        f,
        positions,
        types,
        amplitude,
        steepness,
        sigma,
        c6,
        c8,
        cutoff,
        cell,
        taper,
        (
            neighbors,
            neighbor_list,
            neighbor_ptr,
            neighbor_shifts,
            neighbor_matrix,
            neighbor_matrix_shifts,
            fill_value,
            half_fill,
        ),
        pbc,
        batch_idx,
        (
            prefactor,
            energy_reduction,
            compute_forces,
            compute_virial,
        ),
    )


# fmt: off
@overload
def buckingham(
    positions: Any, types: Any, amplitude: Any, rho: Any, c6: Any, cutoff: float, cell: Any = None, *,
    taper: float | None = None, neighbors: Neighbors | None = None, neighbor_list: Any = None, neighbor_ptr: Any = None,
    neighbor_shifts: Any = None, neighbor_matrix: Any = None, neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: Any = None,
    prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
) -> Array: ...
@overload
def buckingham(
    positions: Any, types: Any, amplitude: Any, rho: Any, c6: Any, cutoff: float, cell: Any = None, *,
    taper: float | None = None, neighbors: Neighbors | None = None, neighbor_list: Any = None, neighbor_ptr: Any = None,
    neighbor_shifts: Any = None, neighbor_matrix: Any = None, neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: Any = None,
    prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
    compute_virial: bool = False, stream: Any = None,
) -> tuple[Array, ...]: ...
# fmt: on
def buckingham(
    positions: Any,
    types: Any,
    amplitude: Any,
    rho: Any,
    c6: Any,
    cutoff: float,
    cell: Any = None,
    *,
    taper: float | None = None,
    neighbors: Neighbors | None = None,
    neighbor_list: Any = None,
    neighbor_ptr: Any = None,
    neighbor_shifts: Any = None,
    neighbor_matrix: Any = None,
    neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None,
    half_fill: bool = False,
    pbc: Any = None,
    batch_idx: Any = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_virial: bool = False,
    stream: Any = None,
) -> Array | tuple[Array, ...]:
    """Buckingham potential: A exp(−r/ρ) − C/r⁶.

    Buckingham, Proc. R. Soc. Lond. A 168, 264 (1938). It falls to −∞ at r = 0. The parameters of two types are the mean
    of both elements of a table.

    Args:
        positions: (N, 3), float32 or float64. In the memory of a device.
        types: (N,), the type of each atom, from 0 to below K.
        amplitude: (K, K), the energy A. One of NumPy is copied to the device.
        rho: (K, K), the length ρ, above zero. One of NumPy is copied to the device.
        c6: (K, K), the dispersion coefficient C. One of NumPy is copied to the device.
        cutoff: radius of the sum, in L.
        cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
        taper: distance from which the energy of a pair is multiplied by 1 − 10x³ + 15x⁴ − 6x⁵, where x goes from 0
            there to 1 at the cutoff, so that it vanishes with two continuous derivatives. None: nine tenths of the
            cutoff. At the cutoff or beyond: the energy is cut off.
        neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
            atoms, another cell or a smaller cutoff.
        neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than the
            cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or in a
            half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not at all.
            Without a list the call builds one. For that it waits.
        neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. It is read, and made a list on
            the host, as is a list without offsets.
        half_fill: whether the list that is given has every pair once. It is then made full on the host.
        pbc: (3,) or (B, 3) of bool. None: all axes of a cell are periodic. An array of NumPy.
        batch_idx: (N,), the system of each atom, sorted. None: one system.
        prefactor: multiplies energies and every derivative of them.
        energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
        compute_forces, compute_virial: whether these are returned too.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        The energies, (N,) or (B,), a pair's energy split half and half between its atoms, followed by the requested
        ones of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3)),
        where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for two
        atoms on one point.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        positions,
        types,
        amplitude,
        rho,
        c6,
        cell,
        neighbor_list,
        neighbor_ptr,
        neighbor_shifts,
        neighbor_matrix,
        neighbor_matrix_shifts,
        batch_idx,
    ) = opened(
        stream,
        positions=positions,
        types=types,
        amplitude=amplitude,
        rho=rho,
        c6=c6,
        cell=cell,
        neighbor_list=neighbor_list,
        neighbor_ptr=neighbor_ptr,
        neighbor_shifts=neighbor_shifts,
        neighbor_matrix=neighbor_matrix,
        neighbor_matrix_shifts=neighbor_matrix_shifts,
        batch_idx=batch_idx,
    )
    return potentials.buckingham(
        f,
        positions,
        types,
        amplitude,
        rho,
        c6,
        cutoff,
        cell,
        taper,
        (
            neighbors,
            neighbor_list,
            neighbor_ptr,
            neighbor_shifts,
            neighbor_matrix,
            neighbor_matrix_shifts,
            fill_value,
            half_fill,
        ),
        pbc,
        batch_idx,
        (
            prefactor,
            energy_reduction,
            compute_forces,
            compute_virial,
        ),
    )


# fmt: off
@overload
def lennard_jones(
    positions: Any, types: Any, epsilon: Any, sigma: Any, cutoff: float, cell: Any = None, *,
    taper: float | None = None, neighbors: Neighbors | None = None, neighbor_list: Any = None, neighbor_ptr: Any = None,
    neighbor_shifts: Any = None, neighbor_matrix: Any = None, neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: Any = None,
    prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
) -> Array: ...
@overload
def lennard_jones(
    positions: Any, types: Any, epsilon: Any, sigma: Any, cutoff: float, cell: Any = None, *,
    taper: float | None = None, neighbors: Neighbors | None = None, neighbor_list: Any = None, neighbor_ptr: Any = None,
    neighbor_shifts: Any = None, neighbor_matrix: Any = None, neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: Any = None,
    prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
    compute_virial: bool = False, stream: Any = None,
) -> tuple[Array, ...]: ...
# fmt: on
def lennard_jones(
    positions: Any,
    types: Any,
    epsilon: Any,
    sigma: Any,
    cutoff: float,
    cell: Any = None,
    *,
    taper: float | None = None,
    neighbors: Neighbors | None = None,
    neighbor_list: Any = None,
    neighbor_ptr: Any = None,
    neighbor_shifts: Any = None,
    neighbor_matrix: Any = None,
    neighbor_matrix_shifts: Any = None,
    fill_value: int | None = None,
    half_fill: bool = False,
    pbc: Any = None,
    batch_idx: Any = None,
    prefactor: float = 1.0,
    energy_reduction: Literal["atom", "system"] = "atom",
    compute_forces: bool = False,
    compute_virial: bool = False,
    stream: Any = None,
) -> Array | tuple[Array, ...]:
    """Lennard-Jones potential: 4ε[(σ/r)¹² − (σ/r)⁶].

    Lennard-Jones, Proc. Phys. Soc. 43, 461 (1931). The parameters of two types are the mean of both elements of a
    table.

    Args:
        positions: (N, 3), float32 or float64. In the memory of a device.
        types: (N,), the type of each atom, from 0 to below K.
        epsilon: (K, K), the depth ε. One of NumPy is copied to the device.
        sigma: (K, K), the length σ. One of NumPy is copied to the device.
        cutoff: radius of the sum, in L.
        cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
        taper: distance from which the energy of a pair is multiplied by 1 − 10x³ + 15x⁴ − 6x⁵, where x goes from 0
            there to 1 at the cutoff, so that it vanishes with two continuous derivatives. None: nine tenths of the
            cutoff. At the cutoff or beyond: the energy is cut off.
        neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
            atoms, another cell or a smaller cutoff.
        neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than the
            cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or in a
            half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not at all.
            Without a list the call builds one. For that it waits.
        neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. It is read, and made a list on
            the host, as is a list without offsets.
        half_fill: whether the list that is given has every pair once. It is then made full on the host.
        pbc: (3,) or (B, 3) of bool. None: all axes of a cell are periodic. An array of NumPy.
        batch_idx: (N,), the system of each atom, sorted. None: one system.
        prefactor: multiplies energies and every derivative of them.
        energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
        compute_forces, compute_virial: whether these are returned too.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        The energies, (N,) or (B,), a pair's energy split half and half between its atoms, followed by the requested
        ones of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3)),
        where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for two
        atoms on one point.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        positions,
        types,
        epsilon,
        sigma,
        cell,
        neighbor_list,
        neighbor_ptr,
        neighbor_shifts,
        neighbor_matrix,
        neighbor_matrix_shifts,
        batch_idx,
    ) = opened(
        stream,
        positions=positions,
        types=types,
        epsilon=epsilon,
        sigma=sigma,
        cell=cell,
        neighbor_list=neighbor_list,
        neighbor_ptr=neighbor_ptr,
        neighbor_shifts=neighbor_shifts,
        neighbor_matrix=neighbor_matrix,
        neighbor_matrix_shifts=neighbor_matrix_shifts,
        batch_idx=batch_idx,
    )
    return potentials.lennard_jones(
        f,
        positions,
        types,
        epsilon,
        sigma,
        cutoff,
        cell,
        taper,
        (
            neighbors,
            neighbor_list,
            neighbor_ptr,
            neighbor_shifts,
            neighbor_matrix,
            neighbor_matrix_shifts,
            fill_value,
            half_fill,
        ),
        pbc,
        batch_idx,
        (
            prefactor,
            energy_reduction,
            compute_forces,
            compute_virial,
        ),
    )


def segment_sum(
    values: Any,
    segment_idx: Any,
    num_segments: int | None = None,
    stream: Any = None,
) -> Array:
    """The sum of the entries of each segment.

    Carried in float64, in a fixed order: the same bits in every run. Messages add up to an atom's by the first row of
    its pairs; energies of atoms add up to a system's by `batch_idx`.

    Args:
        values: (P,) or (P, …), float32 or float64: a number for each entry, or features of any shape. NaN and
            infinities are an error. In the memory of a device.
        segment_idx: (P,), the segment of each entry, sorted: the first row of a neighbour list, the `batch_idx` of
            atoms.
        num_segments: how many segments there are, S; any may be empty. None: one more than the last index. Give it
            where trailing atoms may have no neighbours. None makes the call wait.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        (S,), or (S, …) with the shape of the features: the sums; 0 for an empty segment.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name. ValueError for indices
        that are not sorted, negative, or not below `num_segments`, and for values that are not finite: the message says
        which.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        values,
        segment_idx,
    ) = opened(
        stream,
        values=values,
        segment_idx=segment_idx,
    )
    return segments.segment_sum(
        f,
        values,
        segment_idx,
        num_segments,
    )


def segment_mean(
    values: Any,
    segment_idx: Any,
    num_segments: int | None = None,
    stream: Any = None,
) -> Array:
    """The mean of the entries of each segment.

    Args:
        values: (P,) or (P, …), float32 or float64: a number for each entry, or features of any shape. NaN and
            infinities are an error. In the memory of a device.
        segment_idx: (P,), the segment of each entry, sorted: the first row of a neighbour list, the `batch_idx` of
            atoms.
        num_segments: how many segments there are, S; any may be empty. None: one more than the last index. Give it
            where trailing atoms may have no neighbours. None makes the call wait.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        (S,), or (S, …) with the shape of the features: the means; 0 for an empty segment.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name. ValueError for indices
        that are not sorted, negative, or not below `num_segments`, and for values that are not finite: the message says
        which.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        values,
        segment_idx,
    ) = opened(
        stream,
        values=values,
        segment_idx=segment_idx,
    )
    return segments.segment_mean(
        f,
        values,
        segment_idx,
        num_segments,
    )


def segment_max(
    values: Any,
    segment_idx: Any,
    num_segments: int | None = None,
    stream: Any = None,
) -> Array:
    """The largest entry of each segment, for every feature by itself.

    Its derivative is that of the entry; where several are equal, of the first one.

    Values with several features are transposed on the host, for which the call waits.

    Args:
        values: (P,) or (P, …), float32 or float64: a number for each entry, or features of any shape. NaN and
            infinities are an error. In the memory of a device.
        segment_idx: (P,), the segment of each entry, sorted: the first row of a neighbour list, the `batch_idx` of
            atoms.
        num_segments: how many segments there are, S; any may be empty. None: one more than the last index. Give it
            where trailing atoms may have no neighbours. None makes the call wait.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        (S,), or (S, …) with the shape of the features: the largest entries; 0 for an empty segment, as in PyTorch
        Geometric (`jax.ops` has −∞ there).

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name. ValueError for indices
        that are not sorted, negative, or not below `num_segments`, and for values that are not finite: the message says
        which.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        values,
        segment_idx,
    ) = opened(
        stream,
        values=values,
        segment_idx=segment_idx,
    )
    return segments.segment_max(
        f,
        values,
        segment_idx,
        num_segments,
    )


def segment_softmax(
    values: Any,
    segment_idx: Any,
    num_segments: int | None = None,
    stream: Any = None,
) -> Array:
    """The softmax within each segment: exp(x_p) / Σ_q exp(x_q), the weights of attention over the neighbours.

    The weights of a segment add up to one. Computed after subtracting the segment's largest entry, so it never becomes
    0/0 and never overflows.

    Values with several features are transposed on the host, for which the call waits.

    Args:
        values: (P,) or (P, …), float32 or float64: a score for each entry, or several (heads), each with a softmax of
            its own. NaN and infinities are an error. In the memory of a device.
        segment_idx: (P,), the segment of each entry, sorted: the first row of a neighbour list, the `batch_idx` of
            atoms.
        num_segments: how many segments there are, S; any may be empty. None: one more than the last index. Give it
            where trailing atoms may have no neighbours. None makes the call wait.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        The weights, of the shape of the values.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name. ValueError for indices
        that are not sorted, negative, or not below `num_segments`, and for values that are not finite: the message says
        which.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        values,
        segment_idx,
    ) = opened(
        stream,
        values=values,
        segment_idx=segment_idx,
    )
    return segments.segment_softmax(
        f,
        values,
        segment_idx,
        num_segments,
    )


def segment_dot(
    x: Any,
    y: Any,
    segment_idx: Any,
    num_segments: int | None = None,
    stream: Any = None,
) -> Array:
    """The inner product of the vectors of each segment: Σ_p x_p · y_p over its entries and all of their features.

    The work Σ F · v of each system, norms, lengths of steps. `segment_sum(x * y, …)` keeps the features apart, and
    `segment_sum(w[:, None] * x, …)` is the weighted sum of attention.

    Args:
        x, y: (P,) or (P, …), float32 or float64, of one shape and dtype: numbers or vectors of any shape. NaN and
            infinities are an error. In the memory of a device.
        segment_idx: (P,), the segment of each entry, sorted: the first row of a neighbour list, the `batch_idx` of
            atoms.
        num_segments: how many segments there are, S; any may be empty. None: one more than the last index. Give it
            where trailing atoms may have no neighbours. None makes the call wait.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        (S,), the sums; 0 for an empty segment.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name. ValueError for indices
        that are not sorted, negative, or not below `num_segments`, and for values that are not finite: the message says
        which.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        x,
        y,
        segment_idx,
    ) = opened(
        stream,
        x=x,
        y=y,
        segment_idx=segment_idx,
    )
    return segments.segment_dot(
        f,
        x,
        y,
        segment_idx,
        num_segments,
    )


def needs_rebuild(
    positions: Any,
    reference_positions: Any,
    skin: float,
    cell: Any = None,
    reference_cell: Any = None,
    *,
    pbc: Any = None,
    reference_pbc: Any = None,
    batch_idx: Any = None,
    stream: Any = None,
) -> Array:
    """Whether a neighbour list of each system has to be made again before pairs within the cutoff may be missing.

    That is so once an atom has moved by more than half of the skin from its reference, or cell or periodic axes
    are others. An atom that is nowhere (NaN) has moved.

    Nothing is waited for.

    Args:
        positions: (N, 3), float32 or float64, as they are now. In the memory of a device.
        reference_positions: (N, 3), of the same dtype, those that the list was made for.
        skin: by which the radius of the list exceeds the cutoff of what it is used for.
        cell, reference_cell: (3, 3) or (B, 3, 3), as they are now and as the list was made for; or neither.
        pbc, reference_pbc: (3,) or (B, 3) of bool, as they are now and as the list was made for. None: all axes of a
            cell. Those of the device are int32 (B, 3), or are read.
        batch_idx: (N,), the system of each atom, sorted.
        stream: where the work is put: the handle of a stream of the positions' device, or any library's object for one
            (with `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`). None: CUDA's legacy default stream. Results keep
            the object, and the stream has to live as long as they do.

    Returns:
        (B,) bool, for each system. As int32, 1 or 0.

    Raises:
        TypeError, ValueError: For an argument of the wrong type, shape or value, with its name.
        ValueError: Also for arrays or a stream of another device, and memory that was given back.
        NotImplementedError: Where there is no NVIDIA driver, with what to install.
    """
    (
        f,
        positions,
        reference_positions,
        cell,
        reference_cell,
        batch_idx,
    ) = opened(
        stream,
        positions=positions,
        reference_positions=reference_positions,
        cell=cell,
        reference_cell=reference_cell,
        batch_idx=batch_idx,
    )
    return verlet.needs_rebuild(
        f,
        positions,
        reference_positions,
        skin,
        cell,
        reference_cell,
        pbc,
        reference_pbc,
        batch_idx,
    )
