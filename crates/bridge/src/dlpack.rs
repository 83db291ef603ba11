//! DLPack: arrays that one library of a process lends to another, as C structs.
//!
//! Two forms are in use: the one without a version, and that of version 1. Both are declared by hand. What is lent has a
//! deleter, which the borrower calls once, from any thread.
#![expect(unsafe_code, reason = "memory behind foreign structs")]

use madelung_core::array::{Array, DType, Data, Place, View};
use madelung_core::{Error, Result};
use std::any::Any;
use std::ffi::c_void;

/// DLPack's numbers of devices: memory of a CUDA device, and that which it shares with the host.
const CUDA: i32 = 2;
const CUDA_MANAGED: i32 = 13;
/// Its numbers of types.
const INT: u8 = 0;
const FLOAT: u8 = 2;
/// Its flags: what is lent may not be written to, and is a copy.
const READ_ONLY: u64 = 1;
const COPIED: u64 = 2;
/// The version that is spoken here.
const VERSION: [u32; 2] = [1, 0];

/// An array.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: [i32; 2],
    axes: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    /// In elements; null for row-major order.
    strides: *const i64,
    byte_offset: u64,
}

/// What is lent, in the form without a version.
#[repr(C)]
struct Plain {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// And in that of version 1.
#[repr(C)]
struct Versioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: Tensor,
}

/// An array that was borrowed. Its deleter is called when this is dropped.
#[derive(Debug)]
pub struct Borrowed {
    managed: Managed,
}

#[derive(Clone, Copy, Debug)]
enum Managed {
    Plain(*mut Plain),
    Versioned(*mut Versioned),
}

// SAFETY: what is lent may be read and given back from any thread; that is what DLPack asks of lenders.
unsafe impl Send for Borrowed {}
// SAFETY: as above; nothing is written.
unsafe impl Sync for Borrowed {}

impl Borrowed {
    /// Takes over what a lender has made.
    ///
    /// # Safety
    /// It is a `DLManagedTensor`, or, where `versioned`, a `DLManagedTensorVersioned`, whose deleter nobody else calls.
    pub unsafe fn take(managed: *mut c_void, versioned: bool) -> Self {
        let managed =
            if versioned { Managed::Versioned(managed.cast()) } else { Managed::Plain(managed.cast()) };
        Self { managed }
    }

    fn tensor(&self) -> Result<&Tensor> {
        match self.managed {
            // SAFETY: the lender keeps it until its deleter is called.
            Managed::Plain(managed) => Ok(unsafe { &(*managed).tensor }),
            Managed::Versioned(managed) => {
                // SAFETY: the version is where it is in every version.
                let [major, minor] = unsafe { (*managed).version };
                if major != VERSION[0] {
                    let expected = format!("DLPack's version {}", VERSION[0]);
                    return Err(Error::argument("dlpack", expected, format!("{major}.{minor}")));
                }
                // SAFETY: this is where it is in this version.
                Ok(unsafe { &(*managed).tensor })
            }
        }
    }

    /// Whether the lender says that nobody may write to it.
    pub fn is_read_only(&self) -> bool {
        match self.managed {
            Managed::Plain(_) => false,
            // SAFETY: the lender keeps it until its deleter is called; the flags are where they are in version 1.
            Managed::Versioned(managed) => unsafe {
                (*managed).version[0] == VERSION[0] && (*managed).flags & READ_ONLY != 0
            },
        }
    }

    /// The type of its elements; errors call it `name`.
    ///
    /// # Errors
    /// It is another one than float32, float64, int32 or int64; the lender speaks another version.
    pub fn dtype(&self, name: &str) -> Result<DType> {
        let tensor = self.tensor()?;
        match (tensor.code, tensor.bits, tensor.lanes) {
            (FLOAT, 64, 1) => Ok(DType::F64),
            (FLOAT, 32, 1) => Ok(DType::F32),
            (INT, 64, 1) => Ok(DType::I64),
            (INT, 32, 1) => Ok(DType::I32),
            (code, bits, lanes) => {
                let got = format!("DLPack's type {code} of {bits} bits and {lanes} lanes");
                Err(Error::argument(name, "float32, float64, int32 or int64", got))
            }
        }
    }

