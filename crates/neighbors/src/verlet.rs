//! Verlet lists: whether atoms have left the skin of their list, as an op of integers that frameworks call by name.

use crate::atoms::wrong;
use crate::coo::room;
use crate::device::{DeviceFrame, Periodic, moved};
use madelung_core::array::{Array, DType, Data, View};
use madelung_core::backend::Context;
use madelung_core::backend::pool::Pool;
use madelung_core::op::{Arg, Op};
use madelung_core::structure::Batch;
use madelung_core::{Error, Result};
use madelung_cuda::Cuda;
use std::array::from_fn;
use std::ops::{Add, Mul, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Atoms of a task.
const BLOCK: usize = 1 << 13;
/// Atoms that are looked at again, one by one, where one of them has gone far.
const FEW: usize = 1 << 9;
/// Atoms whose displacements are computed side by side.
const LANES: usize = 8;
/// Time of an atom in nanoseconds on one thread.
const COST: usize = 2;

/// `needs_rebuild` (B,): 1 for each system in which an atom has moved by more than half of the skin from its reference or
/// is nowhere (NaN), or whose cell or periodic axes are not the reference; else 0. There are 0, 1 or B cells, and as many
/// rows of periodic axes now and before, or none of either, which are then not compared. A single system may go without
/// rows of `batch_idx` on the host, where reading them would take as long as a sixth of the positions.
pub(crate) fn declare() -> Result<Arc<Op>> {
    Op::new("madelung", "needs_rebuild", 1)
        .real("positions", &["Atom", "3"])
        .real("reference_positions", &["Atom", "3"])
        .real("cell", &["Cell", "3", "3"])
        .real("reference_cell", &["Cell", "3", "3"])
        .batch("batch_idx", "Atom", "System")
        .scalar("skin")
        .ints("pbc", &["Axes", "3"])
        .ints("reference_pbc", &["ReferenceAxes", "3"])
        .integer_output("rebuild", &["System"], DType::I32)
        .search(needs_rebuild)
        .build()
}

fn needs_rebuild(context: &Context<'_>, args: &[Arg<'_>]) -> Result<Vec<Array>> {
    let [Arg::Array(positions), Arg::Array(before), Arg::Array(cell), Arg::Array(cell_before), rest @ ..] =
        args
    else {
        return Err(wrong());
    };
    let [Arg::Structure(batch), Arg::Real(skin), Arg::Array(pbc), Arg::Array(pbc_before)] = rest else {
        return Err(wrong());
    };
    for (name, view, inner) in [
        ("positions", positions, &[3][..]),
        ("cell", cell, &[3, 3]),
        ("pbc", pbc, &[3]),
        ("reference_pbc", pbc_before, &[3]),
    ] {
        if view.shape().get(1..) != Some(inner) {
            let got = format!("{:?}", view.shape());
            return Err(Error::argument(name, format!("rows of shape {inner:?}"), got));
        }
    }
    for (name, now, before) in
        [("reference_positions", positions, before), ("reference_cell", cell, cell_before)]
    {
        if (now.dtype(), now.shape()) != (before.dtype(), before.shape()) {
            let shown = |view: &View<'_>| format!("{} {:?}", view.dtype(), view.shape());
            return Err(Error::argument(name, format!("{}, as now", shown(now)), shown(before)));
        }
    }
    if !(*skin >= 0.0 && skin.is_finite()) {
        return Err(Error::argument("skin", "a finite number from 0 up", skin.to_string()));
    }
    let (atoms, systems) = (positions.shape()[0], batch.sizes()[1].unwrap_or(0));
    let is_single = batch.sizes()[0] == Some(0) && systems == 1 && batch.as_batch().is_some();
    if batch.sizes()[0] != Some(atoms) && !is_single {
        let got = format!("{:?}", batch.sizes()[0].unwrap_or(0));
        return Err(Error::argument("batch_idx", format!("the system of each of the {atoms} atoms"), got));
    }
    let cells = cell.shape()[0];
    for (name, view) in [("cell", cell), ("pbc", pbc), ("reference_pbc", pbc_before)] {
        let rows = view.shape()[0];
        if rows > 1 && rows != systems {
            let expected = format!("one for all systems, or one for each of the {systems}");
            return Err(Error::argument(name, expected, rows.to_string()));
        }
    }
    if (pbc.shape()[0] == 0) != (pbc_before.shape()[0] == 0) && systems > 0 {
        let got = format!("{} rows", pbc_before.shape()[0]);
        return Err(Error::argument("reference_pbc", format!("rows as in pbc, {}", pbc.shape()[0]), got));
    }
    if let (Some(cuda), Some(batch)) =
        (context.backend.as_any().downcast_ref::<Cuda>(), batch.as_device_batch())
    {
        let cell = (cells > 0).then_some(cell);
        let frame = DeviceFrame { positions, cell, pbc: &Periodic::All([false; 3]), batch };
        let before = [Some(before), cell.and(Some(cell_before))];
        return Ok(vec![moved(cuda, context, &frame, before, [pbc, pbc_before].map(Some), *skin)?]);
    }
    let batch = batch.as_batch().ok_or_else(|| positions.place().elsewhere("positions"))?;
    let raised: Vec<AtomicBool> = (0..systems).map(|_| AtomicBool::new(false)).collect();
    let (now, known) = (cell.to_f64()?, cell_before.to_f64()?);
    let (now, known): (&[[f64; 9]], &[[f64; 9]]) = (now.as_chunks().0, known.as_chunks().0);
    for (b, flag) in raised.iter().enumerate().filter(|_| cells > 0) {
        let at = if cells == 1 { 0 } else { b };
        // NaN is not what it was.
        flag.store(now[at] != known[at], Ordering::Relaxed);
    }
    let (axes, axes_before) = (pbc.to_i32("pbc")?, pbc_before.to_i32("reference_pbc")?);
    let (axes, axes_before): (&[[i32; 3]], &[[i32; 3]]) = (axes.as_chunks().0, axes_before.as_chunks().0);
    for (b, flag) in raised.iter().enumerate().filter(|_| !axes.is_empty()) {
        let of = |rows: &[[i32; 3]]| rows[if rows.len() == 1 { 0 } else { b }].map(|axis| axis != 0);
        flag.fetch_or(of(axes) != of(axes_before), Ordering::Relaxed);
    }
    match (positions.data(), before.data()) {
        (Data::F64(r), Data::F64(before)) => flag_moved(context, r, before, batch, *skin, &raised),
        (Data::F32(r), Data::F32(before)) => flag_moved(context, r, before, batch, *skin, &raised),
        _ => {
            let got = positions.dtype().to_string();
            return Err(Error::argument("positions", "float32 or float64", got));
        }
    }
    let mut rebuild = room(context, 0, &[systems])?;
    if let Array::I32(rebuild) = &mut rebuild {
        for (flag, raised) in rebuild.iter_mut().zip(&raised) {
            *flag = raised.load(Ordering::Relaxed).into();
        }
    }
    Ok(vec![rebuild])
}

