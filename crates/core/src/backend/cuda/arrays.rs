//! What the core does to arrays of a device: each a primitive, with scratch from the context's allocator.
#![expect(unsafe_code, reason = "addresses are those of arrays of the call")]

use super::backend::Cuda;
use super::checks;
use super::memory::{Rooms, address};
use super::primitives::{self as raw, Length, Queue, Segments, Status, WeightOf};
use super::search;
use crate::array::{Array, DType, View};
use crate::backend::Context;
use crate::backend::primitives::{Counts, CountsMut, Extremum, Keys, KeysMut, Primitives, Scan, Waves};
use crate::backend::remote::{Check, GridSearch, Remote, Weights};
use crate::device::DevicePairs;
use crate::{Error, Result};

/// Components of a row.
fn width(shape: &[usize]) -> usize {
    shape.iter().skip(1).product()
}

fn elements(view: &View<'_>) -> (DType, u64) {
    (view.dtype(), address(view))
}

impl Remote for Cuda {
    fn fill(&self, _context: &Context<'_>, array: &mut Array, x: f64) -> Result<()> {
        let view = array.view();
        raw::fill(&self.queue(), view.dtype(), address(&view), Length::new(view.len()), x)
    }

    fn add(&self, _context: &Context<'_>, to: &mut Array, from: &Array) -> Result<()> {
        let (to, from) = (to.view(), from.view());
        if (to.dtype(), to.shape(), to.place()) != (from.dtype(), from.shape(), from.place()) {
            let show = |a: &View<'_>| format!("{} {:?} of {}", a.dtype(), a.shape(), a.place());
            return Err(Error::argument("other", show(&to), show(&from)));
        }
        raw::add(&self.queue(), to.dtype(), address(&to), address(&from), Length::new(to.len()))
    }

    fn cast(
        &self,
        _context: &Context<'_>,
        from: &View<'_>,
        to: &mut Array,
        word: Option<&Array>,
        param: Option<usize>,
    ) -> Result<()> {
        let status =
            word.map_or(Status::IGNORED, |word| Status::new(address(&word.view()), param.map(|p| p as u32)));
        raw::cast(&self.queue(), elements(from), elements(&to.view()), Length::new(from.len()), status)
    }

    fn scale_rows(
        &self,
        context: &Context<'_>,
        unit: &View<'_>,
        weights: &Weights<'_>,
        rows: &mut Array,
    ) -> Result<()> {
        let mut rooms = Rooms::new(context);
        let (dtype, values, of) = match weights {
            Weights::Uniform(x) => {
                let one = rooms.open(1)?;
                raw::fill(&self.queue(), DType::F64, one, Length::new(1), *x)?;
                (DType::F64, one, WeightOf::All)
            }
            Weights::Rows(w) => (w.dtype(), address(w), WeightOf::Row),
            Weights::Systems(w, of) => (w.dtype(), address(w), WeightOf::System(address(of), w.len())),
        };
        let count = unit.shape().first().copied().unwrap_or(1);
        let (unit_at, to) = (address(unit), address(&rows.view()));
        let weights = raw::Weights { dtype, values, of };
        raw::scale_rows(
            &self.queue(),
            unit.dtype(),
            [unit_at, to],
            Length::new(count),
            width(unit.shape()),
            weights,
        )
    }

    fn transpose(&self, context: &Context<'_>, list: &DevicePairs<'_>) -> Result<[Array; 3]> {
        let (capacity, columns) = (list.capacity(), list.columns());
        let starts = context.allocator.room(DType::I64, &[columns + 1])?;
        let rows = context.allocator.room(DType::I32, &[capacity])?;
        let entries = context.allocator.room(DType::I32, &[capacity])?;
        let from = raw::List {
            starts: address(list.starts()),
            ends: address(list.ends()),
            rows: list.rows(),
            others: address(list.others()),
            columns,
            entries: Length::new(capacity),
        };
        let [starts_at, rows_at, entries_at] = [&starts, &rows, &entries].map(|array| address(&array.view()));
        let to = raw::Transposed { starts: starts_at, rows: rows_at, entries: entries_at, capacity };
        let mut rooms = Rooms::new(context);
        let scratch = rooms.scratch(raw::transpose_scratch(capacity))?;
        raw::transpose(&self.queue(), from, to, Status::IGNORED, scratch)?;
        Ok([starts, rows, entries])
    }

    fn query(&self, context: &Context<'_>, asked: &GridSearch<'_>, word: &Array) -> Result<[Array; 3]> {
        search::query(self, context, asked, word)
    }

