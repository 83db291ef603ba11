//! The call: arguments checked once, atoms wrapped, work shared out.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use madelung_core::backend::pool::{Pool, map_tasks, split_tasks};
use madelung_core::batch::Batch;
use madelung_core::pairs::{Kind, PairList};
use madelung_core::{Error, Result};

use crate::all_pairs;
use crate::assemble::{assemble, too_many};
use crate::candidates::{Candidates, Found, Images, Placed, Search, System};
use crate::coordinate::Coordinate;
use crate::grid::{Grid, Scratch};
use crate::lattice::Lattice;

/// How neighbours are found. The list is the same, bit for bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Atoms sorted into the cells of a grid: time grows with the number of pairs.
    CellList,
    /// Every atom with every image near the system: best for some hundred atoms, and quadratic beyond.
    BruteForce,
}

/// What kind of list, how it is found, and how large it may be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Full or half.
    pub kind: Kind,
    /// None chooses for each system of a batch by its size.
    pub method: Option<Method>,
    /// The most pairs the caller has room for.
    pub capacity: Option<usize>,
    /// The most pairs per atom the caller has room for.
    pub max_neighbors: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self { kind: Kind::Full, method: None, capacity: None, max_neighbors: None }
    }
}

impl Options {
    /// A full list by whichever method, without limits.
    pub fn full() -> Self {
        Self::default()
    }

    /// A half list by whichever method, without limits.
    pub fn half() -> Self {
        Self { kind: Kind::Half, ..Self::default() }
    }

    /// The same with a method prescribed.
    pub fn with_method(self, method: Method) -> Self {
        Self { method: Some(method), ..self }
    }

    /// The same with room for so many pairs.
    pub fn with_capacity(self, capacity: usize) -> Self {
        Self { capacity: Some(capacity), ..self }
    }

    /// The same with room for so many pairs per atom.
    pub fn with_max_neighbors(self, max_neighbors: usize) -> Self {
        Self { max_neighbors: Some(max_neighbors), ..self }
    }
}

/// Atoms per task when preparing, and about as many when searching.
const ATOMS_PER_TASK: usize = 1024;

/// Candidates per atom up to which trying all of them is faster than a grid.
const FEW_CANDIDATES: f64 = 700.0;

/// An atom more than 2^29 boxes away leaves no room in an i32 shift for the way to another one.
const FARTHEST: f64 = (1u32 << 29) as f64;

/// All pairs closer than `cutoff`, strictly, with r_ij = r_j − r_i + S · cell. `positions` has shape (N, 3), `cutoff`
/// and `cell` are in the same length unit, and S refers to the positions given, which may lie anywhere.
///
/// `cell` (rows are lattice vectors) and `pbc` hold one entry for all systems of `batch` or one for each. Without
/// `pbc` all axes of a cell are periodic; without `cell` none are. The rows of `cell` along open axes play no part and
/// may be zero. Atoms on the same point are a pair at distance zero. Decisions are made in f64 for the coordinates
/// given, whichever their type. Rows are ordered by i, then j, then S; the list does not depend on the method or on
/// the threads of `pool`, and that of a system not on its batch.
///
/// # Errors
/// `positions`, where one is not finite, or so far away that numbers end, or where their number is not that of
/// `batch`; `cutoff`, where it is not a positive number, or reaches over more images or pairs than can be addressed;
/// `cell`, where it is missing for a periodic axis, not finite, or singular along periodic axes; `pbc` and `cell`,
/// where their number is neither 1 nor that of the systems; `kind` for a directed list; `capacity` and
/// `max_neighbors`, where they are too small, with the size that is needed.
pub fn neighbor_list<T: Coordinate>(
    positions: &[[T; 3]],
    cutoff: f64,
    cell: Option<&[[[f64; 3]; 3]]>,
    pbc: Option<&[[bool; 3]]>,
    batch: &Batch<'_>,
    options: &Options,
    pool: &dyn Pool,
) -> Result<PairList<'static>> {
    if !(cutoff > 0.0 && cutoff.is_finite()) {
        return Err(Error::argument("cutoff", "a positive number", cutoff.to_string()));
    }
    if options.kind == Kind::Directed {
        return Err(Error::argument("kind", "a full or a half list", "a directed one"));
    }
    if positions.len() != batch.atoms() {
        let expected = format!("{} rows, as the batch has atoms", batch.atoms());
        return Err(Error::argument("positions", expected, format!("{} rows", positions.len())));
    }
    let positions = &*T::widen(positions);
    if let Some(i) = positions.iter().position(|r| !(r[0] + r[1] + r[2]).is_finite()) {
        return Err(Error::argument(
            "positions",
            "finite coordinates",
            format!("{:?} for atom {i}", positions[i]),
        ));
    }
    let lattices = lattices(cell, pbc, batch.systems())?;
    let lattice = |b: usize| if lattices.len() == 1 { &lattices[0] } else { &lattices[b] };
    let placed = place(positions, batch, lattice, cutoff, pool)?;
    let whose = |b: usize| if batch.systems() > 1 { format!(" for system {b}") } else { String::new() };
    let systems: Vec<System<'_>> = (0..batch.systems())
        .map(|b| {
            let (atoms, lattice) = (batch.members(b), lattice(b));
            let slack = lattice.slack(largest(&positions[atoms.clone()]), cutoff);
            let images = Images::new(lattice, atoms.len(), cutoff, slack, || whose(b))?;
            Ok(System { atoms, lattice, images, slack })
        })
        .collect::<Result<_>>()?;
    let search = Search { positions, placed: &placed, cutoff, half: options.kind == Kind::Half };
    let found = find(&search, &systems, options, pool)?;
    assemble(&found, &systems, &placed, options, pool)
}

