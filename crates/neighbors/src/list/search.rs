//! The call: arguments checked once, atoms wrapped, work shared out.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::CooArrays;
use madelung_core::array::{DType, reserve};
use madelung_core::backend::Context;
use madelung_core::backend::pool::{Pool, Serial, split_tasks};
use madelung_core::stop::caught;
use madelung_core::structure::Batch;
use madelung_core::structure::pairs::{Buffers, Kind, Neighbors, PairList};
use madelung_core::{Error, Result};

use super::all_pairs;
use super::arrays::ListArrays;
use super::assemble::{assemble, assemble_coo, assemble_rows, too_many};
use super::candidates::{Candidates, Found, Images, Search, System, WrappedAtom};
use super::clusters;
use super::coordinate::Coordinate;
use super::grid::{Grid, Scratch};
use super::options::{Cutoff, Form, Method, Options};
use crate::lattice::{Lattice, Precision, lattices};

/// Atoms per task when preparing.
pub(crate) const ATOMS_PER_TASK: usize = 1024;

/// Atoms of a system with a grid that a task searches for, about: fewer where there are enough of them for tasks to be shared
/// out more evenly, and not so few that waking a thread takes longer.
fn atoms_per_part(atoms: usize) -> usize {
    if atoms < 4 * ATOMS_PER_TASK { ATOMS_PER_TASK } else { ATOMS_PER_TASK / 4 }
}

/// A list of more pairs is taken for a mistake, which would fill the memory of most machines.
pub(crate) const MOST_PAIRS: usize = 1 << 36;

/// The ends of the tasks that `atoms` atoms are divided into.
pub(crate) fn task_ends(atoms: usize) -> Vec<usize> {
    (1..=atoms.div_ceil(ATOMS_PER_TASK)).map(|task| (task * ATOMS_PER_TASK).min(atoms)).collect()
}

/// Candidates per atom up to which trying all of them is faster than a grid.
const FEW_CANDIDATES: f64 = 700.0;

/// An atom more than 2^29 boxes away leaves no room in an i32 shift for the way to another one.
const FARTHEST: f64 = (1u32 << 29) as f64;

/// All pairs closer than `cutoff`, strictly, with r_ij = r_j − r_i + S · cell. `positions` has shape (N, 3), `cutoff`
/// and `cell` are in the same length unit, and S refers to the positions given, which may lie anywhere.
///
/// `cell` (rows are lattice vectors) and `pbc` have one entry for all systems of `batch` or one for each, and so has
/// [`Cutoff`]. Without `pbc` all axes of a cell are periodic; without `cell` none are. The rows of `cell` along open axes play no part and may be
/// zero. Atoms on the same point are a pair at distance zero. Decisions are made in f64 for the coordinates given, of
/// either type. Rows are ordered by i, then j, then S; the list does not depend on the method or on the threads of
/// `pool`, and that of a system not on its batch. A [`NeighborSearch`] saves time when lists are built repeatedly.
///
/// # Errors
/// `positions`, where one is not finite, or so far away that numbers end, or where their number is not that of `batch`;
/// `cutoff`, where it is not a positive number, or reaches over more images than can be addressed or pairs than memory
/// holds; `cell`, where it is missing for a periodic axis, not finite, or singular along periodic axes; `pbc` and
/// `cell`, where their number is neither 1 nor that of the systems; `kind` for a directed list; `capacity` and
/// `max_neighbors`, where they are too small, with the size that is needed.
pub fn neighbor_list<'c, T: Coordinate>(
    positions: &[[T; 3]],
    cutoff: impl Into<Cutoff<'c>>,
    cell: Option<&[[[f64; 3]; 3]]>,
    pbc: Option<&[[bool; 3]]>,
    batch: &Batch<'_>,
    options: &Options,
    pool: &dyn Pool,
) -> Result<PairList<'static>> {
    NeighborSearch::default().build(positions, cutoff, cell, pbc, batch, options, pool)
}

