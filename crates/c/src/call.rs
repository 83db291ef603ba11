//! Every op of the library, by its name.
#![allow(unsafe_code, reason = "exported names; memory is that of `memory`")]

use crate::context::{context_of, madelung_context};
use crate::memory::{array, give, handle, size, take, text};
use crate::status::status;
use crate::types::*;
use madelung::array::{Array, DType, Data, View};
use madelung::{Error, Result};
use madelung_bridge::{Described, describe, find};
use std::ffi::{CString, c_char};
use std::sync::OnceLock;

/// Arrays of a call's results.
pub struct madelung_arrays(Vec<Owned>);

struct Owned {
    array: Array,
    shape: Vec<i64>,
}

/// The descriptions of all ops, whose members can be found from now on.
fn described() -> &'static Result<Vec<Described>> {
    static DESCRIBED: OnceLock<Result<Vec<Described>>> = OnceLock::new();
    DESCRIBED.get_or_init(|| describe(&madelung::registries()))
}

fn number_of(dtype: DType) -> i32 {
    match dtype {
        DType::F32 => MADELUNG_F32,
        DType::F64 => MADELUNG_F64,
        DType::I32 => MADELUNG_I32,
        DType::I64 => MADELUNG_I64,
        DType::F16 => 0,
        DType::BF16 => 1,
    }
}

impl madelung_array {
    /// The array, in the memory of its caller; None without one, or without data, if that is zeros.
    ///
    /// # Safety
    /// Pointers are valid for what they are said to hold.
    unsafe fn view<'a>(&self, name: &str, may_be_zero: bool) -> Result<Option<View<'a>>> {
        if self.data.is_null() && (self.shape.is_null() || may_be_zero) {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        let lengths = unsafe { array(name, self.shape, size(name, i64::from(self.axes))?, 1) }?;
        let shape = lengths.iter().map(|x| size(name, *x)).collect::<Result<Vec<_>>>()?;
        let count = shape.iter().try_fold(1_usize, |n, x| n.checked_mul(*x)).unwrap_or(usize::MAX);
        let data = match self.dtype {
            // SAFETY: the caller's promise.
            MADELUNG_F32 => Data::F32(unsafe { array(name, self.data.cast(), count, 1) }?),
            // SAFETY: the caller's promise.
            MADELUNG_F64 => Data::F64(unsafe { array(name, self.data.cast(), count, 1) }?),
            // SAFETY: the caller's promise.
            MADELUNG_I32 => Data::I32(unsafe { array(name, self.data.cast(), count, 1) }?),
            // SAFETY: the caller's promise.
            MADELUNG_I64 => Data::I64(unsafe { array(name, self.data.cast(), count, 1) }?),
            other => return Err(Error::argument(name, "a dtype, MADELUNG_F64, …", other.to_string())),
        };
        View::new(data, &shape).map(Some)
    }
}

/// All ops in JSON: their arguments, outputs, inputs of calls and members, as `madelung_call` takes them. The text is the
/// library's; null where it cannot be made, with a reason.
#[unsafe(no_mangle)]
pub extern "C" fn madelung_ops() -> *const c_char {
    static TEXT: OnceLock<CString> = OnceLock::new();
    let mut found = std::ptr::null();
    status(|| {
        let described = described().as_ref().map_err(Clone::clone)?;
        found = TEXT
            .get_or_init(|| {
                let text =
                    serde_json::to_string(described).expect("declarations of ops are numbers and names");
                CString::new(text).expect("names have no zeros")
            })
            .as_ptr();
        Ok(())
    });
    found
}

/// A member of an op by its name in `madelung_ops`, `madelung.ewald_summation_v1` or one of its derivatives: `tensors` and
/// `numbers` are the op's inputs of these kinds in their order, `behind` the tensors that follow them (cotangents, tangents),
/// zero where there is no data; bit n of `wanted` asks for the gradient by the n-th differentiable argument. Results are
/// freed by `madelung_arrays_free`.
///
/// Handles are handles of this library, and pointers are valid for what they are said to hold.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madelung_call(
    context: *const madelung_context,
    member: *const c_char,
    tensors: *const madelung_array,
    tensor_count: i64,
    numbers: *const madelung_number,
    number_count: i64,
    behind: *const madelung_array,
    behind_count: i64,
    wanted: u64,
    results: *mut *mut madelung_arrays,
) -> i32 {
    status(|| {
        described().as_ref().map_err(Clone::clone)?;
        // SAFETY: the caller's promise.
        let (context, name) = unsafe { (context_of(context)?, text("member", member)?) };
        let entry = find(name)?;
        // SAFETY: the caller's promise.
        let tensors = unsafe { array("tensors", tensors, size("tensors", tensor_count)?, 1) }?;
        // SAFETY: the caller's promise.
        let numbers = unsafe { array("numbers", numbers, size("numbers", number_count)?, 1) }?;
        // SAFETY: the caller's promise.
        let behind = unsafe { array("behind", behind, size("behind", behind_count)?, 1) }?;
        let kinds = entry.inputs.len();
        let wanted_counts =
            [entry.tensors(), kinds - entry.tensors(), entry.member.extra_tensors(entry.counts)];
        let counts = [tensors.len(), numbers.len(), behind.len()];
        if counts != wanted_counts {
            let said =
                |[a, b, c]: [usize; 3]| format!("{a} tensors, {b} numbers and {c} tensors behind them");
            return Err(Error::argument("tensors", said(wanted_counts), said(counts)));
        }
        let mut views = vec![];
        for (n, tensor) in tensors.iter().enumerate() {
            let name = entry.name(n);
            let missing = || Error::argument(&*name, "an array", "a null pointer");
            // SAFETY: the caller's promise.
            views.push(unsafe { tensor.view(&name, false) }?.ok_or_else(missing)?);
        }
        let extra = behind.iter().enumerate();
        let extra: Vec<_> = extra
            // SAFETY: the caller's promise.
            .map(|(n, tensor)| unsafe { tensor.view(&entry.name(views.len() + n), true) })
            .collect::<Result<_>>()?;
        // SAFETY: both fields have 8 bytes, of which each pattern is a number.
        let bits: Vec<u64> = numbers.iter().map(|x| unsafe { x.integer } as u64).collect();
        let found = entry.evaluate(&context, &views, &bits, &extra, wanted)?;
        // What a call did not have to save is empty.
        let saved = found.saved.into_iter().map(|x| x.unwrap_or_else(|| Array::zeros(DType::F64, &[0])));
        let arrays = found.values.into_iter().chain(saved).chain(found.gradients);
        let owned =
            arrays.map(|array| Owned { shape: array.shape().iter().map(|x| *x as i64).collect(), array });
        // SAFETY: the caller's promise.
        unsafe { give("results", results, madelung_arrays(owned.collect())) }
    })
}