    /// The array, which keeps what was borrowed. Errors call it `name`.
    ///
    /// # Errors
    /// It lies in no memory of a CUDA device, has another dtype than float32, float64, int32 or int64, or other strides
    /// than those of row-major order; the lender speaks another version.
    pub fn into_array(self, name: &str) -> Result<Array> {
        let tensor = self.tensor()?;
        let wrong = |expected: &str, got: String| Err(Error::argument(name, expected, got));
        let place = match tensor.device {
            [CUDA | CUDA_MANAGED, ordinal] if ordinal >= 0 => Place::Cuda(ordinal as usize),
            [kind, _] => {
                return wrong(
                    "an array in the memory of a CUDA device",
                    format!("one of DLPack's device {kind}"),
                );
            }
        };
        let dtype = self.dtype(name)?;
        let axes = usize::try_from(tensor.axes).unwrap_or(0);
        let numbers = |from: *const i64| {
            // SAFETY: the lender has one for every axis.
            if axes == 0 { &[] } else { unsafe { std::slice::from_raw_parts(from, axes) } }
        };
        let sizes = numbers(tensor.shape);
        let shape: Vec<usize> = sizes.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
        let strides = (!tensor.strides.is_null()).then(|| numbers(tensor.strides));
        if let Some(strides) = strides.filter(|strides| !is_row_major(&shape, strides)) {
            return wrong(
                "an array in row-major order without gaps",
                format!("strides {strides:?} of {sizes:?}"),
            );
        }
        let address = (tensor.data.addr() as u64).wrapping_add(tensor.byte_offset);
        // SAFETY: the lender has as many elements of this type there, until its deleter is called.
        Ok(unsafe { Array::remote(place, dtype, &shape, address, Box::new(self)) })
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // SAFETY: nobody else calls the deleter, and nobody uses what it gives back.
        unsafe {
            match self.managed {
                Managed::Plain(managed) => {
                    if let Some(deleter) = (*managed).deleter {
                        deleter(managed);
                    }
                }
                Managed::Versioned(managed) => {
                    if let Some(deleter) = (*managed).deleter {
                        deleter(managed);
                    }
                }
            }
        }
    }
}

/// Whether elements follow one another as in C. Axes of one element, and arrays without any, have whatever strides.
pub fn is_row_major(shape: &[usize], strides: &[i64]) -> bool {
    let mut next = 1;
    shape.contains(&0)
        || shape.iter().zip(strides).rev().all(|(size, stride)| {
            let follows = *size == 1 || *stride == next;
            next *= *size as i64;
            follows
        })
}

/// What a struct of ours points to.
struct Lent {
    shape: Vec<i64>,
    strides: Vec<i64>,
    _owner: Box<dyn Any + Send + Sync>,
}

/// In which form an array is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Without a version, which has no room for what else is to say.
    Plain,
    /// That of version 1.
    Versioned {
        /// Whether nobody may write to it.
        read_only: bool,
        /// Whether it was copied for the borrower.
        copied: bool,
    },
}

/// Lends an array of a CUDA device, which `owner` keeps until the deleter is called.
///
/// # Panics
/// Where the array lies elsewhere or has 16-bit elements.
pub fn lend(array: &View<'_>, owner: Box<dyn Any + Send + Sync>, form: Form) -> *mut c_void {
    let (Place::Cuda(ordinal), Data::Device(remote)) = (array.place(), array.data()) else {
        panic!("an array of the host is not lent");
    };
    let (code, bits) = match array.dtype() {
        DType::F64 => (FLOAT, 64),
        DType::F32 => (FLOAT, 32),
        DType::I64 => (INT, 64),
        DType::I32 => (INT, 32),
        dtype => panic!("{dtype} is not lent"),
    };
    let shape: Vec<i64> = array.shape().iter().map(|n| *n as i64).collect();
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1);
    }
    let lent = Box::new(Lent { shape, strides, _owner: owner });
    let tensor = Tensor {
        data: std::ptr::without_provenance_mut(remote.address() as usize),
        device: [CUDA, ordinal as i32],
        axes: lent.shape.len() as i32,
        code,
        bits,
        lanes: 1,
        shape: lent.shape.as_ptr(),
        strides: lent.strides.as_ptr(),
        byte_offset: 0,
    };
    let context = Box::into_raw(lent).cast();
    match form {
        Form::Plain => {
            let deleter = Some(give_back as unsafe extern "C" fn(*mut Plain));
            Box::into_raw(Box::new(Plain { tensor, context, deleter })).cast()
        }
        Form::Versioned { read_only, copied } => {
            let deleter = Some(give_back_versioned as unsafe extern "C" fn(*mut Versioned));
            let flags = if read_only { READ_ONLY } else { 0 } | if copied { COPIED } else { 0 };
            Box::into_raw(Box::new(Versioned { version: VERSION, context, deleter, flags, tensor })).cast()
        }
    }
}

