//! The formulas, each once.

madelung_core::kernels! {
    /// Vectors r_ij = r_j − r_i + S · cell and lengths of the entries of a list. Padding stays 0.
    #[kernel]
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
    #[kernel]
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
}
