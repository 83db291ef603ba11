//! The formulas, each once. Those of distances are rounded as the searches' own, so that no pair of a list is at its cutoff.

madelung_core::kernels! {
    /// Vectors r_ij = r_j − r_i + S · cell and lengths of the entries of a list. Padding stays 0.
    #[kernel(rounded)]
    pub(crate) fn pair_vectors(
        i: Atom,
        positions: &[Vec3; Atom],
        cell: &[Mat3; System],
        atoms: &Batch<Atom, System>,
        pairs: &Pairs<Atom, Atom, Pair>,
        vectors: &mut [Vec3; Pair],
        distances: &mut [Real; Pair],
    ) {
        let b = atoms.of(i);
        for (j, shift, p) in pairs.row(i) {
            let d = positions[j] - positions[i] + shift * cell[b];
            vectors[p] = d;
            distances[p] = length(d);
        }
    }

    /// Vectors r_j − q_i + S · cell from queries to points, and their lengths. A length of zero has a derivative of zero.
    #[kernel(rounded)]
    pub(crate) fn point_vectors(
        i: Query,
        queries: &[Vec3; Query],
        points: &[Vec3; Point],
        cell: &[Mat3; System],
        query_batch_idx: &Batch<Query, System>,
        batch_idx: &Batch<Point, System>,
        pairs: &Pairs<Query, Point, Pair>,
        vectors: &mut [Vec3; Pair],
        distances: &mut [Real; Pair],
    ) {
        let b = query_batch_idx.of(i);
        for (j, shift, p) in pairs.row(i) {
            let d = points[j] - queries[i] + shift * cell[b];
            let square = dot(d, d);
            vectors[p] = d;
            distances[p] = if square > 0.0 { sqrt(square) } else { 0.0 };
        }
    }

    /// Factors of pairs, for each entry of the list that has these pairs from both sides.
    #[kernel]
    pub fn entry_factors(
        p: Excluded,
        factors: &[Real; Exclusion],
        exclusion_of: &Map<Excluded, Exclusion>,
        entry_factors: &mut [Real; Excluded],
    ) {
        entry_factors[p] = factors[exclusion_of.of(p)];
    }

    /// Distances from queries to points of any number of coordinates. A distance of zero has a derivative of zero.
    #[kernel(small)]
    pub(crate) fn point_distances(
        i: Query,
        queries: &[[Real; Axis]; Query],
        points: &[[Real; Axis]; Point],
        query_batch_idx: &Batch<Query, System>,
        batch_idx: &Batch<Point, System>,
        pairs: &Pairs<Query, Point, Pair>,
        distances: &mut [Real; Pair],
    ) {
        for (j, shift, p) in pairs.row(i) {
            let mut square = 0.0;
            for c in Axis {
                let d = points[j][c] - queries[i][c];
                square += d * d;
            }
            distances[p] = if square > 0.0 { sqrt(square) } else { 0.0 };
        }
    }

    /// Vectors r_ij = r_j − r_i + S · cell alone, which have derivatives where points lie on one place, as lengths have not.
    #[kernel]
    pub(crate) fn pair_differences(
        i: Atom,
        positions: &[Vec3; Atom],
        cell: &[Mat3; System],
        atoms: &Batch<Atom, System>,
        pairs: &Pairs<Atom, Atom, Pair>,
        vectors: &mut [Vec3; Pair],
    ) {
        let b = atoms.of(i);
        for (j, shift, p) in pairs.row(i) {
            vectors[p] = positions[j] - positions[i] + shift * cell[b];
        }
    }

    /// The vector of the open axis of a slab with the vectors `a` and `b`: the normal of their plane, `height` long.
    #[func]
    fn raised(own: Vec3, a: Vec3, b: Vec3, is_open: Real, height: Real) -> Vec3 {
        let area = cross(a, b);
        let factor = if is_open > 0.0 { height / length(area) } else { 0.0 };
        own * (1.0 - is_open) + area * factor
    }

    /// Cells of slabs, whose vector along the open axis (1 there, 0 along the others) is replaced by the normal of the plane
    /// times a height. Cells without an open axis are as they were.
    #[kernel(small)]
    pub(crate) fn upright_cells(
        b: System,
        cell: &[Mat3; System],
        height: &[Real; System],
        open_axis: &[IVec3; System],
        upright: &mut [Mat3; System],
    ) {
        let h = cell[b];
        let open = open_axis[b];
        upright[b] = mat3(
            raised(row(h, 0), row(h, 1), row(h, 2), open.x, height[b]),
            raised(row(h, 1), row(h, 2), row(h, 0), open.y, height[b]),
            raised(row(h, 2), row(h, 0), row(h, 1), open.z, height[b]),
        );
    }
}