unsafe extern "C" fn give_back(managed: *mut Plain) {
    // SAFETY: both come from boxes of `lend`, and the borrower calls this once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Lent>()));
    }
}

unsafe extern "C" fn give_back_versioned(managed: *mut Versioned) {
    // SAFETY: as above.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Lent>()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const PLACE: Place = Place::Cuda(1);
    const OPEN: Form = Form::Versioned { read_only: false, copied: false };

    fn lent(shape: &[usize], owner: &Arc<()>, form: Form) -> Borrowed {
        // SAFETY: nobody uses the address.
        let view = unsafe { View::remote(PLACE, DType::F32, shape, 0x4000) };
        let managed = lend(&view, Box::new(owner.clone()), form);
        // SAFETY: it was made for this.
        unsafe { Borrowed::take(managed, form != Form::Plain) }
    }

    #[test]
    fn what_is_lent_is_given_back_once() {
        for form in [Form::Plain, OPEN, Form::Versioned { read_only: true, copied: true }] {
            let owner = Arc::new(());
            let borrowed = lent(&[2, 0, 3], &owner, form);
            assert_eq!(borrowed.is_read_only(), !matches!(form, Form::Plain | OPEN));
            let array = borrowed.into_array("x").expect("an array");
            assert_eq!((array.place(), array.dtype(), array.shape()), (PLACE, DType::F32, &[2, 0, 3][..]));
            assert_eq!(Arc::strong_count(&owner), 2);
            drop(array);
            assert_eq!(Arc::strong_count(&owner), 1);
        }
    }

    /// A lender whose struct is changed before it is taken.
    fn changed(change: impl FnOnce(&mut Versioned)) -> String {
        let owner = Arc::new(());
        let borrowed = lent(&[2, 3], &owner, OPEN);
        let Managed::Versioned(managed) = borrowed.managed else { panic!("another form") };
        // SAFETY: nobody else has it.
        change(unsafe { &mut *managed });
        let error = borrowed.into_array("charges").map(|_| ()).expect_err("an error").to_string();
        assert_eq!(Arc::strong_count(&owner), 1, "{error}");
        error
    }

    #[test]
    fn what_cannot_be_used_is_refused_and_given_back() {
        let error = changed(|m| m.version = [2, 0]);
        assert_eq!(error, "`dlpack`: expected DLPack's version 1, got 2.0");
        let error = changed(|m| m.tensor.device = [1, 0]);
        assert!(error.starts_with("`charges`: expected an array in the memory of a CUDA device"), "{error}");
        let error = changed(|m| m.tensor.bits = 16);
        assert!(error.ends_with("int64, got DLPack's type 2 of 16 bits and 1 lanes"), "{error}");
        const TRANSPOSED: [i64; 2] = [1, 2];
        let error = changed(|m| m.tensor.strides = TRANSPOSED.as_ptr());
        assert!(error.ends_with("got strides [1, 2] of [2, 3]"), "{error}");
    }

    #[test]
    fn strides_without_meaning_are_no_gaps() {
        assert!(is_row_major(&[], &[]));
        assert!(is_row_major(&[3, 1, 2], &[2, 77, 1]));
        assert!(is_row_major(&[3, 0, 2], &[1, 1, 1]));
        assert!(!is_row_major(&[3, 2], &[1, 3]));
        assert!(!is_row_major(&[3], &[0]));
        assert!(!is_row_major(&[3], &[-1]));
    }
}
