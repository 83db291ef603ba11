//! Searches around other points.

use super::call::Call;
use super::{HashGrid, WrappedPoints, kernels};
use madelung_core::array::{Array, Buffer, DType, Data, View, collected, filled};
use madelung_core::backend::Context;
use madelung_core::backend::Scan;
use madelung_core::runtime::Kernel;
use madelung_core::stop::caught;
use madelung_core::structure::Batch;
use madelung_core::structure::pairs::{Kind, PairList, Shifts};
use madelung_core::{Error, Result};

/// A search with a capacity: the true counts, and the list where it fits.
#[derive(Debug)]
pub struct Capped {
    /// The offsets of each query's pairs, shape (M + 1,): true for any capacity.
    pub neighbor_ptr: Vec<i64>,
    /// The list, or an error with the capacity that is needed.
    pub list: Result<PairList<'static>>,
}

/// The nearest points of each query, by distance, then index, then S.
#[derive(Clone, Debug, PartialEq)]
pub struct Nearest {
    /// Points, then the fill value, shape (M, k).
    pub indices: Vec<i32>,
    /// |r_j − r_i + S · cell|, then infinity, shape (M, k).
    pub distances: Vec<f64>,
    /// Images S, then zeros, shape (M, k, 3).
    pub shifts: Vec<[i32; 3]>,
    /// The number of points of each query, shape (M,).
    pub counts: Vec<i32>,
}

/// Images of all points of a system within reach, at most.
const MOST_IMAGES: f64 = (1u64 << 32) as f64;

