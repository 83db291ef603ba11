//! The processor as a backend.

use crate::{Cpu, fft, launch, reduce};
use madelung_core::array::{Array, DType, Data, DataMut, Place, View};
use madelung_core::backend::{Backend, Check, Context, Launch, Meshes, Waves, Weights};
use madelung_core::structure::Structure;
use madelung_core::{Error, Result};
use std::any::Any;

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

/// Calls `$f(…)` for the type of `$values` and `$out`.
macro_rules! by_type {
    (($values:expr, $out:expr), |$v:ident, $o:ident| $call:expr) => {
        match ($values.data(), $out.data_mut()) {
            (Data::F32($v), Some(DataMut::F32($o))) => Ok($call),
            (Data::F64($v), Some(DataMut::F64($o))) => Ok($call),
            _ => Err(mixed()),
        }
    };
}

impl Backend for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn place(&self) -> Place {
        Place::Host
    }

    fn launch(&self, context: &Context<'_>, launch: &mut Launch<'_>) -> Result<()> {
        launch::run(context, launch, self.isa())
    }

    fn begin(
        &self,
        context: &Context<'_>,
        _checks: &[(usize, Check<'_>)],
        fills: &mut [(&mut Array, f64)],
    ) -> Result<Option<Array>> {
        for (array, x) in fills {
            self.fill(context, array, *x)?;
        }
        Ok(None)
    }

    fn end(
        &self,
        _context: &Context<'_>,
        _word: Array,
        _results: &mut [&mut Array],
        call: &str,
        _arguments: &dyn Fn() -> Vec<String>,
    ) -> Result<()> {
        Err(Error::Unsupported(format!("{call}: the CPU has no status word in memory")))
    }

    fn fill(&self, _context: &Context<'_>, array: &mut Array, x: f64) -> Result<()> {
        array.fill(x)
    }

    fn add(&self, _context: &Context<'_>, to: &mut Array, from: &Array) -> Result<()> {
        to.add(from)
    }

    fn cast(
        &self,
        _context: &Context<'_>,
        from: &View<'_>,
        to: &mut Array,
        name: &str,
        _word: Option<(&Array, Option<usize>)>,
    ) -> Result<()> {
        match to.dtype() {
            DType::I32 => to.set_cast(Data::I32(&from.to_i32(name)?)),
            _ => to.set_cast(from.data()),
        }
    }

    fn scale_rows(
        &self,
        _context: &Context<'_>,
        unit: &View<'_>,
        weights: &Weights<'_>,
        rows: &mut Array,
    ) -> Result<()> {
        let width = (unit.len() / unit.shape().first().copied().unwrap_or(1).max(1)).max(1);
        let of_rows: Vec<f64> = match weights {
            Weights::Uniform(w) => vec![*w; unit.len().div_ceil(width)],
            Weights::Rows(w, factor) => w.to_f64()?.into_iter().map(|w| factor * w).collect(),
            Weights::Systems(w, of) => {
                let (w, of) = (w.to_f64()?, of.to_i32("batch_idx")?);
                of.iter().map(|b| w[*b as usize]).collect()
            }
        };
        let weight = |n: usize| of_rows[n / width];
        match (unit.data(), rows.data_mut()) {
            (Data::F32(unit), Some(DataMut::F32(rows))) => {
                for (n, (x, u)) in rows.iter_mut().zip(unit).enumerate() {
                    *x = (weight(n) * f64::from(*u)) as f32;
                }
                Ok(())
            }
            (Data::F64(unit), Some(DataMut::F64(rows))) => {
                for (n, (x, u)) in rows.iter_mut().zip(unit).enumerate() {
                    *x = weight(n) * u;
                }
                Ok(())
            }
            _ => Err(mixed()),
        }
    }

    fn transpose(&self, _context: &Context<'_>, _list: &dyn Structure) -> Result<[Array; 3]> {
        Err(Error::argument("neighbor_list", "a list of the host", "one in the memory of a device"))
    }

    fn segmented_sum(
        &self,
        context: &Context<'_>,
        values: &View<'_>,
        offsets: &View<'_>,
        sums: &mut Array,
    ) -> Result<()> {
        let (width, offsets) = (width(values.shape()), integers(offsets)?);
        by_type!((values, sums), |v, o| reduce::segmented_sum(context, v, width, offsets, o))
    }

    fn segmented_broadcast(
        &self,
        context: &Context<'_>,
        values: &View<'_>,
        offsets: &View<'_>,
        rows: &mut Array,
    ) -> Result<()> {
        let (width, offsets) = (width(values.shape()), integers(offsets)?);
        by_type!((values, rows), |v, o| reduce::segmented_broadcast(context, v, width, offsets, o))
    }

    fn sum(&self, context: &Context<'_>, values: &View<'_>, sum: &mut Array) -> Result<()> {
        let width = width(values.shape());
        by_type!((values, sum), |v, o| reduce::sum(context, v, width, o))
    }

    fn broadcast(&self, _context: &Context<'_>, value: &View<'_>, rows: &mut Array) -> Result<()> {
        let width = width(rows.shape()).max(1);
        by_type!((value, rows), |v, o| o.chunks_exact_mut(width).for_each(|row| row.copy_from_slice(v)))
    }

    fn real_fft(
        &self,
        context: &Context<'_>,
        meshes: &[Meshes],
        waves: Waves,
        values: &View<'_>,
        [re, im]: [&mut Array; 2],
    ) -> Result<()> {
        match (values.data(), re.data_mut(), im.data_mut()) {
            (Data::F32(v), Some(DataMut::F32(re)), Some(DataMut::F32(im))) => {
                fft::forward(context, self.isa(), meshes, waves, v, [re, im]);
                Ok(())
            }
            (Data::F64(v), Some(DataMut::F64(re)), Some(DataMut::F64(im))) => {
                fft::forward(context, self.isa(), meshes, waves, v, [re, im]);
                Ok(())
            }
            _ => Err(mixed()),
        }
    }

    fn inverse_real_fft(
        &self,
        context: &Context<'_>,
        meshes: &[Meshes],
        waves: Waves,
        [re, im]: [&View<'_>; 2],
        values: &mut Array,
    ) -> Result<()> {
        match (re.data(), im.data(), values.data_mut()) {
            (Data::F32(re), Data::F32(im), Some(DataMut::F32(v))) => {
                fft::inverse(context, self.isa(), meshes, waves, [re, im], v);
                Ok(())
            }
            (Data::F64(re), Data::F64(im), Some(DataMut::F64(v))) => {
                fft::inverse(context, self.isa(), meshes, waves, [re, im], v);
                Ok(())
            }
            _ => Err(mixed()),
        }
    }

    fn complex_fft(
        &self,
        context: &Context<'_>,
        sizes: [usize; 3],
        inverse: bool,
        [re, im]: [&mut Array; 2],
    ) -> Result<()> {
        match (re.data_mut(), im.data_mut()) {
            (Some(DataMut::F32(re)), Some(DataMut::F32(im))) => {
                fft::complex(context, self.isa(), sizes, inverse, [re, im]);
                Ok(())
            }
            (Some(DataMut::F64(re)), Some(DataMut::F64(im))) => {
                fft::complex(context, self.isa(), sizes, inverse, [re, im]);
                Ok(())
            }
            _ => Err(mixed()),
        }
    }
}
