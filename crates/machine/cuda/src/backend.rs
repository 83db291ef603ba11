//! A stream of a device as a backend: each method a primitive, with scratch from the context's allocator.
#![expect(unsafe_code, reason = "addresses are those of arrays of the call")]

use crate::memory::{Arena, Rooms, address};
use crate::primitives::{self as raw, Compiled, Length, Queue, Segments, Status, WeightOf};
use crate::{Device, Stream, launch, validation};
use madelung_core::array::{Array, DType, Place, View};
use madelung_core::backend::{Backend, Check, Context, Launch, Meshes, Waves, Weights};
use madelung_core::runtime::SlotArray;
use madelung_core::structure::Structure;
use madelung_core::{Error, Result};
use std::any::Any;

/// Kernels on an NVIDIA GPU, in the order of a stream that its caller lends. Nothing is owned, nothing is waited for, and
/// all memory comes from the context's allocator, so that a call can be captured in a graph.
///
/// Errors that only a run shows wait in the device's record: see [`super::check`].
#[derive(Clone, Copy, Debug)]
pub struct Cuda {
    pub(crate) stream: Stream,
    pub(crate) atomics: bool,
    pub(crate) records_from: usize,
}

/// From so many partners on, records are made. They save 15 ps per pair on an H100, and the launch that makes them takes
/// 4 µs (both estimated: nothing was measured yet). 250,000 pairs pay for it; so many partners have about as many.
const RECORDS_FROM: usize = 4096;

impl Cuda {
    /// On a stream.
    pub fn new(stream: Stream) -> Self {
        Self { stream, atomics: false, records_from: RECORDS_FROM }
    }

    /// Backend with the faster, atomic way for sums of rows in elements that they share (meshes, and partners where
    /// [`Context::scatter`] asks for it): addends come in any order, so that the last bits differ from run to run.
    #[must_use]
    pub fn with_atomics(self, atomics: bool) -> Self {
        Self { atomics, ..self }
    }

    /// The backend with what rows gather at their partners put side by side ahead of launches with `columns` partners or
    /// more: a launch more, and fewer loads for each pair. The bits are the same.
    #[must_use]
    pub fn with_records_from(self, columns: usize) -> Self {
        Self { records_from: columns, ..self }
    }

    /// The stream.
    pub fn stream(&self) -> Stream {
        self.stream
    }

    /// The device.
    pub fn device(&self) -> &'static Device {
        self.stream.device()
    }
}

/// Texts of all of the backend's own work with all types, for those who compile them ahead.
pub fn programs() -> Vec<Compiled> {
    [validation::programs(), launch::programs(), raw::programs()].concat()
}