/// The number of arrays of a call's results.
///
/// `arrays` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madelung_arrays_count(arrays: *const madelung_arrays) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { arrays.as_ref() }.map_or(0, |arrays| arrays.0.len() as i64)
}

/// Array n of a call's results, in memory that is freed with them.
///
/// `arrays` is a handle, and `into` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madelung_arrays_get(
    arrays: *mut madelung_arrays,
    n: i64,
    into: *mut madelung_array,
) -> i32 {
    status(|| {
        // SAFETY: the caller's promise.
        let count = unsafe { handle("arrays", arrays) }?.0.len();
        // SAFETY: the caller's promise.
        let found = usize::try_from(n).ok().and_then(|n| unsafe { &mut (*arrays).0 }.get_mut(n));
        let found = found.ok_or_else(|| Error::argument("n", format!("below {count}"), n.to_string()))?;
        let into =
            // SAFETY: the caller's promise.
            unsafe { into.as_mut() }.ok_or_else(|| Error::argument("into", "a struct", "a null pointer"))?;
        *into = madelung_array {
            dtype: number_of(found.array.dtype()),
            axes: found.shape.len() as i32,
            shape: found.shape.as_ptr(),
            data: found.array.pointer_mut().cast(),
        };
        Ok(())
    })
}

/// Frees the results of a call; null is nothing.
///
/// `arrays` is null, or a handle that is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madelung_arrays_free(arrays: *mut madelung_arrays) {
    // SAFETY: the caller's promise.
    unsafe { take(arrays) };
}
