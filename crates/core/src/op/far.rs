//! Atoms in f32 far outside their cells.
//!
//! Far from the origin, f32 has no digits left for the distance between atoms and images: at 1,000 cells' lengths of 10,
//! coordinates have a spacing of 1e-3. A call on the host moves such atoms into their cells first, in f64: x = w + n · cell
//! with integers n, which lists take up in their images. For fixed n that is a linear substitution, so every member of the
//! family follows: tangents are u_w = u_x − n · u_cell, and gradients g_cell − Σᵢ nᵢ ⊗ g_wᵢ. Atoms that lie in their cells
//! or near them stay where they are, to the bit.

use super::declare::Op;
use super::request::{Arg, Direction, Evaluated, Request};
use crate::Result;
use crate::array::{Array, DType, Data, DataMut, Place, View, collected, filled};
use crate::backend::Context;
use crate::cell::Cell;
use crate::structure::{Batch, Structure};

/// Arguments of an op whose images are lattice translations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lattice {
    /// Positions, (N, 3).
    pub(super) positions: usize,
    /// Lattice vectors, (B, 3, 3).
    pub(super) cell: usize,
    /// Systems of the atoms.
    pub(super) batch: usize,
}

/// Distance from the origin, in extents of the cell, from which atoms are moved.
const FAR: f32 = 2.0;

/// Cells' lengths beyond which f32 tells no more atoms apart: they stay where they are.
const MOST: f64 = (1 << 24) as f64;