/// The pairs of [`neighbor_list`] in the form in which kernels are fastest: in clusters, if a system has at least 512 atoms
/// with some hundred neighbours each, else (and half lists) in rows. A system's pairs are evaluated in one form, alone and
/// in any batch.
///
/// # Errors
/// As [`neighbor_list`]; `form` for clusters of a half list, and where images are too far for them (511 cells along the
/// first axis, 1023 along the others).
pub fn find_neighbors<'c, T: Coordinate>(
    positions: &[[T; 3]],
    cutoff: impl Into<Cutoff<'c>>,
    cell: Option<&[[[f64; 3]; 3]]>,
    pbc: Option<&[[bool; 3]]>,
    batch: &Batch<'_>,
    options: &Options,
    pool: &dyn Pool,
) -> Result<Neighbors<'static>> {
    NeighborSearch::default().neighbors(positions, cutoff, cell, pbc, batch, options, pool)
}

/// [`neighbor_list`] with memory that is kept from call to call, as for a simulation that builds its list again every
/// few steps: fresh memory costs as much time as the search. Give lists that are no longer needed back with
/// [`NeighborSearch::recycle`].
#[derive(Default)]
pub struct NeighborSearch {
    placed: Vec<WrappedAtom>,
    memory: Memory,
    list: Buffers,
}

/// Memory of the search for rows.
#[derive(Default)]
struct Memory {
    grids: Vec<Grid>,
    found: Vec<Found>,
    workers: Mutex<Vec<Worker>>,
}

/// Scratch of a thread for a task.
#[derive(Default)]
struct Worker {
    near: Vec<([f32; 3], i32, i32)>,
    own: Vec<usize>,
    candidates: Candidates,
    scratch: Scratch,
}

impl NeighborSearch {
    /// A search without memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the memory of a list for the next one.
    pub fn recycle(&mut self, list: PairList<'static>) {
        self.list = list.into_buffers();
    }