/// Number of bytes that an [`Arena`] needs for `work`, which gets a context and the stream of a device where nothing
/// happens; no driver is needed. Memory that a call asks for depends on types and sizes alone, so the number is that of
/// every call with the same ones.
///
/// # Errors
/// Those of `work`. Fourier transforms are one: only their device knows the memory that they need.
pub fn measure(work: impl FnOnce(&Context<'_>, Stream) -> Result<()>) -> Result<usize> {
    let arena = Arena::unbacked();
    let backend = Cuda::new(Stream::still());
    work(&Context { allocator: &arena, ..Context::new(&backend) }, backend.stream)?;
    Ok(arena.required())
}

/// Components of a row.
fn width(shape: &[usize]) -> usize {
    shape.iter().skip(1).product()
}

fn elements(view: &View<'_>) -> (DType, u64) {
    (view.dtype(), address(view))
}

impl Cuda {
    /// For calls with addresses of this module's.
    pub(crate) fn queue(&self) -> Queue {
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

impl Backend for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn place(&self) -> Place {
        Place::Cuda(self.device().ordinal())
    }

    fn launch(&self, context: &Context<'_>, launch: &mut Launch<'_>) -> Result<()> {
        launch::run(self, context, launch)
    }

    fn begin(
        &self,
        context: &Context<'_>,
        checks: &[(usize, Check<'_>)],
        fills: &mut [(&mut Array, f64)],
    ) -> Result<Option<Array>> {
        validation::begin(self.stream, context, checks, fills).map(Some)
    }

    fn end(
        &self,
        context: &Context<'_>,
        word: Array,
        results: &mut [&mut Array],
        call: &str,
        arguments: &dyn Fn() -> Vec<String>,
    ) -> Result<()> {
        validation::end(self.stream, context, word, results, call, arguments)
    }

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
        _name: &str,
        word: Option<(&Array, Option<usize>)>,
    ) -> Result<()> {
        let status = |(word, param): (&Array, Option<usize>)| {
            Status::new(address(&word.view()), param.map(|p| p as u32))
        };
        let status = word.map_or(Status::IGNORED, status);
        raw::cast(&self.queue(), elements(from), elements(&to.view()), Length::new(from.len()), status)
    }

    fn scale_rows(
        &self,
        _context: &Context<'_>,
        unit: &View<'_>,
        weights: &Weights<'_>,
        rows: &mut Array,
    ) -> Result<()> {
        let (of, factor) = match weights {
            Weights::Uniform(factor) => (WeightOf::None, *factor),
            Weights::Rows(w, factor) => (WeightOf::Row(elements(w)), *factor),
            Weights::Systems(w, of) => (WeightOf::System(elements(w), address(of), w.len()), 1.0),
        };
        let count = unit.shape().first().copied().unwrap_or(1);
        let (unit_at, to) = (address(unit), address(&rows.view()));
        let (count, width) = (Length::new(count), width(unit.shape()));
        raw::scale_rows(&self.queue(), unit.dtype(), [unit_at, to], count, width, (of, factor))
    }

    fn transpose(&self, context: &Context<'_>, list: &dyn Structure) -> Result<[Array; 3]> {
        let [Some(list_rows), Some(columns), Some(capacity)] = list.sizes() else {
            return Err(Error::argument("neighbor_list", "a pair list", list.describe()));
        };
        let of = |array: SlotArray| Ok(list.array(array)?.map_or(0, |view| address(&view)));
        let starts = context.allocator.room(DType::I64, &[columns + 1])?;
        let rows = context.allocator.room(DType::I32, &[capacity])?;
        let entries = context.allocator.room(DType::I32, &[capacity])?;
        let from = raw::List {
            starts: of(SlotArray::Start)?,
            ends: of(SlotArray::End)?,
            rows: list_rows,
            others: of(SlotArray::Column)?,
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
        meshes: &[Meshes],
        waves: Waves,
        values: &View<'_>,
        [re, im]: [&mut Array; 2],
    ) -> Result<()> {
        let (queue, dtype) = (self.queue(), values.dtype());
        let runs = placed(meshes, values);
        let mut rooms = Rooms::new(context);
        let scratch = rooms.scratch(scratch_of(&queue, dtype, meshes)?)?;
        let aligned = rooms.scratch(moved(&runs))?;
        for Run { of, values, bytes, wave, is_aligned } in runs {
            let from = if is_aligned { values } else { aligned.address };
            if !is_aligned {
                queue.copy(from, values, bytes)?;
            }
            let to = [re.view(), im.view()].map(|part| address(&part) + wave);
            raw::real_fft(&queue, waves, (dtype, from), of.sizes, of.systems, to, scratch)?;
        }
        Ok(())
    }

    fn inverse_real_fft(
        &self,
        context: &Context<'_>,
        meshes: &[Meshes],
        waves: Waves,
        [re, im]: [&View<'_>; 2],
        values: &mut Array,
    ) -> Result<()> {
        let (queue, dtype) = (self.queue(), values.dtype());
        let runs = placed(meshes, &values.view());
        let mut rooms = Rooms::new(context);
        let scratch = rooms.scratch(scratch_of(&queue, dtype, meshes)?)?;
        let aligned = rooms.scratch(moved(&runs))?;
        for Run { of, values, bytes, wave, is_aligned } in runs {
            let from = [re, im].map(|part| address(part) + wave);
            let to = if is_aligned { values } else { aligned.address };
            raw::inverse_real_fft(&queue, waves, from, of.sizes, of.systems, (dtype, to), scratch)?;
            if !is_aligned {
                queue.copy(values, to, bytes)?;
            }
        }
        Ok(())
    }
}

/// The bytes of scratch for the transforms of meshes, one size after the other.
fn scratch_of(queue: &Queue, dtype: DType, meshes: &[Meshes]) -> Result<usize> {
    meshes.iter().try_fold(0, |bytes, of_size| {
        Ok(bytes.max(raw::fft_scratch(queue, dtype, of_size.sizes, of_size.systems)?))
    })
}

/// Meshes of one size in the memory of a call.
struct Run<'m> {
    of: &'m Meshes,
    /// The address and the bytes of their nodes.
    values: u64,
    bytes: usize,
    /// The bytes ahead of their waves.
    wave: u64,
    /// Whether they lie where cuFFT takes them, which reads reals two by two; a mesh of an odd size shifts others.
    is_aligned: bool,
}

/// Meshes of each size, one after the other.
fn placed<'m>(meshes: &'m [Meshes], values: &View<'_>) -> Vec<Run<'m>> {
    let size = values.dtype().size();
    let mut next = [address(values), 0];
    let runs = meshes.iter().filter_map(|of| {
        let [values, wave] = next;
        let [nodes, waves] = of.counts()?;
        next = [values + (nodes * size) as u64, wave + (waves * size) as u64];
        Some(Run {
            of,
            values,
            bytes: nodes * size,
            wave,
            is_aligned: values.is_multiple_of(2 * size as u64),
        })
    });
    runs.collect()
}

/// The bytes of the most nodes that are moved to where cuFFT takes them.
fn moved(runs: &[Run<'_>]) -> usize {
    runs.iter().filter(|run| !run.is_aligned).map(|run| run.bytes).max().unwrap_or(0)
}
