//! Large systems: atoms sorted into the cells of a grid, neighbours looked for in the cells around.

use std::ops::Range;

use crate::candidates::{Candidates, Found, Search, System, band, key};
use crate::stencil::{Column, stencil};

/// Atoms per cell that make the best of sorting candidates once per cell and testing few in vain.
const ATOMS_PER_CELL: f64 = 16.0;

/// The grid of one system.
pub(crate) struct Grid {
    cells: [usize; 3],
    /// First atom of each cell, in the sorted arrays; the last axis is the fastest.
    start: Vec<u32>,
    /// Atoms sorted by cell, and by index inside a cell.
    atom: Vec<u32>,
    at: Vec<[f64; 3]>,
    columns: Vec<Column>,
}

/// Scratch of one task.
#[derive(Default)]
pub(crate) struct Scratch {
    points: Vec<Point>,
    /// Atom and place in `points` of each candidate.
    order: Vec<u64>,
    spare: Vec<u64>,
}

/// A candidate relative to the block, in cutoffs, and its image.
#[derive(Clone, Copy, Default)]
struct Point {
    at: [f32; 3],
    code: u32,
}

impl Grid {
    pub(crate) fn new(search: &Search<'_>, system: &System<'_>) -> Self {
        let (lattice, atoms) = (system.lattice, &search.placed[system.atoms.clone()]);
        let reach = (search.cutoff + system.slack) * (1.0 + 1e-9);
        let (mut low, mut width) = ([0.0; 3], lattice.heights);
        for k in (0..3).filter(|&k| !lattice.periodic[k]) {
            let range = atoms.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), placed| {
                (low.min(placed.s[k]), high.max(placed.s[k]))
            });
            (low[k], width[k]) = (range.0, (range.1 - range.0).max(reach));
        }
        let cells = shape(atoms.len(), width, reach);
        // How far a unit of s is in cells: s spans 1 along periodic axes and `width` along open ones.
        let scale: [f64; 3] =
            std::array::from_fn(|k| cells[k] as f64 / if lattice.periodic[k] { 1.0 } else { width[k] });
        let edges = std::array::from_fn(|a| std::array::from_fn(|k| lattice.frame[a][k] / scale[a]));
        let most = std::array::from_fn(|k| {
            let most = (reach * cells[k] as f64 / width[k] * (1.0 - 1e-10)).ceil() as i32;
            if lattice.periodic[k] { most } else { most.min(cells[k] as i32 - 1) }
        });
        let cell = |s: [f64; 3]| {
            let [x, y, z]: [usize; 3] =
                std::array::from_fn(|k| (((s[k] - low[k]) * scale[k]) as usize).min(cells[k] - 1));
            (x * cells[1] + y) * cells[2] + z
        };
        let owner: Vec<u32> = atoms.iter().map(|placed| cell(placed.s) as u32).collect();
        let mut start = vec![0u32; cells.iter().product::<usize>() + 1];
        owner.iter().for_each(|&c| start[c as usize + 1] += 1);
        (1..start.len()).for_each(|c| start[c] += start[c - 1]);
        let mut next = start.clone();
        let (mut atom, mut at) = (vec![0; atoms.len()], vec![[0.0; 3]; atoms.len()]);
        for (j, (&c, placed)) in owner.iter().zip(atoms).enumerate() {
            let p = next[c as usize] as usize;
            next[c as usize] += 1;
            (atom[p], at[p]) = ((system.atoms.start + j) as u32, placed.at);
        }
        Self { cells, start, atom, at, columns: stencil(&edges, most, reach) }
    }

    /// Ranges of cells with about `atoms` atoms each.
    pub(crate) fn parts(&self, atoms: usize) -> Vec<Range<usize>> {
        let (mut parts, mut first) = (Vec::new(), 0);
        let last = self.start.len() - 1;
        while first < last {
            let wanted = self.start[first] as usize + atoms;
            let end = self.start.partition_point(|&p| (p as usize) < wanted).clamp(first + 1, last);
            parts.push(first..end);
            first = end;
        }
        parts
    }

    /// Rows of the atoms in some of the cells, appended to `found`.
    pub(crate) fn search(
        &self,
        part: Range<usize>,
        search: &Search<'_>,
        system: &System<'_>,
        candidates: &mut Candidates,
        scratch: &mut Scratch,
        found: &mut Found,
    ) {
        for cell in part {
            let own = self.start[cell] as usize..self.start[cell + 1] as usize;
            if own.is_empty() {
                continue;
            }
            let extent = self.gather(cell, own.clone(), search, system, scratch);
            let Scratch { points, order, spare } = &mut *scratch;
            sort(order, spare);
            candidates.fill(order.iter().map(|&entry| {
                let point = &points[entry as u32 as usize];
                (point.at, key((entry >> 32) as usize, point.code))
            }));
            candidates.rows(self.atom[own].iter().map(|&i| i as usize), extent, search, system, found);
        }
    }

    /// Puts into `out` everything within the cutoff of the box around the atoms `own` of `cell`, in the order of the
    /// images, and says which coordinate none of it passes.
    fn gather(
        &self,
        cell: usize,
        own: Range<usize>,
        search: &Search<'_>,
        system: &System<'_>,
        out: &mut Scratch,
    ) -> f64 {
        let [nx, ny, nz] = self.cells.map(|n| n as i32);
        let z = cell as i32 % nz;
        let (x, y) = (cell as i32 / nz / ny, cell as i32 / nz % ny);
        let (mut low, mut high) = (self.at[own.start], self.at[own.start]);
        for at in &self.at[own] {
            for k in 0..3 {
                low[k] = low[k].min(at[k]);
                high[k] = high[k].max(at[k]);
            }
        }
        let scale = 1.0 / search.cutoff;
        let centre: [f64; 3] = std::array::from_fn(|k| 0.5 * (low[k] + high[k]));
        let half: [f32; 3] =
            std::array::from_fn(|k| ((high[k] - low[k]) * 0.5 * scale * (1.0 + 1e-6)) as f32);
        let extent = f64::from(half[0].max(half[1]).max(half[2])) + 2.0;
        let near = band(extent, system.slack * scale).1;
        let periodic = system.lattice.periodic;
        let fold =
            |c: i32, n: i32, k: usize| if periodic[k] { (c.rem_euclid(n), c.div_euclid(n)) } else { (c, 0) };
        out.order.resize(out.points.len(), 0);
        let mut count = 0;
        for column in &self.columns {
            let ((cx, ix), (cy, iy)) = (fold(x + column.dx, nx, 0), fold(y + column.dy, ny, 1));
            if cx < 0 || cx >= nx || cy < 0 || cy >= ny {
                continue;
            }
            let base = (cx * ny + cy) * nz;
            let (mut from, mut to) = (z + column.first, z + column.last);
            if !periodic[2] {
                (from, to) = (from.max(0), to.min(nz - 1));
            }
            while from <= to {
                let (cz, iz) = fold(from, nz, 2);
                let end = (cz + to - from).min(nz - 1);
                from += nz - cz;
                let run =
                    self.start[(base + cz) as usize] as usize..self.start[(base + end) as usize + 1] as usize;
                let image = [ix, iy, iz];
                let t = system.lattice.translation(image);
                let origin: [f64; 3] = std::array::from_fn(|k| t[k] - centre[k]);
                let code = system.images.code(image);
                let room = count + run.len();
                if out.points.len() < room {
                    out.points.resize(2 * room, Point::default());
                    out.order.resize(2 * room, 0);
                }
                for (at, &j) in self.at[run.clone()].iter().zip(&self.atom[run]) {
                    let at: [f32; 3] = std::array::from_fn(|k| ((at[k] + origin[k]) * scale) as f32);
                    let out_of: [f32; 3] = std::array::from_fn(|k| (at[k].abs() - half[k]).max(0.0));
                    out.points[count] = Point { at, code };
                    out.order[count] = u64::from(j) << 32 | count as u64;
                    let r2 = out_of[0] * out_of[0] + out_of[1] * out_of[1] + out_of[2] * out_of[2];
                    count += usize::from(r2 < near);
                }
            }
        }
        out.order.truncate(count);
        extent
    }
}