    fn begin(
        &self,
        context: &Context<'_>,
        checks: &[(usize, Check<'_>)],
        fills: &[(&Array, f64)],
    ) -> Result<Array> {
        checks::begin(self.stream, context, checks, fills)
    }

    fn end(
        &self,
        context: &Context<'_>,
        word: Array,
        results: &mut [&mut Array],
        call: &str,
        arguments: &dyn Fn() -> Vec<String>,
    ) -> Result<()> {
        checks::end(self.stream, context, word, results, call, arguments)
    }
}

impl Cuda {
    /// For calls with addresses of this module's.
    pub(super) fn queue(&self) -> Queue {
        // SAFETY: addresses and lengths are those of arrays that came to a call whose arguments were checked, or of rooms
        // that were opened for it, and work on them is in the order of this stream.
        unsafe { Queue::new(self.stream) }
    }

    fn segments(&self, offsets: &View<'_>, rows: usize) -> Segments {
        Segments::Offsets { offsets: address(offsets), count: offsets.len() - 1, rows }
    }

    fn sum_of(
        &self,
        context: &Context<'_>,
        values: &View<'_>,
        segments: Segments,
        sums: &mut Array,
    ) -> Result<()> {
        let rows = values.shape().first().copied().unwrap_or(0);
        let width = width(values.shape());
        let mut rooms = Rooms::new(context);
        let scratch = rooms.scratch(raw::reduce_scratch(rows, width))?;
        let (dtype, from) = elements(values);
        raw::segmented_sum(&self.queue(), dtype, from, width, segments, address(&sums.view()), scratch)
    }
}

/// The primitives whose arguments are slices of the host have no place here: see [`super::primitives`].
fn of_the_host(what: &str) -> Error {
    Error::Unsupported(format!("{what} of the host on a device: `backend::cuda::primitives` takes addresses"))
}

impl Primitives for Cuda {
    fn scan(&self, _: &Context<'_>, _: Scan, _: Counts<'_>, _: CountsMut<'_>) -> Result<()> {
        Err(of_the_host("counts"))
    }

    fn sort_by_key(&self, _: &Context<'_>, _: KeysMut<'_>, _: &mut [u32]) -> Result<()> {
        Err(of_the_host("keys"))
    }

    fn segment_bounds(&self, _: &Context<'_>, _: Keys<'_>, _: &mut [i32]) -> Result<()> {
        Err(of_the_host("keys"))
    }

    fn segmented_sum(
        &self,
        context: &Context<'_>,
        values: &View<'_>,
        offsets: &View<'_>,
        sums: &mut Array,
    ) -> Result<()> {
        let rows = values.shape().first().copied().unwrap_or(0);
        self.sum_of(context, values, self.segments(offsets, rows), sums)
    }

    fn segmented_broadcast(
        &self,
        _context: &Context<'_>,
        values: &View<'_>,
        offsets: &View<'_>,
        rows: &mut Array,
    ) -> Result<()> {
        let to = rows.view();
        let segments = self.segments(offsets, to.shape().first().copied().unwrap_or(0));
        let (dtype, from) = elements(values);
        raw::segmented_broadcast(&self.queue(), dtype, from, width(to.shape()), segments, address(&to))
    }

    fn segmented_extremum(
        &self,
        _: &Context<'_>,
        _: Extremum,
        _: &View<'_>,
        _: &[i32],
        _: &mut Array,
        _: &mut [i32],
    ) -> Result<()> {
        Err(of_the_host("offsets"))
    }

    fn sum(&self, context: &Context<'_>, values: &View<'_>, sum: &mut Array) -> Result<()> {
        let rows = values.shape().first().copied().unwrap_or(0);
        self.sum_of(context, values, Segments::All(Length::new(rows)), sum)
    }

    fn broadcast(&self, _context: &Context<'_>, value: &View<'_>, rows: &mut Array) -> Result<()> {
        let to = rows.view();
        let count = to.shape().first().copied().unwrap_or(0);
        let (dtype, from) = elements(value);
        let segments = Segments::All(Length::new(count));
        raw::segmented_broadcast(&self.queue(), dtype, from, width(to.shape()), segments, address(&to))
    }

    fn real_fft(
        &self,
        context: &Context<'_>,
        mesh: [usize; 3],
        waves: Waves,
        values: &View<'_>,
        [re, im]: [&mut Array; 2],
    ) -> Result<()> {
        let (queue, systems) = (self.queue(), values.len() / mesh.iter().product::<usize>());
        let mut rooms = Rooms::new(context);
        let scratch = rooms.scratch(raw::fft_scratch(&queue, values.dtype(), mesh, systems)?)?;
        let to = [address(&re.view()), address(&im.view())];
        raw::real_fft(&queue, waves, elements(values), mesh, systems, to, scratch)
    }

    fn inverse_real_fft(
        &self,
        context: &Context<'_>,
        mesh: [usize; 3],
        waves: Waves,
        [re, im]: [&View<'_>; 2],
        values: &mut Array,
    ) -> Result<()> {
        let to = values.view();
        let (queue, systems) = (self.queue(), to.len() / mesh.iter().product::<usize>());
        let mut rooms = Rooms::new(context);
        let scratch = rooms.scratch(raw::fft_scratch(&queue, to.dtype(), mesh, systems)?)?;
        raw::inverse_real_fft(
            &queue,
            waves,
            [address(re), address(im)],
            mesh,
            systems,
            elements(&to),
            scratch,
        )
    }
}
