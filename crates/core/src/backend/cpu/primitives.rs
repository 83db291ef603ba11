//! Each primitive by the types of its arguments.

use super::{Cpu, fft, reduce, scan, sort};
use crate::array::{Array, Data, DataMut, View};
use crate::backend::Context;
use crate::backend::primitives::{Counts, CountsMut, Extremum, Keys, KeysMut, Primitives, Scan, Waves};
use crate::{Error, Result};

/// Components of a row.
fn width(shape: &[usize]) -> usize {
    shape.iter().skip(1).product()
}

fn integers<'a>(view: &View<'a>) -> Result<&'a [i32]> {
    match view.data() {
        Data::I32(d) => Ok(d),
        _ => Err(Error::argument("offsets", "int32", view.dtype().to_string())),
    }
}

fn mixed() -> Error {
    Error::argument("values", "arrays of one type, float32 or float64", "others")
}

/// Runs `work`, in the stream's order.
fn ordered<R: Send>(context: &Context<'_>, work: impl FnOnce() -> R + Send) -> R {
    let (mut work, mut done) = (Some(work), None);
    context.stream.run(&mut || done = work.take().map(|work| work()));
    done.expect("a stream runs what it is given")
}

/// Calls `$f(…)` for the type of `$values` and `$out`.
macro_rules! by_type {
    ($context:expr, ($values:expr, $out:expr), |$v:ident, $o:ident| $call:expr) => {
        ordered($context, || match ($values.data(), $out.data_mut()) {
            (Data::F32($v), Some(DataMut::F32($o))) => Ok($call),
            (Data::F64($v), Some(DataMut::F64($o))) => Ok($call),
            _ => Err(mixed()),
        })
    };
}

impl Primitives for Cpu {
    fn scan(&self, context: &Context<'_>, kind: Scan, counts: Counts<'_>, sums: CountsMut<'_>) -> Result<()> {
        ordered(context, || match (counts, sums) {
            (Counts::I32(n), CountsMut::I32(sums)) => scan::scan(context, kind, n, sums),
            (Counts::U32(n), CountsMut::U32(sums)) => scan::scan(context, kind, n, sums),
            (Counts::I64(n), CountsMut::I64(sums)) => scan::scan(context, kind, n, sums),
            _ => Err(Error::argument("sums", "the type of `counts`", "another")),
        })
    }

    fn sort_by_key(&self, context: &Context<'_>, keys: KeysMut<'_>, payload: &mut [u32]) -> Result<()> {
        ordered(context, || match keys {
            KeysMut::U32(keys) => sort::sort(context, keys, payload),
            KeysMut::U64(keys) => sort::sort(context, keys, payload),
        })
    }

    fn segment_bounds(&self, context: &Context<'_>, keys: Keys<'_>, offsets: &mut [i32]) -> Result<()> {
        ordered(context, || match keys {
            Keys::U32(keys) => sort::bounds(keys, offsets),
            Keys::U64(keys) => sort::bounds(keys, offsets),
        })
    }

    fn segmented_sum(
        &self,
        context: &Context<'_>,
        values: &View<'_>,
        offsets: &View<'_>,
        sums: &mut Array,
    ) -> Result<()> {
        let (width, offsets) = (width(values.shape()), integers(offsets)?);
        by_type!(context, (values, sums), |v, o| reduce::segmented_sum(context, v, width, offsets, o))
    }

    fn segmented_broadcast(
        &self,
        context: &Context<'_>,
        values: &View<'_>,
        offsets: &View<'_>,
        rows: &mut Array,
    ) -> Result<()> {
        let (width, offsets) = (width(values.shape()), integers(offsets)?);
        by_type!(context, (values, rows), |v, o| reduce::segmented_broadcast(context, v, width, offsets, o))
    }

    fn segmented_extremum(
        &self,
        context: &Context<'_>,
        which: Extremum,
        values: &View<'_>,
        offsets: &[i32],
        extrema: &mut Array,
        arguments: &mut [i32],
    ) -> Result<()> {
        let width = width(values.shape());
        by_type!(context, (values, extrema), |v, o| {
            reduce::segmented_extremum(context, which, v, width, offsets, o, arguments)
        })
    }

    fn sum(&self, context: &Context<'_>, values: &View<'_>, sum: &mut Array) -> Result<()> {
        let width = width(values.shape());
        by_type!(context, (values, sum), |v, o| reduce::sum(context, v, width, o))
    }

    fn broadcast(&self, context: &Context<'_>, value: &View<'_>, rows: &mut Array) -> Result<()> {
        let width = width(rows.shape()).max(1);
        by_type!(context, (value, rows), |v, o| o
            .chunks_exact_mut(width)
            .for_each(|row| row.copy_from_slice(v)))
    }

    fn real_fft(
        &self,
        context: &Context<'_>,
        mesh: [usize; 3],
        waves: Waves,
        values: &View<'_>,
        [re, im]: [&mut Array; 2],
    ) -> Result<()> {
        ordered(context, || match (values.data(), re.data_mut(), im.data_mut()) {
            (Data::F32(v), Some(DataMut::F32(re)), Some(DataMut::F32(im))) => {
                fft::forward(context, mesh, waves, v, [re, im])
            }
            (Data::F64(v), Some(DataMut::F64(re)), Some(DataMut::F64(im))) => {
                fft::forward(context, mesh, waves, v, [re, im])
            }
            _ => Err(mixed()),
        })
    }

    fn inverse_real_fft(
        &self,
        context: &Context<'_>,
        mesh: [usize; 3],
        waves: Waves,
        [re, im]: [&View<'_>; 2],
        values: &mut Array,
    ) -> Result<()> {
        ordered(context, || match (re.data(), im.data(), values.data_mut()) {
            (Data::F32(re), Data::F32(im), Some(DataMut::F32(v))) => {
                fft::inverse(context, mesh, waves, [re, im], v)
            }
            (Data::F64(re), Data::F64(im), Some(DataMut::F64(v))) => {
                fft::inverse(context, mesh, waves, [re, im], v)
            }
            _ => Err(mixed()),
        })
    }
}
