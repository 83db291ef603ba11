"""Public functions, for arrays of any library: written by `tools/functions.py` from `madelung._functions`."""

# fmt: off

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar, overload

from madelung._functions import (
    around,
    bonded,
    boundaries,
    equilibration,
    ewald,
    fields,
    gaussians,
    latent,
    mesh,
    neighbors,
    pair_sums,
    potentials,
    powers,
    segments,
    verlet,
)
from madelung._functions.bound import Bound
from madelung._functions.laws import BoundLaw
from madelung._functions.results import EwaldParameters, PmeParameters
from madelung._neighbors import Neighbors

# Arguments that may be arrays, and arrays of results.
ArrayLike = TypeVar("ArrayLike")
Array = TypeVar("Array")


class Functions(Bound, Generic[ArrayLike, Array]):
    """The public functions, bound to a framework: each namespace has those of its own arrays.

    In the texts NumPy, PyTorch, JAX and CUDA stand for `madelung.numpy`, `madelung.torch`, `madelung.jax` and
    `madelung.cuda`.
    """

    def knn(
        self, queries: ArrayLike, points: ArrayLike, k: int, cell: ArrayLike | None = None, pbc: Any = None, *,
        query_batch_idx: ArrayLike | None = None, batch_idx: ArrayLike | None = None, radius: float | None = None,
        order: ArrayLike | None = None, return_shifts: bool = False, return_vectors: bool = False,
        stream: Any = None,
    ) -> tuple[Array, ...]:
        """The k nearest points of each query, exactly.

        With periodic axes every image counts as a point of its own, so k may exceed the number of points. A query that
        is on a point has it at distance zero, where the distance has a derivative of zero.

        PyTorch: Distances and vectors are differentiable twice in queries, points and cell; which points are nearest is
        not. Compiled graphs hold the call (with a cell for each system where there are several). On a device nothing is
        read or waited for.

        JAX: Distances and vectors are differentiable twice in queries, points and cell; which points are nearest is
        not. Under `jit` too (with a cell for each system where there are several).

        CUDA: Nothing is waited for, but the number of systems that share one cell.

        Args:
            queries: (M, 3), float32 or float64, anywhere; without a cell of any number of coordinates (up to three for
                features, vectors and grids that are kept). Those of half precision are searched in float32, and real
                results rounded back. CUDA: Not of half precision.
            points: (N, 3), or as many coordinates as the queries, of their dtype, anywhere; they may be the queries. Or
                a `HashGrid` of them, kept from call to call.
            k: how many points each query has, from 1 up.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
            pbc: (3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero. JAX: No traced array.
            query_batch_idx, batch_idx: (M,) and (N,), the system of each query and of each point, sorted: a query sees
                the points of its own.
            radius: largest distance of a point that counts, in L, or infinity: a query may then have fewer than k
                points. None: each has k. JAX: A Python number.
            order: (N,), what `spatial_order` gives for the points, or gave before they moved: it saves time alone.
            return_shifts, return_vectors: whether the images S and the vectors are returned too.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            `indices` (M, k) int32 and `distances` (M, k), by distance, then index, then S; then, if asked for, shifts
            (M, k, 3) int32 and vectors (M, k, 3), r_j − q_i + S · cell. Behind the last point of a query, N in indices
            and zero in the others.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name. ValueError also
            where a query has fewer than k points, and `radius` is None: the message says how many.
        """
        return self._call(
            around.knn, stream, queries, points, k, cell, pbc, query_batch_idx, batch_idx, radius, order, return_shifts,
            return_vectors,
        )

    def radius(
        self, queries: ArrayLike, points: ArrayLike, radius: float, cell: ArrayLike | None = None, pbc: Any = None,
        *, query_batch_idx: ArrayLike | None = None, batch_idx: ArrayLike | None = None,
        max_neighbors: int | None = None, capacity: int | None = None, order: ArrayLike | None = None,
        return_shifts: bool = False, return_vectors: bool = False, stream: Any = None,
    ) -> tuple[Array, ...]:
        """All points within a radius of each query: |r_j − q_i + S · cell| ≤ radius.

        With periodic axes every image counts as a point of its own. A query that is on a point has it at distance zero,
        where the distance has a derivative of zero.

        PyTorch: Distances and vectors are differentiable twice in queries, points and cell; which points are within the
        radius is not. The number of pairs depends on values: compiled graphs hold the call where they capture such
        shapes (`torch._dynamo.config.capture_dynamic_output_shape_ops`, and `torch.export`). On a device a call without
        `capacity` waits for that number.

        JAX: Distances and vectors are differentiable twice in queries, points and cell; which points are within the
        radius is not.

        CUDA: Without `capacity` the call waits for the number of pairs.

        Args:
            queries: (M, 3), float32 or float64, anywhere; without a cell of any number of coordinates (up to three for
                features, vectors and grids that are kept). Those of half precision are searched in float32, and real
                results rounded back. CUDA: Not of half precision.
            points: (N, 3), or as many coordinates as the queries, of their dtype, anywhere; they may be the queries. Or
                a `HashGrid` of them, kept from call to call.
            radius: largest distance of a point that counts, in L. JAX: A Python number.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
            pbc: (3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero. JAX: No traced array.
            query_batch_idx, batch_idx: (M,) and (N,), the system of each query and of each point, sorted: a query sees
                the points of its own.
            max_neighbors: the most points that a query may have. None: as many as there are. PyTorch: None on a device,
                where offsets are not read. JAX: None under `jit`. CUDA: None: offsets are not read.
            capacity: the most pairs that there may be. None: as many as there are. PyTorch: On a device, with one,
                arrays have that length, filled up with N, and zero in images and lengths. JAX: With one, arrays have
                that length, filled up with N, and zero in images and lengths. Needed under `jit`, where of more pairs
                there is none at all, and lengths are NaN. CUDA: With one, arrays have that length, filled up with N,
                and zero in images and lengths.
            order: (N,), what `spatial_order` gives for the points, or gave before they moved: it saves time alone.
            return_shifts, return_vectors: whether the images S and the vectors are returned too.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            `query_ptr` (M+1,) int32, where the points of each query begin, `indices` (P,) int32 and `distances` (P,),
            by query, index and S; then, if asked for, shifts (P, 3) int32 and vectors (P, 3), r_j − q_i + S · cell.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name. ValueError also
            where points do not fit `max_neighbors` or `capacity`: the message has the size that is needed. A list is
            never cut short.
        """
        return self._call(
            around.radius, stream, queries, points, radius, cell, pbc, query_batch_idx, batch_idx, max_neighbors,
            capacity, order, return_shifts, return_vectors,
        )

    def spatial_order(
        self, points: ArrayLike, cell: ArrayLike | None = None, pbc: Any = None, *,
        batch_idx: ArrayLike | None = None, stream: Any = None,
    ) -> Array:
        """An order in space of the points of each system, in which those that follow each other are neighbours.

        Given to searches as `order`, it saves them from finding one. Atoms that are sorted so (`points[order]`, of one
        system) make sums over neighbours faster. It follows Hilbert's curve.

        PyTorch: On a device nothing is read or waited for.

        CUDA: Nothing is waited for, but the number of systems that share one cell.

        Args:
            points: (N, 3), float32 or float64 or of half precision, anywhere.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
            pbc: (3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero. JAX: No traced array.
            batch_idx: (N,), the system of each point, sorted.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            (N,) int32: for each place the number of its point within its system, from 0 on.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name.
        """
        return self._call(
            around.spatial_order, stream, points, cell, pbc, batch_idx,
        )

    def radius_aggregate(
        self, queries: ArrayLike, points: ArrayLike, features: ArrayLike, radius: float, sigma: float | ArrayLike,
        cell: ArrayLike | None = None, pbc: Any = None, *, weight: Literal["exp", "gaussian", "inverse"] = "exp",
        normalize: bool = True, eps: float = 1e-8, query_batch_idx: ArrayLike | None = None,
        batch_idx: ArrayLike | None = None, order: ArrayLike | None = None, max_neighbors: int | None = None,
        stream: Any = None,
    ) -> Array:
        """Features of the points within a radius of each query, weighted by distance.

        Points are searched for while their features are added up, and no list of pairs is kept: memory grows with
        points and queries. On a device each pass, forwards and backwards, has a list while it runs. A query that is on
        a point has it at distance zero, where the distance has a derivative of zero. Points enter and leave at the
        radius with the weight that they have there, which is no part of the derivatives.

        PyTorch: Differentiable twice in queries, points, features and sigma. Compiled graphs hold the call (with a cell
        for each system where there are several), and captured ones with `max_neighbors`.

        JAX: Differentiable twice in queries, points, features and sigma. Under `jit` too (with a cell for each system
        where there are several).

        CUDA: Derivatives by `call`. With `max_neighbors` nothing is waited for, but the number of systems that share
        one cell.

        Args:
            queries: (M, 3), float32 or float64, anywhere; without a cell of any number of coordinates (up to three for
                features, vectors and grids that are kept). Those of half precision are searched in float32, and real
                results rounded back. CUDA: Not of half precision.
            points: (N, 3), or as many coordinates as the queries, of their dtype, anywhere; they may be the queries. Or
                a `HashGrid` of them, kept from call to call.
            features: (N, F), of the queries' dtype, or of half precision.
            radius: largest distance of a point that counts, in L. JAX: A Python number.
            sigma: length σ of the weight, one for all systems or (B,).
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
            pbc: (3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero. JAX: No traced array.
            weight: "exp": exp(−d/σ), "gaussian": exp(−d²/2σ²), "inverse": 1/(d + σ), where d is the distance.
            normalize: whether sums are divided by the sum of their weights and `eps`.
            eps: added to the sum of weights: a query without a point then has zeros.
            query_batch_idx, batch_idx: (M,) and (N,), the system of each query and of each point, sorted: a query sees
                the points of its own.
            order: (N,), what `spatial_order` gives for the points, or gave before they moved: it saves time alone.
            max_neighbors: on a device the most points of a query, on average, for which there is memory; None: as many
                as there are, for whose number every pass waits. The CPU needs none.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            (M, F), Σ w f / (Σ w + eps) over the points, and images of points, within the radius of each query.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name.
        """
        return self._call(
            around.radius_aggregate, stream, queries, points, features, radius, sigma, cell, pbc, weight, normalize,
            eps, query_batch_idx, batch_idx, order, max_neighbors,
        )

    def knn_aggregate(
        self, queries: ArrayLike, points: ArrayLike, features: ArrayLike, k: int, sigma: float | ArrayLike,
        cell: ArrayLike | None = None, pbc: Any = None, *,
        weight: Literal["softmax", "gaussian", "inverse"] = "softmax", query_batch_idx: ArrayLike | None = None,
        batch_idx: ArrayLike | None = None, radius: float | None = None, order: ArrayLike | None = None,
        stream: Any = None,
    ) -> Array:
        """Features of the k nearest points of each query, weighted by distance.

        With periodic axes every image counts as a point of its own. A query that is on a point has it at distance zero,
        where the distance has a derivative of zero.

        PyTorch: Differentiable twice in queries, points, features and sigma; which points are nearest is not. Compiled
        graphs hold the call (with a cell for each system where there are several). On a device nothing is read or
        waited for.

        JAX: Differentiable twice in queries, points, features and sigma; which points are nearest is not. Under `jit`
        too (with a cell for each system where there are several).

        CUDA: Derivatives by `call`. Nothing is waited for, but the number of systems that share one cell.

        Args:
            queries: (M, 3), float32 or float64, anywhere; without a cell of any number of coordinates (up to three for
                features, vectors and grids that are kept). Those of half precision are searched in float32, and real
                results rounded back. CUDA: Not of half precision.
            points: (N, 3), or as many coordinates as the queries, of their dtype, anywhere; they may be the queries. Or
                a `HashGrid` of them, kept from call to call.
            features: (N, F), of the queries' dtype, or of half precision.
            k: how many points each query has, from 1 up.
            sigma: length σ of the weight, one for all systems or (B,).
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
            pbc: (3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero. JAX: No traced array.
            weight: "softmax": exp(−d/σ), "gaussian": exp(−d²/2σ²), "inverse": 1/(d + σ), where d is the distance. Each
                is relative to the largest of its query, so weights never vanish together.
            query_batch_idx, batch_idx: (M,) and (N,), the system of each query and of each point, sorted: a query sees
                the points of its own.
            radius: largest distance of a point that counts, in L, or infinity: a query may then have fewer than k
                points. None: each has k. JAX: A Python number.
            order: (N,), what `spatial_order` gives for the points, or gave before they moved: it saves time alone.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            (M, F), Σ w f / Σ w over the k nearest points of each query, zero for one without a point.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name. ValueError also
            where a query has fewer than k points, and `radius` is None: the message says how many.
        """
        return self._call(
            around.knn_aggregate, stream, queries, points, features, k, sigma, cell, pbc, weight, query_batch_idx,
            batch_idx, radius, order,
        )

    @overload
    def harmonic_bonds(
        self, positions: ArrayLike, atoms: ArrayLike, stiffness: ArrayLike, rest: ArrayLike,
        cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
        compute_forces: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def harmonic_bonds(
        self, positions: ArrayLike, atoms: ArrayLike, stiffness: ArrayLike, rest: ArrayLike,
        cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def harmonic_bonds(
        self, positions: ArrayLike, atoms: ArrayLike, stiffness: ArrayLike, rest: ArrayLike,
        cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """Harmonic bonds: ½k(r − r₀)².

        Terms of Urey and Bradley are harmonic bonds between the outer atoms of angles. Programs that write k(r − r₀)²
        (AMBER, CHARMM, LAMMPS) have half of this k.

        PyTorch, JAX: Differentiable twice in positions, cell and parameters, forces and virial once more.

        Args:
            positions: (N, 3), float32 or float64.
            atoms: (P, 2), the two atoms of each bond.
            stiffness: (P,), the constant k, an energy over a length squared.
            rest: (P,), the length r₀.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. The vector between two bonded atoms is then that to the
                image whose components along the lattice vectors are nearest to zero: the nearest one wherever the two
                are closer than half of each height of the cell. None: no axis is periodic.
            pbc: (3,) or (B, 3) of bool, with a cell. None: all axes. An axis whose lattice vector is zero is open.
                CUDA: An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), a term's energy split equally between its atoms, followed by the requested ones
            of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3), or
            (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for an
            atom twice in a term, atoms of two systems, and bonded atoms on one point, with the term. JAX: What only the
            kernel can see is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            bonded.harmonic_bonds, stream, positions, atoms, stiffness, rest, cell, pbc, batch_idx, (prefactor,
            energy_reduction, compute_forces, compute_virial),
        )

    @overload
    def morse_bonds(
        self, positions: ArrayLike, atoms: ArrayLike, depth: ArrayLike, steepness: ArrayLike, rest: ArrayLike,
        cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
        compute_forces: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def morse_bonds(
        self, positions: ArrayLike, atoms: ArrayLike, depth: ArrayLike, steepness: ArrayLike, rest: ArrayLike,
        cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def morse_bonds(
        self, positions: ArrayLike, atoms: ArrayLike, depth: ArrayLike, steepness: ArrayLike, rest: ArrayLike,
        cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """Morse's bonds: D[1 − exp(−a(r − r₀))]².

        Morse, Phys. Rev. 34, 57 (1929). The energy is 0 at r₀, and D of two atoms far apart.

        PyTorch, JAX: Differentiable twice in positions, cell and parameters, forces and virial once more.

        Args:
            positions: (N, 3), float32 or float64.
            atoms: (P, 2), the two atoms of each bond.
            depth: (P,), the energy D.
            steepness: (P,), the inverse length a.
            rest: (P,), the length r₀.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. The vector between two bonded atoms is then that to the
                image whose components along the lattice vectors are nearest to zero: the nearest one wherever the two
                are closer than half of each height of the cell. None: no axis is periodic.
            pbc: (3,) or (B, 3) of bool, with a cell. None: all axes. An axis whose lattice vector is zero is open.
                CUDA: An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), a term's energy split equally between its atoms, followed by the requested ones
            of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3), or
            (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for an
            atom twice in a term, atoms of two systems, and bonded atoms on one point, with the term. JAX: What only the
            kernel can see is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            bonded.morse_bonds, stream, positions, atoms, depth, steepness, rest, cell, pbc, batch_idx, (prefactor,
            energy_reduction, compute_forces, compute_virial),
        )

    @overload
    def harmonic_angles(
        self, positions: ArrayLike, atoms: ArrayLike, stiffness: ArrayLike, rest: ArrayLike,
        cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
        compute_forces: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def harmonic_angles(
        self, positions: ArrayLike, atoms: ArrayLike, stiffness: ArrayLike, rest: ArrayLike,
        cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def harmonic_angles(
        self, positions: ArrayLike, atoms: ArrayLike, stiffness: ArrayLike, rest: ArrayLike,
        cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """Harmonic angles: ½k(θ − θ₀)², in radians.

        An angle of 0 or 180° has no derivative, and is an error where one is asked for: `cosine_angles` has those of
        atoms in a line. Programs that write k(θ − θ₀)² (AMBER, CHARMM, LAMMPS) have half of this k.

        PyTorch, JAX: Differentiable twice in positions, cell and parameters, forces and virial once more.

        Args:
            positions: (N, 3), float32 or float64.
            atoms: (P, 3), the three atoms of each angle, the one at its corner in the middle.
            stiffness: (P,), the energy k.
            rest: (P,), the angle θ₀, in radians.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. The vector between two bonded atoms is then that to the
                image whose components along the lattice vectors are nearest to zero: the nearest one wherever the two
                are closer than half of each height of the cell. None: no axis is periodic.
            pbc: (3,) or (B, 3) of bool, with a cell. None: all axes. An axis whose lattice vector is zero is open.
                CUDA: An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), a term's energy split equally between its atoms, followed by the requested ones
            of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3), or
            (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for an
            atom twice in a term, atoms of two systems, and bonded atoms on one point, with the term. JAX: What only the
            kernel can see is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            bonded.harmonic_angles, stream, positions, atoms, stiffness, rest, cell, pbc, batch_idx, (prefactor,
            energy_reduction, compute_forces, compute_virial),
        )

    @overload
    def cosine_angles(
        self, positions: ArrayLike, atoms: ArrayLike, stiffness: ArrayLike, rest: ArrayLike,
        cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
        compute_forces: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def cosine_angles(
        self, positions: ArrayLike, atoms: ArrayLike, stiffness: ArrayLike, rest: ArrayLike,
        cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def cosine_angles(
        self, positions: ArrayLike, atoms: ArrayLike, stiffness: ArrayLike, rest: ArrayLike,
        cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """Angles harmonic in the cosine: ½k(cos θ − cos θ₀)², of GROMOS and DREIDING.

        It has all derivatives where the atoms lie in a line.

        PyTorch, JAX: Differentiable twice in positions, cell and parameters, forces and virial once more.

        Args:
            positions: (N, 3), float32 or float64.
            atoms: (P, 3), the three atoms of each angle, the one at its corner in the middle.
            stiffness: (P,), the energy k.
            rest: (P,), the angle θ₀, in radians.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. The vector between two bonded atoms is then that to the
                image whose components along the lattice vectors are nearest to zero: the nearest one wherever the two
                are closer than half of each height of the cell. None: no axis is periodic.
            pbc: (3,) or (B, 3) of bool, with a cell. None: all axes. An axis whose lattice vector is zero is open.
                CUDA: An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), a term's energy split equally between its atoms, followed by the requested ones
            of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3), or
            (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for an
            atom twice in a term, atoms of two systems, and bonded atoms on one point, with the term. JAX: What only the
            kernel can see is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            bonded.cosine_angles, stream, positions, atoms, stiffness, rest, cell, pbc, batch_idx, (prefactor,
            energy_reduction, compute_forces, compute_virial),
        )

    @overload
    def periodic_dihedrals(
        self, positions: ArrayLike, atoms: ArrayLike, stiffness: ArrayLike, periodicity: ArrayLike,
        phase: ArrayLike, cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
        compute_forces: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def periodic_dihedrals(
        self, positions: ArrayLike, atoms: ArrayLike, stiffness: ArrayLike, periodicity: ArrayLike,
        phase: ArrayLike, cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def periodic_dihedrals(
        self, positions: ArrayLike, atoms: ArrayLike, stiffness: ArrayLike, periodicity: ArrayLike,
        phase: ArrayLike, cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """Periodic dihedrals, proper or improper: k[1 + cos(nφ − φ₀)].

        A Fourier series is several terms of the same atoms.

        PyTorch, JAX: Differentiable twice in positions, cell and parameters, forces and virial once more.

        Args:
            positions: (N, 3), float32 or float64.
            atoms: (P, 4), the four atoms of each dihedral angle, in the order of its bonds. It is 0 where the outer two
                are on one side, and positive for a right-handed screw (IUPAC).
            stiffness: (P,), the energy k.
            periodicity: (P,), the number n of minima, of the dtype of the positions.
            phase: (P,), the angle φ₀, in radians.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. The vector between two bonded atoms is then that to the
                image whose components along the lattice vectors are nearest to zero: the nearest one wherever the two
                are closer than half of each height of the cell. None: no axis is periodic.
            pbc: (3,) or (B, 3) of bool, with a cell. None: all axes. An axis whose lattice vector is zero is open.
                CUDA: An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), a term's energy split equally between its atoms, followed by the requested ones
            of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3), or
            (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for an
            atom twice in a term, atoms of two systems, and bonded atoms on one point, with the term. JAX: What only the
            kernel can see is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            bonded.periodic_dihedrals, stream, positions, atoms, stiffness, periodicity, phase, cell, pbc, batch_idx,
            (prefactor, energy_reduction, compute_forces, compute_virial),
        )

    @overload
    def ryckaert_bellemans(
        self, positions: ArrayLike, atoms: ArrayLike, c0: ArrayLike, c1: ArrayLike, c2: ArrayLike, c3: ArrayLike,
        c4: ArrayLike, c5: ArrayLike, cell: ArrayLike | None = None, *, pbc: Any = None,
        batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: Literal[False] = False,
        compute_virial: Literal[False] = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def ryckaert_bellemans(
        self, positions: ArrayLike, atoms: ArrayLike, c0: ArrayLike, c1: ArrayLike, c2: ArrayLike, c3: ArrayLike,
        c4: ArrayLike, c5: ArrayLike, cell: ArrayLike | None = None, *, pbc: Any = None,
        batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def ryckaert_bellemans(
        self, positions: ArrayLike, atoms: ArrayLike, c0: ArrayLike, c1: ArrayLike, c2: ArrayLike, c3: ArrayLike,
        c4: ArrayLike, c5: ArrayLike, cell: ArrayLike | None = None, *, pbc: Any = None,
        batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """Ryckaert–Bellemans dihedrals: Σₙ Cₙ cosⁿ(φ − π), n = 0 to 5.

        Ryckaert and Bellemans, Chem. Phys. Lett. 30, 123 (1975).

        PyTorch, JAX: Differentiable twice in positions, cell and parameters, forces and virial once more.

        Args:
            positions: (N, 3), float32 or float64.
            atoms: (P, 4), the four atoms of each dihedral angle, in the order of its bonds. It is 0 where the outer two
                are on one side, and positive for a right-handed screw (IUPAC).
            c0: (P,), the energy C₀.
            c1: (P,), the energy C₁.
            c2: (P,), the energy C₂.
            c3: (P,), the energy C₃.
            c4: (P,), the energy C₄.
            c5: (P,), the energy C₅.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. The vector between two bonded atoms is then that to the
                image whose components along the lattice vectors are nearest to zero: the nearest one wherever the two
                are closer than half of each height of the cell. None: no axis is periodic.
            pbc: (3,) or (B, 3) of bool, with a cell. None: all axes. An axis whose lattice vector is zero is open.
                CUDA: An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), a term's energy split equally between its atoms, followed by the requested ones
            of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3), or
            (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for an
            atom twice in a term, atoms of two systems, and bonded atoms on one point, with the term. JAX: What only the
            kernel can see is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            bonded.ryckaert_bellemans, stream, positions, atoms, c0, c1, c2, c3, c4, c5, cell, pbc, batch_idx,
            (prefactor, energy_reduction, compute_forces, compute_virial),
        )

    @overload
    def harmonic_impropers(
        self, positions: ArrayLike, atoms: ArrayLike, stiffness: ArrayLike, rest: ArrayLike,
        cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
        compute_forces: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def harmonic_impropers(
        self, positions: ArrayLike, atoms: ArrayLike, stiffness: ArrayLike, rest: ArrayLike,
        cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def harmonic_impropers(
        self, positions: ArrayLike, atoms: ArrayLike, stiffness: ArrayLike, rest: ArrayLike,
        cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """Harmonic improper dihedrals: ½k(φ − φ₀)², with the difference in [−π, π].

        The improper of CHARMM, which writes k(φ − φ₀)² and has half of this k.

        PyTorch, JAX: Differentiable twice in positions, cell and parameters, forces and virial once more.

        Args:
            positions: (N, 3), float32 or float64.
            atoms: (P, 4), the four atoms of each dihedral angle, in the order of its bonds. It is 0 where the outer two
                are on one side, and positive for a right-handed screw (IUPAC).
            stiffness: (P,), the energy k.
            rest: (P,), the angle φ₀, in radians.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. The vector between two bonded atoms is then that to the
                image whose components along the lattice vectors are nearest to zero: the nearest one wherever the two
                are closer than half of each height of the cell. None: no axis is periodic.
            pbc: (3,) or (B, 3) of bool, with a cell. None: all axes. An axis whose lattice vector is zero is open.
                CUDA: An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), a term's energy split equally between its atoms, followed by the requested ones
            of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3), or
            (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for an
            atom twice in a term, atoms of two systems, and bonded atoms on one point, with the term. JAX: What only the
            kernel can see is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            bonded.harmonic_impropers, stream, positions, atoms, stiffness, rest, cell, pbc, batch_idx, (prefactor,
            energy_reduction, compute_forces, compute_virial),
        )

    @overload
    def lennard_jones_pairs(
        self, positions: ArrayLike, atoms: ArrayLike, epsilon: ArrayLike, sigma: ArrayLike,
        cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
        compute_forces: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def lennard_jones_pairs(
        self, positions: ArrayLike, atoms: ArrayLike, epsilon: ArrayLike, sigma: ArrayLike,
        cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def lennard_jones_pairs(
        self, positions: ArrayLike, atoms: ArrayLike, epsilon: ArrayLike, sigma: ArrayLike,
        cell: ArrayLike | None = None, *, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """Lennard-Jones potentials of given pairs: 4ε[(σ/r)¹² − (σ/r)⁶], without a cutoff.

        Those that force fields have between atoms three bonds apart (1-4), which `exclusions` leave out of
        `lennard_jones`.

        PyTorch, JAX: Differentiable twice in positions, cell and parameters, forces and virial once more.

        Args:
            positions: (N, 3), float32 or float64.
            atoms: (P, 2), the two atoms of each pair.
            epsilon: (P,), the depth ε.
            sigma: (P,), the length σ.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. The vector between two bonded atoms is then that to the
                image whose components along the lattice vectors are nearest to zero: the nearest one wherever the two
                are closer than half of each height of the cell. None: no axis is periodic.
            pbc: (3,) or (B, 3) of bool, with a cell. None: all axes. An axis whose lattice vector is zero is open.
                CUDA: An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), a term's energy split equally between its atoms, followed by the requested ones
            of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3), or
            (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for an
            atom twice in a term, atoms of two systems, and bonded atoms on one point, with the term. JAX: What only the
            kernel can see is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            bonded.lennard_jones_pairs, stream, positions, atoms, epsilon, sigma, cell, pbc, batch_idx, (prefactor,
            energy_reduction, compute_forces, compute_virial),
        )

    @overload
    def slab_correction(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, pbc: Any, *,
        batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: Literal[False] = False,
        compute_charge_gradients: Literal[False] = False, compute_virial: Literal[False] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def slab_correction(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, pbc: Any, *,
        batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def slab_correction(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, pbc: Any, *,
        batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """The correction of a sum over the lattice for slabs, which are no lattice along their normal.

        (2π/V) [(Σ q z)² − Q Σ q z² − Q² L²/12] with the height z along the normal and the period L, in any cell,
        charged or not (Yeh and Berkowitz, J. Chem. Phys. 111, 3155 (1999); Ballenegger, Arnold and Cerdà, J. Chem.
        Phys. 131, 094107 (2009)). To be added to an Ewald sum, as `slab_correction=True` does there. Atoms of a slab
        are not wrapped along its normal. Zero for all other systems.

        Args:
            positions: (N, 3), float32 or float64.
            charges: (N,), of the positions' dtype, as all real arrays. Or (N, C), C sets of charges, each with its own
                results. Without a list and parameters each set searches for itself. CUDA: The call then waits for the
                charges and the results, which are split and joined on the host.
            cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness. CUDA:
                With `batch_idx`, a cell (3, 3) makes the call wait.
            pbc: (3,) or (B, 3) of bool, the periodic axes: a system with two of them is a slab.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces, compute_charge_gradients: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            hybrid_forces: the energy's first derivative by positions and cell is zero and by the charges ∂E/∂q, so that
                forces (at fixed charges) and what differentiation brings through charges that depend on the positions
                add up to the total force. Nothing is detached: second derivatives through the charges are those of the
                true function. Of `madelung.torch` and `madelung.jax`, which differentiate.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q
            (N,) (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B,
            3, 3), or (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a
            tuple. Of charges (N, C) energies and charge gradients are (N, C), or energies (B, C), forces (N, C, 3) and
            virials (C, 3, 3) or (B, C, 3, 3), of each atom (N, C, 3, 3).

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            boundaries.slab_correction, stream, positions, charges, cell, pbc, batch_idx, (prefactor, energy_reduction,
            compute_forces, compute_charge_gradients, compute_virial, hybrid_forces),
        )

    def qeq(
        self, positions: ArrayLike, electronegativity: ArrayLike, hardness: ArrayLike, widths: ArrayLike,
        cell: ArrayLike | None = None, total_charge: ArrayLike = 0.0, *, molecule_idx: ArrayLike | None = None,
        held_atoms: ArrayLike | None = None, held_charges: ArrayLike | None = None,
        initial_charges: ArrayLike | None = None, external_field: ArrayLike | None = None,
        orbital_exponents: ArrayLike | None = None,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        alpha: float | ArrayLike | None = None, k_cutoff: float | ArrayLike | None = None,
        cutoff: float | ArrayLike | None = None, miller_indices: ArrayLike | None = None,
        miller_batch_idx: ArrayLike | None = None,
        mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None,
        mesh_spacing: float | None = None, spline_order: int | tuple[int, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, accuracy: float | None = None, pbc: Any = None,
        slab_correction: bool = False, slab_height: float | ArrayLike | None = None,
        method: Literal["ewald", "pme"] | None = None, batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False,
    ) -> tuple[Array, ...]:
        """The charges that minimise an energy at a fixed total charge: charge equilibration of Gaussian charges.

        E(q) = Σ χ_i q_i + ½ Σ η_i q_i² + E_Coulomb(q), the last for Gaussian charges of widths σ_i with whatever
        boundaries `pbc` says (`gaussian_correction` on top of an Ewald sum). Rappé and Goddard, J. Phys. Chem. 95, 3358
        (1991), with the Gaussians of Ko, Finkler, Goedecker and Behler, Nat. Commun. 12, 398 (2021). By conjugate
        gradients, for each system of a batch alone; no matrix is made.

        PyTorch: Differentiable twice in everything but the accuracy and the parameters of the sum: each differentiation
        solves for charges again, by the implicit function theorem. Compiled graphs hold the call as one op, which reads
        values: they may leave open what other calls may, and have one derivative.

        JAX: Differentiable twice in everything but the accuracy and the parameters of the sum, by backward passes and
        forward derivatives of one: each differentiation solves for charges again, by the implicit function theorem.
        Under `jit`, `vmap` and `scan` the list, `cutoff`, `alpha`, and `miller_indices` or `mesh_dimensions` are given,
        and `molecule_idx`, `held_atoms` and `orbital_exponents` have values. There charges of a system without a
        minimum are NaN, and so are its other results.

        Args:
            positions: (N, 3), float32 or float64.
            electronegativity: (N,), χ, in units of energy over charge, that of the energies: see `prefactor`.
            hardness: (N,), η, in units of energy over charge squared.
            widths: (N,), the width σ of each charge, in L, above zero.
            cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors. None: no axis is periodic.
            total_charge: of each system, a number or (B,); with `molecule_idx` of each molecule, (M,).
            molecule_idx: (N,), the molecule of each atom, from 0 on, each in one system: each keeps a total charge of
                its own. None: charge goes all over a system.
            held_atoms, held_charges: (H,), atoms whose charges are `held_charges`, (H,), each once; the others take the
                rest.
            initial_charges: (N,), charges to start from, as of the step before. None: alike in all atoms of a total
                charge.
            external_field: uniform electric field, (3,) or (B, 3), in units of energy over charge and length: −Σ qᵢ
                rᵢ·field is part of the energy. Along periodic axes it depends on which images of the atoms are given,
                but with `orbital_exponents`.
            orbital_exponents: (N,), α of an orbital exp(−αr²) of each atom, in 1/L²: atoms attract charge from others
                as far as their orbitals overlap (QTPIE). With the overlaps S, 1 of an orbital with itself, the
                electronegativity of atom i is Σⱼ Sᵢⱼ (χᵢ − χⱼ)/Σⱼ Sᵢⱼ over all atoms and images, and a field is among
                the χ (Chen and Martínez, Chem. Phys. Lett. 463, 288 (2008)). A list that is given has to reach √(78/α).
                None: χ, wherever atoms are.
            exclusions: pairs (P, 2) of atoms that are left out, each once; or a tuple of pairs and factors (P,), or one
                for all, by which their energies are multiplied instead of 0 (differentiable), or of pairs, factors (or
                None) and images (P, 3), the nearest by default. A factor counts for the whole interaction of the pair,
                in the real and the reciprocal part alike; a pair that is left out may lie on one point.
            alpha: splitting parameter in 1/L, one for all systems or (B,). The result does not depend on it, but for
                the error that the cutoffs leave.
            k_cutoff: radius of the reciprocal sum, in radians per L, one for all systems or (B,). CUDA: The cell is
                then read, for which the call waits.
            cutoff: radius of the real-space sum, in L, one for all systems or (B,); one is needed with a neighbour
                list. JAX: Python numbers.
            miller_indices, miller_batch_idx: in place of `k_cutoff` the wave vectors themselves, (K, 3), and the system
                of each, (K,), sorted, as `generate_miller_indices` returns them; the latter may be left out for one
                system.
            mesh_dimensions: nodes of the mesh along each lattice vector, three integers, for all systems or for each
                (B, 3). They are Python integers, so that shapes are known in graphs and under `jit`.
            mesh_spacing: in their place, how far apart nodes may be along a lattice vector, in L. PyTorch: Where it is
                given the cell is read. JAX: Not under `jit`. CUDA: The cell is then read, for which the call waits.
            spline_order: order p of the splines, 4 to 8, for all systems or for each: they are polynomials of degree p
                − 1, over p nodes of each axis. None: 5 with a mesh, else the order at which the sum costs the least for
                its accuracy.
            neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
                atoms, another cell or a smaller cutoff, or if an atom has moved by more than half the skin of a
                `NeighborList` since its `update`, where values can be read. JAX: Under `jit` one of another cell makes
                every result NaN.
            neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than
                the cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or
                in a half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not
                at all. Without a list the call builds one. JAX: A list that has overflown its capacity makes every
                result NaN. CUDA: For that it waits.
            neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. JAX: Not under `jit`.
                CUDA: It is read, and made a list on the host, as is a list without offsets.
            half_fill: whether the list that is given has every pair once. JAX: Not under `jit`. CUDA: It is then made
                full on the host.
            accuracy: of the Ewald sum: the RMS force error that charges of ±1 would have, in units of 1/(V/N)^(2/3),
                from 1e-14 (1e-5 in float32) to below 1. Parameters that are None are chosen for it, and given ones that
                cannot meet it are an error. None: given ones are taken as they are, and others are chosen for 1e-6
                (1e-5 in float32).
            pbc: (3,) or (B, 3) of bool, the periodic axes of all systems or of each. Left out, an axis is periodic
                where its vector in `cell` is not zero. Three axes: Ewald's sum. Two: a slab, with
                `slab_correction=True`. One: a wire, summed over all pairs and all images along the axis, exactly; only
                the vector along the axis counts. No axis: an open system, summed over all pairs, exactly; its cell is
                not looked at. Wires and open systems need no list: pairs of theirs count in a given one with
                `exclusions`, `widths` or an `exponent` alone. PyTorch: In a compiled graph a tensor where all else is
                given: a given list is taken as made for these axes, slabs without `slab_correction` are NaN, and
                without `pbc` no vector may be zero. JAX: Under `jit` a traced array where all else is given: a given
                list is taken as made for these axes, slabs without `slab_correction` are NaN, and without `pbc` no
                vector may be zero. CUDA: An array of NumPy; True everywhere.
            slab_correction: whether systems may be periodic along two axes: they then get the correction for slabs, see
                `slab_correction`, and are summed in a cell of the library's own height, or of `slab_height`. The vector
                along the open axis does not count, and may be zero. JAX: Under `jit` give `slab_height`.
            slab_height: height of the cells of slabs along their normal, in L, one for all systems or (B,), for calls
                that cannot read values: the thickness of the slab and a gap g of at least the cutoff, whose error falls
                as exp(−2πg/L) with the longer period L along the slab: g = 2.1 L for 1e-6 of the forces. None: chosen
                for `accuracy` from cell and positions. With `miller_indices` and `mesh_dimensions`, which belong to a
                cell, that of the cell, whose gap is looked at: without values, in graphs, under transforms and on
                devices, it is needed there.
            method: "ewald" (sums over waves) or "pme" (on a mesh, for large systems). None: the one that costs less;
                over waves for an accuracy below 1e-10.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.

        Returns:
            The charges (N,) and the energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3) and
            virial −∂E/∂ε, which are those at fixed charges and of the whole energy alike, as it does not change with
            the charges to first order.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point.
            ValueError: Also where a hardness is so small that the energy has no minimum. JAX: What only the kernel can
            see (two charges on one point, a cell that is not finite under `jit`) is raised by XLA as
            `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            equilibration.qeq, None, positions, electronegativity, hardness, widths, cell, total_charge, (molecule_idx,
            held_atoms, held_charges, initial_charges), external_field, orbital_exponents, exclusions, alpha, k_cutoff,
            cutoff, (miller_indices, miller_batch_idx), (mesh_dimensions, mesh_spacing, spline_order), (neighbors,
            neighbor_list, neighbor_ptr, neighbor_shifts, neighbor_matrix, neighbor_matrix_shifts, fill_value,
            half_fill), accuracy, pbc, slab_correction, slab_height, method, batch_idx, (prefactor, energy_reduction,
            compute_forces, compute_virial),
        )

    @overload
    def ewald_real_space(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, alpha: float | ArrayLike, *,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, cutoff: float | None = None,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None, exponent: int = 1,
        law: BoundLaw | None = None, batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: Literal[False] = False,
        compute_charge_gradients: Literal[False] = False, compute_virial: Literal[False] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def ewald_real_space(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, alpha: float | ArrayLike, *,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, cutoff: float | None = None,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None, exponent: int = 1,
        law: BoundLaw | None = None, batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def ewald_real_space(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, alpha: float | ArrayLike, *,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, cutoff: float | None = None,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None, exponent: int = 1,
        law: BoundLaw | None = None, batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """The real-space part of an Ewald sum: ½ Σ q_i q_j erfc(αr)/r over pairs closer than `cutoff`.

        Args:
            positions: (N, 3), float32 or float64.
            charges: (N,), of the positions' dtype, as all real arrays. Or (N, C), C sets of charges, each with its own
                results. Without a list and parameters each set searches for itself. CUDA: The call then waits for the
                charges and the results, which are split and joined on the host.
            cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness. CUDA:
                With `batch_idx`, a cell (3, 3) makes the call wait.
            alpha: splitting parameter in 1/L, one for all systems or (B,). The result does not depend on it, but for
                the error that the cutoffs leave.
            neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
                atoms, another cell or a smaller cutoff, or if an atom has moved by more than half the skin of a
                `NeighborList` since its `update`, where values can be read. JAX: Under `jit` one of another cell makes
                every result NaN.
            neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than
                the cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or
                in a half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not
                at all. Without a list the call builds one. JAX: A list that has overflown its capacity makes every
                result NaN. CUDA: For that it waits.
            neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. JAX: Not under `jit`.
                CUDA: It is read, and made a list on the host, as is a list without offsets.
            half_fill: whether the list that is given has every pair once. JAX: Not under `jit`. CUDA: It is then made
                full on the host.
            cutoff: radius of the real-space sum, in L. May be left out where a list is given: then all its pairs count.
                JAX: A Python number.
            exclusions: pairs (P, 2) of atoms that are left out, each once; or a tuple of pairs and factors (P,), or one
                for all, by which their energies are multiplied instead of 0 (differentiable), or of pairs, factors (or
                None) and images (P, 3), the nearest by default. A factor counts for the whole interaction of the pair,
                in the real and the reciprocal part alike; a pair that is left out may lie on one point.
            exponent: p of the pair law q_i q_j/rᵖ, 1 to 6: 1 of charges, 6 of dispersion, with the coefficients √C₆ of
                atoms as charges and a prefactor of −1. For p = 3 systems are neutral.
            law: in place of the exponent a pair law of one's own with its parameters, as `yukawa(kappa=0.8)`: what
                `madelung.kernels.law` makes. Crystals alone; α, the cutoff, and waves or mesh are given, as nothing
                estimates the errors of such a sum, and `accuracy` is None. Differentiable by the parameters. CUDA:
                Parameters are numbers, or what `madelung.cuda.asarray` gives.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces, compute_charge_gradients: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            hybrid_forces: the energy's first derivative by positions and cell is zero and by the charges ∂E/∂q, so that
                forces (at fixed charges) and what differentiation brings through charges that depend on the positions
                add up to the total force. Nothing is detached: second derivatives through the charges are those of the
                true function. Of `madelung.torch` and `madelung.jax`, which differentiate.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q
            (N,) (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B,
            3, 3), or (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a
            tuple. Of charges (N, C) energies and charge gradients are (N, C), or energies (B, C), forces (N, C, 3) and
            virials (C, 3, 3) or (B, C, 3, 3), of each atom (N, C, 3, 3).

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            ewald.ewald_real_space, stream, positions, charges, cell, alpha, (neighbors, neighbor_list, neighbor_ptr,
            neighbor_shifts, neighbor_matrix, neighbor_matrix_shifts, fill_value, half_fill), cutoff, exclusions,
            (exponent, law), batch_idx, (prefactor, energy_reduction, compute_forces, compute_charge_gradients,
            compute_virial, hybrid_forces),
        )

    @overload
    def ewald_reciprocal_space(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, alpha: float | ArrayLike,
        k_cutoff: float | ArrayLike | None = None, *, miller_indices: ArrayLike | None = None,
        miller_batch_idx: ArrayLike | None = None,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None, exponent: int = 1,
        law: BoundLaw | None = None, batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: Literal[False] = False,
        compute_charge_gradients: Literal[False] = False, compute_virial: Literal[False] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def ewald_reciprocal_space(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, alpha: float | ArrayLike,
        k_cutoff: float | ArrayLike | None = None, *, miller_indices: ArrayLike | None = None,
        miller_batch_idx: ArrayLike | None = None,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None, exponent: int = 1,
        law: BoundLaw | None = None, batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def ewald_reciprocal_space(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, alpha: float | ArrayLike,
        k_cutoff: float | ArrayLike | None = None, *, miller_indices: ArrayLike | None = None,
        miller_batch_idx: ArrayLike | None = None,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None, exponent: int = 1,
        law: BoundLaw | None = None, batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """The reciprocal part of an Ewald sum, over 0 < |k| ≤ `k_cutoff`.

        The self term −α/√π Σq² and the uniform background −πQ²/(2α²V) of a charged cell are part of it.

        Args:
            positions: (N, 3), float32 or float64.
            charges: (N,), of the positions' dtype, as all real arrays. Or (N, C), C sets of charges, each with its own
                results. Without a list and parameters each set searches for itself. CUDA: The call then waits for the
                charges and the results, which are split and joined on the host.
            cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness. CUDA:
                With `batch_idx`, a cell (3, 3) makes the call wait.
            alpha: splitting parameter in 1/L, one for all systems or (B,). The result does not depend on it, but for
                the error that the cutoffs leave.
            k_cutoff: radius of the reciprocal sum, in radians per L, one for all systems or (B,). CUDA: The cell is
                then read, for which the call waits.
            miller_indices, miller_batch_idx: in place of `k_cutoff` the wave vectors themselves, (K, 3), and the system
                of each, (K,), sorted, as `generate_miller_indices` returns them; the latter may be left out for one
                system.
            exclusions: pairs (P, 2) of atoms that are left out, each once; or a tuple of pairs and factors (P,), or one
                for all, by which their energies are multiplied instead of 0 (differentiable), or of pairs, factors (or
                None) and images (P, 3), the nearest by default. A factor counts for the whole interaction of the pair,
                in the real and the reciprocal part alike; a pair that is left out may lie on one point.
            exponent: p of the pair law q_i q_j/rᵖ, 1 to 6: 1 of charges, 6 of dispersion, with the coefficients √C₆ of
                atoms as charges and a prefactor of −1. For p = 3 systems are neutral.
            law: in place of the exponent a pair law of one's own with its parameters, as `yukawa(kappa=0.8)`: what
                `madelung.kernels.law` makes. Crystals alone; α, the cutoff, and waves or mesh are given, as nothing
                estimates the errors of such a sum, and `accuracy` is None. Differentiable by the parameters. CUDA:
                Parameters are numbers, or what `madelung.cuda.asarray` gives.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces, compute_charge_gradients: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            hybrid_forces: the energy's first derivative by positions and cell is zero and by the charges ∂E/∂q, so that
                forces (at fixed charges) and what differentiation brings through charges that depend on the positions
                add up to the total force. Nothing is detached: second derivatives through the charges are those of the
                true function. Of `madelung.torch` and `madelung.jax`, which differentiate.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q
            (N,) (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B,
            3, 3), or (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a
            tuple. Of charges (N, C) energies and charge gradients are (N, C), or energies (B, C), forces (N, C, 3) and
            virials (C, 3, 3) or (B, C, 3, 3), of each atom (N, C, 3, 3).

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            ewald.ewald_reciprocal_space, stream, positions, charges, cell, alpha, k_cutoff, (miller_indices,
            miller_batch_idx), exclusions, (exponent, law), batch_idx, (prefactor, energy_reduction, compute_forces,
            compute_charge_gradients, compute_virial, hybrid_forces),
        )

    @overload
    def ewald_summation(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, alpha: float | ArrayLike | None = None, *,
        k_cutoff: float | ArrayLike | None = None, cutoff: float | ArrayLike | None = None,
        miller_indices: ArrayLike | None = None, miller_batch_idx: ArrayLike | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None, exponent: int = 1,
        law: BoundLaw | None = None, widths: ArrayLike | None = None, accuracy: float | None = None,
        pbc: Any = None, slab_correction: bool = False, slab_height: float | ArrayLike | None = None,
        method: Literal["direct", "list"] | None = None, batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: Literal[False] = False,
        compute_charge_gradients: Literal[False] = False, compute_virial: Literal[False] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def ewald_summation(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, alpha: float | ArrayLike | None = None, *,
        k_cutoff: float | ArrayLike | None = None, cutoff: float | ArrayLike | None = None,
        miller_indices: ArrayLike | None = None, miller_batch_idx: ArrayLike | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None, exponent: int = 1,
        law: BoundLaw | None = None, widths: ArrayLike | None = None, accuracy: float | None = None,
        pbc: Any = None, slab_correction: bool = False, slab_height: float | ArrayLike | None = None,
        method: Literal["direct", "list"] | None = None, batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def ewald_summation(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, alpha: float | ArrayLike | None = None, *,
        k_cutoff: float | ArrayLike | None = None, cutoff: float | ArrayLike | None = None,
        miller_indices: ArrayLike | None = None, miller_batch_idx: ArrayLike | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None, exponent: int = 1,
        law: BoundLaw | None = None, widths: ArrayLike | None = None, accuracy: float | None = None,
        pbc: Any = None, slab_correction: bool = False, slab_height: float | ArrayLike | None = None,
        method: Literal["direct", "list"] | None = None, batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """The Coulomb energy of periodic point charges, by Ewald's sum (Ann. Phys. 369, 253 (1921)).

        Crystals, slabs, wires and molecules may be in one batch: see `pbc`. A charged cell gets a uniform background.
        Those of `alpha`, `cutoff` and `k_cutoff` that are None are chosen for `accuracy`, for each system alone (see
        `estimate_ewald_parameters`); where all are, small systems are summed directly (see `method`). With
        `miller_indices`, in graphs, under transforms and on devices given parameters are taken as they are.

        PyTorch: Energies are differentiable twice in positions, charges, cell and alpha; forces, charge gradients and
        virials once more. With `energy_reduction="system"` the gradients are computed together with the energies, so
        that a backward pass only scales them. In a compiled graph, lists, `alpha`, `cutoff` and Miller indices are
        given: their sizes depend on values, and without them the graph breaks at this call.

        Of CUDA tensors, arguments that are left out are made from values of the device: from the cell, and from charges
        for `alpha` and the cutoffs, read once as long as they stay unchanged. While `torch.cuda.graph` captures,
        nothing can be read, and a missing argument is an error.

        JAX: Energies are differentiable twice in positions, charges, cell and alpha; forces, charge gradients and
        virials once more; in every mode of JAX. Under `jit`, `vmap`, `scan` and `shard_map` no size may depend on a
        value: there the list (with its `neighbor_ptr`, see `neighbor_list` and `NeighborList`), `cutoff`, `alpha` and
        `miller_indices` are given. Gradients outside of `jit` need none of that.

        CUDA: With `alpha`, `cutoff`, `miller_indices` and a full list with its offsets and images nothing is waited
        for. Where `alpha`, `cutoff` or `k_cutoff` is chosen the call waits for charges and cell and reads them; without
        `miller_indices` it reads the cell.

        Args:
            positions: (N, 3), float32 or float64.
            charges: (N,), of the positions' dtype, as all real arrays. Or (N, C), C sets of charges, each with its own
                results. Without a list and parameters each set searches for itself. CUDA: The call then waits for the
                charges and the results, which are split and joined on the host.
            cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness. CUDA:
                With `batch_idx`, a cell (3, 3) makes the call wait.
            alpha: splitting parameter in 1/L, one for all systems or (B,). The result does not depend on it, but for
                the error that the cutoffs leave.
            k_cutoff: radius of the reciprocal sum, in radians per L, one for all systems or (B,). CUDA: The cell is
                then read, for which the call waits.
            cutoff: radius of the real-space sum, in L, one for all systems or (B,); one is needed with a neighbour
                list. JAX: Python numbers.
            miller_indices, miller_batch_idx: in place of `k_cutoff` the wave vectors themselves, (K, 3), and the system
                of each, (K,), sorted, as `generate_miller_indices` returns them; the latter may be left out for one
                system.
            neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
                atoms, another cell or a smaller cutoff, or if an atom has moved by more than half the skin of a
                `NeighborList` since its `update`, where values can be read. JAX: Under `jit` one of another cell makes
                every result NaN.
            neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than
                the cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or
                in a half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not
                at all. Without a list the call builds one. JAX: A list that has overflown its capacity makes every
                result NaN. CUDA: For that it waits.
            neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. JAX: Not under `jit`.
                CUDA: It is read, and made a list on the host, as is a list without offsets.
            half_fill: whether the list that is given has every pair once. JAX: Not under `jit`. CUDA: It is then made
                full on the host.
            exclusions: pairs (P, 2) of atoms that are left out, each once; or a tuple of pairs and factors (P,), or one
                for all, by which their energies are multiplied instead of 0 (differentiable), or of pairs, factors (or
                None) and images (P, 3), the nearest by default. A factor counts for the whole interaction of the pair,
                in the real and the reciprocal part alike; a pair that is left out may lie on one point.
            exponent: p of the pair law q_i q_j/rᵖ, 1 to 6: 1 of charges, 6 of dispersion, with the coefficients √C₆ of
                atoms as charges and a prefactor of −1. For p = 3 systems are neutral.
            law: in place of the exponent a pair law of one's own with its parameters, as `yukawa(kappa=0.8)`: what
                `madelung.kernels.law` makes. Crystals alone; α, the cutoff, and waves or mesh are given, as nothing
                estimates the errors of such a sum, and `accuracy` is None. Differentiable by the parameters. CUDA:
                Parameters are numbers, or what `madelung.cuda.asarray` gives.
            widths: (N,), the width σ of each charge, in L, above zero: Gaussian charges in place of points, see
                `gaussian_correction`. Pairs closer than 11 σ are searched for; of a list that is given all pairs count.
            accuracy: target for the RMS force error, in units of q²_rms/(V/N)^(2/3), from 1e-14 (1e-5 in float32) to
                below 1. Parameters that are None are chosen for it, and given ones that cannot meet it are an error.
                None: given ones are taken as they are, and others are chosen for 1e-6 (1e-5 in float32).
            pbc: (3,) or (B, 3) of bool, the periodic axes of all systems or of each. Left out, an axis is periodic
                where its vector in `cell` is not zero. Three axes: Ewald's sum. Two: a slab, with
                `slab_correction=True`. One: a wire, summed over all pairs and all images along the axis, exactly; only
                the vector along the axis counts. No axis: an open system, summed over all pairs, exactly; its cell is
                not looked at. Wires and open systems need no list: pairs of theirs count in a given one with
                `exclusions`, `widths` or an `exponent` alone. PyTorch: In a compiled graph a tensor where all else is
                given: a given list is taken as made for these axes, slabs without `slab_correction` are NaN, and
                without `pbc` no vector may be zero. JAX: Under `jit` a traced array where all else is given: a given
                list is taken as made for these axes, slabs without `slab_correction` are NaN, and without `pbc` no
                vector may be zero. CUDA: An array of NumPy; True everywhere.
            slab_correction: whether systems may be periodic along two axes: they then get the correction for slabs, see
                `slab_correction`, and are summed in a cell of the library's own height, or of `slab_height`. The vector
                along the open axis does not count, and may be zero. JAX: Under `jit` give `slab_height`.
            slab_height: height of the cells of slabs along their normal, in L, one for all systems or (B,), for calls
                that cannot read values: the thickness of the slab and a gap g of at least the cutoff, whose error falls
                as exp(−2πg/L) with the longer period L along the slab: g = 2.1 L for 1e-6 of the forces. None: chosen
                for `accuracy` from cell and positions. With `miller_indices` and `mesh_dimensions`, which belong to a
                cell, that of the cell, whose gap is looked at: without values, in graphs, under transforms and on
                devices, it is needed there.
            method: "direct": all pairs and waves in one pass, without a list, for systems of some tens to a few hundred
                atoms and batches of them. The cutoff is then at most the smallest height of the cell, and half of it or
                all where it is chosen. "list": pairs of a list, which is given or searched for. None: "list" where a
                list or a parameter is given; else, for each system, the sum that costs less. PyTorch: In graphs, under
                transforms of `torch.func` and on devices that is the one over a list. JAX: On devices that is the one
                over a list. CUDA: That is the one over a list.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces, compute_charge_gradients: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            hybrid_forces: the energy's first derivative by positions and cell is zero and by the charges ∂E/∂q, so that
                forces (at fixed charges) and what differentiation brings through charges that depend on the positions
                add up to the total force. Nothing is detached: second derivatives through the charges are those of the
                true function. Of `madelung.torch` and `madelung.jax`, which differentiate.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q
            (N,) (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B,
            3, 3), or (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a
            tuple. Of charges (N, C) energies and charge gradients are (N, C), or energies (B, C), forces (N, C, 3) and
            virials (C, 3, 3) or (B, C, 3, 3), of each atom (N, C, 3, 3).

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            ewald.ewald_summation, stream, positions, charges, cell, alpha, k_cutoff, cutoff, (miller_indices,
            miller_batch_idx), (neighbors, neighbor_list, neighbor_ptr, neighbor_shifts, neighbor_matrix,
            neighbor_matrix_shifts, fill_value, half_fill), exclusions, (exponent, law), widths, accuracy, pbc,
            slab_correction, slab_height, method, batch_idx, (prefactor, energy_reduction, compute_forces,
            compute_charge_gradients, compute_virial, hybrid_forces),
        )

    def estimate_ewald_parameters(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, accuracy: float | None = None,
        cutoff: float | ArrayLike | None = None, *, alpha: float | ArrayLike | None = None,
        k_cutoff: float | ArrayLike | None = None, exponent: int = 1, pbc: Any = None,
        slab_height: float | ArrayLike | None = None, batch_idx: ArrayLike | None = None,
    ) -> EwaldParameters:
        """The parameters that `ewald_summation` uses over a list: the cheapest for an accuracy.

        By the error estimates of Kolafa and Perram, Mol. Simul. 9, 351 (1992), for charges at random places. Errors of
        ordered and of small systems are smaller or larger, so the estimate that is chosen, and predicted, is about half
        of the accuracy.

        JAX: Not under `jit`.

        CUDA: Arrays on a device are read, for which the call waits.

        Args:
            positions: (N, 3), float32 or float64.
            charges: (N,), of the positions' dtype, as all real arrays.
            cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness. CUDA:
                With `batch_idx`, a cell (3, 3) makes the call wait.
            accuracy: target for the RMS force error, in units of q²_rms/(V/N)^(2/3), from 1e-14 (1e-5 in float32) to
                below 1. Parameters that are None are chosen for it, and given ones that cannot meet it are an error.
                None: given ones are taken as they are, and others are chosen for 1e-6 (1e-5 in float32).
            cutoff: radius of the real-space sum, in L, one for all systems or (B,). Kept where it is given, as are
                `alpha` and `k_cutoff`.
            alpha: splitting parameter in 1/L, one for all systems or (B,).
            k_cutoff: radius of the reciprocal sum, in radians per L, one for all systems or (B,).
            exponent: p of the pair law q_i q_j/rᵖ, 1 to 6: 1 of charges, 6 of dispersion, with the coefficients √C₆ of
                atoms as charges and a prefactor of −1. For p = 3 systems are neutral.
            pbc: (3,) or (B, 3) of bool, the periodic axes, two or three. None: the axes of the cell whose vectors are
                not zero. JAX: No traced array.
            slab_height: height of the cells of slabs along their normal, in L, one for all systems or (B,), for calls
                that cannot read values: the thickness of the slab and a gap g of at least the cutoff, whose error falls
                as exp(−2πg/L) with the longer period L along the slab: g = 2.1 L for 1e-6 of the forces. None: chosen
                for `accuracy` from cell and positions. With `miller_indices` and `mesh_dimensions`, which belong to a
                cell, that of the cell, whose gap is looked at: without values, in graphs, under transforms and on
                devices, it is needed there.
            batch_idx: (N,), the system of each atom, sorted. None: one system.

        Returns:
            Numbers for one system; for a batch (a cell (B, 3, 3), or `batch_idx`) arrays (B,) of float64. PyTorch: They
            are tensors, on the positions' device. JAX, CUDA: They are arrays of NumPy.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name.
        """
        return self._read(
            ewald.estimate_ewald_parameters, None, positions, charges, cell, accuracy, cutoff, alpha, k_cutoff,
            exponent, pbc, slab_height, batch_idx,
        )

    def generate_miller_indices(
        self, cell: ArrayLike, k_cutoff: float | ArrayLike, *, pbc: Any = None,
        slab_height: float | ArrayLike | None = None, stream: Any = None,
    ) -> tuple[Array, Array]:
        """The wave vectors k = m · B with 0 < |k| ≤ `k_cutoff`, one of each two ±k, where B = 2π (cell⁻¹)ᵀ.

        To be given in place of `k_cutoff`, for cells that change so little that the set may stay.

        PyTorch: Compiled graphs need them, as sizes there may not depend on values.

        JAX: Calls under `jit` need them, as sizes there may not depend on values. Not under `jit` itself.

        CUDA: Calls that shall wait for nothing, and captures, need them.

        Args:
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. CUDA: It is read.
            k_cutoff: in radians per L, one for all systems or (B,).
            pbc: (3,) or (B, 3) of bool, the periodic axes: systems with fewer than two have no waves, and slabs those
                of a cell of `slab_height`. None: the axes of the cell whose vectors are not zero. JAX: No traced array.
            slab_height: height of the cells of slabs along their normal, in L, one for all systems or (B,).
            stream: where the work is put, as for `ewald_summation`.

        Returns:
            `miller_indices` (K, 3) and `miller_batch_idx` (K,), the system of each, int32.

        Raises:
            TypeError, ValueError: For a cell that is singular or no array, and cutoffs that are not above zero.
        """
        return self._read(
            ewald.generate_miller_indices, stream, cell, k_cutoff, pbc, slab_height,
        )

    @overload
    def electrostatic_potential(
        self, points: ArrayLike, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike | None = None, *,
        method: Literal["pme", "ewald"] = "pme", own_atoms: ArrayLike | None = None,
        point_batch_idx: ArrayLike | None = None, alpha: float | ArrayLike | None = None,
        cutoff: float | ArrayLike | None = None, k_cutoff: float | ArrayLike | None = None,
        mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None, exponent: int = 1,
        law: BoundLaw | None = None, widths: ArrayLike | None = None, accuracy: float | None = None,
        pbc: Any = None, slab_correction: bool = False, slab_height: float | ArrayLike | None = None,
        batch_idx: ArrayLike | None = None, prefactor: float = 1.0, compute_field: Literal[False] = False,
        compute_field_gradient: Literal[False] = False,
    ) -> Array: ...

    @overload
    def electrostatic_potential(
        self, points: ArrayLike, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike | None = None, *,
        method: Literal["pme", "ewald"] = "pme", own_atoms: ArrayLike | None = None,
        point_batch_idx: ArrayLike | None = None, alpha: float | ArrayLike | None = None,
        cutoff: float | ArrayLike | None = None, k_cutoff: float | ArrayLike | None = None,
        mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None, exponent: int = 1,
        law: BoundLaw | None = None, widths: ArrayLike | None = None, accuracy: float | None = None,
        pbc: Any = None, slab_correction: bool = False, slab_height: float | ArrayLike | None = None,
        batch_idx: ArrayLike | None = None, prefactor: float = 1.0, compute_field: bool = False,
        compute_field_gradient: bool = False,
    ) -> tuple[Array, ...]: ...

    def electrostatic_potential(
        self, points: ArrayLike, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike | None = None, *,
        method: Literal["pme", "ewald"] = "pme", own_atoms: ArrayLike | None = None,
        point_batch_idx: ArrayLike | None = None, alpha: float | ArrayLike | None = None,
        cutoff: float | ArrayLike | None = None, k_cutoff: float | ArrayLike | None = None,
        mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None, exponent: int = 1,
        law: BoundLaw | None = None, widths: ArrayLike | None = None, accuracy: float | None = None,
        pbc: Any = None, slab_correction: bool = False, slab_height: float | ArrayLike | None = None,
        batch_idx: ArrayLike | None = None, prefactor: float = 1.0, compute_field: bool = False,
        compute_field_gradient: bool = False,
    ) -> Array | tuple[Array, ...]:
        """The electrostatic potential of charges at points, in whatever boundaries `pbc` says.

        A charge ±q at each point has energies, forces and second derivatives in the sums of `particle_mesh_ewald` and
        `ewald_summation`, of whose differences for both signs the points' own images and each other drop out. No two
        points are on one place. The cost is that of two sums of atoms and points together, and of twelve more, of
        second derivatives, for the gradient of the field.

        PyTorch: The potential is differentiable twice in points, positions, charges and cell, the field once.

        JAX: The potential is differentiable twice in points, positions, charges and cell, the field once. Not under
        `jit`.

        Args:
            points: (M, 3), of the positions' dtype, where the results are those of.
            positions: (N, 3), float32 or float64.
            charges: (N,), of the positions' dtype, as all real arrays.
            cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness. CUDA:
                With `batch_idx`, a cell (3, 3) makes the call wait.
            method: how the sum over a lattice is done: "pme", on a mesh, or "ewald", over waves.
            own_atoms: (M,), for each point the atom on it, whose own term is left out, or −1. None: no point is on an
                atom. With the atoms themselves as points: their numbers, from 0 on. Values are read.
            point_batch_idx: (M,), the system of each point, sorted, beside `batch_idx`. Values of both are read.
            alpha: splitting parameter in 1/L, one for all systems or (B,). The result does not depend on it, but for
                the error that the cutoffs leave.
            cutoff: radius of the real-space sum, in L, one for all systems or (B,).
            k_cutoff: radius of the reciprocal sum, in radians per L, one for all systems or (B,). CUDA: The cell is
                then read, for which the call waits.
            mesh_dimensions: nodes of the mesh along each lattice vector, three integers, for all systems or for each
                (B, 3). They are Python integers, so that shapes are known in graphs and under `jit`.
            exponent: p of the pair law q_i q_j/rᵖ, 1 to 6: 1 of charges, 6 of dispersion, with the coefficients √C₆ of
                atoms as charges and a prefactor of −1. For p = 3 systems are neutral.
            law: in place of the exponent a pair law of one's own with its parameters, as `yukawa(kappa=0.8)`: what
                `madelung.kernels.law` makes. Crystals alone; α, the cutoff, and waves or mesh are given, as nothing
                estimates the errors of such a sum, and `accuracy` is None. Differentiable by the parameters. CUDA:
                Parameters are numbers, or what `madelung.cuda.asarray` gives.
            widths: (N,), the width σ of each charge, in L, above zero: Gaussian charges in place of points, see
                `gaussian_correction`. Pairs closer than 11 σ are searched for; of a list that is given all pairs count.
            accuracy: target for the RMS force error, in units of q²_rms/(V/N)^(2/3), from 1e-14 (1e-5 in float32) to
                below 1. Parameters that are None are chosen for it, and given ones that cannot meet it are an error.
                None: given ones are taken as they are, and others are chosen for 1e-6 (1e-5 in float32).
            pbc: (3,) or (B, 3) of bool, the periodic axes of all systems or of each. Left out, an axis is periodic
                where its vector in `cell` is not zero. Three axes: Ewald's sum. Two: a slab, with
                `slab_correction=True`. One: a wire, summed over all pairs and all images along the axis, exactly; only
                the vector along the axis counts. No axis: an open system, summed over all pairs, exactly; its cell is
                not looked at. Wires and open systems need no list: pairs of theirs count in a given one with
                `exclusions`, `widths` or an `exponent` alone. PyTorch: In a compiled graph a tensor where all else is
                given: a given list is taken as made for these axes, slabs without `slab_correction` are NaN, and
                without `pbc` no vector may be zero. JAX: Under `jit` a traced array where all else is given: a given
                list is taken as made for these axes, slabs without `slab_correction` are NaN, and without `pbc` no
                vector may be zero. CUDA: An array of NumPy; True everywhere.
            slab_correction: whether systems may be periodic along two axes: they then get the correction for slabs, see
                `slab_correction`, and are summed in a cell of the library's own height, or of `slab_height`. The vector
                along the open axis does not count, and may be zero. JAX: Under `jit` give `slab_height`.
            slab_height: height of the cells of slabs along their normal, in L, one for all systems or (B,), for calls
                that cannot read values: the thickness of the slab and a gap g of at least the cutoff, whose error falls
                as exp(−2πg/L) with the longer period L along the slab: g = 2.1 L for 1e-6 of the forces. None: chosen
                for `accuracy` from cell and positions. With `miller_indices` and `mesh_dimensions`, which belong to a
                cell, that of the cell, whose gap is looked at: without values, in graphs, under transforms and on
                devices, it is needed there.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            compute_field, compute_field_gradient: whether these are returned too.

        Returns:
            The potential φ (M,), followed by the requested ones of: the field −∂φ/∂r (M, 3) and its gradient −∂²φ/∂r∂r
            (M, 3, 3), symmetric. A single array comes unwrapped, several as a tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._read(
            fields.electrostatic_potential, None, points, positions, charges, cell, method, own_atoms, point_batch_idx,
            alpha, cutoff, k_cutoff, mesh_dimensions, (exponent, law), widths, accuracy, pbc, slab_correction,
            slab_height, batch_idx, (prefactor, compute_field, compute_field_gradient),
        )

    @overload
    def uniform_field(
        self, positions: ArrayLike, charges: ArrayLike, field: ArrayLike, cell: ArrayLike | None = None, *,
        batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: Literal[False] = False,
        compute_charge_gradients: Literal[False] = False, compute_virial: Literal[False] = False,
        hybrid_forces: bool = False,
    ) -> Array: ...

    @overload
    def uniform_field(
        self, positions: ArrayLike, charges: ArrayLike, field: ArrayLike, cell: ArrayLike | None = None, *,
        batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False,
    ) -> tuple[Array, ...]: ...

    def uniform_field(
        self, positions: ArrayLike, charges: ArrayLike, field: ArrayLike, cell: ArrayLike | None = None, *,
        batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False,
    ) -> Array | tuple[Array, ...]:
        """The energy of charges in a uniform external field, −Σ qᵢ rᵢ·F, to be added to a sum of charges.

        Along periodic axes it depends on which images of the atoms are given: with those that dynamics does not wrap it
        is that of the force qᵢF on each. Its virial −∂E/∂ε, for a field that stays, is not symmetric.

        PyTorch, JAX: Differentiable twice in positions, charges and field.

        Args:
            positions: (N, 3), float32 or float64.
            charges: (N,), of the positions' dtype, as all real arrays.
            field: (3,) or (B, 3), in units of energy over charge and length.
            cell: (3, 3) or (B, 3, 3); with it the virial has the shape of its results.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces, compute_charge_gradients: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            hybrid_forces: the energy's first derivative by positions and cell is zero and by the charges ∂E/∂q, so that
                forces (at fixed charges) and what differentiation brings through charges that depend on the positions
                add up to the total force. Nothing is detached: second derivatives through the charges are those of the
                true function. Of `madelung.torch` and `madelung.jax`, which differentiate.

        Returns:
            The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q
            (N,) (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B,
            3, 3), or (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a
            tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            fields.uniform_field, None, positions, charges, field, cell, batch_idx, (prefactor, energy_reduction,
            compute_forces, compute_charge_gradients, compute_virial, hybrid_forces),
        )

    @overload
    def gaussian_correction(
        self, positions: ArrayLike, charges: ArrayLike, widths: ArrayLike, cell: ArrayLike | None = None, *,
        cutoff: float | None = None, neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
        compute_forces: Literal[False] = False, compute_charge_gradients: Literal[False] = False,
        compute_virial: Literal[False] = False, hybrid_forces: bool = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def gaussian_correction(
        self, positions: ArrayLike, charges: ArrayLike, widths: ArrayLike, cell: ArrayLike | None = None, *,
        cutoff: float | None = None, neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def gaussian_correction(
        self, positions: ArrayLike, charges: ArrayLike, widths: ArrayLike, cell: ArrayLike | None = None, *,
        cutoff: float | None = None, neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """The Coulomb energy of Gaussian charges less that of point charges: to be added to a sum of the latter.

        Charge i has the density q_i (2πσ_i²)^(−3/2) exp(−r²/2σ_i²). The sum is −½ Σ q_i q_j erfc(r/√(2(σ_i²+σ_j²)))/r
        over pairs, and Σ q_i²/(2√π σ_i), the energies of charges with themselves. With three periodic axes (2π/V) Σ q_i
        Σ q_i σ_i² is added, so that the whole has no term k = 0, as an Ewald sum of point charges has none: zero for a
        neutral cell, but part of ∂E/∂q.

        Args:
            positions: (N, 3), float32 or float64.
            charges: (N,), of the positions' dtype, as all real arrays. Or (N, C), C sets of charges, each with its own
                results. Without a list and parameters each set searches for itself. CUDA: The call then waits for the
                charges and the results, which are split and joined on the host.
            widths: (N,), the width σ of each charge, in L, above zero.
            cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors. None: no axis is periodic.
            cutoff: pairs closer than it count, in L; the error is erfc(r/2σ) of the largest σ there. None: all pairs of
                a list that is given, or those closer than 11 σ. JAX: A Python number.
            neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
                atoms, another cell or a smaller cutoff, or if an atom has moved by more than half the skin of a
                `NeighborList` since its `update`, where values can be read. JAX: Under `jit` one of another cell makes
                every result NaN.
            neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than
                the cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or
                in a half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not
                at all. Without a list the call builds one. JAX: A list that has overflown its capacity makes every
                result NaN. CUDA: For that it waits.
            neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. JAX: Not under `jit`.
                CUDA: It is read, and made a list on the host, as is a list without offsets.
            half_fill: whether the list that is given has every pair once. JAX: Not under `jit`. CUDA: It is then made
                full on the host.
            pbc: (3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces, compute_charge_gradients: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            hybrid_forces: the energy's first derivative by positions and cell is zero and by the charges ∂E/∂q, so that
                forces (at fixed charges) and what differentiation brings through charges that depend on the positions
                add up to the total force. Nothing is detached: second derivatives through the charges are those of the
                true function. Of `madelung.torch` and `madelung.jax`, which differentiate.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q
            (N,) (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B,
            3, 3), or (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a
            tuple. Of charges (N, C) energies and charge gradients are (N, C), or energies (B, C), forces (N, C, 3) and
            virials (C, 3, 3) or (B, C, 3, 3), of each atom (N, C, 3, 3).

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            gaussians.gaussian_correction, stream, positions, charges, widths, cell, cutoff, (neighbors, neighbor_list,
            neighbor_ptr, neighbor_shifts, neighbor_matrix, neighbor_matrix_shifts, fill_value, half_fill), pbc,
            batch_idx, (prefactor, energy_reduction, compute_forces, compute_charge_gradients, compute_virial,
            hybrid_forces),
        )

    @overload
    def latent_ewald(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike | None = None,
        sigma: float | ArrayLike = 1.0, dl: float | ArrayLike = 2.0, *, remove_self_interaction: bool = True,
        miller_indices: ArrayLike | None = None, miller_batch_idx: ArrayLike | None = None,
        neighbors: Neighbors | None = None, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
        compute_forces: Literal[False] = False, compute_charge_gradients: Literal[False] = False,
        compute_virial: Literal[False] = False, hybrid_forces: bool = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def latent_ewald(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike | None = None,
        sigma: float | ArrayLike = 1.0, dl: float | ArrayLike = 2.0, *, remove_self_interaction: bool = True,
        miller_indices: ArrayLike | None = None, miller_batch_idx: ArrayLike | None = None,
        neighbors: Neighbors | None = None, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def latent_ewald(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike | None = None,
        sigma: float | ArrayLike = 1.0, dl: float | ArrayLike = 2.0, *, remove_self_interaction: bool = True,
        miller_indices: ArrayLike | None = None, miller_batch_idx: ArrayLike | None = None,
        neighbors: Neighbors | None = None, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """The electrostatic energy of latent charges: Gaussians of width σ, without a background.

        The charge part of Latent Ewald Summation (Cheng, npj Comput. Mater. 11, 80 (2025)). Periodic systems: (2π/V)
        Σ_k exp(−σ²k²/2)/k² |S(k)|² over 0 < |k| ≤ 2π/dl, without the energy of each charge with itself. Systems without
        periodic axes: ½ Σ q_i q_j erf(r/√2σ)/r over all pairs. A batch may hold both. The prefactor of networks that
        were trained with another implementation is `madelung.units.LATENT_EWALD`.

        PyTorch: Energies are differentiable twice in positions, charges, cell and sigma; forces, charge gradients and
        virials once more. In a compiled graph `miller_indices` and `neighbors` are given: their sizes depend on values,
        and without them the graph breaks at this call.

        JAX: Energies are differentiable twice in positions, charges, cell and sigma; forces, charge gradients and
        virials once more; in every mode of JAX. Under `jit`, `vmap`, `scan` and `shard_map` `miller_indices` and
        `neighbors` are given.

        CUDA: The call waits for the cell, and with channels for the charges and the results, which the host splits and
        puts side by side.

        Args:
            positions: (N, 3), float32 or float64.
            charges: (N,), or (N, C) for C channels, whose energies add up; of the positions' dtype.
            cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors. A cell of zeros has no periodic axes;
                None: no system has any. CUDA: It is read, for which the call waits.
            sigma: width σ of the Gaussian charges, in L, one for all systems or (B,). CUDA: Numbers of the host.
            dl: shortest wavelength of the sum over waves, in L, one for all systems or (B,): 0 < |k| ≤ 2π/dl. It is
                part of the model, as the sum need not be converged there. Not looked at with `miller_indices`.
            remove_self_interaction: whether the energy q²/(σ√(2π)) of each charge with itself is left out.
            miller_indices, miller_batch_idx, neighbors: what `latent_ewald_lists` gives for these systems; without it
                the call makes it.
            pbc: (3,) or (B, 3) of bool, all True or all False for each system. None: systems are periodic whose cell is
                not zero. CUDA: An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces, compute_charge_gradients: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            hybrid_forces: the energy's first derivative by positions and cell is zero and by the charges ∂E/∂q, so that
                forces (at fixed charges) and what differentiation brings through charges that depend on the positions
                add up to the total force. Nothing is detached: second derivatives through the charges are those of the
                true function. Of `madelung.torch` and `madelung.jax`, which differentiate.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q
            (of the shape of the charges) (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell
            without `batch_idx`, else (B, 3, 3), or (N, 3, 3)), where E is the sum of the energies. A single array comes
            unwrapped, several as a tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            latent.latent_ewald, stream, positions, charges, cell, sigma, dl, remove_self_interaction, (miller_indices,
            miller_batch_idx), neighbors, pbc, batch_idx, (prefactor, energy_reduction, compute_forces,
            compute_charge_gradients, compute_virial, hybrid_forces),
        )

    def latent_ewald_lists(
        self, positions: ArrayLike, cell: ArrayLike | None = None, dl: float | ArrayLike = 2.0, *, pbc: Any = None,
        batch_idx: ArrayLike | None = None, stream: Any = None,
    ) -> dict[str, Any]:
        """Lists and waves of `latent_ewald`, to be given to it: `latent_ewald(…, **latent_ewald_lists(…))`.

        For any positions of the atoms, and for cells that change so little that the set of waves may stay.

        PyTorch: Compiled graphs need them.

        JAX: Calls under `jit` need them. Not under `jit` itself.

        CUDA: Arrays on a device are read, for which the call waits.

        Args:
            positions: (N, 3); only their number counts.
            cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors. A cell of zeros has no periodic axes;
                None: no system has any. CUDA: It is read, for which the call waits.
            dl: shortest wavelength of the sum over waves, in L, one for all systems or (B,): 0 < |k| ≤ 2π/dl. It is
                part of the model, as the sum need not be converged there.
            pbc: (3,) or (B, 3) of bool, all True or all False for each system. None: systems are periodic whose cell is
                not zero. CUDA: An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            `neighbors`, all pairs of atoms of systems without periodic axes; `miller_indices` and `miller_batch_idx`,
            the waves of the others with 0 < |k| ≤ 2π/dl.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name.
        """
        return self._read(
            latent.latent_ewald_lists, stream, positions, cell, dl, pbc, batch_idx,
        )

    @overload
    def pme_reciprocal_space(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, alpha: float | ArrayLike, *,
        mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None,
        mesh_spacing: float | None = None, spline_order: int | tuple[int, ...] | None = None,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None, exponent: int = 1,
        law: BoundLaw | None = None, batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: Literal[False] = False,
        compute_charge_gradients: Literal[False] = False, compute_virial: Literal[False] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def pme_reciprocal_space(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, alpha: float | ArrayLike, *,
        mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None,
        mesh_spacing: float | None = None, spline_order: int | tuple[int, ...] | None = None,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None, exponent: int = 1,
        law: BoundLaw | None = None, batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def pme_reciprocal_space(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, alpha: float | ArrayLike, *,
        mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None,
        mesh_spacing: float | None = None, spline_order: int | tuple[int, ...] | None = None,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None, exponent: int = 1,
        law: BoundLaw | None = None, batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """The reciprocal part of an Ewald sum on a mesh (Essmann et al., J. Chem. Phys. 103, 8577 (1995)).

        The self term −α/√π Σq² and the uniform background −πQ²/(2α²V) of a charged cell are part of it. The influence
        function is the one that gives the least error of the energy; forces are exact derivatives of that energy, so it
        is conserved, and their sum is not exactly zero.

        Args:
            positions: (N, 3), float32 or float64.
            charges: (N,), of the positions' dtype, as all real arrays. Or (N, C), C sets of charges, each with its own
                results. Without a list and parameters each set searches for itself. CUDA: The call then waits for the
                charges and the results, which are split and joined on the host.
            cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness. CUDA:
                With `batch_idx`, a cell (3, 3) makes the call wait.
            alpha: splitting parameter in 1/L, one for all systems or (B,). The result does not depend on it, but for
                the error that the cutoffs leave.
            mesh_dimensions: nodes of the mesh along each lattice vector, three integers, for all systems or for each
                (B, 3). They are Python integers, so that shapes are known in graphs and under `jit`.
            mesh_spacing: in their place, how far apart nodes may be along a lattice vector, in L. PyTorch: Where it is
                given the cell is read. JAX: Not under `jit`. CUDA: The cell is then read, for which the call waits.
            spline_order: order p of the splines, 4 to 8, for all systems or for each: they are polynomials of degree p
                − 1, over p nodes of each axis. None: 5 with a mesh, else the order at which the sum costs the least for
                its accuracy.
            exclusions: pairs (P, 2) of atoms that are left out, each once; or a tuple of pairs and factors (P,), or one
                for all, by which their energies are multiplied instead of 0 (differentiable), or of pairs, factors (or
                None) and images (P, 3), the nearest by default. A factor counts for the whole interaction of the pair,
                in the real and the reciprocal part alike; a pair that is left out may lie on one point.
            exponent: p of the pair law q_i q_j/rᵖ, 1 to 6: 1 of charges, 6 of dispersion, with the coefficients √C₆ of
                atoms as charges and a prefactor of −1. For p = 3 systems are neutral.
            law: in place of the exponent a pair law of one's own with its parameters, as `yukawa(kappa=0.8)`: what
                `madelung.kernels.law` makes. Crystals alone; α, the cutoff, and waves or mesh are given, as nothing
                estimates the errors of such a sum, and `accuracy` is None. Differentiable by the parameters. CUDA:
                Parameters are numbers, or what `madelung.cuda.asarray` gives.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces, compute_charge_gradients: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            hybrid_forces: the energy's first derivative by positions and cell is zero and by the charges ∂E/∂q, so that
                forces (at fixed charges) and what differentiation brings through charges that depend on the positions
                add up to the total force. Nothing is detached: second derivatives through the charges are those of the
                true function. Of `madelung.torch` and `madelung.jax`, which differentiate.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q
            (N,) (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B,
            3, 3), or (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a
            tuple. Of charges (N, C) energies and charge gradients are (N, C), or energies (B, C), forces (N, C, 3) and
            virials (C, 3, 3) or (B, C, 3, 3), of each atom (N, C, 3, 3).

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            mesh.pme_reciprocal_space, stream, positions, charges, cell, alpha, (mesh_dimensions, mesh_spacing,
            spline_order), exclusions, (exponent, law), batch_idx, (prefactor, energy_reduction, compute_forces,
            compute_charge_gradients, compute_virial, hybrid_forces),
        )

    @overload
    def particle_mesh_ewald(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, alpha: float | ArrayLike | None = None, *,
        mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None,
        mesh_spacing: float | None = None, spline_order: int | tuple[int, ...] | None = None,
        cutoff: float | ArrayLike | None = None, neighbors: Neighbors | None = None,
        neighbor_list: ArrayLike | None = None, neighbor_ptr: ArrayLike | None = None,
        neighbor_shifts: ArrayLike | None = None, neighbor_matrix: ArrayLike | None = None,
        neighbor_matrix_shifts: ArrayLike | None = None, fill_value: int | None = None, half_fill: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None, exponent: int = 1,
        law: BoundLaw | None = None, widths: ArrayLike | None = None, accuracy: float | None = None,
        pbc: Any = None, slab_correction: bool = False, slab_height: float | ArrayLike | None = None,
        batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: Literal[False] = False,
        compute_charge_gradients: Literal[False] = False, compute_virial: Literal[False] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def particle_mesh_ewald(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, alpha: float | ArrayLike | None = None, *,
        mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None,
        mesh_spacing: float | None = None, spline_order: int | tuple[int, ...] | None = None,
        cutoff: float | ArrayLike | None = None, neighbors: Neighbors | None = None,
        neighbor_list: ArrayLike | None = None, neighbor_ptr: ArrayLike | None = None,
        neighbor_shifts: ArrayLike | None = None, neighbor_matrix: ArrayLike | None = None,
        neighbor_matrix_shifts: ArrayLike | None = None, fill_value: int | None = None, half_fill: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None, exponent: int = 1,
        law: BoundLaw | None = None, widths: ArrayLike | None = None, accuracy: float | None = None,
        pbc: Any = None, slab_correction: bool = False, slab_height: float | ArrayLike | None = None,
        batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def particle_mesh_ewald(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, alpha: float | ArrayLike | None = None, *,
        mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None,
        mesh_spacing: float | None = None, spline_order: int | tuple[int, ...] | None = None,
        cutoff: float | ArrayLike | None = None, neighbors: Neighbors | None = None,
        neighbor_list: ArrayLike | None = None, neighbor_ptr: ArrayLike | None = None,
        neighbor_shifts: ArrayLike | None = None, neighbor_matrix: ArrayLike | None = None,
        neighbor_matrix_shifts: ArrayLike | None = None, fill_value: int | None = None, half_fill: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None, exponent: int = 1,
        law: BoundLaw | None = None, widths: ArrayLike | None = None, accuracy: float | None = None,
        pbc: Any = None, slab_correction: bool = False, slab_height: float | ArrayLike | None = None,
        batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """The Coulomb energy of periodic point charges, with the reciprocal part of Ewald's sum on a mesh.

        Time goes with N log N, where that of `ewald_summation` goes with N^(3/2). A charged cell gets a uniform
        background. Those of `alpha`, `cutoff` and the mesh that are None are chosen for `accuracy` (see
        `estimate_pme_parameters`), for each system as if it were alone. In graphs, under transforms and on devices
        given parameters are taken as they are.

        PyTorch: Energies are differentiable twice in positions, charges, cell and alpha; forces, charge gradients and
        virials once more. In a compiled graph, lists, `alpha`, `cutoff` and `mesh_dimensions` are given.

        JAX: Energies are differentiable twice in positions, charges, cell and alpha; forces, charge gradients and
        virials once more; in every mode of JAX. Under `jit`, `vmap`, `scan` and `shard_map` the list (with its
        `neighbor_ptr`), `cutoff`, `alpha` and `mesh_dimensions` are given.

        CUDA: With `alpha`, `cutoff`, `mesh_dimensions` and a full list with its offsets and images nothing is waited
        for. Otherwise the call waits for charges and cell and reads them.

        Args:
            positions: (N, 3), float32 or float64.
            charges: (N,), of the positions' dtype, as all real arrays. Or (N, C), C sets of charges, each with its own
                results. Without a list and parameters each set searches for itself. CUDA: The call then waits for the
                charges and the results, which are split and joined on the host.
            cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness. CUDA:
                With `batch_idx`, a cell (3, 3) makes the call wait.
            alpha: splitting parameter in 1/L, one for all systems or (B,). The result does not depend on it, but for
                the error that the cutoffs leave.
            mesh_dimensions: nodes of the mesh along each lattice vector, three integers, for all systems or for each
                (B, 3). They are Python integers, so that shapes are known in graphs and under `jit`.
            mesh_spacing: in their place, how far apart nodes may be along a lattice vector, in L. PyTorch: Where it is
                given the cell is read. JAX: Not under `jit`. CUDA: The cell is then read, for which the call waits.
            spline_order: order p of the splines, 4 to 8, for all systems or for each: they are polynomials of degree p
                − 1, over p nodes of each axis. None: 5 with a mesh, else the order at which the sum costs the least for
                its accuracy.
            cutoff: radius of the real-space sum, in L, one for all systems or (B,); one is needed with a neighbour
                list. JAX: Python numbers.
            neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
                atoms, another cell or a smaller cutoff, or if an atom has moved by more than half the skin of a
                `NeighborList` since its `update`, where values can be read. JAX: Under `jit` one of another cell makes
                every result NaN.
            neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than
                the cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or
                in a half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not
                at all. Without a list the call builds one. JAX: A list that has overflown its capacity makes every
                result NaN. CUDA: For that it waits.
            neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. JAX: Not under `jit`.
                CUDA: It is read, and made a list on the host, as is a list without offsets.
            half_fill: whether the list that is given has every pair once. JAX: Not under `jit`. CUDA: It is then made
                full on the host.
            exclusions: pairs (P, 2) of atoms that are left out, each once; or a tuple of pairs and factors (P,), or one
                for all, by which their energies are multiplied instead of 0 (differentiable), or of pairs, factors (or
                None) and images (P, 3), the nearest by default. A factor counts for the whole interaction of the pair,
                in the real and the reciprocal part alike; a pair that is left out may lie on one point.
            exponent: p of the pair law q_i q_j/rᵖ, 1 to 6: 1 of charges, 6 of dispersion, with the coefficients √C₆ of
                atoms as charges and a prefactor of −1. For p = 3 systems are neutral.
            law: in place of the exponent a pair law of one's own with its parameters, as `yukawa(kappa=0.8)`: what
                `madelung.kernels.law` makes. Crystals alone; α, the cutoff, and waves or mesh are given, as nothing
                estimates the errors of such a sum, and `accuracy` is None. Differentiable by the parameters. CUDA:
                Parameters are numbers, or what `madelung.cuda.asarray` gives.
            widths: (N,), the width σ of each charge, in L, above zero: Gaussian charges in place of points, see
                `gaussian_correction`. Pairs closer than 11 σ are searched for; of a list that is given all pairs count.
            accuracy: target for the RMS force error, in units of q²_rms/(V/N)^(2/3), from 1e-14 (1e-5 in float32) to
                below 1. Parameters that are None are chosen for it, and given ones that cannot meet it are an error.
                None: given ones are taken as they are, and others are chosen for 1e-6 (1e-5 in float32).
            pbc: (3,) or (B, 3) of bool, the periodic axes of all systems or of each. Left out, an axis is periodic
                where its vector in `cell` is not zero. Three axes: Ewald's sum. Two: a slab, with
                `slab_correction=True`. One: a wire, summed over all pairs and all images along the axis, exactly; only
                the vector along the axis counts. No axis: an open system, summed over all pairs, exactly; its cell is
                not looked at. Wires and open systems need no list: pairs of theirs count in a given one with
                `exclusions`, `widths` or an `exponent` alone. PyTorch: In a compiled graph a tensor where all else is
                given: a given list is taken as made for these axes, slabs without `slab_correction` are NaN, and
                without `pbc` no vector may be zero. JAX: Under `jit` a traced array where all else is given: a given
                list is taken as made for these axes, slabs without `slab_correction` are NaN, and without `pbc` no
                vector may be zero. CUDA: An array of NumPy; True everywhere.
            slab_correction: whether systems may be periodic along two axes: they then get the correction for slabs, see
                `slab_correction`, and are summed in a cell of the library's own height, or of `slab_height`. The vector
                along the open axis does not count, and may be zero. JAX: Under `jit` give `slab_height`.
            slab_height: height of the cells of slabs along their normal, in L, one for all systems or (B,), for calls
                that cannot read values: the thickness of the slab and a gap g of at least the cutoff, whose error falls
                as exp(−2πg/L) with the longer period L along the slab: g = 2.1 L for 1e-6 of the forces. None: chosen
                for `accuracy` from cell and positions. With `miller_indices` and `mesh_dimensions`, which belong to a
                cell, that of the cell, whose gap is looked at: without values, in graphs, under transforms and on
                devices, it is needed there.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces, compute_charge_gradients: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            hybrid_forces: the energy's first derivative by positions and cell is zero and by the charges ∂E/∂q, so that
                forces (at fixed charges) and what differentiation brings through charges that depend on the positions
                add up to the total force. Nothing is detached: second derivatives through the charges are those of the
                true function. Of `madelung.torch` and `madelung.jax`, which differentiate.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q
            (N,) (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B,
            3, 3), or (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a
            tuple. Of charges (N, C) energies and charge gradients are (N, C), or energies (B, C), forces (N, C, 3) and
            virials (C, 3, 3) or (B, C, 3, 3), of each atom (N, C, 3, 3).

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            mesh.particle_mesh_ewald, stream, positions, charges, cell, alpha, (mesh_dimensions, mesh_spacing,
            spline_order), cutoff, (neighbors, neighbor_list, neighbor_ptr, neighbor_shifts, neighbor_matrix,
            neighbor_matrix_shifts, fill_value, half_fill), exclusions, (exponent, law), widths, accuracy, pbc,
            slab_correction, slab_height, batch_idx, (prefactor, energy_reduction, compute_forces,
            compute_charge_gradients, compute_virial, hybrid_forces),
        )

    def estimate_pme_parameters(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike, accuracy: float | None = None,
        cutoff: float | ArrayLike | None = None, *, alpha: float | ArrayLike | None = None,
        mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None,
        mesh_spacing: float | None = None, spline_order: int | tuple[int, ...] | None = None, exponent: int = 1,
        pbc: Any = None, slab_height: float | ArrayLike | None = None, batch_idx: ArrayLike | None = None,
    ) -> PmeParameters:
        """The parameters that `particle_mesh_ewald` uses: the cheapest for an accuracy, and the error that is expected.

        The real-space error is that of Kolafa and Perram, Mol. Simul. 9, 351 (1992); that of the mesh comes from the
        nearest aliases of each wave, between charges at random places and of a charge with itself. Measured errors were
        0.7 times the estimate in the median, less in crystals, and up to twice the estimate where cells are long and
        thin. Parameters that are chosen have an estimate of 5/8 of the accuracy.

        JAX: Not under `jit`.

        CUDA: Arrays on a device are read, for which the call waits.

        Args:
            positions: (N, 3), float32 or float64.
            charges: (N,), of the positions' dtype, as all real arrays.
            cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors, of any shape and handedness. CUDA:
                With `batch_idx`, a cell (3, 3) makes the call wait.
            accuracy: target for the RMS force error, in units of q²_rms/(V/N)^(2/3), from 1e-14 (1e-5 in float32) to
                below 1. Parameters that are None are chosen for it, and given ones that cannot meet it are an error.
                None: given ones are taken as they are, and others are chosen for 1e-6 (1e-5 in float32).
            cutoff: radius of the real-space sum, in L, one for all systems or (B,). Kept where it is given, as are
                `alpha` and the mesh.
            alpha: splitting parameter in 1/L, one for all systems or (B,).
            mesh_dimensions: nodes of the mesh along each lattice vector, three integers, for all systems or for each
                (B, 3). They are Python integers, so that shapes are known in graphs and under `jit`.
            mesh_spacing: in their place, how far apart nodes may be along a lattice vector, in L. PyTorch: Where it is
                given the cell is read. JAX: Not under `jit`. CUDA: The cell is then read, for which the call waits.
            spline_order: order p of the splines, 4 to 8, for all systems or for each: they are polynomials of degree p
                − 1, over p nodes of each axis. None: 5 with a mesh, else the order at which the sum costs the least for
                its accuracy.
            exponent: p of the pair law q_i q_j/rᵖ, 1 to 6: 1 of charges, 6 of dispersion, with the coefficients √C₆ of
                atoms as charges and a prefactor of −1. For p = 3 systems are neutral.
            pbc: (3,) or (B, 3) of bool, the periodic axes, two or three. None: the axes of the cell whose vectors are
                not zero. JAX: No traced array.
            slab_height: height of the cells of slabs along their normal, in L, one for all systems or (B,), for calls
                that cannot read values: the thickness of the slab and a gap g of at least the cutoff, whose error falls
                as exp(−2πg/L) with the longer period L along the slab: g = 2.1 L for 1e-6 of the forces. None: chosen
                for `accuracy` from cell and positions. With `miller_indices` and `mesh_dimensions`, which belong to a
                cell, that of the cell, whose gap is looked at: without values, in graphs, under transforms and on
                devices, it is needed there.
            batch_idx: (N,), the system of each atom, sorted. None: one system.

        Returns:
            Numbers for one system; for a batch (a cell (B, 3, 3), or `batch_idx`) arrays (B,) of float64. PyTorch: They
            are tensors, on the positions' device. JAX, CUDA: They are arrays of NumPy.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name.
        """
        return self._read(
            mesh.estimate_pme_parameters, None, positions, charges, cell, accuracy, cutoff, alpha, (mesh_dimensions,
            mesh_spacing, spline_order), exponent, pbc, slab_height, batch_idx,
        )

    def neighbor_list(
        self, positions: ArrayLike, cutoff: float | tuple[float, ...] | ArrayLike, cell: ArrayLike | None = None,
        pbc: Any = None, batch_idx: ArrayLike | None = None, batch_ptr: ArrayLike | None = None, *,
        half_fill: bool = False, format: Literal["coo", "csr", "matrix"] = "coo", max_neighbors: int | None = None,
        capacity: int | None = None, fill_value: int | None = None, return_distances: bool = False,
        return_vectors: bool = False, types: ArrayLike | None = None, centers: ArrayLike | None = None,
        sources: ArrayLike | None = None, source_batch_idx: ArrayLike | None = None,
        method: Literal["cell_list", "brute_force"] | None = None, stream: Any = None,
    ) -> tuple[Any, ...]:
        """All pairs of atoms and images closer than `cutoff` (strictly).

        The cell may have any shape and handedness and may be smaller than the cutoff. Rows are ordered by i, then j,
        then S, and the list depends neither on the method nor on the number of threads.

        PyTorch: Distances and vectors are differentiable twice in positions and cell; which pairs there are is not. The
        number of pairs depends on values, so a compiled graph breaks here (an error with `fullgraph=True` and in
        exported graphs): make the list outside of it.

        CUDA tensors are searched on their device. Without `capacity` the number of pairs is read from it. With one,
        nothing is read or waited for, and `torch.cuda.graph` can capture the call: the tensors have room for `capacity`
        pairs, with N behind the last one (and zero in shifts, distances and vectors) and true offsets, and a list that
        does not fit is an error of `madelung.check_device` in the functions that read it.

        JAX: Distances and vectors are differentiable twice in positions and cell; which pairs there are is not.

        Sizes of arrays may not depend on values under `jit` (and `vmap`, `scan`, `shard_map`). There `capacity` is the
        number of pairs that the list has room for, and the arrays have that length, filled up with N (images and
        distances with zero); `neighbor_ptr` and `num_pairs` say how many pairs there are. Where they are more than fit,
        `overflow` is True and the list holds none: every function that is given it returns NaN. Make a larger one then.

        CUDA: The list is made on the device, for images up to 500 boxes away along the first axis and 1000 along the
        others. Without a capacity the call waits once, for the number of pairs; with one it waits for nothing.

        Args:
            positions: (N, 3), or without a cell (N, 2) or (N, 1), float32 or float64, anywhere: they need not lie
                inside the cell.
            cutoff: in the unit of the positions. Several numbers in a tuple, for a list each, from one search; with
                `types` (T, T), for two types each, and 0 where they are no pair. JAX: Python numbers.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
            pbc: (3,) or (B, 3) of bool, or one for all axes. None: the axes of a cell whose vectors are not zero. CUDA:
                An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. JAX: Under `jit` with a cell for each system. CUDA:
                Without a cell for each system its last one is read.
            batch_ptr: (B+1,), where each system begins. CUDA: It is read.
            half_fill: every pair once (i < j, and of an atom's own images one of each two) instead of from both sides.
            format: which arrays are returned, see below: "coo", "csr" or "matrix". JAX: With a capacity "coo" or "csr".
                CUDA: A "matrix" is made on the host.
            max_neighbors: the most pairs that an atom may have, and the width of a matrix. None: as many as it has.
                PyTorch: On a CUDA device it goes with `capacity` for a matrix alone, which has −1 everywhere (N + 1
                where that is the `fill_value`) if it does not fit. CUDA: Makes the list on the host.
            capacity: the most pairs that the list may have, within the largest of several cutoffs. None: as many as it
                has. JAX: With one, arrays have that length. CUDA: With one, arrays have that length, with N, and zero
                in images, behind the last pair, whose number is the last of `neighbor_ptr`. A list of more has no pair
                at all; `madelung.check_device` raises that, and every function that is given the list makes NaN of it.
            fill_value: the entry behind the neighbours of a row of a matrix. None: N.
            return_distances, return_vectors: whether |r_ij| and r_ij of each pair are returned, zero in the padding.
            types: (N,), the type of each atom, from 0 on. CUDA: Makes the list on the host.
            centers: (M,), rising indices of the atoms whose neighbours are wanted, which become rows 0 to M − 1 of the
                list. None: all. CUDA: Makes the list on the host.
            sources, source_batch_idx: (M, 3), points that are the neighbours of atoms in place of other atoms, and the
                system of each (M,). One that is on an atom is a neighbour at distance zero. CUDA: Makes the list on the
                host.
            method: "cell_list" or "brute_force" (all pairs). None chooses by the size of the system. CUDA: There is one
                on a device, and the list is the same.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            For "coo": `neighbor_list` (2, P), `neighbor_ptr` (N+1,), `neighbor_shifts` (P, 3);
            for "csr": `neighbor_ptr` (N+1,), `indices` (P,), `neighbor_shifts` (P, 3);
            for "matrix": `neighbor_matrix` (N, M), `num_neighbors` (N,), `neighbor_matrix_shifts` (N, M, 3);
            all int32; then distances (P,) or (N, M) and vectors (P, 3) or (N, M, 3) if asked for.
            For several cutoffs, a tuple with these of each. JAX: Then, with a capacity (which is P), `num_pairs` ()
            int32 and `overflow` () bool.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name. ValueError also
            where the list does not fit `max_neighbors` or `capacity`: the message has the size that is needed. A list
            is never cut short.
        """
        return (self._read if capacity is None else self._call)(
            neighbors.neighbor_list, stream, positions, cutoff, cell, pbc, batch_idx, batch_ptr, half_fill, format,
            max_neighbors, capacity, fill_value, return_distances, return_vectors, types, centers, sources,
            source_batch_idx, method,
        )

    def find_neighbors(
        self, positions: ArrayLike, cutoff: float, cell: ArrayLike | None = None, pbc: Any = None,
        batch_idx: ArrayLike | None = None, batch_ptr: ArrayLike | None = None, *,
        form: Literal["clusters", "rows"] | None = None, stream: Any = None,
    ) -> Neighbors:
        """All pairs of atoms and images closer than `cutoff` (strictly), in the form that is fastest to use.

        The pairs of `neighbor_list`; sums over them, and the search, take about half of the time that they take with
        plain arrays. The clusters are those of S. Páll and B. Hess, Comput. Phys. Commun. 184, 2641 (2013).

        PyTorch: A compiled graph breaks at this call: the sizes depend on values. Make the list outside of it. CUDA
        tensors are searched on their device, and the number of pairs is read from it.

        JAX: Not under `jit`: see `NeighborList`, whose `update` is.

        CUDA: The call waits once, for the number of pairs.

        Args:
            positions: (N, 3), float32 or float64, anywhere: they need not lie inside the cell.
            cutoff: in the unit of the positions. JAX: A Python number.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
            pbc: (3,) or (B, 3) of bool, or one for all axes. None: the axes of a cell whose vectors are not zero. CUDA:
                An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. JAX: Under `jit` with a cell for each system. CUDA:
                Without a cell for each system its last one is read.
            batch_ptr: (B+1,), where each system begins. CUDA: It is read.
            form: how the pairs are kept, "rows" or "clusters" (of atoms that are neighbours in space). None: in
                clusters where that is faster (a system of 512 atoms or more, with some hundred neighbours each, on the
                CPU), else in rows. A system's results do not depend on its batch. CUDA: In rows on a device.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The neighbours, for the argument `neighbors` of other functions.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name.
        """
        return self._read(
            neighbors.find_neighbors, stream, positions, cutoff, cell, pbc, batch_idx, batch_ptr, form,
        )

    @overload
    def coulomb(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike | None = None, *,
        cutoff: float | None = None, alpha: float = 0.0, neighbors: Neighbors | None = None,
        neighbor_list: ArrayLike | None = None, neighbor_ptr: ArrayLike | None = None,
        neighbor_shifts: ArrayLike | None = None, neighbor_matrix: ArrayLike | None = None,
        neighbor_matrix_shifts: ArrayLike | None = None, fill_value: int | None = None, half_fill: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None, exponent: int = 1,
        pbc: Any = None, batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: Literal[False] = False,
        compute_charge_gradients: Literal[False] = False, compute_virial: Literal[False] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def coulomb(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike | None = None, *,
        cutoff: float | None = None, alpha: float = 0.0, neighbors: Neighbors | None = None,
        neighbor_list: ArrayLike | None = None, neighbor_ptr: ArrayLike | None = None,
        neighbor_shifts: ArrayLike | None = None, neighbor_matrix: ArrayLike | None = None,
        neighbor_matrix_shifts: ArrayLike | None = None, fill_value: int | None = None, half_fill: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None, exponent: int = 1,
        pbc: Any = None, batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def coulomb(
        self, positions: ArrayLike, charges: ArrayLike, cell: ArrayLike | None = None, *,
        cutoff: float | None = None, alpha: float = 0.0, neighbors: Neighbors | None = None,
        neighbor_list: ArrayLike | None = None, neighbor_ptr: ArrayLike | None = None,
        neighbor_shifts: ArrayLike | None = None, neighbor_matrix: ArrayLike | None = None,
        neighbor_matrix_shifts: ArrayLike | None = None, fill_value: int | None = None, half_fill: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None, exponent: int = 1,
        pbc: Any = None, batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """The Coulomb energy over pairs: ½ Σ q_i q_j erfc(αr)/r, over all pairs of a molecule or those within a cutoff.

        Open systems (no cell) need no cutoff: the sum is exact. Over pairs within a cutoff it converges slowly, if at
        all; see `dsf`, and `ewald_summation` for periodic systems.

        Args:
            positions: (N, 3), float32 or float64.
            charges: (N,), of the positions' dtype, as all real arrays. Or (N, C), C sets of charges, each with its own
                results. Without a list and parameters each set searches for itself. CUDA: The call then waits for the
                charges and the results, which are split and joined on the host.
            cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors. None: no axis is periodic.
            cutoff: pairs closer than it count, in L. None: all pairs of systems without a periodic axis, whatever list
                is given; of others, or with damping, all pairs of the list. JAX: A Python number.
            alpha: damping α in 1/L, from 0 up. JAX: A Python number.
            neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
                atoms, another cell or a smaller cutoff, or if an atom has moved by more than half the skin of a
                `NeighborList` since its `update`, where values can be read. JAX: Under `jit` one of another cell makes
                every result NaN.
            neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than
                the cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or
                in a half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not
                at all. Without a list the call builds one. JAX: A list that has overflown its capacity makes every
                result NaN. CUDA: For that it waits.
            neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. JAX: Not under `jit`.
                CUDA: It is read, and made a list on the host, as is a list without offsets.
            half_fill: whether the list that is given has every pair once. JAX: Not under `jit`. CUDA: It is then made
                full on the host.
            exclusions: pairs (P, 2) of atoms that are left out, each once; or a tuple of pairs and factors (P,), or one
                for all, by which their energies are multiplied instead of 0 (differentiable), or of pairs, factors (or
                None) and images (P, 3), the nearest by default. A factor counts for the whole interaction of the pair,
                in the real and the reciprocal part alike; a pair that is left out may lie on one point.
            exponent: p of the pair law q_i q_j/rᵖ, 1 to 6: 1 of charges, 6 of dispersion, with the coefficients √C₆ of
                atoms as charges and a prefactor of −1. For p = 3 systems are neutral.
            pbc: (3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces, compute_charge_gradients: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            hybrid_forces: the energy's first derivative by positions and cell is zero and by the charges ∂E/∂q, so that
                forces (at fixed charges) and what differentiation brings through charges that depend on the positions
                add up to the total force. Nothing is detached: second derivatives through the charges are those of the
                true function. Of `madelung.torch` and `madelung.jax`, which differentiate.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q
            (N,) (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B,
            3, 3), or (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a
            tuple. Of charges (N, C) energies and charge gradients are (N, C), or energies (B, C), forces (N, C, 3) and
            virials (C, 3, 3) or (B, C, 3, 3), of each atom (N, C, 3, 3).

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            pair_sums.coulomb, stream, positions, charges, cell, cutoff, alpha, (neighbors, neighbor_list, neighbor_ptr,
            neighbor_shifts, neighbor_matrix, neighbor_matrix_shifts, fill_value, half_fill), exclusions, exponent, pbc,
            batch_idx, (prefactor, energy_reduction, compute_forces, compute_charge_gradients, compute_virial,
            hybrid_forces),
        )

    @overload
    def dsf(
        self, positions: ArrayLike, charges: ArrayLike, cutoff: float, alpha: float | ArrayLike = 0.2,
        cell: ArrayLike | None = None, *, neighbors: Neighbors | None = None,
        neighbor_list: ArrayLike | None = None, neighbor_ptr: ArrayLike | None = None,
        neighbor_shifts: ArrayLike | None = None, neighbor_matrix: ArrayLike | None = None,
        neighbor_matrix_shifts: ArrayLike | None = None, fill_value: int | None = None, half_fill: bool = False,
        pbc: Any = None, batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: Literal[False] = False,
        compute_charge_gradients: Literal[False] = False, compute_virial: Literal[False] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def dsf(
        self, positions: ArrayLike, charges: ArrayLike, cutoff: float, alpha: float | ArrayLike = 0.2,
        cell: ArrayLike | None = None, *, neighbors: Neighbors | None = None,
        neighbor_list: ArrayLike | None = None, neighbor_ptr: ArrayLike | None = None,
        neighbor_shifts: ArrayLike | None = None, neighbor_matrix: ArrayLike | None = None,
        neighbor_matrix_shifts: ArrayLike | None = None, fill_value: int | None = None, half_fill: bool = False,
        pbc: Any = None, batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def dsf(
        self, positions: ArrayLike, charges: ArrayLike, cutoff: float, alpha: float | ArrayLike = 0.2,
        cell: ArrayLike | None = None, *, neighbors: Neighbors | None = None,
        neighbor_list: ArrayLike | None = None, neighbor_ptr: ArrayLike | None = None,
        neighbor_shifts: ArrayLike | None = None, neighbor_matrix: ArrayLike | None = None,
        neighbor_matrix_shifts: ArrayLike | None = None, fill_value: int | None = None, half_fill: bool = False,
        pbc: Any = None, batch_idx: ArrayLike | None = None, prefactor: float = 1.0,
        energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_charge_gradients: bool = False, compute_virial: bool | Literal["atom"] = False,
        hybrid_forces: bool = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """The damped shifted force sum of Fennell and Gezelter, J. Chem. Phys. 124, 234104 (2006).

        With v(r) = erfc(αr)/r, ½ Σ q_i q_j [v(r) − v(r_c) − v′(r_c)(r − r_c)] over pairs closer than r_c, and of each
        charge with itself −q²[v(r_c)/2 − r_c v′(r_c)/2 + α/√π]: energies and forces go to zero at the cutoff. An
        approximation of Ewald's sum for disordered, neutral systems, whose time goes with N.

        Args:
            positions: (N, 3), float32 or float64.
            charges: (N,), of the positions' dtype, as all real arrays. Or (N, C), C sets of charges, each with its own
                results. Without a list and parameters each set searches for itself. CUDA: The call then waits for the
                charges and the results, which are split and joined on the host.
            cutoff: radius r_c of the sum, in L. JAX: A Python number.
            alpha: damping α in 1/L, one for all systems or (B,).
            cell: (3, 3), for all systems, or (B, 3, 3); rows are lattice vectors. None: no axis is periodic.
            neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
                atoms, another cell or a smaller cutoff, or if an atom has moved by more than half the skin of a
                `NeighborList` since its `update`, where values can be read. JAX: Under `jit` one of another cell makes
                every result NaN.
            neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than
                the cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or
                in a half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not
                at all. Without a list the call builds one. JAX: A list that has overflown its capacity makes every
                result NaN. CUDA: For that it waits.
            neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. JAX: Not under `jit`.
                CUDA: It is read, and made a list on the host, as is a list without offsets.
            half_fill: whether the list that is given has every pair once. JAX: Not under `jit`. CUDA: It is then made
                full on the host.
            pbc: (3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces, compute_charge_gradients: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            hybrid_forces: the energy's first derivative by positions and cell is zero and by the charges ∂E/∂q, so that
                forces (at fixed charges) and what differentiation brings through charges that depend on the positions
                add up to the total force. Nothing is detached: second derivatives through the charges are those of the
                true function. Of `madelung.torch` and `madelung.jax`, which differentiate.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), followed by the requested ones of: forces −∂E/∂r (N, 3), charge gradients ∂E/∂q
            (N,) (the potential at each charge), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B,
            3, 3), or (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a
            tuple. Of charges (N, C) energies and charge gradients are (N, C), or energies (B, C), forces (N, C, 3) and
            virials (C, 3, 3) or (B, C, 3, 3), of each atom (N, C, 3, 3).

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            pair_sums.dsf, stream, positions, charges, cutoff, alpha, cell, (neighbors, neighbor_list, neighbor_ptr,
            neighbor_shifts, neighbor_matrix, neighbor_matrix_shifts, fill_value, half_fill), pbc, batch_idx,
            (prefactor, energy_reduction, compute_forces, compute_charge_gradients, compute_virial, hybrid_forces),
        )

    @overload
    def born_mayer(
        self, positions: ArrayLike, types: ArrayLike, amplitude: ArrayLike, steepness: ArrayLike, sigma: ArrayLike,
        c6: ArrayLike, c8: ArrayLike, cutoff: float, cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
        compute_forces: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def born_mayer(
        self, positions: ArrayLike, types: ArrayLike, amplitude: ArrayLike, steepness: ArrayLike, sigma: ArrayLike,
        c6: ArrayLike, c8: ArrayLike, cutoff: float, cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def born_mayer(
        self, positions: ArrayLike, types: ArrayLike, amplitude: ArrayLike, steepness: ArrayLike, sigma: ArrayLike,
        c6: ArrayLike, c8: ArrayLike, cutoff: float, cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """Born–Mayer–Huggins potential: A exp(B(σ − r)) − C/r⁶ − D/r⁸, of molten and crystalline salts.

        Huggins and Mayer, J. Chem. Phys. 1, 643 (1933); parameters of the alkali halides: Fumi and Tosi, J. Phys. Chem.
        Solids 25, 31 and 45 (1964), where B = 1/ρ. The parameters of two types are the mean of both elements of a
        table.

        PyTorch: Differentiable twice in positions, cell, parameters and factors of exclusions, forces and virial once
        more.

        JAX: Differentiable twice in positions, cell, parameters and factors of exclusions, forces and virial once more.
        Under `jit` the list is given (`neighbors`).

        Args:
            positions: (N, 3), float32 or float64.
            types: (N,), the type of each atom, from 0 to below K.
            amplitude: (K, K), the energy A. CUDA: One of NumPy is copied to the device.
            steepness: (K, K), the inverse length B = 1/ρ. CUDA: One of NumPy is copied to the device.
            sigma: (K, K), the length σ. CUDA: One of NumPy is copied to the device.
            c6: (K, K), the dispersion coefficient C. CUDA: One of NumPy is copied to the device.
            c8: (K, K), the dispersion coefficient D. CUDA: One of NumPy is copied to the device.
            cutoff: radius of the sum, in L. JAX: A Python number.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
            end: how the energy V of a pair goes to 0 at the cutoff. "taper": from `onset` on times 1 − 10x³ + 15x⁴ −
                6x⁵, where x goes from 0 there to 1 at the cutoff. "switch": times (1 − z)²(1 + 2z), where z does so
                with r², as in CHARMM. "force-switch": less a constant, and from `onset` on less Ax³/3 + Bx⁴/4, x = r −
                `onset`, so that the force and its slope go to 0, as in GROMACS. "shift": less its value at the cutoff.
                "force-shift": less a straight line, so that the force ends at 0, too. "cut": it is cut off.
            onset: distance at which a taper, a switch or a force switch begins, below the cutoff. None: nine tenths of
                the cutoff. JAX: A Python number.
            tail_correction: whether the mean energy of what pairs lack is added: beyond the cutoff, and what the end
                takes off. Eᵢ = (2π/V) Σₜ Nₜ ∫ r² v(r) dr over the types t, of atoms spread evenly over a crystal.
                Exclusions do not change it. Energies that fall slower than r⁻⁴ are refused, where parameters can be
                read.
            exclusions: pairs (P, 2) of atoms that are left out, each once; or a tuple of pairs and factors (P,), or one
                for all, by which their energies are multiplied instead of 0 (differentiable), or of pairs, factors (or
                None) and images (P, 3), the nearest by default. A pair that is left out may lie on one point.
            neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
                atoms, another cell or a smaller cutoff, or if an atom has moved by more than half the skin of a
                `NeighborList` since its `update`, where values can be read. JAX: Under `jit` one of another cell makes
                every result NaN.
            neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than
                the cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or
                in a half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not
                at all. Without a list the call builds one. JAX: A list that has overflown its capacity makes every
                result NaN. CUDA: For that it waits.
            neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. JAX: Not under `jit`.
                CUDA: It is read, and made a list on the host, as is a list without offsets.
            half_fill: whether the list that is given has every pair once. JAX: Not under `jit`. CUDA: It is then made
                full on the host.
            pbc: (3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero. CUDA: An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), a pair's energy split half and half between its atoms, followed by the requested
            ones of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3),
            or (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            potentials.born_mayer, stream, positions, types, amplitude, steepness, sigma, c6, c8, cutoff, cell, (end,
            onset, tail_correction), exclusions, (neighbors, neighbor_list, neighbor_ptr, neighbor_shifts,
            neighbor_matrix, neighbor_matrix_shifts, fill_value, half_fill), pbc, batch_idx, (prefactor,
            energy_reduction, compute_forces, compute_virial),
        )

    @overload
    def buckingham(
        self, positions: ArrayLike, types: ArrayLike, amplitude: ArrayLike, rho: ArrayLike, c6: ArrayLike,
        cutoff: float, cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
        compute_forces: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def buckingham(
        self, positions: ArrayLike, types: ArrayLike, amplitude: ArrayLike, rho: ArrayLike, c6: ArrayLike,
        cutoff: float, cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def buckingham(
        self, positions: ArrayLike, types: ArrayLike, amplitude: ArrayLike, rho: ArrayLike, c6: ArrayLike,
        cutoff: float, cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """Buckingham potential: A exp(−r/ρ) − C/r⁶.

        Buckingham, Proc. R. Soc. Lond. A 168, 264 (1938). It falls to −∞ at r = 0. The parameters of two types are the
        mean of both elements of a table.

        PyTorch: Differentiable twice in positions, cell, parameters and factors of exclusions, forces and virial once
        more.

        JAX: Differentiable twice in positions, cell, parameters and factors of exclusions, forces and virial once more.
        Under `jit` the list is given (`neighbors`).

        Args:
            positions: (N, 3), float32 or float64.
            types: (N,), the type of each atom, from 0 to below K.
            amplitude: (K, K), the energy A. CUDA: One of NumPy is copied to the device.
            rho: (K, K), the length ρ, above zero. CUDA: One of NumPy is copied to the device.
            c6: (K, K), the dispersion coefficient C. CUDA: One of NumPy is copied to the device.
            cutoff: radius of the sum, in L. JAX: A Python number.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
            end: how the energy V of a pair goes to 0 at the cutoff. "taper": from `onset` on times 1 − 10x³ + 15x⁴ −
                6x⁵, where x goes from 0 there to 1 at the cutoff. "switch": times (1 − z)²(1 + 2z), where z does so
                with r², as in CHARMM. "force-switch": less a constant, and from `onset` on less Ax³/3 + Bx⁴/4, x = r −
                `onset`, so that the force and its slope go to 0, as in GROMACS. "shift": less its value at the cutoff.
                "force-shift": less a straight line, so that the force ends at 0, too. "cut": it is cut off.
            onset: distance at which a taper, a switch or a force switch begins, below the cutoff. None: nine tenths of
                the cutoff. JAX: A Python number.
            tail_correction: whether the mean energy of what pairs lack is added: beyond the cutoff, and what the end
                takes off. Eᵢ = (2π/V) Σₜ Nₜ ∫ r² v(r) dr over the types t, of atoms spread evenly over a crystal.
                Exclusions do not change it. Energies that fall slower than r⁻⁴ are refused, where parameters can be
                read.
            exclusions: pairs (P, 2) of atoms that are left out, each once; or a tuple of pairs and factors (P,), or one
                for all, by which their energies are multiplied instead of 0 (differentiable), or of pairs, factors (or
                None) and images (P, 3), the nearest by default. A pair that is left out may lie on one point.
            neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
                atoms, another cell or a smaller cutoff, or if an atom has moved by more than half the skin of a
                `NeighborList` since its `update`, where values can be read. JAX: Under `jit` one of another cell makes
                every result NaN.
            neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than
                the cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or
                in a half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not
                at all. Without a list the call builds one. JAX: A list that has overflown its capacity makes every
                result NaN. CUDA: For that it waits.
            neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. JAX: Not under `jit`.
                CUDA: It is read, and made a list on the host, as is a list without offsets.
            half_fill: whether the list that is given has every pair once. JAX: Not under `jit`. CUDA: It is then made
                full on the host.
            pbc: (3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero. CUDA: An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), a pair's energy split half and half between its atoms, followed by the requested
            ones of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3),
            or (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            potentials.buckingham, stream, positions, types, amplitude, rho, c6, cutoff, cell, (end, onset,
            tail_correction), exclusions, (neighbors, neighbor_list, neighbor_ptr, neighbor_shifts, neighbor_matrix,
            neighbor_matrix_shifts, fill_value, half_fill), pbc, batch_idx, (prefactor, energy_reduction,
            compute_forces, compute_virial),
        )

    @overload
    def lennard_jones(
        self, positions: ArrayLike, types: ArrayLike, epsilon: ArrayLike, sigma: ArrayLike, cutoff: float,
        cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        mixing: Literal["lorentz-berthelot", "geometric", "waldman-hagler"] | None = None,
        dispersion: Literal["ewald", "pme"] | None = None, accuracy: float | None = None,
        alpha: float | ArrayLike | None = None,
        mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
        compute_forces: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def lennard_jones(
        self, positions: ArrayLike, types: ArrayLike, epsilon: ArrayLike, sigma: ArrayLike, cutoff: float,
        cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        mixing: Literal["lorentz-berthelot", "geometric", "waldman-hagler"] | None = None,
        dispersion: Literal["ewald", "pme"] | None = None, accuracy: float | None = None,
        alpha: float | ArrayLike | None = None,
        mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def lennard_jones(
        self, positions: ArrayLike, types: ArrayLike, epsilon: ArrayLike, sigma: ArrayLike, cutoff: float,
        cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        mixing: Literal["lorentz-berthelot", "geometric", "waldman-hagler"] | None = None,
        dispersion: Literal["ewald", "pme"] | None = None, accuracy: float | None = None,
        alpha: float | ArrayLike | None = None,
        mesh_dimensions: tuple[int, int, int] | tuple[tuple[int, int, int], ...] | None = None,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """Lennard-Jones potential: 4ε[(σ/r)¹² − (σ/r)⁶].

        Lennard-Jones, Proc. Phys. Soc. 43, 461 (1931). The parameters of two types are the mean of both elements of a
        table. With `dispersion` the attraction has no cutoff.

        PyTorch: Differentiable twice in positions, cell, parameters and factors of exclusions, forces and virial once
        more.

        JAX: Differentiable twice in positions, cell, parameters and factors of exclusions, forces and virial once more.
        Under `jit` the list is given (`neighbors`).

        Args:
            positions: (N, 3), float32 or float64.
            types: (N,), the type of each atom, from 0 to below K.
            epsilon: (K, K), or (K,) with `mixing`, the depth ε. CUDA: One of NumPy is copied to the device.
            sigma: (K, K), or (K,) with `mixing`, the length σ. CUDA: One of NumPy is copied to the device.
            cutoff: radius of the sum, in L. JAX: A Python number.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
            end: how the energy V of a pair goes to 0 at the cutoff. "taper": from `onset` on times 1 − 10x³ + 15x⁴ −
                6x⁵, where x goes from 0 there to 1 at the cutoff. "switch": times (1 − z)²(1 + 2z), where z does so
                with r², as in CHARMM. "force-switch": less a constant, and from `onset` on less Ax³/3 + Bx⁴/4, x = r −
                `onset`, so that the force and its slope go to 0, as in GROMACS. "shift": less its value at the cutoff.
                "force-shift": less a straight line, so that the force ends at 0, too. "cut": it is cut off.
            onset: distance at which a taper, a switch or a force switch begins, below the cutoff. None: nine tenths of
                the cutoff. JAX: A Python number.
            tail_correction: whether the mean energy of what pairs lack is added: beyond the cutoff, and what the end
                takes off. Eᵢ = (2π/V) Σₜ Nₜ ∫ r² v(r) dr over the types t, of atoms spread evenly over a crystal.
                Exclusions do not change it. Energies that fall slower than r⁻⁴ are refused, where parameters can be
                read.
            mixing: how ε and σ of two types follow from those of each, which are then given as (K,), from 0 up:
                "lorentz-berthelot", σ = (σ₁ + σ₂)/2 and ε = √(ε₁ε₂); "geometric", σ = √(σ₁σ₂) and ε = √(ε₁ε₂);
                "waldman-hagler", σ⁶ = (σ₁⁶ + σ₂⁶)/2 and ε = √(ε₁ε₂) σ₁³σ₂³/σ⁶. None: they are tables. Where each atom
                has parameters of its own, each is a type.
            dispersion: how −C₆/r⁶, C₆ = 4εσ⁶, is summed. None: within the cutoff, as all else. Over all pairs of a
                crystal and their images: "ewald", over waves, or "pme", on a mesh. C₆ then follows from a rule of
                `mixing`, "geometric", one sum, or "lorentz-berthelot", seven (see `dispersion_coefficients`). At the
                cutoff r⁻¹² alone ends.
            accuracy, alpha, mesh_dimensions: of the sum of `dispersion`, as of `particle_mesh_ewald` with `exponent=6`.
            exclusions: pairs (P, 2) of atoms that are left out, each once; or a tuple of pairs and factors (P,), or one
                for all, by which their energies are multiplied instead of 0 (differentiable), or of pairs, factors (or
                None) and images (P, 3), the nearest by default. A pair that is left out may lie on one point.
            neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
                atoms, another cell or a smaller cutoff, or if an atom has moved by more than half the skin of a
                `NeighborList` since its `update`, where values can be read. JAX: Under `jit` one of another cell makes
                every result NaN.
            neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than
                the cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or
                in a half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not
                at all. Without a list the call builds one. JAX: A list that has overflown its capacity makes every
                result NaN. CUDA: For that it waits.
            neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. JAX: Not under `jit`.
                CUDA: It is read, and made a list on the host, as is a list without offsets.
            half_fill: whether the list that is given has every pair once. JAX: Not under `jit`. CUDA: It is then made
                full on the host.
            pbc: (3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero. CUDA: An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), a pair's energy split half and half between its atoms, followed by the requested
            ones of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3),
            or (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            potentials.lennard_jones, stream, positions, types, epsilon, sigma, cutoff, cell, (end, onset,
            tail_correction), mixing, (dispersion, accuracy, alpha, mesh_dimensions), exclusions, (neighbors,
            neighbor_list, neighbor_ptr, neighbor_shifts, neighbor_matrix, neighbor_matrix_shifts, fill_value,
            half_fill), pbc, batch_idx, (prefactor, energy_reduction, compute_forces, compute_virial),
        )

    @overload
    def mie(
        self, positions: ArrayLike, types: ArrayLike, epsilon: ArrayLike, sigma: ArrayLike, repulsive: ArrayLike,
        attractive: ArrayLike, cutoff: float, cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        mixing: Literal["lorentz-berthelot", "geometric", "waldman-hagler"] | None = None,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
        compute_forces: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def mie(
        self, positions: ArrayLike, types: ArrayLike, epsilon: ArrayLike, sigma: ArrayLike, repulsive: ArrayLike,
        attractive: ArrayLike, cutoff: float, cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        mixing: Literal["lorentz-berthelot", "geometric", "waldman-hagler"] | None = None,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def mie(
        self, positions: ArrayLike, types: ArrayLike, epsilon: ArrayLike, sigma: ArrayLike, repulsive: ArrayLike,
        attractive: ArrayLike, cutoff: float, cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        mixing: Literal["lorentz-berthelot", "geometric", "waldman-hagler"] | None = None,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """Mie potential: C ε[(σ/r)ⁿ − (σ/r)ᵐ] with C = n/(n − m) (n/m)^(m/(n − m)), of depth ε.

        Mie, Ann. Phys. 316, 657 (1903). The exponents n and m differ for all pairs of types. The parameters of two
        types are the mean of both elements of a table.

        PyTorch: Differentiable twice in positions, cell, parameters and factors of exclusions, forces and virial once
        more.

        JAX: Differentiable twice in positions, cell, parameters and factors of exclusions, forces and virial once more.
        Under `jit` the list is given (`neighbors`).

        Args:
            positions: (N, 3), float32 or float64.
            types: (N,), the type of each atom, from 0 to below K.
            epsilon: (K, K), or (K,) with `mixing`, the depth ε. CUDA: One of NumPy is copied to the device.
            sigma: (K, K), or (K,) with `mixing`, the length σ, above zero. CUDA: One of NumPy is copied to the device.
            repulsive: (K, K), the exponent n, above zero. CUDA: One of NumPy is copied to the device.
            attractive: (K, K), the exponent m, above zero. CUDA: One of NumPy is copied to the device.
            cutoff: radius of the sum, in L. JAX: A Python number.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
            end: how the energy V of a pair goes to 0 at the cutoff. "taper": from `onset` on times 1 − 10x³ + 15x⁴ −
                6x⁵, where x goes from 0 there to 1 at the cutoff. "switch": times (1 − z)²(1 + 2z), where z does so
                with r², as in CHARMM. "force-switch": less a constant, and from `onset` on less Ax³/3 + Bx⁴/4, x = r −
                `onset`, so that the force and its slope go to 0, as in GROMACS. "shift": less its value at the cutoff.
                "force-shift": less a straight line, so that the force ends at 0, too. "cut": it is cut off.
            onset: distance at which a taper, a switch or a force switch begins, below the cutoff. None: nine tenths of
                the cutoff. JAX: A Python number.
            tail_correction: whether the mean energy of what pairs lack is added: beyond the cutoff, and what the end
                takes off. Eᵢ = (2π/V) Σₜ Nₜ ∫ r² v(r) dr over the types t, of atoms spread evenly over a crystal.
                Exclusions do not change it. Energies that fall slower than r⁻⁴ are refused, where parameters can be
                read.
            mixing: how ε and σ of two types follow from those of each, which are then given as (K,), from 0 up:
                "lorentz-berthelot", σ = (σ₁ + σ₂)/2 and ε = √(ε₁ε₂); "geometric", σ = √(σ₁σ₂) and ε = √(ε₁ε₂);
                "waldman-hagler", σ⁶ = (σ₁⁶ + σ₂⁶)/2 and ε = √(ε₁ε₂) σ₁³σ₂³/σ⁶. None: they are tables. Where each atom
                has parameters of its own, each is a type.
            exclusions: pairs (P, 2) of atoms that are left out, each once; or a tuple of pairs and factors (P,), or one
                for all, by which their energies are multiplied instead of 0 (differentiable), or of pairs, factors (or
                None) and images (P, 3), the nearest by default. A pair that is left out may lie on one point.
            neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
                atoms, another cell or a smaller cutoff, or if an atom has moved by more than half the skin of a
                `NeighborList` since its `update`, where values can be read. JAX: Under `jit` one of another cell makes
                every result NaN.
            neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than
                the cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or
                in a half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not
                at all. Without a list the call builds one. JAX: A list that has overflown its capacity makes every
                result NaN. CUDA: For that it waits.
            neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. JAX: Not under `jit`.
                CUDA: It is read, and made a list on the host, as is a list without offsets.
            half_fill: whether the list that is given has every pair once. JAX: Not under `jit`. CUDA: It is then made
                full on the host.
            pbc: (3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero. CUDA: An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), a pair's energy split half and half between its atoms, followed by the requested
            ones of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3),
            or (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            potentials.mie, stream, positions, types, epsilon, sigma, repulsive, attractive, cutoff, cell, (end, onset,
            tail_correction), mixing, exclusions, (neighbors, neighbor_list, neighbor_ptr, neighbor_shifts,
            neighbor_matrix, neighbor_matrix_shifts, fill_value, half_fill), pbc, batch_idx, (prefactor,
            energy_reduction, compute_forces, compute_virial),
        )

    @overload
    def morse(
        self, positions: ArrayLike, types: ArrayLike, depth: ArrayLike, steepness: ArrayLike, length: ArrayLike,
        cutoff: float, cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
        compute_forces: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def morse(
        self, positions: ArrayLike, types: ArrayLike, depth: ArrayLike, steepness: ArrayLike, length: ArrayLike,
        cutoff: float, cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def morse(
        self, positions: ArrayLike, types: ArrayLike, depth: ArrayLike, steepness: ArrayLike, length: ArrayLike,
        cutoff: float, cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """Morse potential: D{[1 − exp(−a(r − r₀))]² − 1}.

        Morse, Phys. Rev. 34, 57 (1929). The parameters of two types are the mean of both elements of a table.

        PyTorch: Differentiable twice in positions, cell, parameters and factors of exclusions, forces and virial once
        more.

        JAX: Differentiable twice in positions, cell, parameters and factors of exclusions, forces and virial once more.
        Under `jit` the list is given (`neighbors`).

        Args:
            positions: (N, 3), float32 or float64.
            types: (N,), the type of each atom, from 0 to below K.
            depth: (K, K), the depth D. CUDA: One of NumPy is copied to the device.
            steepness: (K, K), the inverse length a. CUDA: One of NumPy is copied to the device.
            length: (K, K), the distance r₀ of the least energy. CUDA: One of NumPy is copied to the device.
            cutoff: radius of the sum, in L. JAX: A Python number.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
            end: how the energy V of a pair goes to 0 at the cutoff. "taper": from `onset` on times 1 − 10x³ + 15x⁴ −
                6x⁵, where x goes from 0 there to 1 at the cutoff. "switch": times (1 − z)²(1 + 2z), where z does so
                with r², as in CHARMM. "force-switch": less a constant, and from `onset` on less Ax³/3 + Bx⁴/4, x = r −
                `onset`, so that the force and its slope go to 0, as in GROMACS. "shift": less its value at the cutoff.
                "force-shift": less a straight line, so that the force ends at 0, too. "cut": it is cut off.
            onset: distance at which a taper, a switch or a force switch begins, below the cutoff. None: nine tenths of
                the cutoff. JAX: A Python number.
            tail_correction: whether the mean energy of what pairs lack is added: beyond the cutoff, and what the end
                takes off. Eᵢ = (2π/V) Σₜ Nₜ ∫ r² v(r) dr over the types t, of atoms spread evenly over a crystal.
                Exclusions do not change it. Energies that fall slower than r⁻⁴ are refused, where parameters can be
                read.
            exclusions: pairs (P, 2) of atoms that are left out, each once; or a tuple of pairs and factors (P,), or one
                for all, by which their energies are multiplied instead of 0 (differentiable), or of pairs, factors (or
                None) and images (P, 3), the nearest by default. A pair that is left out may lie on one point.
            neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
                atoms, another cell or a smaller cutoff, or if an atom has moved by more than half the skin of a
                `NeighborList` since its `update`, where values can be read. JAX: Under `jit` one of another cell makes
                every result NaN.
            neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than
                the cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or
                in a half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not
                at all. Without a list the call builds one. JAX: A list that has overflown its capacity makes every
                result NaN. CUDA: For that it waits.
            neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. JAX: Not under `jit`.
                CUDA: It is read, and made a list on the host, as is a list without offsets.
            half_fill: whether the list that is given has every pair once. JAX: Not under `jit`. CUDA: It is then made
                full on the host.
            pbc: (3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero. CUDA: An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), a pair's energy split half and half between its atoms, followed by the requested
            ones of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3),
            or (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            potentials.morse, stream, positions, types, depth, steepness, length, cutoff, cell, (end, onset,
            tail_correction), exclusions, (neighbors, neighbor_list, neighbor_ptr, neighbor_shifts, neighbor_matrix,
            neighbor_matrix_shifts, fill_value, half_fill), pbc, batch_idx, (prefactor, energy_reduction,
            compute_forces, compute_virial),
        )

    @overload
    def soft_core(
        self, positions: ArrayLike, types: ArrayLike, epsilon: ArrayLike, sigma: ArrayLike, coupling: ArrayLike,
        softness: ArrayLike, cutoff: float, cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        mixing: Literal["lorentz-berthelot", "geometric", "waldman-hagler"] | None = None,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
        compute_forces: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def soft_core(
        self, positions: ArrayLike, types: ArrayLike, epsilon: ArrayLike, sigma: ArrayLike, coupling: ArrayLike,
        softness: ArrayLike, cutoff: float, cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        mixing: Literal["lorentz-berthelot", "geometric", "waldman-hagler"] | None = None,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def soft_core(
        self, positions: ArrayLike, types: ArrayLike, epsilon: ArrayLike, sigma: ArrayLike, coupling: ArrayLike,
        softness: ArrayLike, cutoff: float, cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        mixing: Literal["lorentz-berthelot", "geometric", "waldman-hagler"] | None = None,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """Soft-core potential: 4ελ(u⁻² − u⁻¹) with u = α(1 − λ)² + (r/σ)⁶, for atoms that appear or vanish.

        Beutler et al., Chem. Phys. Lett. 222, 529 (1994). At λ = 1 it is the potential of Lennard-Jones, at λ = 0
        nothing; between them energy and forces stay finite as r goes to 0. The derivative by λ, for thermodynamic
        integration, is that by its table. The parameters of two types are the mean of both elements of a table.

        PyTorch: Differentiable twice in positions, cell, parameters and factors of exclusions, forces and virial once
        more.

        JAX: Differentiable twice in positions, cell, parameters and factors of exclusions, forces and virial once more.
        Under `jit` the list is given (`neighbors`).

        Args:
            positions: (N, 3), float32 or float64.
            types: (N,), the type of each atom, from 0 to below K.
            epsilon: (K, K), or (K,) with `mixing`, the depth ε. CUDA: One of NumPy is copied to the device.
            sigma: (K, K), or (K,) with `mixing`, the length σ, above zero. CUDA: One of NumPy is copied to the device.
            coupling: (K, K), the coupling λ, from 0 to 1. CUDA: One of NumPy is copied to the device.
            softness: (K, K), the softness α, such as 0.5. CUDA: One of NumPy is copied to the device.
            cutoff: radius of the sum, in L. JAX: A Python number.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
            end: how the energy V of a pair goes to 0 at the cutoff. "taper": from `onset` on times 1 − 10x³ + 15x⁴ −
                6x⁵, where x goes from 0 there to 1 at the cutoff. "switch": times (1 − z)²(1 + 2z), where z does so
                with r², as in CHARMM. "force-switch": less a constant, and from `onset` on less Ax³/3 + Bx⁴/4, x = r −
                `onset`, so that the force and its slope go to 0, as in GROMACS. "shift": less its value at the cutoff.
                "force-shift": less a straight line, so that the force ends at 0, too. "cut": it is cut off.
            onset: distance at which a taper, a switch or a force switch begins, below the cutoff. None: nine tenths of
                the cutoff. JAX: A Python number.
            tail_correction: whether the mean energy of what pairs lack is added: beyond the cutoff, and what the end
                takes off. Eᵢ = (2π/V) Σₜ Nₜ ∫ r² v(r) dr over the types t, of atoms spread evenly over a crystal.
                Exclusions do not change it. Energies that fall slower than r⁻⁴ are refused, where parameters can be
                read.
            mixing: how ε and σ of two types follow from those of each, which are then given as (K,), from 0 up:
                "lorentz-berthelot", σ = (σ₁ + σ₂)/2 and ε = √(ε₁ε₂); "geometric", σ = √(σ₁σ₂) and ε = √(ε₁ε₂);
                "waldman-hagler", σ⁶ = (σ₁⁶ + σ₂⁶)/2 and ε = √(ε₁ε₂) σ₁³σ₂³/σ⁶. None: they are tables. Where each atom
                has parameters of its own, each is a type.
            exclusions: pairs (P, 2) of atoms that are left out, each once; or a tuple of pairs and factors (P,), or one
                for all, by which their energies are multiplied instead of 0 (differentiable), or of pairs, factors (or
                None) and images (P, 3), the nearest by default. A pair that is left out may lie on one point.
            neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
                atoms, another cell or a smaller cutoff, or if an atom has moved by more than half the skin of a
                `NeighborList` since its `update`, where values can be read. JAX: Under `jit` one of another cell makes
                every result NaN.
            neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than
                the cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or
                in a half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not
                at all. Without a list the call builds one. JAX: A list that has overflown its capacity makes every
                result NaN. CUDA: For that it waits.
            neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. JAX: Not under `jit`.
                CUDA: It is read, and made a list on the host, as is a list without offsets.
            half_fill: whether the list that is given has every pair once. JAX: Not under `jit`. CUDA: It is then made
                full on the host.
            pbc: (3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero. CUDA: An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), a pair's energy split half and half between its atoms, followed by the requested
            ones of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3),
            or (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            potentials.soft_core, stream, positions, types, epsilon, sigma, coupling, softness, cutoff, cell, (end,
            onset, tail_correction), mixing, exclusions, (neighbors, neighbor_list, neighbor_ptr, neighbor_shifts,
            neighbor_matrix, neighbor_matrix_shifts, fill_value, half_fill), pbc, batch_idx, (prefactor,
            energy_reduction, compute_forces, compute_virial),
        )

    @overload
    def tang_toennies(
        self, positions: ArrayLike, types: ArrayLike, amplitude: ArrayLike, steepness: ArrayLike, c6: ArrayLike,
        c8: ArrayLike, c10: ArrayLike, cutoff: float, cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
        compute_forces: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def tang_toennies(
        self, positions: ArrayLike, types: ArrayLike, amplitude: ArrayLike, steepness: ArrayLike, c6: ArrayLike,
        c8: ArrayLike, c10: ArrayLike, cutoff: float, cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def tang_toennies(
        self, positions: ArrayLike, types: ArrayLike, amplitude: ArrayLike, steepness: ArrayLike, c6: ArrayLike,
        c8: ArrayLike, c10: ArrayLike, cutoff: float, cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """Tang–Toennies potential: A exp(−br) − Σₙ fₙ(br) Cₙ/rⁿ over n = 6, 8, 10, with damped dispersion.

        fₙ(x) = 1 − exp(−x) Σₖ xᵏ/k!, k from 0 to n: Tang and Toennies, J. Chem. Phys. 80, 3726 (1984), eqs. 1 and 2.
        The damping is a difference of near numbers: in float32 f₆ has five digits and f₁₀ three at br = 3, in float64
        f₁₀ has eight at br = 1. The parameters of two types are the mean of both elements of a table.

        PyTorch: Differentiable twice in positions, cell, parameters and factors of exclusions, forces and virial once
        more.

        JAX: Differentiable twice in positions, cell, parameters and factors of exclusions, forces and virial once more.
        Under `jit` the list is given (`neighbors`).

        Args:
            positions: (N, 3), float32 or float64.
            types: (N,), the type of each atom, from 0 to below K.
            amplitude: (K, K), the energy A. CUDA: One of NumPy is copied to the device.
            steepness: (K, K), the inverse length b. CUDA: One of NumPy is copied to the device.
            c6: (K, K), the dispersion coefficient C₆. CUDA: One of NumPy is copied to the device.
            c8: (K, K), the dispersion coefficient C₈. CUDA: One of NumPy is copied to the device.
            c10: (K, K), the dispersion coefficient C₁₀. CUDA: One of NumPy is copied to the device.
            cutoff: radius of the sum, in L. JAX: A Python number.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
            end: how the energy V of a pair goes to 0 at the cutoff. "taper": from `onset` on times 1 − 10x³ + 15x⁴ −
                6x⁵, where x goes from 0 there to 1 at the cutoff. "switch": times (1 − z)²(1 + 2z), where z does so
                with r², as in CHARMM. "force-switch": less a constant, and from `onset` on less Ax³/3 + Bx⁴/4, x = r −
                `onset`, so that the force and its slope go to 0, as in GROMACS. "shift": less its value at the cutoff.
                "force-shift": less a straight line, so that the force ends at 0, too. "cut": it is cut off.
            onset: distance at which a taper, a switch or a force switch begins, below the cutoff. None: nine tenths of
                the cutoff. JAX: A Python number.
            tail_correction: whether the mean energy of what pairs lack is added: beyond the cutoff, and what the end
                takes off. Eᵢ = (2π/V) Σₜ Nₜ ∫ r² v(r) dr over the types t, of atoms spread evenly over a crystal.
                Exclusions do not change it. Energies that fall slower than r⁻⁴ are refused, where parameters can be
                read.
            exclusions: pairs (P, 2) of atoms that are left out, each once; or a tuple of pairs and factors (P,), or one
                for all, by which their energies are multiplied instead of 0 (differentiable), or of pairs, factors (or
                None) and images (P, 3), the nearest by default. A pair that is left out may lie on one point.
            neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
                atoms, another cell or a smaller cutoff, or if an atom has moved by more than half the skin of a
                `NeighborList` since its `update`, where values can be read. JAX: Under `jit` one of another cell makes
                every result NaN.
            neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than
                the cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or
                in a half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not
                at all. Without a list the call builds one. JAX: A list that has overflown its capacity makes every
                result NaN. CUDA: For that it waits.
            neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. JAX: Not under `jit`.
                CUDA: It is read, and made a list on the host, as is a list without offsets.
            half_fill: whether the list that is given has every pair once. JAX: Not under `jit`. CUDA: It is then made
                full on the host.
            pbc: (3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero. CUDA: An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), a pair's energy split half and half between its atoms, followed by the requested
            ones of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3),
            or (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            potentials.tang_toennies, stream, positions, types, amplitude, steepness, c6, c8, c10, cutoff, cell, (end,
            onset, tail_correction), exclusions, (neighbors, neighbor_list, neighbor_ptr, neighbor_shifts,
            neighbor_matrix, neighbor_matrix_shifts, fill_value, half_fill), pbc, batch_idx, (prefactor,
            energy_reduction, compute_forces, compute_virial),
        )

    @overload
    def yukawa(
        self, positions: ArrayLike, types: ArrayLike, amplitude: ArrayLike, kappa: ArrayLike, cutoff: float,
        cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
        compute_forces: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def yukawa(
        self, positions: ArrayLike, types: ArrayLike, amplitude: ArrayLike, kappa: ArrayLike, cutoff: float,
        cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def yukawa(
        self, positions: ArrayLike, types: ArrayLike, amplitude: ArrayLike, kappa: ArrayLike, cutoff: float,
        cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """Yukawa potential: A exp(−κr)/r, of screened charges in colloids and plasmas.

        Yukawa, Proc. Phys.-Math. Soc. Jpn. 17, 48 (1935). The parameters of two types are the mean of both elements of
        a table.

        PyTorch: Differentiable twice in positions, cell, parameters and factors of exclusions, forces and virial once
        more.

        JAX: Differentiable twice in positions, cell, parameters and factors of exclusions, forces and virial once more.
        Under `jit` the list is given (`neighbors`).

        Args:
            positions: (N, 3), float32 or float64.
            types: (N,), the type of each atom, from 0 to below K.
            amplitude: (K, K), A, an energy times a length. CUDA: One of NumPy is copied to the device.
            kappa: (K, K), the inverse screening length κ. CUDA: One of NumPy is copied to the device.
            cutoff: radius of the sum, in L. JAX: A Python number.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
            end: how the energy V of a pair goes to 0 at the cutoff. "taper": from `onset` on times 1 − 10x³ + 15x⁴ −
                6x⁵, where x goes from 0 there to 1 at the cutoff. "switch": times (1 − z)²(1 + 2z), where z does so
                with r², as in CHARMM. "force-switch": less a constant, and from `onset` on less Ax³/3 + Bx⁴/4, x = r −
                `onset`, so that the force and its slope go to 0, as in GROMACS. "shift": less its value at the cutoff.
                "force-shift": less a straight line, so that the force ends at 0, too. "cut": it is cut off.
            onset: distance at which a taper, a switch or a force switch begins, below the cutoff. None: nine tenths of
                the cutoff. JAX: A Python number.
            tail_correction: whether the mean energy of what pairs lack is added: beyond the cutoff, and what the end
                takes off. Eᵢ = (2π/V) Σₜ Nₜ ∫ r² v(r) dr over the types t, of atoms spread evenly over a crystal.
                Exclusions do not change it. Energies that fall slower than r⁻⁴ are refused, where parameters can be
                read.
            exclusions: pairs (P, 2) of atoms that are left out, each once; or a tuple of pairs and factors (P,), or one
                for all, by which their energies are multiplied instead of 0 (differentiable), or of pairs, factors (or
                None) and images (P, 3), the nearest by default. A pair that is left out may lie on one point.
            neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
                atoms, another cell or a smaller cutoff, or if an atom has moved by more than half the skin of a
                `NeighborList` since its `update`, where values can be read. JAX: Under `jit` one of another cell makes
                every result NaN.
            neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than
                the cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or
                in a half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not
                at all. Without a list the call builds one. JAX: A list that has overflown its capacity makes every
                result NaN. CUDA: For that it waits.
            neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. JAX: Not under `jit`.
                CUDA: It is read, and made a list on the host, as is a list without offsets.
            half_fill: whether the list that is given has every pair once. JAX: Not under `jit`. CUDA: It is then made
                full on the host.
            pbc: (3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero. CUDA: An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), a pair's energy split half and half between its atoms, followed by the requested
            ones of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3),
            or (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            potentials.yukawa, stream, positions, types, amplitude, kappa, cutoff, cell, (end, onset, tail_correction),
            exclusions, (neighbors, neighbor_list, neighbor_ptr, neighbor_shifts, neighbor_matrix,
            neighbor_matrix_shifts, fill_value, half_fill), pbc, batch_idx, (prefactor, energy_reduction,
            compute_forces, compute_virial),
        )

    @overload
    def zbl(
        self, positions: ArrayLike, types: ArrayLike, amplitude: ArrayLike, length: ArrayLike, cutoff: float,
        cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom",
        compute_forces: Literal[False] = False, compute_virial: Literal[False] = False, stream: Any = None,
    ) -> Array: ...

    @overload
    def zbl(
        self, positions: ArrayLike, types: ArrayLike, amplitude: ArrayLike, length: ArrayLike, cutoff: float,
        cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> tuple[Array, ...]: ...

    def zbl(
        self, positions: ArrayLike, types: ArrayLike, amplitude: ArrayLike, length: ArrayLike, cutoff: float,
        cell: ArrayLike | None = None, *,
        end: Literal["taper", "switch", "force-switch", "shift", "force-shift", "cut"] = "taper",
        onset: float | None = None, tail_correction: bool = False,
        exclusions: ArrayLike | tuple[ArrayLike | float | None, ...] | None = None,
        neighbors: Neighbors | None = None, neighbor_list: ArrayLike | None = None,
        neighbor_ptr: ArrayLike | None = None, neighbor_shifts: ArrayLike | None = None,
        neighbor_matrix: ArrayLike | None = None, neighbor_matrix_shifts: ArrayLike | None = None,
        fill_value: int | None = None, half_fill: bool = False, pbc: Any = None, batch_idx: ArrayLike | None = None,
        prefactor: float = 1.0, energy_reduction: Literal["atom", "system"] = "atom", compute_forces: bool = False,
        compute_virial: bool | Literal["atom"] = False, stream: Any = None,
    ) -> Array | tuple[Array, ...]:
        """Ziegler–Biersack–Littmark potential: A φ(r/a)/r, of nuclei at short distances, such as in radiation damage.

        Ziegler, Biersack and Littmark, The Stopping and Range of Ions in Solids (1985), with the universal screening
        function φ. For atomic numbers Z₁ and Z₂, A = Z₁Z₂ e²/4πε₀ (Z₁Z₂ times `madelung.units.EV_ANGSTROM`) and a =
        0.46850 Å/(Z₁^0.23 + Z₂^0.23). The parameters of two types are the mean of both elements of a table.

        PyTorch: Differentiable twice in positions, cell, parameters and factors of exclusions, forces and virial once
        more.

        JAX: Differentiable twice in positions, cell, parameters and factors of exclusions, forces and virial once more.
        Under `jit` the list is given (`neighbors`).

        Args:
            positions: (N, 3), float32 or float64.
            types: (N,), the type of each atom, from 0 to below K.
            amplitude: (K, K), A, an energy times a length. CUDA: One of NumPy is copied to the device.
            length: (K, K), the screening length a, above zero. CUDA: One of NumPy is copied to the device.
            cutoff: radius of the sum, in L. JAX: A Python number.
            cell: (3, 3) or (B, 3, 3), rows are lattice vectors. None: no axis is periodic.
            end: how the energy V of a pair goes to 0 at the cutoff. "taper": from `onset` on times 1 − 10x³ + 15x⁴ −
                6x⁵, where x goes from 0 there to 1 at the cutoff. "switch": times (1 − z)²(1 + 2z), where z does so
                with r², as in CHARMM. "force-switch": less a constant, and from `onset` on less Ax³/3 + Bx⁴/4, x = r −
                `onset`, so that the force and its slope go to 0, as in GROMACS. "shift": less its value at the cutoff.
                "force-shift": less a straight line, so that the force ends at 0, too. "cut": it is cut off.
            onset: distance at which a taper, a switch or a force switch begins, below the cutoff. None: nine tenths of
                the cutoff. JAX: A Python number.
            tail_correction: whether the mean energy of what pairs lack is added: beyond the cutoff, and what the end
                takes off. Eᵢ = (2π/V) Σₜ Nₜ ∫ r² v(r) dr over the types t, of atoms spread evenly over a crystal.
                Exclusions do not change it. Energies that fall slower than r⁻⁴ are refused, where parameters can be
                read.
            exclusions: pairs (P, 2) of atoms that are left out, each once; or a tuple of pairs and factors (P,), or one
                for all, by which their energies are multiplied instead of 0 (differentiable), or of pairs, factors (or
                None) and images (P, 3), the nearest by default. A pair that is left out may lie on one point.
            neighbors: what `find_neighbors` or `NeighborList` gives: the fastest way. Refused if it was made for other
                atoms, another cell or a smaller cutoff, or if an atom has moved by more than half the skin of a
                `NeighborList` since its `update`, where values can be read. JAX: Under `jit` one of another cell makes
                every result NaN.
            neighbor_list, neighbor_ptr, neighbor_shifts: the pairs as `neighbor_list` returns them. Pairs further than
                the cutoff do not count, so a list with a skin serves. Each entry counts: a pair that is there twice, or
                in a half list from both sides, counts twice, and one that is missing (a list for a smaller cutoff) not
                at all. Without a list the call builds one. JAX: A list that has overflown its capacity makes every
                result NaN. CUDA: For that it waits.
            neighbor_matrix, neighbor_matrix_shifts, fill_value: a list of pairs as a matrix. JAX: Not under `jit`.
                CUDA: It is read, and made a list on the host, as is a list without offsets.
            half_fill: whether the list that is given has every pair once. JAX: Not under `jit`. CUDA: It is then made
                full on the host.
            pbc: (3,) or (B, 3) of bool. None: the axes of a cell whose vectors are not zero. CUDA: An array of NumPy.
            batch_idx: (N,), the system of each atom, sorted. None: one system. JAX: Under `jit` with a cell for each
                system.
            prefactor: multiplies energies and every derivative of them. JAX: A Python number.
            energy_reduction: energies per "atom" (a pair's energy split half and half) or per "system".
            compute_forces: whether these are returned too.
            compute_virial: whether −∂E/∂ε is returned too, for r → r(1+ε) and cell → cell(1+ε), or with "atom" that of
                the energy of each atom, (N, 3, 3), which add up to it.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The energies, (N,) or (B,), a pair's energy split half and half between its atoms, followed by the requested
            ones of: forces −∂E/∂r (N, 3), virial −∂E/∂ε ((3, 3) for a (3, 3) cell without `batch_idx`, else (B, 3, 3),
            or (N, 3, 3)), where E is the sum of the energies. A single array comes unwrapped, several as a tuple.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name; among others for
            two charges on one point. JAX: What only the kernel can see (two charges on one point, a cell that is not
            finite under `jit`) is raised by XLA as `jax.errors.JaxRuntimeError`, with the same text.
        """
        return self._call(
            potentials.zbl, stream, positions, types, amplitude, length, cutoff, cell, (end, onset, tail_correction),
            exclusions, (neighbors, neighbor_list, neighbor_ptr, neighbor_shifts, neighbor_matrix,
            neighbor_matrix_shifts, fill_value, half_fill), pbc, batch_idx, (prefactor, energy_reduction,
            compute_forces, compute_virial),
        )

    def dispersion_coefficients(
        self, sigma: ArrayLike, epsilon: ArrayLike,
    ) -> tuple[Array, Array]:
        """Dispersion coefficients by the rules of Lorentz and Berthelot, as seven sets of charges of a sum with p = 6.

        C₆ of a pair is 4 √(ε_i ε_j) ((σ_i + σ_j)/2)⁶, a sum of seven products by the binomial theorem (In 't Veld,
        Ismail and Grest, J. Chem. Phys. 127, 144711 (2007)); those of two unlike factors are a square less a square. So
        the energy −Σ C₆/r⁶ is `ewald_summation(positions, coefficients, cell, exponent=6, prefactor=-1.0) @ signs`, and
        forces are those of the sets, each times its sign, added up. For coefficients √(C_i C_j) one set, √C_i, is
        enough. As C₆ goes with √ε_i, its derivative by a depth of zero is infinite, and taken as zero.

        Args:
            sigma: (N,), the diameter σ of each atom, in L, from zero up.
            epsilon: (N,), the depth ε of the well of each atom, from zero up.

        Returns:
            the coefficients (N, 7), and the sign of each set, (7,).

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name.
        """
        return self._call(
            powers.dispersion_coefficients, None, sigma, epsilon,
        )

    def segment_sum(
        self, values: ArrayLike, segment_idx: ArrayLike, num_segments: int | None = None, stream: Any = None,
    ) -> Array:
        """The sum of the entries of each segment.

        Carried in float64, in a fixed order: the same bits in every run. Messages add up to an atom's by the first row
        of its pairs; energies of atoms add up to a system's by `batch_idx`.

        PyTorch: Differentiable twice, in compiled graphs too.

        JAX: Differentiable twice, in every mode, under `jit` and `vmap`.

        Args:
            values: (P,) or (P, …), float32 or float64: a number for each entry, or features of any shape. NaN and
                infinities are an error.
            segment_idx: (P,), the segment of each entry, sorted: the first row of a neighbour list, the `batch_idx` of
                atoms.
            num_segments: how many segments there are, S; any may be empty. None: one more than the last index. Give it
                where trailing atoms may have no neighbours. PyTorch: Compiled graphs and `vmap` need it. JAX: Under
                `jit` and `vmap` of the indices it is needed: a Python number. CUDA: None makes the call wait.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            (S,), or (S, …) with the shape of the features: the sums; 0 for an empty segment.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name. ValueError for
            indices that are not sorted, negative, or not below `num_segments`, and for values that are not finite: the
            message says which.
        """
        return self._call(
            segments.segment_sum, stream, values, segment_idx, num_segments,
        )

    def segment_mean(
        self, values: ArrayLike, segment_idx: ArrayLike, num_segments: int | None = None, stream: Any = None,
    ) -> Array:
        """The mean of the entries of each segment.

        PyTorch: Differentiable twice, in compiled graphs too.

        JAX: Differentiable twice, in every mode, under `jit` and `vmap`.

        Args:
            values: (P,) or (P, …), float32 or float64: a number for each entry, or features of any shape. NaN and
                infinities are an error.
            segment_idx: (P,), the segment of each entry, sorted: the first row of a neighbour list, the `batch_idx` of
                atoms.
            num_segments: how many segments there are, S; any may be empty. None: one more than the last index. Give it
                where trailing atoms may have no neighbours. PyTorch: Compiled graphs and `vmap` need it. JAX: Under
                `jit` and `vmap` of the indices it is needed: a Python number. CUDA: None makes the call wait.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            (S,), or (S, …) with the shape of the features: the means; 0 for an empty segment.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name. ValueError for
            indices that are not sorted, negative, or not below `num_segments`, and for values that are not finite: the
            message says which.
        """
        return self._call(
            segments.segment_mean, stream, values, segment_idx, num_segments,
        )

    def segment_max(
        self, values: ArrayLike, segment_idx: ArrayLike, num_segments: int | None = None, stream: Any = None,
    ) -> Array:
        """The largest entry of each segment, for every feature by itself.

        Its derivative is that of the entry; where several are equal, of the first one.

        PyTorch: Differentiable twice, in compiled graphs too.

        JAX: Differentiable twice, in every mode, under `jit` and `vmap`.

        CUDA: Values with several features are transposed on the host, for which the call waits.

        Args:
            values: (P,) or (P, …), float32 or float64: a number for each entry, or features of any shape. NaN and
                infinities are an error.
            segment_idx: (P,), the segment of each entry, sorted: the first row of a neighbour list, the `batch_idx` of
                atoms.
            num_segments: how many segments there are, S; any may be empty. None: one more than the last index. Give it
                where trailing atoms may have no neighbours. PyTorch: Compiled graphs and `vmap` need it. JAX: Under
                `jit` and `vmap` of the indices it is needed: a Python number. CUDA: None makes the call wait.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            (S,), or (S, …) with the shape of the features: the largest entries; 0 for an empty segment, as in PyTorch
            Geometric (`jax.ops` has −∞ there).

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name. ValueError for
            indices that are not sorted, negative, or not below `num_segments`, and for values that are not finite: the
            message says which.
        """
        return self._call(
            segments.segment_max, stream, values, segment_idx, num_segments,
        )

    def segment_softmax(
        self, values: ArrayLike, segment_idx: ArrayLike, num_segments: int | None = None, stream: Any = None,
    ) -> Array:
        """The softmax within each segment: exp(x_p) / Σ_q exp(x_q), the weights of attention over the neighbours.

        The weights of a segment add up to one. Computed after subtracting the segment's largest entry, so it never
        becomes 0/0 and never overflows.

        PyTorch: Differentiable twice, in compiled graphs too.

        JAX: Differentiable twice, in every mode, under `jit` and `vmap`.

        CUDA: Values with several features are transposed on the host, for which the call waits.

        Args:
            values: (P,) or (P, …), float32 or float64: a score for each entry, or several (heads), each with a softmax
                of its own. NaN and infinities are an error.
            segment_idx: (P,), the segment of each entry, sorted: the first row of a neighbour list, the `batch_idx` of
                atoms.
            num_segments: how many segments there are, S; any may be empty. None: one more than the last index. Give it
                where trailing atoms may have no neighbours. PyTorch: Compiled graphs and `vmap` need it. JAX: Under
                `jit` and `vmap` of the indices it is needed: a Python number. CUDA: None makes the call wait.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            The weights, of the shape of the values.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name. ValueError for
            indices that are not sorted, negative, or not below `num_segments`, and for values that are not finite: the
            message says which.
        """
        return self._call(
            segments.segment_softmax, stream, values, segment_idx, num_segments,
        )

    def segment_dot(
        self, x: ArrayLike, y: ArrayLike, segment_idx: ArrayLike, num_segments: int | None = None,
        stream: Any = None,
    ) -> Array:
        """The inner product of the vectors of each segment: Σ_p x_p · y_p over its entries and all of their features.

        The work Σ F · v of each system, norms, lengths of steps. `segment_sum(x * y, …)` keeps the features apart, and
        `segment_sum(w[:, None] * x, …)` is the weighted sum of attention.

        PyTorch: Differentiable twice, in compiled graphs too.

        JAX: Differentiable twice, in every mode, under `jit` and `vmap`.

        Args:
            x, y: (P,) or (P, …), float32 or float64, of one shape and dtype: numbers or vectors of any shape. NaN and
                infinities are an error.
            segment_idx: (P,), the segment of each entry, sorted: the first row of a neighbour list, the `batch_idx` of
                atoms.
            num_segments: how many segments there are, S; any may be empty. None: one more than the last index. Give it
                where trailing atoms may have no neighbours. PyTorch: Compiled graphs and `vmap` need it. JAX: Under
                `jit` and `vmap` of the indices it is needed: a Python number. CUDA: None makes the call wait.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            (S,), the sums; 0 for an empty segment.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name. ValueError for
            indices that are not sorted, negative, or not below `num_segments`, and for values that are not finite: the
            message says which.
        """
        return self._call(
            segments.segment_dot, stream, x, y, segment_idx, num_segments,
        )

    def needs_rebuild(
        self, positions: ArrayLike, reference_positions: ArrayLike, skin: float, cell: ArrayLike | None = None,
        reference_cell: ArrayLike | None = None, *, pbc: Any = None, reference_pbc: Any = None,
        batch_idx: ArrayLike | None = None, stream: Any = None,
    ) -> Array:
        """Whether a neighbour list of each system has to be made again before pairs within the cutoff may be missing.

        That is so once an atom has moved by more than half of the skin from its reference, or cell or periodic axes are
        others. An atom that is nowhere (NaN) has moved.

        PyTorch: Compiled graphs hold the call. On a device nothing is read or waited for.

        JAX: Under `jit` too.

        CUDA: Nothing is waited for.

        Args:
            positions: (N, 3), float32 or float64, as they are now.
            reference_positions: (N, 3), of the same dtype, those that the list was made for.
            skin: by which the radius of the list exceeds the cutoff of what it is used for. JAX: A Python number.
            cell, reference_cell: (3, 3) or (B, 3, 3), as they are now and as the list was made for; or neither.
            pbc, reference_pbc: (3,) or (B, 3) of bool, as they are now and as the list was made for. None: all axes of
                a cell. CUDA: Those of the device are int32 (B, 3), or are read.
            batch_idx: (N,), the system of each atom, sorted. PyTorch: In compiled graphs with a cell for each system.
                JAX: Under `jit` with a cell for each system.
            stream: of `madelung.cuda` alone, whose documentation has it: the stream where the work is put.

        Returns:
            (B,) bool, for each system. CUDA: As int32, 1 or 0.

        Raises:
            TypeError, ValueError: For an argument of the wrong type, shape or value, with its name.
        """
        return self._call(
            verlet.needs_rebuild, stream, positions, reference_positions, skin, cell, reference_cell, pbc,
            reference_pbc, batch_idx,
        )
