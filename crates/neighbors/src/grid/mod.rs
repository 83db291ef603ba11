//! Points in the cells of a grid: built once, searched often, around any other points.
//!
//! Cells hash to as many buckets as there are points (Teschner et al., VMV 2003), so memory grows with the points and
//! not with the space they lie in; every cell says which one it is, so that those that share a bucket stay apart. The
//! grid is aligned with the periodic cell, which holds a whole number of its cells along each periodic axis; open axes
//! have no end. All decisions are made in f64 for the coordinates given, with the formula of the conventions,
//! r_ij = r_j − r_i + S · cell; results depend neither on the size of the cells nor on the number of threads.

mod call;
mod kernels;
mod search;

pub use search::{Capped, Nearest};

use crate::lattice::{Lattice, lattices, norm};
use call::Call;
use madelung_core::array::{Array, Buffer, DType, Data, Place, View};
use madelung_core::backend::Context;
use madelung_core::runtime::Kernel;
use madelung_core::runtime::Reason;
use madelung_core::structure::{Batch, GridSearch, PointGrid, Structure};
use madelung_core::{Error, Result};

/// The kernels that grids are made of and searched with.
pub fn kernels() -> [&'static Kernel; 5] {
    [
        &kernels::GRID_PLACE,
        &kernels::GRID_REORDER,
        &kernels::GRID_COUNT,
        &kernels::GRID_FILL,
        &kernels::GRID_CLOSEST,
    ]
}

/// A grid over the points of one or several systems.
#[derive(Debug)]
pub struct HashGrid {
    batch: Batch<'static>,
    lattices: Vec<Lattice>,
    cell_size: f64,
    points: WrappedPoints,
    /// Points by bucket, and where each bucket begins.
    order: Array,
    bounds: Array,
    systems: Systems,
    keys: Buffer<u32>,
    payload: Buffer<u32>,
    /// The last (re)build was not left half done by an error.
    whole: bool,
}

/// The data of each system that kernels read.
#[derive(Debug)]
struct Systems {
    rows: Array,
    inverse: Array,
    heights: Array,
    /// Cells per unit of a fractional coordinate.
    per: Array,
    /// Cells along periodic axes; 0 along open ones.
    cells: Array,
    /// The rounding error of a fractional coordinate.
    margin: Array,
    number: Array,
    grow: Array,
}

/// Points moved into their cell along the periodic axes.
#[derive(Debug)]
struct WrappedPoints {
    r: Array,
    s: Array,
    wrap: Array,
    cell: Array,
    bucket: Array,
    largest: Vec<f64>,
    /// The corners of the box around the points of each system.
    bounds: Vec<[[f64; 3]; 2]>,
}

/// Cells along one axis, at most: more only cost time.
const MOST_CELLS: f64 = (1u32 << 30) as f64;

impl HashGrid {
    /// A grid over `points` (N, 3), f32 or f64, in cells of about `cell_size`: a good one is the most frequent radius,
    /// or the distance to the k-th neighbour. `cell` (rows are lattice vectors) and `pbc` hold one entry for all
    /// systems of `batch` or one for each; without `pbc` all axes of a cell are periodic, without `cell` none are.
    ///
    /// # Errors
    /// `points`, where they are not finite, or farther than 2²⁹ boxes or 10¹⁵ cells from the origin, or not as many as
    /// the batch says; `cell_size`, where it is not a positive number; `cell` and `pbc`, as [`lattices`].
    pub fn build(
        context: &Context<'_>,
        points: &View<'_>,
        cell_size: f64,
        cell: Option<&[[[f64; 3]; 3]]>,
        pbc: Option<&[[bool; 3]]>,
        batch: Batch<'static>,
    ) -> Result<Self> {
        if !(cell_size > 0.0 && cell_size.is_finite()) {
            return Err(Error::argument("cell_size", "a positive number", cell_size.to_string()));
        }
        let found = lattices(cell, pbc, batch.systems())?;
        let one = |b: usize| if found.len() == 1 { found[0].clone() } else { found[b].clone() };
        let lattices: Vec<Lattice> = (0..batch.systems()).map(one).collect();
        let n = batch.atoms();
        let buckets = n.max(1).next_power_of_two().min(1 << 30);
        let mut grid = Self {
            systems: Systems::new(&lattices, cell_size, &batch),
            batch,
            lattices,
            cell_size,
            points: WrappedPoints::new(n, 0),
            order: Array::zeros(DType::I32, &[n]),
            bounds: Array::zeros(DType::I32, &[buckets + 1]),
            keys: Buffer::zeros(n),
            payload: Buffer::zeros(n),
            whole: false,
        };
        grid.rebuild(context, points)?;
        Ok(grid)
    }