/// Raises the flags of systems in which an atom has moved by more than half of the skin.
fn flag_moved<T: Element>(
    context: &Context<'_>,
    positions: &[T],
    before: &[T],
    batch: &Batch<'_>,
    skin: f64,
    raised: &[AtomicBool],
) {
    let (r, before): (&[[T; 3]], &[[T; 3]]) = (positions.as_chunks().0, before.as_chunks().0);
    let (atoms, most) = (r.len(), 0.25 * skin * skin);
    context.threads_for(COST * atoms).run(atoms.div_ceil(BLOCK), &|task| {
        let mut next = task * BLOCK;
        let end = atoms.min(next + BLOCK);
        while next < end {
            let (first, is_single) = (next, batch.atoms() == 0);
            let b = if is_single { 0 } else { batch.of(first) };
            next = if is_single { end } else { end.min(batch.members(b).end) };
            // One that is raised has no more to tell.
            if !raised[b].load(Ordering::Relaxed) && !are_near(&r[first..next], &before[first..next], most) {
                raised[b].store(true, Ordering::Relaxed);
            }
        }
    });
}

/// Whether no atom has moved by more than a distance, given squared: by differences of float64, and false for NaN.
fn are_near<T: Element>(r: &[[T; 3]], before: &[[T; 3]], most: f64) -> bool {
    let within = T::within(most);
    r.chunks(FEW).zip(before.chunks(FEW)).all(|(now, before)| {
        let (blocks, rest) = now.as_chunks::<LANES>();
        let (blocks_before, rest_before) = before.as_chunks::<LANES>();
        let (mut largest, mut total) = ([T::default(); LANES], [T::default(); LANES]);
        for (now, before) in blocks.iter().zip(blocks_before) {
            for n in 0..LANES {
                let d: [T; 3] = from_fn(|k| now[n][k] - before[n][k]);
                let square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
                // Passes over NaN, which the sum keeps.
                largest[n] = if largest[n] > square { largest[n] } else { square };
                total[n] = total[n] + square;
            }
        }
        let are_sure = largest.iter().all(|x| *x <= within) && total.iter().all(|x| *x >= T::default());
        if are_sure { is_each_near(rest, rest_before, most) } else { is_each_near(now, before, most) }
    })
}