/// One lattice for all systems, or one for each.
fn lattices(
    cell: Option<&[[[f64; 3]; 3]]>,
    pbc: Option<&[[bool; 3]]>,
    systems: usize,
) -> Result<Vec<Lattice>> {
    for (name, given) in [("cell", cell.map(<[_]>::len)), ("pbc", pbc.map(<[_]>::len))] {
        if let Some(given) = given.filter(|&given| given != 1 && given != systems) {
            let expected = format!("one for all systems, or one for each of the {systems}");
            return Err(Error::argument(name, expected, given.to_string()));
        }
    }
    let Some(cells) = cell else {
        if pbc.is_some_and(|pbc| pbc.iter().flatten().any(|&periodic| periodic)) {
            return Err(Error::argument("cell", "lattice vectors for the periodic axes", "no cell"));
        }
        return Ok(vec![Lattice::OPEN]);
    };
    let pbc = pbc.unwrap_or(&[[true; 3]]);
    if cells.is_empty() || pbc.is_empty() {
        return Ok(vec![]); // one for each of no systems
    }
    (0..cells.len().max(pbc.len()))
        .map(|b| {
            let whose = if cells.len() > 1 { format!(" for system {b}") } else { String::new() };
            Lattice::new(&cells[b.min(cells.len() - 1)], pbc[b.min(pbc.len() - 1)], &whose)
        })
        .collect()
}

/// The largest |coordinate|.
fn largest(positions: &[[f64; 3]]) -> f64 {
    positions.as_flattened().iter().fold(0.0, |largest, x| if x.abs() > largest { x.abs() } else { largest })
}

/// Moves every atom into its cell along the periodic axes.
fn place<'a>(
    positions: &[[f64; 3]],
    batch: &Batch<'_>,
    lattice: impl Fn(usize) -> &'a Lattice + Sync,
    cutoff: f64,
    pool: &dyn Pool,
) -> Result<Vec<Placed>> {
    let atoms = positions.len();
    let mut placed = vec![Placed::default(); atoms];
    let ends: Vec<usize> =
        (1..=atoms.div_ceil(ATOMS_PER_TASK)).map(|t| (t * ATOMS_PER_TASK).min(atoms)).collect();
    split_tasks(pool, &mut placed, &ends, |task, placed| {
        let first = task * ATOMS_PER_TASK;
        for (i, placed) in (first..).zip(placed) {
            *placed = lattice(batch.of(i)).place(positions[i]);
        }
    });
    // Beyond these, the arithmetic of the search would leave its numbers.
    let too_far = |placed: &Placed| {
        placed.s.iter().any(|s| !s.is_finite()) || placed.at.iter().any(|x| x.abs() > 1e15 * cutoff)
    };
    match placed.iter().position(|placed| placed.wrap == [i32::MAX; 3] || too_far(placed)) {
        None => Ok(placed),
        Some(i) => Err(Error::argument(
            "positions",
            format!("coordinates within {FARTHEST} boxes and 1e15 cutoffs of the origin"),
            format!("{:?} for atom {i}", positions[i]),
        )),
    }
}