/// Cells along each axis for `atoms` atoms in a space of `width`.
fn shape(atoms: usize, width: [f64; 3], reach: f64) -> [usize; 3] {
    // Heights stand for lengths here: a guess of the density is enough.
    let volume: f64 = width.iter().map(|w| w / reach).product();
    let split = (atoms as f64 / volume / ATOMS_PER_CELL).cbrt().round().clamp(1.0, 4.0);
    let mut cells = width.map(|w| (w / reach * split).floor().max(1.0));
    let most = (16 * atoms).max(64) as f64;
    // Few atoms in a large space: larger cells, the longest axis first.
    while cells.iter().product::<f64>() > most {
        let longest = (0..3).fold(0, |l, k| if cells[k] > cells[l] { k } else { l });
        let others: f64 = (0..3).filter(|&k| k != longest).map(|k| cells[k]).product();
        cells[longest] = (most / others).floor().clamp(1.0, (cells[longest] / 2.0).ceil());
    }
    cells.map(|n| n as usize)
}

/// Sorts by the upper half, leaving equal ones as they are: a radix sort. (The lower half is in order already.)
fn sort(order: &mut Vec<u64>, spare: &mut Vec<u64>) {
    let n = order.len();
    if n < 64 {
        return order.sort_unstable();
    }
    spare.resize(n, 0);
    let (low, high) =
        order.iter().fold((u64::MAX, 0), |(low, high), &entry| (low.min(entry), high.max(entry)));
    let low = low >> 32;
    let bits = u64::BITS - ((high >> 32) - low).leading_zeros();
    let cost = |passes: u32| f64::from(passes) * (4.0 * n as f64 + f64::from(1u32 << bits.div_ceil(passes)));
    let passes = (2..5).fold(1, |best, passes| if cost(passes) < cost(best) { passes } else { best });
    let width = bits.div_ceil(passes);
    let mask = (1u64 << width) - 1;
    let mut counts = vec![0u32; 1 << width];
    for pass in 0..passes {
        let digit = |entry: u64| (((entry >> 32) - low) >> (pass * width) & mask) as usize;
        counts.fill(0);
        order.iter().for_each(|&entry| counts[digit(entry)] += 1);
        let mut total = 0;
        for count in &mut counts {
            total += std::mem::replace(count, total);
        }
        for &entry in order.iter() {
            let place = &mut counts[digit(entry)];
            spare[*place as usize] = entry;
            *place += 1;
        }
        std::mem::swap(order, spare);
    }
}