    /// The grid of moved points, in the memory of this one: as many points, of these systems in these cells.
    ///
    /// # Errors
    /// `points`, as [`HashGrid::build`]; then the grid is to be rebuilt before it is searched.
    pub fn rebuild(&mut self, context: &Context<'_>, points: &View<'_>) -> Result<()> {
        self.whole = false;
        let buckets = self.bounds.shape()[0] - 1;
        self.points.place(context, "points", points, &self.batch, &self.systems, buckets)?;
        let buckets_of = self.points.bucket.view();
        let Data::I32(buckets_of) = buckets_of.data() else { unreachable!("buckets are int32") };
        for (n, (key, at)) in self.keys.iter_mut().zip(&mut *self.payload).enumerate() {
            (*key, *at) = (buckets_of[n] as u32, n as u32);
        }
        madelung_cpu::sort_by_key(context, &mut self.keys, &mut self.payload)?;
        let (Array::I32(order), Array::I32(bounds)) = (&mut self.order, &mut self.bounds) else {
            unreachable!("made as int32")
        };
        for (at, point) in order.iter_mut().zip(&self.payload) {
            *at = *point as i32;
        }
        madelung_cpu::segment_bounds(&self.keys, bounds)?;
        self.whole = true;
        Ok(())
    }

    /// Whether it was built from these points (N, 3): equal numbers, exactly.
    pub fn is_of(&self, points: &View<'_>) -> bool {
        self.whole && points.shape() == self.points.r.shape() && points.to_f64() == self.points.r.to_f64()
    }

    /// The batch of its points.
    pub fn batch(&self) -> &Batch<'static> {
        &self.batch
    }

    /// The number of its points.
    pub fn len(&self) -> usize {
        self.batch.atoms()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The size of its cells, as it was given.
    pub fn cell_size(&self) -> f64 {
        self.cell_size
    }
}

impl PointGrid for HashGrid {
    fn place(&self) -> Place {
        Place::Host
    }

    fn points(&self) -> usize {
        self.len()
    }

    fn systems(&self) -> usize {
        self.batch.systems()
    }

    fn query(&self, context: &Context<'_>, search: &GridSearch<'_>) -> Result<Box<dyn Structure>> {
        let (points, of_points) = search.points;
        let of_points = of_points.and_then(Structure::as_batch);
        if !self.is_of(points) || of_points.is_some_and(|of| of.ptr() != self.batch.ptr()) {
            let (expected, got) = Reason::Stale.text();
            return Err(Error::argument("grid", expected, got));
        }
        let single;
        let batch = match search.batch.and_then(Structure::as_batch) {
            Some(batch) => batch,
            None => {
                single = Batch::single(search.queries.shape().first().copied().unwrap_or(0))?;
                &single
            }
        };
        Ok(Box::new(self.query(context, search.queries, batch, search.radius)?))
    }
}

