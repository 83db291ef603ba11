//! The ops, each declared once.

use crate::aggregate::{AVERAGED, NORMALISED, WEIGHTS};
use crate::kernels::{
    ENTRY_FACTORS, PAIR_DIFFERENCES, PAIR_VECTORS, POINT_DISTANCES, POINT_VECTORS, UPRIGHT_CELLS,
};
use crate::list::coincident_pair;
use crate::segments;
use madelung_core::array::{Array, DType};
use madelung_core::op::{Arg, ArgKind, Op, OpBuilder, Registry, Size};
use madelung_core::runtime::Kernel;
use madelung_core::structure::pairs::Kind;
use madelung_core::structure::{Batch, PairList, Structure};
use madelung_core::{Error, Result};
use std::sync::OnceLock;

/// Every kernel of this crate, for those who compile or check their text.
pub fn kernels() -> Vec<&'static Kernel> {
    let mut all = vec![
        &PAIR_VECTORS,
        &PAIR_DIFFERENCES,
        &POINT_VECTORS,
        &POINT_DISTANCES,
        &UPRIGHT_CELLS,
        &ENTRY_FACTORS,
        &NORMALISED,
        &AVERAGED,
    ];
    all.extend(WEIGHTS.iter().flat_map(|weight| [weight.around, weight.listed]));
    all.extend(segments::KERNELS);
    all
}

/// The ops of this crate: `pair_vectors`, the vectors and lengths of the pairs of a list, `pair_differences`, the
/// vectors alone, `point_vectors`, those from queries to points, `point_distances`, lengths alone, of points of any number of coordinates, `upright_cells`, the cells of slabs, and `segment_sum`, `segment_mean`, `segment_max`,
/// `segment_softmax` and `segment_dot`, over the entries of sorted segments.
pub fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| declare().expect("the declarations fit their kernels, as the tests show"))
}

fn declare() -> Result<Registry> {
    let pair_vectors = vectors(Op::new("madelung", "pair_vectors", 1))
        .output("distances", &["Pair"])
        .step(&PAIR_VECTORS)
        .explain(no_direction)
        .build()?;
    let pair_differences =
        vectors(Op::new("madelung", "pair_differences", 1)).step(&PAIR_DIFFERENCES).build()?;
    let point_vectors = Op::new("madelung", "point_vectors", 1)
        .real("queries", &["Query", "3"])
        .real("points", &["Point", "3"])
        .real("cell", &["System", "3", "3"])
        .batch("query_batch_idx", "Query", "System")
        .batch("batch_idx", "Point", "System")
        .pairs_between("pairs", "Query", "Point", "Pair")
        .output("vectors", &["Pair", "3"])
        .output("distances", &["Pair"])
        .step(&POINT_VECTORS)
        .build()?;
    let point_distances = Op::new("madelung", "point_distances", 1)
        .real("queries", &["Query", "Axis"])
        .real("points", &["Point", "Axis"])
        .batch("query_batch_idx", "Query", "System")
        .batch("batch_idx", "Point", "System")
        .pairs_between("pairs", "Query", "Point", "Pair")
        .output("distances", &["Pair"])
        .step(&POINT_DISTANCES)
        .build()?;
    let upright_cells = Op::new("madelung", "upright_cells", 1)
        .real("cell", &["System", "3", "3"])
        .real("height", &["System"])
        .ints("open_axis", &["System", "3"])
        .output("upright", &["System", "3", "3"])
        .step(&UPRIGHT_CELLS)
        .build()?;
    let mut ops = vec![pair_vectors, pair_differences, point_vectors, point_distances, upright_cells];
    for weight in WEIGHTS {
        ops.extend(weight.ops("madelung")?);
    }
    ops.extend(segments::ops()?);
    Registry::new(ops)
}

