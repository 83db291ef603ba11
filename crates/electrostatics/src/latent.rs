//! The charge part of Latent Ewald Summation (Cheng, npj Comput. Mater. 11, 80 (2025)): Gaussian charges, by waves alone
//! where a system is periodic and by all pairs where it is not.
//!
//! A batch may hold systems of both kinds: the list has the pairs of those without periodic axes, and wave vectors are
//! those of the others. σ is 1/(√2 α). There is no background, and the waves end where the caller ends them, converged
//! or not: the sphere belongs to the model.

use madelung_core::array::reserve;
use madelung_core::op::Op;
use madelung_core::stop::caught;
use madelung_core::structure::pairs::{Kind, Shifts};
use madelung_core::structure::{Batch, PairList};
use madelung_core::{Error, Result};
use std::sync::Arc;

/// erf(αr)/r, whole in either sum. `own` is the part of a charge's interaction with itself that is taken away: the sum
/// over waves has it, so 1 leaves it out there and 0 keeps it; a sum over pairs lacks it, so 0 leaves it out and −1 adds
/// it.
mod gaussian {
    madelung_core::kernels! {
        use crate::potential::coulomb::{long_range_k2 as coulomb_k2, self_term as coulomb_self};

        /// erf(αr)/r
        #[func]
        pub(crate) fn short_range(r: Real, alpha: Real, own: Real) -> Real {
            erf(alpha * r) / r
        }

        /// Nothing: the sum over pairs has all of erf(αr)/r.
        #[func]
        pub(crate) fn long_range(r2: Real, alpha: Real, own: Real) -> Real {
            0.0
        }

        /// 4π/(V k²) · exp(−k²/4α²)
        #[func]
        pub(crate) fn long_range_k2(k2: Real, volume: Real, alpha: Real, own: Real) -> Real {
            coulomb_k2(k2, volume, alpha)
        }

        /// `own` · 2α/√π
        #[func]
        pub(crate) fn self_term(alpha: Real, own: Real) -> Real {
            own * coulomb_self(alpha)
        }

        /// Nothing: a charged cell is not neutralised.
        #[func]
        pub(crate) fn background(volume: Real, alpha: Real, own: Real) -> Real {
            0.0
        }
    }
}

crate::charge_sum! {
    /// Sums of Gaussian charges.
    pub(crate) static LATENT: latent = crate::latent::gaussian[own];
}

/// The ops `latent_summation`, of energies per atom, and `latent_summation_total`, per system.
pub(crate) fn ops(namespace: &str) -> Result<Vec<Arc<Op>>> {
    let sums = ["latent_summation", "latent_summation_total"];
    Ok(LATENT.ops(namespace)?.into_iter().filter(|op| sums.contains(&op.name.as_str())).collect())
}

/// Offsets of each atom's pairs in [`all_pairs`], (N + 1,); the last is their number.
///
/// # Errors
/// `positions`, where there are more than 2³¹ − 1 pairs.
pub fn all_pairs_ptr(batch: &Batch<'_>, open: &[bool]) -> Result<Vec<i32>> {
    let mut ptr = vec![0; batch.atoms() + 1];
    let mut end = 0i64;
    for (i, next) in ptr[1..].iter_mut().enumerate() {
        end += others(batch, open, i).len() as i64;
        *next = end as i32;
    }
    if end > i64::from(i32::MAX) {
        let expected = format!("at most {} pairs in systems without periodic axes", i32::MAX);
        return Err(Error::argument("positions", expected, end.to_string()));
    }
    Ok(ptr)
}

/// All pairs of atoms of the systems that are `open` (one row for all, or one for each), each from both sides: for any
/// positions, as no pair is with an image.
///
/// # Errors
/// `positions`, where there are more than 2³¹ − 1 pairs.
pub fn all_pairs(batch: &Batch<'_>, open: &[bool]) -> Result<PairList<'static>> {
    let ptr = all_pairs_ptr(batch, open)?;
    let entries = || {
        let (mut columns, mut images) = (vec![], vec![]);
        let count = ptr[batch.atoms()] as usize;
        reserve(&mut columns, count);
        reserve(&mut images, count);
        columns.extend((0..batch.atoms()).flat_map(|i| others(batch, open, i)).map(|j| j as i32));
        images.resize(count, 0);
        Ok((columns, images))
    };
    let (columns, images) = caught(|| "positions".into(), entries)?;
    PairList::from_search(&ptr[..], columns, Shifts::Packed(images.into()), batch.atoms(), Kind::Full)
}

/// The members of an atom's system but the atom itself; none where the system is not open.
fn others(batch: &Batch<'_>, open: &[bool], i: usize) -> impl ExactSizeIterator<Item = usize> {
    let (b, members) = (batch.of(i), batch.members(batch.of(i)));
    let count = if open[if open.len() == 1 { 0 } else { b }] { members.len() - 1 } else { 0 };
    (0..count).map(move |n| members.start + n).map(move |j| j + usize::from(j >= i))
}