    /// [`neighbor_list`] in kept memory.
    ///
    /// # Errors
    /// As [`neighbor_list`].
    #[expect(clippy::too_many_arguments, reason = "those of `neighbor_list`")]
    pub fn build<'c, T: Coordinate>(
        &mut self,
        positions: &[[T; 3]],
        cutoff: impl Into<Cutoff<'c>>,
        cell: Option<&[[[f64; 3]; 3]]>,
        pbc: Option<&[[bool; 3]]>,
        batch: &Batch<'_>,
        options: &Options,
        pool: &dyn Pool,
    ) -> Result<PairList<'static>> {
        let memory = std::mem::take(&mut self.list);
        self.run(positions, cutoff, cell, pbc, batch, options, pool, |found, search, systems| {
            assemble(found, search, systems, options, pool, memory)
        })
    }

    /// The list of [`neighbor_list`] in coordinate form, in memory of the context's allocator; each element is written
    /// once.
    ///
    /// # Errors
    /// As [`neighbor_list`]; `cutoff` too where there are more pairs than an int32 can count.
    #[expect(clippy::too_many_arguments, reason = "those of `neighbor_list`")]
    pub fn coo<'c, T: Coordinate>(
        &mut self,
        positions: &[[T; 3]],
        cutoff: impl Into<Cutoff<'c>>,
        cell: Option<&[[[f64; 3]; 3]]>,
        pbc: Option<&[[bool; 3]]>,
        batch: &Batch<'_>,
        options: &Options,
        context: &Context<'_>,
    ) -> Result<CooArrays> {
        let pool = context.threads();
        self.run(positions, cutoff, cell, pbc, batch, options, &pool, |found, search, systems| {
            assemble_coo(found, search, systems, options, context)
        })
    }

    /// [`find_neighbors`] in kept memory.
    ///
    /// # Errors
    /// As [`find_neighbors`].
    #[expect(clippy::too_many_arguments, reason = "those of `neighbor_list`")]
    pub fn neighbors<'c, T: Coordinate>(
        &mut self,
        positions: &[[T; 3]],
        cutoff: impl Into<Cutoff<'c>>,
        cell: Option<&[[[f64; 3]; 3]]>,
        pbc: Option<&[[bool; 3]]>,
        batch: &Batch<'_>,
        options: &Options,
        pool: &dyn Pool,
    ) -> Result<Neighbors<'static>> {
        let list = std::mem::take(&mut self.list);
        self.prepared(positions, cutoff, cell, pbc, batch, options, pool, |search, systems, memory| {
            if let Some(in_clusters) = in_clusters(search, systems, options)? {
                let found = clusters::clusters(search, systems, &in_clusters, batch, pool)?;
                return Ok(Neighbors::Clusters(found.into()));
            }
            let found = memory.find(search, systems, options, pool)?;
            Ok(Neighbors::Rows(assemble(found, search, systems, options, pool, list)?))
        })
    }

    /// The list of [`find_neighbors`] in arrays of the context's allocator.
    ///
    /// # Errors
    /// As [`find_neighbors`]; `cutoff` too where there are more pairs than an int32 can count.
    #[expect(clippy::too_many_arguments, reason = "those of `neighbor_list`")]
    pub fn arrays<'c, T: Coordinate>(
        &mut self,
        positions: &[[T; 3]],
        cutoff: impl Into<Cutoff<'c>>,
        cell: Option<&[[[f64; 3]; 3]]>,
        pbc: Option<&[[bool; 3]]>,
        batch: &Batch<'_>,
        options: &Options,
        context: &Context<'_>,
    ) -> Result<ListArrays> {
        let pool = &context.threads();
        self.prepared(positions, cutoff, cell, pbc, batch, options, pool, |search, systems, memory| {
            if let Some(in_clusters) = in_clusters(search, systems, options)? {
                let found = clusters::clusters(search, systems, &in_clusters, batch, pool)?;
                return ListArrays::of(&Neighbors::Clusters(found.into()), context);
            }
            let found = memory.find(search, systems, options, pool)?;
            assemble_rows(found, search, systems, options, context)
        })
    }

    /// Finds the neighbours of all atoms, and gives them to `list`.
    #[expect(clippy::too_many_arguments, reason = "those of `neighbor_list`")]
    fn run<'c, T: Coordinate, R>(
        &mut self,
        positions: &[[T; 3]],
        cutoff: impl Into<Cutoff<'c>>,
        cell: Option<&[[[f64; 3]; 3]]>,
        pbc: Option<&[[bool; 3]]>,
        batch: &Batch<'_>,
        options: &Options,
        pool: &dyn Pool,
        list: impl FnOnce(&[Found], &Search<'_>, &[System<'_>]) -> Result<R>,
    ) -> Result<R> {
        self.prepared(positions, cutoff, cell, pbc, batch, options, pool, |search, systems, memory| {
            list(memory.find(search, systems, options, pool)?, search, systems)
        })
    }

    /// Checks the arguments, moves the atoms into their cells, and hands them to `search`.
    #[expect(clippy::too_many_arguments, reason = "those of `neighbor_list`")]
    fn prepared<'c, T: Coordinate, R>(
        &mut self,
        positions: &[[T; 3]],
        cutoff: impl Into<Cutoff<'c>>,
        cell: Option<&[[[f64; 3]; 3]]>,
        pbc: Option<&[[bool; 3]]>,
        batch: &Batch<'_>,
        options: &Options,
        pool: &dyn Pool,
        then: impl FnOnce(&Search<'_>, &[System<'_>], &mut Memory) -> Result<R>,
    ) -> Result<R> {
        let cutoff = cutoff.into();
        caught(
            || "cutoff".into(),
            || {
                cutoff.check(batch.systems())?;
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
                let precision = if T::DTYPE == DType::F64 { options.precision } else { Precision::Single };
                let lattices = lattices(cell, pbc, batch.systems(), precision)?;
                let lattice = |b: usize| if lattices.len() == 1 { &lattices[0] } else { &lattices[b] };
                let wraps = place(positions, batch, lattice, |b| cutoff.of(b), pool, &mut self.placed)?;
                let whose =
                    |b: usize| if batch.systems() > 1 { format!(" for system {b}") } else { String::new() };
                let systems: Vec<System<'_>> = (0..batch.systems())
                    .map(|b| {
                        let (atoms, lattice, cutoff) = (batch.members(b), lattice(b), cutoff.of(b));
                        let slack = lattice.slack(largest(&positions[atoms.clone()]), cutoff);
                        let images = Images::new(lattice, atoms.len(), cutoff, slack, || whose(b))?;
                        Ok(System { atoms, lattice, images, cutoff, slack })
                    })
                    .collect::<Result<_>>()?;
                let half = options.kind == Kind::Half;
                let search = Search { positions, placed: &self.placed, wraps, half, cpu: options.cpu };
                then(&search, &systems, &mut self.memory)
            },
        )
    }
}

