//! Every element by itself: fills, casts, sums of two arrays, rows times weights, checks.

use super::{Arguments, Length, Queue, Status, Text, real, tiles};
use madelung_core::array::{Array, DType, Data};
use madelung_core::{Error, Result};

const FILL: Text = Text::new("fill", &[include_str!("common.cuh"), include_str!("fill.cu")]);
const CAST: Text =
    Text::new("cast", &[include_str!("common.cuh"), include_str!("reals.cuh"), include_str!("cast.cu")]);
const INTEGERS: Text =
    Text::new("cast_integers", &[include_str!("common.cuh"), include_str!("cast_integers.cu")]);
const REALS: Text = Text::new(
    "elementwise",
    &[include_str!("common.cuh"), include_str!("reals.cuh"), include_str!("elementwise.cu")],
);

/// Sets `n` elements at `to` to a value, in the array's own type as [`Array::cast`] does.
///
/// # Errors
/// Those of the driver.
pub fn fill(queue: &Queue, dtype: DType, to: u64, n: Length, value: f64) -> Result<()> {
    let bits = bits_of(dtype, value)?;
    let program = FILL.of(&[("BITS", unsigned(dtype))]);
    program.launch(queue, "fill", tiles(n.capacity), Arguments::new().word(to).length(n).word(bits))
}

/// A value in an array's own type.
pub(crate) fn bits_of(dtype: DType, value: f64) -> Result<u64> {
    let one = Array::from_f64(DType::F64, &[1], &[value])?.cast(dtype)?;
    Ok(match one.view().data() {
        Data::F16(x) => u64::from(x[0].to_bits()),
        Data::BF16(x) => u64::from(x[0].to_bits()),
        Data::F32(x) => u64::from(x[0].to_bits()),
        Data::F64(x) => x[0].to_bits(),
        Data::I32(x) => u64::from(x[0].cast_unsigned()),
        Data::I64(x) => x[0].cast_unsigned(),
        Data::Device(_) => unreachable!("made on the host"),
    })
}

fn unsigned(dtype: DType) -> &'static str {
    match dtype.size() {
        2 => "u16",
        4 => "u32",
        _ => "u64",
    }
}

/// Puts `n` numbers into another type: real ones to nearest, ties to even, once, and infinite beyond the range; i32 as
/// i64 and i64 as i32. An i64 that is no i32 is cut, and raises the status word ([`Reason::Overflow`]).
///
/// # Errors
/// `to`, where one type is real and the other is not; those of the driver.
///
/// [`Reason::Overflow`]: madelung_core::backend::status::Reason::Overflow
pub fn cast(queue: &Queue, from: (DType, u64), to: (DType, u64), n: Length, status: Status) -> Result<()> {
    let blocks = tiles(n.capacity);
    let arguments = Arguments::new().word(from.1).word(to.1).length(n);
    match (from.0, to.0) {
        (a, b) if a == b => queue.copy(to.1, from.1, n.capacity * a.size()),
        (DType::I32, DType::I64) => INTEGERS.of(&[]).launch(queue, "widen", blocks, arguments),
        (DType::I64, DType::I32) => {
            INTEGERS.of(&[]).launch(queue, "narrow", blocks, arguments.status(status))
        }
        (DType::I32 | DType::I64, b) => Err(Error::argument("to", "int32 or int64", b.to_string())),
        (_, b @ (DType::I32 | DType::I64)) => Err(Error::argument("to", "a real type", b.to_string())),
        (a, b) => {
            let program = CAST.of(&[("FROM", real("from", a)?), ("TO", real("to", b)?)]);
            program.launch(queue, "cast", blocks, arguments)
        }
    }
}

/// Adds `n` real numbers at `from` to those at `to`, both of type `dtype`.
///
/// # Errors
/// `dtype`, where it is not real; those of the driver.
pub fn add(queue: &Queue, dtype: DType, to: u64, from: u64, n: Length) -> Result<()> {
    let program = REALS.of(&[("ELEMENT", real("dtype", dtype)?)]);
    program.launch(queue, "add", tiles(n.capacity), Arguments::new().word(to).word(from).length(n))
}

/// Makes `n` real numbers at `to` NaN if anything was raised in the status word at `word`.
///
/// # Errors
/// `dtype`, where it is not real; those of the driver.
pub fn poison(queue: &Queue, dtype: DType, to: u64, n: Length, word: u64) -> Result<()> {
    let program = REALS.of(&[("ELEMENT", real("dtype", dtype)?)]);
    program.launch(queue, "poison", tiles(n.capacity), Arguments::new().word(to).length(n).word(word))
}

/// Raises the status word ([`Reason::NotFinite`]) if one of `n` real numbers is infinite or NaN.
///
/// # Errors
/// `dtype`, where it is not real; those of the driver.
///
/// [`Reason::NotFinite`]: madelung_core::backend::status::Reason::NotFinite
pub fn check_finite(queue: &Queue, dtype: DType, from: u64, n: Length, status: Status) -> Result<()> {
    let program = REALS.of(&[("ELEMENT", real("dtype", dtype)?)]);
    let arguments = Arguments::new().word(from).length(n).status(status);
    program.launch(queue, "check_finite", tiles(n.capacity), arguments)
}

/// Weights of rows: the type, f32 or f64, and the address of the weights.
#[derive(Clone, Copy, Debug)]
pub enum WeightOf {
    /// None.
    None,
    /// A weight per row.
    Row((DType, u64)),
    /// A weight per system, NaN for a row of no system: the address of the system of each row, i32, and the number of
    /// systems.
    System((DType, u64), u64, usize),
}

/// Multiplies `rows` rows of `width` real numbers at `unit` by a weight each and by a factor, in f64 rounded once, and puts
/// them at `to`, which may be `unit`.
///
/// # Errors
/// `dtype`, where it is not real; `weights`, where their type is neither f32 nor f64; those of the driver.
pub fn scale_rows(
    queue: &Queue,
    dtype: DType,
    [unit, to]: [u64; 2],
    rows: Length,
    width: usize,
    (weights, factor): (WeightOf, f64),
) -> Result<()> {
    let ((weight, values), system_of, systems) = match weights {
        WeightOf::None => ((DType::F64, 0), 0, 0),
        WeightOf::Row(of) => (of, 0, 0),
        WeightOf::System(of, address, systems) => (of, address, systems as u64),
    };
    let wide = match weight {
        DType::F32 => 0,
        DType::F64 => 1,
        other => return Err(Error::argument("weights", "float32 or float64", other.to_string())),
    };
    let weights = [values, system_of, wide, systems, factor.to_bits()];
    let arguments = Arguments::new().word(unit).word(to).length(rows).word(width as u64).words(&weights);
    let program = REALS.of(&[("ELEMENT", real("dtype", dtype)?)]);
    program.launch(queue, "scale_rows", tiles(rows.capacity.saturating_mul(width)), arguments)
}

pub(crate) fn programs() -> Vec<super::Compiled> {
    let types = ["f16", "bf16", "f32", "f64"];
    let mut all = vec![INTEGERS.of(&[]).with(&["widen", "narrow"])];
    all.extend(["u16", "u32", "u64"].map(|t| FILL.of(&[("BITS", t)]).with(&["fill"])));
    for from in types {
        all.push(REALS.of(&[("ELEMENT", from)]).with(&["add", "poison", "check_finite", "scale_rows"]));
        let others = types.into_iter().filter(|to| *to != from);
        all.extend(others.map(|to| CAST.of(&[("FROM", from), ("TO", to)]).with(&["cast"])));
    }
    all
}