impl Systems {
    fn new(lattices: &[Lattice], cell_size: f64, batch: &Batch<'_>) -> Self {
        let n = lattices.len();
        let each = |f: &dyn Fn(&Lattice) -> Vec<f64>| lattices.iter().flat_map(f).collect::<Vec<_>>();
        let array = |shape: &[usize], data: &[f64]| {
            Array::from_f64(DType::F64, shape, data).expect("as many numbers as the shape says")
        };
        let cells = |l: &Lattice, k: usize| {
            if l.periodic[k] { (l.heights[k] / cell_size).floor().clamp(1.0, MOST_CELLS) } else { 0.0 }
        };
        let per =
            |l: &Lattice| (0..3).map(|k| if l.periodic[k] { cells(l, k) } else { 1.0 / cell_size }).collect();
        Self {
            rows: array(&[n, 3, 3], &each(&|l| l.rows.as_flattened().to_vec())),
            inverse: array(&[n, 3, 3], &each(&|l| l.inverse.as_flattened().to_vec())),
            heights: array(&[n, 3], &each(&|l| l.heights.to_vec())),
            per: array(&[n, 3], &each(&per)),
            cells: array(&[n, 3], &each(&|l| (0..3).map(|k| cells(l, k)).collect())).cast(DType::I32),
            // A point on the border of a cell counts to either side; coordinates are below 1 here.
            margin: array(&[n, 3], &each(&|l| l.periodic.map(|p| if p { 1e-9 } else { 0.0 }).to_vec())),
            number: Array::I32((0..n).map(|b| batch.members(b).len() as i32).collect::<Vec<_>>().into()),
            grow: array(&[n], &each(&|l| vec![1.0 + 1e-9 + l.slack(0.0, 1.0)])),
        }
    }
}

impl WrappedPoints {
    fn new(n: usize, systems: usize) -> Self {
        Self {
            r: Array::zeros(DType::F64, &[n, 3]),
            s: Array::zeros(DType::F64, &[n, 3]),
            wrap: Array::zeros(DType::I32, &[3 * n]),
            cell: Array::zeros(DType::I64, &[3 * n]),
            bucket: Array::zeros(DType::I32, &[n]),
            largest: vec![0.0; systems],
            bounds: vec![[[f64::INFINITY; 3], [f64::NEG_INFINITY; 3]]; systems],
        }
    }

    fn place(
        &mut self,
        context: &Context<'_>,
        name: &str,
        points: &View<'_>,
        batch: &Batch<'_>,
        systems: &Systems,
        buckets: usize,
    ) -> Result<()> {
        let n = batch.atoms();
        if points.shape() != [n, 3] || !matches!(points.dtype(), DType::F32 | DType::F64) {
            let got = format!("{} {:?}", points.dtype(), points.shape());
            return Err(Error::argument(
                name,
                format!("float32 or float64 [{n}, 3], as the batch says"),
                got,
            ));
        }
        let r = points.to_f64();
        self.largest = vec![0.0; batch.systems()];
        self.bounds = vec![[[f64::INFINITY; 3], [f64::NEG_INFINITY; 3]]; batch.systems()];
        for (i, r) in r.as_chunks::<3>().0.iter().enumerate() {
            if r.iter().any(|x| !x.is_finite()) {
                return Err(Error::argument(name, "finite coordinates", format!("{r:?} in row {i}")));
            }
            let b = batch.of(i);
            let [low, high] = &mut self.bounds[b];
            for k in 0..3 {
                self.largest[b] = self.largest[b].max(r[k].abs());
                (low[k], high[k]) = (low[k].min(r[k]), high[k].max(r[k]));
            }
        }
        self.r = Array::from_f64(DType::F64, &[n, 3], &r)?;
        let done = Call::new(&kernels::GRID_PLACE)
            .dim("Component", 3 * n)
            .batch("points", batch)
            .input("r", &self.r)
            .input("rows", &systems.rows)
            .input("inverse", &systems.inverse)
            .input("per", &systems.per)
            .input("cells", &systems.cells)
            .int(buckets as i64)
            .output("s", &mut self.s)
            .output("wrap", &mut self.wrap)
            .output("cell", &mut self.cell)
            .output("bucket", &mut self.bucket)
            .run(context);
        done.map_err(|_| {
            let expected = "coordinates within 2^29 boxes and 1e15 cells of the origin";
            Error::argument(name, expected, "some that are farther away")
        })
    }

    /// The largest distance between a point of this and one of another, in a system without images.
    fn span(&self, other: &Self, b: usize) -> f64 {
        let ([low, high], [other_low, other_high]) = (self.bounds[b], other.bounds[b]);
        norm(std::array::from_fn(|k| high[k].max(other_high[k]) - low[k].min(other_low[k])))
    }
}