/// Which systems of a list are in clusters; None for a list in rows.
fn in_clusters(search: &Search<'_>, systems: &[System<'_>], options: &Options) -> Result<Option<Vec<bool>>> {
    match options.form {
        Some(Form::Clusters | Form::Mixed) if options.kind == Kind::Half => {
            Err(Error::argument("form", "rows for a half list", "clusters"))
        }
        Some(Form::Clusters | Form::Mixed) if !clusters::has_room(search, systems) => {
            Err(Error::argument("form", "rows, as images are too far", "clusters"))
        }
        Some(Form::Clusters) => Ok(Some(vec![true; systems.len()])),
        Some(Form::Mixed) => Ok(Some(clusters::are_dense(search, systems))),
        None if options.kind == Kind::Full => Ok(clusters::in_clusters(search, systems)),
        _ => Ok(None),
    }
}

/// The largest |coordinate|.
fn largest(positions: &[[f64; 3]]) -> f64 {
    positions.as_flattened().iter().fold(0.0, |largest, x| if x.abs() > largest { x.abs() } else { largest })
}

/// Moves every atom into its cell along the periodic axes, and says by how many boxes the farthest are moved each way.
fn place<'a>(
    positions: &[[f64; 3]],
    batch: &Batch<'_>,
    lattice: impl Fn(usize) -> &'a Lattice + Sync,
    cutoff: impl Fn(usize) -> f64 + Sync,
    pool: &dyn Pool,
    placed: &mut Vec<WrappedAtom>,
) -> Result<[i32; 3]> {
    // Beyond these, the arithmetic of the search would leave its numbers.
    let too_far = |placed: &WrappedAtom, b: usize| {
        placed.wrap == [i32::MAX; 3]
            || placed.s.iter().any(|s| !s.is_finite())
            || placed.at.iter().any(|x| x.abs() > 1e15 * cutoff(b))
    };
    let atoms = positions.len();
    reserve(placed, atoms.saturating_sub(placed.len()));
    placed.resize(atoms, WrappedAtom::default());
    let ends = task_ends(atoms);
    let wraps: Vec<Mutex<[i32; 3]>> = ends.iter().map(|_| Mutex::new([0; 3])).collect();
    split_tasks(pool, placed, &ends, |task, placed| {
        let first = task * ATOMS_PER_TASK;
        let mut most = [0; 3];
        for (i, placed) in (first..).zip(placed) {
            let b = batch.of(i);
            *placed = wrapped(lattice(b), positions[i]);
            let wrap = if too_far(placed, b) { [i32::MAX; 3] } else { placed.wrap };
            (0..3).for_each(|k| most[k] = most[k].max(wrap[k].abs()));
        }
        *wraps[task].lock().unwrap_or_else(PoisonError::into_inner) = most;
    });
    let most = wraps.into_iter().map(|most| most.into_inner().unwrap_or_else(PoisonError::into_inner));
    let most = most.fold([0; 3], |a, b| std::array::from_fn(|k| a[k].max(b[k])));
    if most != [i32::MAX; 3] {
        return Ok(most);
    }
    let i = (0..atoms).find(|i| too_far(&placed[*i], batch.of(*i))).unwrap_or_default();
    let (r, cutoff) = (positions[i], cutoff(batch.of(i)));
    // Of two lengths that do not go together the one that is farther from one.
    if placed[i].wrap != [i32::MAX; 3] && largest(&[placed[i].at]) * cutoff < 1.0 {
        let expected = format!("at least 1e-15 of the coordinates, such as {r:?} of atom {i}");
        return Err(Error::argument("cutoff", expected, format!("{cutoff:e}")));
    }
    Err(Error::argument(
        "positions",
        format!("coordinates within {FARTHEST} boxes and 1e15 cutoffs of the origin"),
        format!("{r:?} for atom {i}"),
    ))
}

