//! The ops, each declared once.

use crate::kernels::PAIR_VECTORS;
use madelung_core::op::{Arg, Op, Registry};
use madelung_core::runtime::Kernel;
use madelung_core::{Error, Result};
use std::sync::OnceLock;

/// Every kernel of this crate, for those who compile or check their text.
pub fn kernels() -> [&'static Kernel; 1] {
    [&PAIR_VECTORS]
}

/// The ops of this crate: `pair_vectors`, the vectors and lengths of the pairs of a list.
pub fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| declare().expect("the declarations fit their kernels, as the tests show"))
}

fn declare() -> Result<Registry> {
    let pair_vectors = Op::new("madelung", "pair_vectors", 1)
        .real("positions", &["Atom", "3"])
        .real("cell", &["System", "3", "3"])
        .batch("atoms", "Atom", "System")
        .pairs_between("pairs", "Atom", "Atom", "Pair")
        .output("vectors", &["Pair", "3"])
        .output("distances", &["Pair"])
        .step(&PAIR_VECTORS)
        .explain(no_direction)
        .build()?;
    Registry::new([pair_vectors])
}

/// A length of zero has no derivative.
fn no_direction(args: &[Arg<'_>]) -> Option<Error> {
    let [Arg::Array(positions), Arg::Array(cell), Arg::Batch(batch), Arg::Pairs(pairs)] = args else {
        return None;
    };
    let (r, h) = (positions.to_f64().ok()?, cell.to_f64().ok()?);
    pairs.iter().find_map(|(i, j, shift)| {
        let h = &h[9 * batch.of(i)..][..9];
        let component = |c: usize| {
            let image: f64 = (0..3).map(|k| f64::from(shift[k]) * h[3 * k + c]).sum();
            r[3 * j + c] - r[3 * i + c] + image
        };
        let square: f64 = (0..3).map(|c| component(c).powi(2)).sum();
        (square < 1e-60).then(|| {
            Error::argument(
                "positions",
                "points that are apart, where distances are differentiated",
                format!("points {i} and {j} (image {shift:?}) on one place"),
            )
        })
    })
}