impl Op {
    /// A call with its far atoms moved into their cells; None where there are none.
    pub(super) fn evaluated_nearby(
        &self,
        context: &Context<'_>,
        args: &[Arg<'_>],
        request: &Request<'_, '_>,
    ) -> Result<Option<Evaluated>> {
        let Some(lattice) = self.lattice.filter(|_| context.backend.place() == Place::Host) else {
            return Ok(None);
        };
        let [positions, cell, batch] = [lattice.positions, lattice.cell, lattice.batch].map(|n| args.get(n));
        let (Some(Arg::Array(x)), Some(Arg::Array(cell))) = (positions, cell) else { return Ok(None) };
        let Some(batch) = batch.and_then(Arg::structure).and_then(Structure::as_batch) else {
            return Ok(None);
        };
        let Some((w, n)) = moved(x, cell, batch)? else { return Ok(None) };
        let lists: Vec<_> = args.iter().map(|arg| arg.structure().and_then(|list| list.moved(&n))).collect();
        let mut nearby: Vec<Arg<'_>> = args.to_vec();
        nearby[lattice.positions] = Arg::Array(w.view());
        for (arg, list) in nearby.iter_mut().zip(&lists) {
            if let Some(list) = list {
                *arg = Arg::Structure(&**list);
            }
        }
        let tangents = request.directions.iter().map(|u| lattice.tangent(u, batch, &n));
        let tangents = tangents.collect::<Result<Vec<Option<Array>>>>()?;
        let mut directions: Vec<Vec<_>> = request.directions.iter().map(|u| u.to_vec()).collect();
        for (u, tangent) in directions.iter_mut().zip(&tangents) {
            if let Some(tangent) = tangent {
                u[lattice.positions] = Some(tangent.view());
            }
        }
        let directions: Vec<&Direction<'_>> = directions.iter().map(Vec::as_slice).collect();
        // The gradient by the cell takes that by the positions.
        let at = |gradients: &[usize], arg| gradients.iter().position(|n| *n == arg);
        let (by_cell, asked) = (at(request.gradients, lattice.cell), request.gradients.len());
        let mut gradients = request.gradients.to_vec();
        if by_cell.is_some() && at(&gradients, lattice.positions).is_none() {
            gradients.push(lattice.positions);
        }
        // Gradients that were saved are those of the atoms moved.
        let request =
            Request { directions: &directions, gradients: &gradients, saved: &[], ..request.clone() };
        let mut evaluated = self.evaluated_here(context, &nearby, &request)?;
        if let (Some(by_cell), Some(by_positions)) = (by_cell, at(&gradients, lattice.positions)) {
            let of_positions = evaluated.gradients[by_positions].to_f64()?;
            lattice.correct(&mut evaluated.gradients[by_cell], &of_positions, batch, &n)?;
        }
        evaluated.gradients.drain(asked..).for_each(|array| context.allocator.recycle(array));
        Ok(Some(evaluated))
    }
}

/// Positions with far atoms moved, and the lattice vectors n by which each atom was; None where none is far.
fn moved(x: &View<'_>, cell: &View<'_>, batch: &Batch<'_>) -> Result<Option<(Array, Vec<[i32; 3]>)>> {
    let (Data::F32(x), Data::F32(rows)) = (x.data(), cell.data()) else { return Ok(None) };
    let (x, rows) = (x.as_chunks::<3>().0, rows.as_chunks::<9>().0);
    if x.len() != batch.atoms() || rows.len() != batch.systems() {
        return Ok(None);
    }
    let extent =
        |b: usize| -> [f32; 3] { std::array::from_fn(|k| (0..3).map(|a| rows[b][3 * a + k].abs()).sum()) };
    let is_far = |r: &[f32; 3], extent: [f32; 3]| (0..3).any(|k| r[k].abs() > FAR * extent[k]);
    let far_systems = (0..batch.systems()).filter(|b| {
        let extent = extent(*b);
        extent != [0.0; 3] && x[batch.members(*b)].iter().any(|r| is_far(r, extent))
    });
    let (mut w, mut n) = (vec![], vec![]);
    for b in far_systems {
        // A cell that spans no volume is that of a wire, or an error of the call.
        let Ok(cell) =
            Cell::from_rows(std::array::from_fn(|a| [0, 1, 2].map(|k| f64::from(rows[b][3 * a + k]))))
        else {
            continue;
        };
        if n.is_empty() {
            (w, n) = (collected(x.iter().copied()), filled(x.len(), [0; 3]));
        }
        let (extent, inverse, rows) = (extent(b), cell.inverse(), cell.rows());
        for i in batch.members(b).filter(|i| is_far(&x[*i], extent)) {
            let r = x[i].map(f64::from);
            let boxes: [f64; 3] =
                std::array::from_fn(|a| (0..3).map(|k| r[k] * inverse[(k, a)]).sum::<f64>().floor());
            if boxes.iter().any(|boxes| boxes.abs() > MOST) {
                continue;
            }
            n[i] = boxes.map(|boxes| boxes as i32);
            w[i] =
                std::array::from_fn(|k| (r[k] - (0..3).map(|a| boxes[a] * rows[a][k]).sum::<f64>()) as f32);
        }
    }
    Ok((!n.is_empty()).then(|| (Array::from(&w[..]), n)))
}

impl Lattice {
    /// Tangent of the positions moved, u_w = u_x − n · u_cell; None where it is u_x.
    fn tangent(&self, u: &Direction<'_>, batch: &Batch<'_>, n: &[[i32; 3]]) -> Result<Option<Array>> {
        let Some(Some(of_cell)) = u.get(self.cell) else { return Ok(None) };
        let of_cell = of_cell.to_f64()?;
        let mut tangent = match u.get(self.positions) {
            Some(Some(of_positions)) => of_positions.to_f64()?,
            _ => filled(3 * n.len(), 0.0),
        };
        if of_cell.len() != 9 * batch.systems() || tangent.len() != 3 * n.len() {
            return Ok(None); // An error of the call.
        }
        for (i, (r, n)) in tangent.as_chunks_mut::<3>().0.iter_mut().zip(n).enumerate() {
            let rows = &of_cell[9 * batch.of(i)..];
            (0..9).for_each(|c| r[c % 3] -= f64::from(n[c / 3]) * rows[c]);
        }
        Array::from_f64(DType::F32, &[n.len(), 3], &tangent).map(Some)
    }

    /// Gradient by the cell at fixed positions, from that of the atoms moved: less Σᵢ nᵢ ⊗ gᵢ.
    fn correct(
        &self,
        by_cell: &mut Array,
        by_positions: &[f64],
        batch: &Batch<'_>,
        n: &[[i32; 3]],
    ) -> Result<()> {
        let mut sums = by_cell.to_f64()?;
        for (i, (g, n)) in by_positions.as_chunks::<3>().0.iter().zip(n).enumerate() {
            let sum = &mut sums[9 * batch.of(i)..][..9];
            (0..9).for_each(|c| sum[c] -= f64::from(n[c / 3]) * g[c % 3]);
        }
        if let Some(DataMut::F32(to)) = by_cell.data_mut() {
            to.iter_mut().zip(sums).for_each(|(to, sum)| *to = sum as f32);
        }
        Ok(())
    }
}