fn vectors(op: OpBuilder) -> OpBuilder {
    op.real("positions", &["Atom", "3"])
        .real("cell", &["System", "3", "3"])
        .batch("atoms", "Atom", "System")
        .pairs_between("pairs", "Atom", "Atom", "Pair")
        .output("vectors", &["Pair", "3"])
}

/// The error of two atoms on one point, whose energy is infinite: an [explanation](madelung_core::op::OpBuilder::explain) for
/// ops whose first array is the positions, and the first of shape (B, 3, 3) the cells. It names the first pair of a list
/// that counts, by its entry and both atoms.
pub fn coincident_atoms(
    args: &[Arg<'_>],
    pairs: &PairList<'_>,
    counts: impl Fn(usize, usize, usize) -> bool,
) -> Option<Error> {
    let arrays = || args.iter().filter_map(|arg| if let Arg::Array(view) = arg { Some(view) } else { None });
    let cell = arrays().find(|view| view.shape().len() == 3)?;
    let batch = args.iter().filter_map(Arg::structure).find_map(Structure::as_batch)?;
    let (i, j, shift) = coincident_pair(arrays().next()?, cell, batch, pairs, counts)?;
    let got = format!("atoms {i} and {j} (image {shift:?})");
    Some(Error::argument("positions", "no two atoms on one point", got))
}

/// The error of two atoms on one point in a call of an op of which nothing is known but names: `positions` of atoms, a list
/// of their pairs, and their `cell`. An [explanation](madelung_core::op::OpBuilder::explain) of results that are not finite.
pub fn coincidence(op: &Op, args: &[Arg<'_>]) -> Option<Error> {
    let array = |name: &str| if let Arg::Array(view) = &args[op.arg(name)?] { Some(view) } else { None };
    let positions = array("positions")?;
    let ArgKind::Real { shape, .. } = &op.args[op.arg("positions")?].kind else { return None };
    let [Size::Dim(dim), Size::Const(3)] = shape.as_slice() else { return None };
    let structures =
        || op.args.iter().zip(args).filter_map(|(spec, arg)| Some((&spec.kind, arg.structure()?)));
    let batch = structures().find_map(|(kind, x)| match kind {
        ArgKind::Batch { rows, .. } if rows == dim => x.as_batch(),
        _ => None,
    });
    let alone = Batch::single(*positions.shape().first()?).ok()?;
    let batch = batch.unwrap_or(&alone);
    let shape = [batch.systems(), 3, 3];
    let no_cell = Array::zeros(DType::F64, &shape);
    let cell = array("cell").filter(|view| view.shape() == shape && view.dtype().is_real());
    let (i, j, shift) = structures().find_map(|(kind, x)| match kind {
        ArgKind::Pairs { rows, columns, .. } if [rows, columns] == [dim; 2] => {
            let list = x.as_pairs().filter(|list| list.kind() != Kind::Directed)?;
            // Without its cell nobody knows where an image is.
            let is_open = || list.iter().all(|(_, _, shift)| shift == [0; 3]);
            let no_cell = no_cell.view();
            let cell = cell.or_else(|| is_open().then_some(&no_cell))?;
            coincident_pair(positions, cell, batch, list, |_, _, _| true)
        }
        _ => None,
    })?;
    let got = format!("atoms {i} and {j} (image {shift:?}), and a result that is not finite");
    Some(Error::argument("positions", "no two atoms on one point", got))
}

/// A length of zero has no derivative.
fn no_direction(_: &Op, args: &[Arg<'_>]) -> Option<Error> {
    let [Arg::Array(positions), Arg::Array(cell), Arg::Structure(batch), Arg::Structure(pairs)] = args else {
        return None;
    };
    let (i, j, shift) =
        coincident_pair(positions, cell, batch.as_batch()?, pairs.as_pairs()?, |_, _, _| true)?;
    Some(Error::argument(
        "positions",
        "points that are apart, where distances are differentiated",
        format!("points {i} and {j} (image {shift:?}) on one place"),
    ))
}