impl Lattice {
    /// A wrap of `i32::MAX` says that the point is too far away.
    fn place(&self, r: [f64; 3]) -> Placed {
        let s = self.fractional(r);
        let mut wrap = [0; 3];
        for k in (0..3).filter(|&k| self.periodic[k]) {
            let boxes = s[k].floor();
            if boxes.abs() > FARTHEST || boxes.is_nan() {
                return Placed { wrap: [i32::MAX; 3], ..Placed::default() };
            }
            wrap[k] = boxes as i32;
        }
        if wrap == [0; 3] {
            return Placed { at: r, s, wrap };
        }
        let t = self.translation(wrap);
        let at: [f64; 3] = std::array::from_fn(|k| r[k] - t[k]);
        // From the wrapped point, which far away is another one than s − wrap.
        Placed { at, s: self.fractional(at), wrap }
    }
}

/// A share of the search.
enum Work {
    /// Small systems, one after the other.
    Small(Range<usize>),
    /// Some cells of the grid of a large one.
    Cells { grid: usize, part: Range<usize> },
}

/// Rows of all atoms, task by task.
fn find(
    search: &Search<'_>,
    systems: &[System<'_>],
    options: &Options,
    pool: &dyn Pool,
) -> Result<Vec<Found>> {
    let gridded: Vec<usize> =
        (0..systems.len()).filter(|&b| wants_grid(&systems[b], search, options)).collect();
    let grids = map_tasks(pool, gridded.len(), |g| Grid::new(search, &systems[gridded[g]]));
    let mut work = Vec::new();
    let (mut first, mut atoms, mut grid) = (0, 0, 0);
    for (b, system) in systems.iter().enumerate() {
        if gridded.get(grid) == Some(&b) {
            work.push(Work::Small(first..b));
            work.extend(grids[grid].parts(ATOMS_PER_TASK).into_iter().map(|part| Work::Cells { grid, part }));
            (first, atoms, grid) = (b + 1, 0, grid + 1);
            continue;
        }
        atoms += system.atoms.len();
        if atoms >= ATOMS_PER_TASK {
            work.push(Work::Small(first..b + 1));
            (first, atoms) = (b + 1, 0);
        }
    }
    work.push(Work::Small(first..systems.len()));
    work.retain(|work| !matches!(work, Work::Small(range) if range.is_empty()));

    // A list that cannot be addressed is given up before it fills the memory.
    let total = AtomicUsize::new(0);
    let pairs = |rows: &[(u32, u32)]| rows.iter().map(|&(_, count)| count as usize).sum::<usize>();
    let full = || total.load(Ordering::Relaxed) > i32::MAX as usize;
    let found = map_tasks(pool, work.len(), |task| {
        let (mut found, mut candidates) = (Found::default(), Candidates::default());
        match &work[task] {
            Work::Small(range) => {
                let mut near = Vec::new();
                for system in systems[range.clone()].iter().take_while(|_| !full()) {
                    let before = found.rows.len();
                    all_pairs::search(search, system, &mut near, &mut candidates, &mut found);
                    total.fetch_add(pairs(&found.rows[before..]), Ordering::Relaxed);
                }
            }
            Work::Cells { grid, part } if !full() => {
                let system = &systems[gridded[*grid]];
                grids[*grid].search(
                    part.clone(),
                    search,
                    system,
                    &mut candidates,
                    &mut Scratch::default(),
                    &mut found,
                );
                total.fetch_add(pairs(&found.rows), Ordering::Relaxed);
            }
            Work::Cells { .. } => {}
        }
        found
    });
    if full() { Err(too_many(options.kind, &format!("more than {}", i32::MAX))) } else { Ok(found) }
}

/// Whether a system is large enough for a grid, or one is asked for.
fn wants_grid(system: &System<'_>, search: &Search<'_>, options: &Options) -> bool {
    let images: f64 = (0..3)
        .filter(|&k| system.lattice.periodic[k])
        .map(|k| 1.0 + 2.0 * search.cutoff / system.lattice.heights[k])
        .product();
    !system.atoms.is_empty()
        && match options.method {
            Some(method) => method == Method::CellList,
            None => system.atoms.len() > 32 && system.atoms.len() as f64 * images > FEW_CANDIDATES,
        }
}