impl HashGrid {
    /// Every image of every point within `radius` of each of `queries` (M, 3): |r_j − r_i + S · cell| ≤ radius, rows
    /// sorted by i, then j, then S. Queries, whose systems `batch` says, see the points of their own system, those at
    /// distance zero too.
    ///
    /// # Errors
    /// `queries`, as the points of [`HashGrid::build`]; `batch_idx`, where it has other systems than the points;
    /// `radius`, where it is negative or not finite, or reaches over more images than can be addressed.
    pub fn query(
        &self,
        context: &Context<'_>,
        queries: &View<'_>,
        batch: &Batch<'_>,
        radius: f64,
    ) -> Result<PairList<'static>> {
        self.query_capped(context, queries, batch, radius, usize::MAX)?.list
    }

    /// [`HashGrid::query`] with room for `capacity` pairs.
    ///
    /// # Errors
    /// As there; a capacity that is too small is the error of the list alone.
    pub fn query_capped(
        &self,
        context: &Context<'_>,
        queries: &View<'_>,
        batch: &Batch<'_>,
        radius: f64,
        capacity: usize,
    ) -> Result<Capped> {
        if !(radius >= 0.0 && radius.is_finite()) {
            return Err(Error::argument("radius", "a finite number ≥ 0", radius.to_string()));
        }
        for (b, lattice) in self.lattices.iter().enumerate() {
            let images =
                (0..3).filter(|k| lattice.periodic[*k]).map(|k| 2.0 * radius / lattice.heights[k] + 1.0);
            if self.batch.members(b).len() as f64 * images.product::<f64>() > MOST_IMAGES {
                let expected = "a radius within reach of fewer than 2^32 images of the points";
                return Err(Error::argument("radius", expected, format!("{radius} for system {b}")));
            }
        }
        caught(
            || "radius".into(),
            || {
                let placed = self.place(context, queries, batch)?;
                let slack = self.slack(&placed);
                let m = batch.atoms();
                let mut counts = Array::zeros(DType::I64, &[m]);
                let call = self.call(&kernels::GRID_COUNT, &placed, batch, &slack).real(radius);
                call.output("found", &mut counts).run(context)?;
                let counts = counts.view();
                let Data::I64(counts) = counts.data() else { unreachable!("made as int64") };
                let mut ptr = filled(m + 1, 0i64);
                madelung_cpu::scan(context, Scan::Exclusive, counts, &mut ptr)?;
                let total = ptr[m] as usize;
                if total > capacity {
                    let error = Error::argument(
                        "capacity",
                        format!("at least {total}, the number of pairs"),
                        capacity.to_string(),
                    );
                    return Ok(Capped { neighbor_ptr: ptr, list: Err(error) });
                }
                let list = self.fill(context, &placed, batch, &slack, radius, &ptr);
                Ok(Capped { neighbor_ptr: ptr, list })
            },
        )
    }

    fn fill(
        &self,
        context: &Context<'_>,
        placed: &WrappedPoints,
        batch: &Batch<'_>,
        slack: &Array,
        radius: f64,
        ptr: &[i64],
    ) -> Result<PairList<'static>> {
        let total = ptr[ptr.len() - 1] as usize;
        if total > u32::MAX as usize {
            let expected = format!("a radius within which there are at most {} pairs", u32::MAX);
            return Err(Error::argument("radius", expected, format!("{total} pairs")));
        }
        let offsets = Array::from(ptr.to_vec());
        let [mut found, mut other] = [0, 1].map(|_| Array::zeros(DType::I32, &[total]));
        let [mut found_shift, mut shift] = [0, 1].map(|_| Array::zeros(DType::I32, &[3 * total]));
        let mut key = Array::zeros(DType::I64, &[total]);
        self.call(&kernels::GRID_FILL, placed, batch, slack)
            .dim("Offset", ptr.len())
            .dim("Pair", total)
            .dim("PairComponent", 3 * total)
            .real(radius)
            .input("ptr", &offsets)
            .output("other", &mut found)
            .output("shift", &mut found_shift)
            .output("key", &mut key)
            .run(context)?;
        let keys = key.view();
        let Data::I64(keys) = keys.data() else { unreachable!("made as int64") };
        let mut keys: Buffer<u64> = keys.iter().map(|key| *key as u64).collect();
        let mut payload: Buffer<u32> = (0..total as u32).collect();
        // The images of a point were found in the order of S, which a stable sort keeps.
        madelung_cpu::sort_by_key(context, &mut keys, &mut payload)?;
        let order = Array::I64(payload.iter().map(|at| i64::from(*at)).collect::<Buffer<_>>().into());
        let found_shift = View::new(found_shift.view().data(), &[total, 3])?.to_array()?;
        Call::new(&kernels::GRID_REORDER)
            .dim("Pair", total)
            .dim("Component", 3 * total)
            .input("order", &order)
            .input("found", &found)
            .input("found_shift", &found_shift)
            .output("other", &mut other)
            .output("shift", &mut shift)
            .run(context)?;
        let (others, shifts) = (ints(other), ints(shift));
        PairList::from_search(
            ptr.to_vec(),
            others,
            Shifts::Triples(Buffer::from(shifts.as_chunks().0).into()),
            self.len(),
            Kind::Directed,
        )
    }

    /// The `k` nearest points of each of `queries` (M, 3), images counted as points of their own, by distance, then
    /// index, then S. Where a system has fewer (open along all axes, or without points), the rest is `fill_value`, and
    /// without one that is an error.
    ///
    /// # Errors
    /// `queries` and `batch_idx`, as [`HashGrid::query`]; `k`, where there are fewer points and no fill value;
    /// `fill_value`, where it is the index of a point.
    pub fn nearest(
        &self,
        context: &Context<'_>,
        queries: &View<'_>,
        batch: &Batch<'_>,
        k: usize,
        fill_value: Option<i32>,
    ) -> Result<Nearest> {
        let m = batch.atoms();
        if let Some(fill) =
            fill_value.filter(|fill| usize::try_from(*fill).is_ok_and(|fill| fill < self.len()))
        {
            let expected = format!("a number that is not one of the {} indices", self.len());
            return Err(Error::argument("fill_value", expected, fill.to_string()));
        }
        let Some(total) =
            m.checked_mul(k).filter(|n| n.checked_mul(3).is_some_and(|n| n <= i32::MAX as usize))
        else {
            return Err(Error::argument("k", "numbers of neighbours that can be addressed", k.to_string()));
        };
        caught(
            || "k".into(),
            || {
                let placed = self.place(context, queries, batch)?;
                let slack = self.slack(&placed);
                let systems = self.batch.systems();
                let begins: Vec<f64> = (0..systems).map(|b| self.first_radius(b, k)).collect();
                let begin = Array::from(begins);
                let limits: Vec<f64> = (0..systems)
                    .map(|b| {
                        let open = self.lattices[b].periodic == [false; 3];
                        // Rounded up: the farthest point is within it.
                        if open { self.points.span(&placed, b) * (1.0 + 1e-12) } else { f64::MAX }
                    })
                    .collect();
                let limit = Array::from(limits);
                let mut counts = Array::zeros(DType::I32, &[m]);
                let mut index = Array::filled(DType::I32, &[total], f64::from(fill_value.unwrap_or(-1)));
                let mut distance = Array::filled(DType::F64, &[total], f64::INFINITY);
                let mut shift = Array::zeros(DType::I32, &[3 * total]);
                self.call(&kernels::GRID_CLOSEST, &placed, batch, &slack)
                    .dim("Found", total)
                    .dim("FoundComponent", 3 * total)
                    .int(k as i64)
                    .input("begin", &begin)
                    .input("limit", &limit)
                    .output("found", &mut counts)
                    .output("index", &mut index)
                    .output("distance", &mut distance)
                    .output("shift", &mut shift)
                    .run(context)?;
                let (counts, mut indices, shifts) = (ints(counts), ints(index), ints(shift));
                let mut shifts = collected(shifts.as_chunks().0.iter().copied());
                let mut distances = distance.to_f64()?;
                for (i, count) in counts.iter().enumerate().filter(|(_, count)| (**count as usize) < k) {
                    let Some(fill) = fill_value else {
                        let expected =
                            format!("at most {count}, the points that query {i} has (or a fill value)");
                        return Err(Error::argument("k", expected, k.to_string()));
                    };
                    // Entries of an earlier, smaller search are overwritten.
                    let rest = i * k + *count as usize..(i + 1) * k;
                    indices[rest.clone()].fill(fill);
                    distances[rest.clone()].fill(f64::INFINITY);
                    shifts[rest].fill([0; 3]);
                }
                Ok(Nearest { indices: indices.into(), distances, shifts, counts: counts.into() })
            },
        )
    }

    /// A radius within which k points are likely, and many more are not.
    fn first_radius(&self, b: usize, k: usize) -> f64 {
        let lattice = &self.lattices[b];
        // The number of images of the system that hold k points.
        let boxes = (k as f64 + 1.0) / self.batch.members(b).len().max(1) as f64;
        let along_one =
            (0..3).filter(|axis| lattice.periodic[*axis]).map(|axis| (boxes + 1.0) * lattice.heights[axis]);
        let mut radius = along_one.fold(self.cell_size, f64::min);
        if lattice.periodic == [true; 3] {
            let volume = nalgebra::Matrix3::from_fn(|r, c| lattice.rows[r][c]).determinant().abs();
            radius = radius.min((0.75 * boxes * volume / std::f64::consts::PI).cbrt());
        }
        radius
    }

    fn place(&self, context: &Context<'_>, queries: &View<'_>, batch: &Batch<'_>) -> Result<WrappedPoints> {
        if batch.systems() != self.batch.systems() {
            let expected = format!("queries in {} systems, as the points are", self.batch.systems());
            return Err(Error::argument("batch_idx", expected, batch.systems().to_string()));
        }
        let mut placed = WrappedPoints::new(batch.atoms(), batch.systems());
        placed.place(context, "queries", queries, batch, &self.systems, 1)?;
        Ok(placed)
    }

    /// The error of lengths computed from wrapped coordinates, for each system.
    fn slack(&self, queries: &WrappedPoints) -> Array {
        let one = |b: usize| {
            let largest = self.points.largest[b].max(queries.largest[b]);
            self.lattices[b].slack(largest, 0.0)
        };
        let slack: Vec<f64> = (0..self.batch.systems()).map(one).collect();
        Array::from(slack)
    }

    /// The common arguments of all searches.
    fn call<'a>(
        &'a self,
        kernel: &'static Kernel,
        queries: &'a WrappedPoints,
        batch: &'a Batch<'a>,
        slack: &'a Array,
    ) -> Call<'a> {
        let (points, systems) = (&self.points, &self.systems);
        Call::new(kernel)
            .dim("QueryComponent", 3 * batch.atoms())
            .dim("Component", 3 * self.len())
            .dim("Bound", self.bounds.shape()[0])
            .batch("queries", batch)
            .batch("points", &self.batch)
            .input("q", &queries.r)
            .input("query_s", &queries.s)
            .input("query_wrap", &queries.wrap)
            .input("r", &points.r)
            .input("s", &points.s)
            .input("wrap", &points.wrap)
            .input("cell", &points.cell)
            .input("order", &self.order)
            .input("bounds", &self.bounds)
            .input("rows", &systems.rows)
            .input("heights", &systems.heights)
            .input("per", &systems.per)
            .input("cells", &systems.cells)
            .input("margin", &systems.margin)
            .input("number", &systems.number)
            .input("slack", slack)
            .input("grow", &systems.grow)
    }
}

fn ints(array: Array) -> Buffer<i32> {
    match array {
        Array::I32(a) => a.into(),
        _ => unreachable!("made as int32"),
    }
}