/// A wrap of `i32::MAX` says that the point is too far away.
fn wrapped(lattice: &Lattice, r: [f64; 3]) -> WrappedAtom {
    let s = lattice.fractional(r);
    let mut wrap = [0; 3];
    for k in (0..3).filter(|&k| lattice.periodic[k]) {
        let boxes = s[k].floor();
        if boxes.abs() > FARTHEST || boxes.is_nan() {
            return WrappedAtom { wrap: [i32::MAX; 3], ..WrappedAtom::default() };
        }
        wrap[k] = boxes as i32;
    }
    if wrap == [0; 3] {
        return WrappedAtom { at: r, s, wrap };
    }
    let t = lattice.translation(wrap);
    let at: [f64; 3] = std::array::from_fn(|k| r[k] - t[k]);
    // From the wrapped point, which far away is another one than s − wrap.
    WrappedAtom { at, s: lattice.fractional(at), wrap }
}

/// A share of the search.
enum Work {
    /// Small systems, one after the other.
    Small(Range<usize>),
    /// A range of blocks of cells, of a large system's grid.
    Blocks { grid: usize, part: Range<usize> },
}

impl Memory {
    /// Finds the rows of all atoms, task by task.
    fn find(
        &mut self,
        search: &Search<'_>,
        systems: &[System<'_>],
        options: &Options,
        pool: &dyn Pool,
    ) -> Result<&[Found]> {
        let Self { grids, found, workers } = self;
        let workers = &*workers;
        let gridded: Vec<usize> = (0..systems.len()).filter(|&b| wants_grid(&systems[b], options)).collect();
        grids.resize_with(gridded.len(), Grid::default);
        if let ([grid], [system]) = (&mut grids[..], &gridded[..]) {
            grid.sort(search, &systems[*system], pool);
        } else {
            let ends: Vec<usize> = (1..=gridded.len()).collect();
            split_tasks(pool, grids, &ends, |g, grid| grid[0].sort(search, &systems[gridded[g]], &Serial));
        }
        let mut work = Vec::new();
        let (mut first, mut atoms, mut grid) = (0, 0, 0);
        for (b, system) in systems.iter().enumerate() {
            if gridded.get(grid) == Some(&b) {
                work.push(Work::Small(first..b));
                work.extend(
                    grids[grid]
                        .parts(atoms_per_part(system.atoms.len()))
                        .into_iter()
                        .map(|part| Work::Blocks { grid, part }),
                );
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

        if found.len() < work.len() {
            found.resize_with(work.len(), Found::default);
        }
        // A list that memory cannot hold is given up before it fills it.
        let total = AtomicUsize::new(0);
        let pairs = |rows: &[[u32; 2]]| rows.iter().map(|&[_, count]| count as usize).sum::<usize>();
        let full = || total.load(Ordering::Relaxed) > MOST_PAIRS;
        let ends: Vec<usize> = (1..=work.len()).collect();
        split_tasks(pool, found, &ends, |task, found| {
            let [found] = found else { return };
            let lock = || workers.lock().unwrap_or_else(PoisonError::into_inner);
            let free = lock().pop();
            let mut worker = free.unwrap_or_default();
            let Worker { near, own, candidates, scratch } = &mut worker;
            found.clear();
            match &work[task] {
                Work::Small(range) => {
                    for system in systems[range.clone()].iter().take_while(|_| !full()) {
                        let before = found.rows.len();
                        all_pairs::search(search, system, near, own, candidates, found);
                        total.fetch_add(pairs(&found.rows[before..]), Ordering::Relaxed);
                    }
                }
                Work::Blocks { grid, part } if !full() => {
                    let system = &systems[gridded[*grid]];
                    grids[*grid].search(part.clone(), search, system, candidates, scratch, found);
                    total.fetch_add(pairs(&found.rows), Ordering::Relaxed);
                }
                Work::Blocks { .. } => {}
            }
            lock().push(worker);
        });
        if full() {
            return Err(too_many(options.kind, &format!("more than {MOST_PAIRS}")));
        }
        Ok(&found[..work.len()])
    }
}

/// Whether a system is large enough for a grid, or the options prescribe one.
fn wants_grid(system: &System<'_>, options: &Options) -> bool {
    let images: f64 = (0..3)
        .filter(|&k| system.lattice.periodic[k])
        .map(|k| 1.0 + 2.0 * system.cutoff / system.lattice.heights[k])
        .product();
    !system.atoms.is_empty()
        && match options.method {
            Some(method) => method == Method::CellList,
            None => system.atoms.len() > 32 && system.atoms.len() as f64 * images > FEW_CANDIDATES,
        }
}