/// [`are_near`], atom by atom.
fn is_each_near<T: Element>(r: &[[T; 3]], before: &[[T; 3]], most: f64) -> bool {
    r.iter().zip(before).all(|(now, before)| {
        let d: [f64; 3] = from_fn(|k| now[k].into() - before[k].into());
        d[0] * d[0] + d[1] * d[1] + d[2] * d[2] <= most
    })
}

/// A type of positions.
trait Element:
    Copy + Default + PartialOrd + Into<f64> + Sync + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
    /// A number that a square computed in this type does not pass unless the exact one is at most `most`.
    fn within(most: f64) -> Self;
}

impl Element for f64 {
    fn within(most: f64) -> Self {
        most
    }
}

impl Element for f32 {
    fn within(most: f64) -> Self {
        // Rounding of a difference, three squares and two sums comes to 4e-7 at most, where nothing under- or overflows.
        if (1e-30..1e30).contains(&most) { (most * (1.0 - 1e-6)) as Self } else { -1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_a_block_is_looked_at() {
        // 0.25 in float32 from a place near 1000 is exact, and so is its neighbour there.
        let least = 1.0 / 16384.0;
        for atoms in [1, 7, 8, 9, 20, FEW + 9] {
            let before: Vec<[f32; 3]> = (0..atoms).map(|i| [i as f32, 1000.0, -2.0]).collect();
            let wide: Vec<[f64; 3]> = before.iter().map(|r| r.map(f64::from)).collect();
            for far in (0..atoms).rev().take(20) {
                for (moved, expected) in [(0.25, true), (0.25 + least, false), (f32::NAN, false)] {
                    for axis in 0..3 {
                        let (mut r, mut of_f64) = (before.clone(), wide.clone());
                        r[far][axis] = before[far][axis] - moved;
                        of_f64[far][axis] = wide[far][axis] - f64::from(moved);
                        let found = are_near(&r, &before, 0.0625);
                        assert_eq!(found, expected, "{atoms} {far} {axis} {moved}");
                        assert_eq!(
                            are_near(&of_f64, &wide, 0.0625),
                            expected,
                            "{atoms} {far} {axis} {moved}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn squares_that_float32_does_not_hold() {
        for (step, skin) in [(1e-25f32, 1e-25f64), (1e-22, 1e-22), (1e22, 1e22), (2e19, 2e19)] {
            let before = vec![[0.0f32; 3]; 9];
            let mut r = before.clone();
            r[3][1] = step;
            assert!(!are_near(&r, &before, 0.81 * skin * skin), "{step}");
            assert!(are_near(&r, &before, 2.5 * skin * skin), "{step}");
        }
    }
}
