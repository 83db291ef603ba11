//! Large systems: atoms sorted into the cells of a grid, neighbours looked for in the cells around.

use std::ops::Range;

use madelung_core::array::{Buffer, reserve};
use madelung_core::backend::pool::{Pool, split_tasks};

use super::candidates::{Box3, Candidates, Found, Search, System, band};
use super::search::{ATOMS_PER_TASK, task_ends};
use super::stencil::{Column, of_block, stencil};

/// Atoms per cell that make the best of sorting candidates once per cell and testing few in vain.
const ATOMS_PER_CELL: f64 = 16.0;

/// Cells of a block along each axis, whose candidates are sorted together.
const BLOCK: usize = 2;

/// The grid of one system.
#[derive(Default)]
pub(crate) struct Grid {
    cells: [usize; 3],
    /// The cell of each atom.
    owner: Buffer<u32>,
    /// The place of the next atom of each cell while atoms are sorted.
    next: Buffer<u32>,
    /// First atom of each cell, in the sorted arrays; the last axis is the fastest.
    start: Buffer<u32>,
    /// Atoms sorted by cell, and by index inside a cell.
    atom: Buffer<i32>,
    at: Buffer<[f64; 3]>,
    /// For blocks that are whole (1) or cut short by the end of the grid (0) along each axis: columns of cells that can
    /// hold neighbours.
    columns: [[[Vec<Column>; 2]; 2]; 2],
    /// Blocks that have atoms, as their first cells; and the number of atoms before each, and of all.
    blocks: Vec<[u32; 3]>,
    before: Vec<u32>,
}

/// Scratch of one task.
#[derive(Default)]
pub(crate) struct Scratch {
    points: Vec<Point>,
    /// Atom and place in `points` of each candidate.
    order: Vec<u64>,
    spare: Vec<u64>,
    counts: Vec<u32>,
    /// The first atom of each column of the block in `points`, and the sorted place of each of `points`.
    home: Vec<u32>,
    rank: Vec<u32>,
}

/// A candidate relative to the block, in cutoffs, and its image.
#[derive(Clone, Copy, Default)]
struct Point {
    at: [f32; 3],
    code: i32,
}

/// The atoms of a block, and a box around them.
struct Block {
    first: [usize; 3],
    size: [usize; 3],
    low: [f64; 3],
    high: [f64; 3],
}

impl Block {
    fn centre(&self) -> [f64; 3] {
        std::array::from_fn(|k| 0.5 * (self.low[k] + self.high[k]))
    }
}

impl Grid {
    /// Sorts the atoms of `system` into cells, in place of those it has.
    pub(crate) fn sort(&mut self, search: &Search<'_>, system: &System<'_>, pool: &dyn Pool) {
        let (lattice, atoms) = (system.lattice, &search.placed[system.atoms.clone()]);
        let reach = (system.cutoff + system.slack) * (1.0 + 1e-9);
        let (mut low, mut width) = ([0.0; 3], lattice.heights);
        for k in (0..3).filter(|&k| !lattice.periodic[k]) {
            let range = atoms.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), placed| {
                (low.min(placed.s[k]), high.max(placed.s[k]))
            });
            (low[k], width[k]) = (range.0, (range.1 - range.0).max(reach));
        }
        let cells = shape(atoms.len(), width, reach);
        // Cells per unit of s: s spans 1 along periodic axes and `width` along open ones.
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
        let ends = task_ends(atoms.len());
        let Self { owner, next, start, atom, at, .. } = self;
        owner.resize(atoms.len(), 0);
        split_tasks(pool, owner, &ends, |task, owner| {
            for (owner, placed) in owner.iter_mut().zip(&atoms[task * ATOMS_PER_TASK..]) {
                *owner = cell(placed.s) as u32;
            }
        });
        start.clear();
        start.resize(cells.iter().product::<usize>() + 1, 0);
        owner.iter().for_each(|&c| start[c as usize + 1] += 1);
        (1..start.len()).for_each(|c| start[c] += start[c - 1]);
        next.clone_from(start);
        atom.resize(atoms.len(), 0);
        for (j, &c) in (system.atoms.start..).zip(&*owner) {
            let place = &mut next[c as usize];
            atom[*place as usize] = j as i32;
            *place += 1;
        }
        at.resize(atoms.len(), [0.0; 3]);
        split_tasks(pool, at, &ends, |task, at| {
            for (at, &j) in at.iter_mut().zip(&atom[task * ATOMS_PER_TASK..]) {
                *at = search.placed[j as usize].at;
            }
        });
        let columns = stencil(&edges, most, reach);
        let size = |k: usize, whole: usize| if whole == 1 { BLOCK } else { cells[k] % BLOCK } as i32;
        self.cells = cells;
        self.columns = [0, 1].map(|x| {
            [0, 1].map(|y| [0, 1].map(|z| of_block(&columns, [size(0, x), size(1, y), size(2, z)])))
        });
        self.blocks.clear();
        self.before.clear();
        self.before.push(0);
        let mut before = 0;
        for first in (0..cells[0])
            .step_by(BLOCK)
            .flat_map(|x| (0..cells[1]).step_by(BLOCK).map(move |y| (x, y)))
            .flat_map(|(x, y)| (0..cells[2]).step_by(BLOCK).map(move |z| [x, y, z]))
        {
            let columns = self.columns_of(first, self.size(first));
            let atoms: usize = columns.map(|cells| self.atoms_of(cells).len()).sum();
            if atoms > 0 {
                before += atoms as u32;
                self.blocks.push(first.map(|c| c as u32));
                self.before.push(before);
            }
        }
    }

    /// Cells along each axis of the block that begins with cell `first`.
    fn size(&self, first: [usize; 3]) -> [usize; 3] {
        std::array::from_fn(|k| BLOCK.min(self.cells[k] - first[k]))
    }

    /// The columns of a block, as ranges of cells.
    fn columns_of(&self, first: [usize; 3], size: [usize; 3]) -> impl Iterator<Item = Range<usize>> {
        let [_, ny, nz] = self.cells;
        (0..size[0] * size[1]).map(move |c| {
            let (x, y) = (first[0] + c / size[1], first[1] + c % size[1]);
            let cell = (x * ny + y) * nz + first[2];
            cell..cell + size[2]
        })
    }

    /// The sorted atoms in some cells that follow each other.
    fn atoms_of(&self, cells: Range<usize>) -> Range<usize> {
        self.start[cells.start] as usize..self.start[cells.end] as usize
    }

    /// Ranges of blocks with about `atoms` atoms each.
    pub(crate) fn parts(&self, atoms: usize) -> Vec<Range<usize>> {
        let (mut parts, mut first) = (Vec::new(), 0);
        let last = self.blocks.len();
        while first < last {
            let wanted = self.before[first] as usize + atoms;
            let end = self.before.partition_point(|&p| (p as usize) < wanted).clamp(first + 1, last);
            parts.push(first..end);
            first = end;
        }
        parts
    }

    /// Rows of the atoms in some of the blocks, appended to `found`.
    pub(crate) fn search(
        &self,
        part: Range<usize>,
        search: &Search<'_>,
        system: &System<'_>,
        candidates: &mut Candidates,
        scratch: &mut Scratch,
        found: &mut Found,
    ) {
        for first in &self.blocks[part] {
            let first = first.map(|c| c as usize);
            let size = self.size(first);
            let (low, high) =
                self.bounds(self.columns_of(first, size).flat_map(|cells| self.atoms_of(cells)));
            let block = Block { first, size, low, high };
            let extent = self.gather(&block, system, scratch);
            let Scratch { points, order, spare, counts, home, rank } = &mut *scratch;
            sort(order, spare, counts);
            rank.resize(order.len(), 0);
            order.iter().zip(0..).for_each(|(&entry, r)| rank[entry as u32 as usize] = r);
            let sorted = order.iter().map(|&entry| {
                let point = &points[entry as u32 as usize];
                (point.at, (entry >> 32) as i32, point.code)
            });
            candidates.fill(sorted, found);
            for (column, &home) in self.columns_of(first, size).zip(&*home) {
                for cell in column.clone() {
                    let own = self.atoms_of(cell..cell + 1);
                    if own.is_empty() {
                        continue;
                    }
                    let within = self.box_of(own.clone(), &block, system.cutoff);
                    let first = self.atoms_of(column.clone()).start;
                    let own = own.map(|p| rank[home as usize + p - first] as usize);
                    candidates.cell(own, Some(within), extent, search, system, found);
                }
            }
        }
    }

    /// The smallest and the largest coordinates of some of the sorted atoms.
    fn bounds(&self, atoms: impl Iterator<Item = usize>) -> ([f64; 3], [f64; 3]) {
        atoms.fold(([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]), |(low, high), p| {
            let at = self.at[p];
            (std::array::from_fn(|k| low[k].min(at[k])), std::array::from_fn(|k| high[k].max(at[k])))
        })
    }

    /// The box around the atoms `own`.
    fn box_of(&self, own: Range<usize>, block: &Block, cutoff: f64) -> Box3 {
        let ((low, high), origin, scale) = (self.bounds(own), block.centre(), 1.0 / cutoff);
        Box3 {
            centre: std::array::from_fn(|k| ((0.5 * (low[k] + high[k]) - origin[k]) * scale) as f32),
            half: std::array::from_fn(|k| ((high[k] - low[k]) * 0.5 * scale * (1.0 + 1e-6)) as f32),
        }
    }

    /// Puts into `out` everything within the cutoff of the box around a block, in the order of the images, and says
    /// which coordinate none of it passes.
    fn gather(&self, block: &Block, system: &System<'_>, out: &mut Scratch) -> f64 {
        let [nx, ny, nz] = self.cells.map(|n| n as i32);
        let [x, y, z] = block.first.map(|c| c as i32);
        let scale = 1.0 / system.cutoff;
        let centre = block.centre();
        let half: [f32; 3] =
            std::array::from_fn(|k| ((block.high[k] - block.low[k]) * 0.5 * scale * (1.0 + 1e-6)) as f32);
        let extent = f64::from(half[0].max(half[1]).max(half[2])) + 2.0;
        let near = band(extent, system.slack * scale).1;
        let periodic = system.lattice.periodic;
        let fold =
            |c: i32, n: i32, k: usize| if periodic[k] { (c.rem_euclid(n), c.div_euclid(n)) } else { (c, 0) };
        out.order.resize(out.points.len(), 0);
        out.home.clear();
        let mut count = 0;
        let [whole_x, whole_y, whole_z] = block.size.map(|size| usize::from(size == BLOCK));
        for column in &self.columns[whole_x][whole_y][whole_z] {
            let ((cx, ix), (cy, iy)) = (fold(x + column.dx, nx, 0), fold(y + column.dy, ny, 1));
            if cx < 0 || cx >= nx || cy < 0 || cy >= ny {
                continue;
            }
            let base = (cx * ny + cy) * nz;
            let is_home = (0..block.size[0] as i32).contains(&column.dx)
                && (0..block.size[1] as i32).contains(&column.dy);
            let (mut from, mut to) = (z + column.first, z + column.last);
            if !periodic[2] {
                (from, to) = (from.max(0), to.min(nz - 1));
            }
            while from <= to {
                let (cz, iz) = fold(from, nz, 2);
                let end = (cz + to - from).min(nz - 1);
                from += nz - cz;
                let run = self.atoms_of((base + cz) as usize..(base + end) as usize + 1);
                let image = [ix, iy, iz];
                let t = system.lattice.translation(image);
                let origin: [f64; 3] = std::array::from_fn(|k| t[k] - centre[k]);
                let code = system.images.code(image);
                let room = count + run.len();
                if out.points.len() < room {
                    let more = 2 * room - out.points.len();
                    reserve(&mut out.points, more);
                    reserve(&mut out.order, more);
                    out.points.resize(2 * room, Point::default());
                    out.order.resize(2 * room, 0);
                }
                let mut take = |run: Range<usize>| {
                    for (at, &j) in self.at[run.clone()].iter().zip(&self.atom[run]) {
                        let at: [f32; 3] = std::array::from_fn(|k| ((at[k] + origin[k]) * scale) as f32);
                        let out_of: [f32; 3] = std::array::from_fn(|k| (at[k].abs() - half[k]).max(0.0));
                        out.points[count] = Point { at, code };
                        out.order[count] = (j as u64) << 32 | count as u64;
                        let r2 = out_of[0] * out_of[0] + out_of[1] * out_of[1] + out_of[2] * out_of[2];
                        count += usize::from(r2 < near);
                    }
                    count
                };
                if is_home && image == [0; 3] {
                    // All of the block's own atoms are kept, so the place of a column's first atom is enough.
                    let own = self.start[(base + z) as usize] as usize;
                    let home = take(run.start..own);
                    out.home.push(home as u32);
                    take(own..run.end);
                } else {
                    take(run);
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
fn sort(order: &mut Vec<u64>, spare: &mut Vec<u64>, counts: &mut Vec<u32>) {
    let n = order.len();
    if n < 64 {
        return order.sort_unstable();
    }
    reserve(spare, n.saturating_sub(spare.len()));
    spare.resize(n, 0);
    let (low, high) =
        order.iter().fold((u64::MAX, 0), |(low, high), &entry| (low.min(entry), high.max(entry)));
    let low = low >> 32;
    let bits = u64::BITS - ((high >> 32) - low).leading_zeros();
    let cost = |passes: u32| f64::from(passes) * (4.0 * n as f64 + f64::from(1u32 << bits.div_ceil(passes)));
    let passes = (2..5).fold(1, |best, passes| if cost(passes) < cost(best) { passes } else { best });
    let width = bits.div_ceil(passes);
    let mask = (1u64 << width) - 1;
    counts.resize(1 << width, 0);
    for pass in 0..passes {
        let digit = |entry: u64| (((entry >> 32) - low) >> (pass * width) & mask) as usize;
        counts.fill(0);
        order.iter().for_each(|&entry| counts[digit(entry)] += 1);
        let mut total = 0;
        for count in counts.iter_mut() {
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
