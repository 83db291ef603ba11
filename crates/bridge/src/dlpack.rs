//! DLPack: C structs by which one library of a process exports arrays to another.
//!
//! Two structs are in use, `DLManagedTensor` and, from version 1 on, `DLManagedTensorVersioned`. Both are declared by
//! hand. The consumer calls the struct's deleter once, from any thread.
#![expect(unsafe_code, reason = "memory behind foreign structs")]

mod exchange;

pub use exchange::{Exchange, Lent, Results, host_data};
use madelung_core::array::{Array, DType, Data, Place, View};
use madelung_core::{Error, Result};
use std::any::Any;
use std::ffi::c_void;

/// `DLDeviceType`: memory of a CUDA device, and CUDA's managed memory.
const CUDA: i32 = 2;
const CUDA_MANAGED: i32 = 13;
/// `DLDataTypeCode`.
const INT: u8 = 0;
const FLOAT: u8 = 2;
/// Element types, with their codes and numbers of bits.
const TYPES: [(DType, u8, u8); 4] =
    [(DType::F64, FLOAT, 64), (DType::F32, FLOAT, 32), (DType::I64, INT, 64), (DType::I32, INT, 32)];
/// Flags of a versioned tensor: read-only memory, and a copy made for the consumer.
const READ_ONLY: u64 = 1;
const COPIED: u64 = 2;
/// The supported version.
const VERSION: [u32; 2] = [1, 0];

/// `DLTensor`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: [i32; 2],
    axes: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    /// Strides in elements; null for row-major order.
    strides: *const i64,
    byte_offset: u64,
}

impl Tensor {
    /// The element type; None of one that no op has.
    fn dtype(&self) -> Option<DType> {
        TYPES.iter().find(|x| (x.1, x.2, 1) == (self.code, self.bits, self.lanes)).map(|x| x.0)
    }
}

/// The code and the number of bits of an element type.
fn code_of(dtype: DType) -> Result<(u8, u8)> {
    let known = TYPES.iter().find(|x| x.0 == dtype).map(|x| (x.1, x.2));
    known.ok_or_else(|| Error::argument("array", "float32, float64, int32 or int64", dtype.to_string()))
}

/// `DLManagedTensor`.
#[repr(C)]
struct ManagedTensor {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct ManagedTensorVersioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: Tensor,
}

/// An imported tensor, whose deleter is called on drop.
#[derive(Debug)]
pub struct Borrowed {
    managed: Managed,
}

#[derive(Clone, Copy, Debug)]
enum Managed {
    Unversioned(*mut ManagedTensor),
    Versioned(*mut ManagedTensorVersioned),
}

// SAFETY: DLPack requires exporters to allow reads and the deleter's call from any thread.
unsafe impl Send for Borrowed {}
// SAFETY: as above; nothing is written.
unsafe impl Sync for Borrowed {}

impl Borrowed {
    /// An exported tensor, taken over.
    ///
    /// # Safety
    /// `managed` points to a `DLManagedTensor`, or, if `versioned`, to a `DLManagedTensorVersioned`; nothing else calls
    /// the deleter.
    pub unsafe fn take(managed: *mut c_void, versioned: bool) -> Self {
        let managed =
            if versioned { Managed::Versioned(managed.cast()) } else { Managed::Unversioned(managed.cast()) };
        Self { managed }
    }

    fn tensor(&self) -> Result<&Tensor> {
        match self.managed {
            // SAFETY: the struct is valid until its deleter is called.
            Managed::Unversioned(managed) => Ok(unsafe { &(*managed).tensor }),
            Managed::Versioned(managed) => {
                // SAFETY: every version begins with the version.
                let [major, minor] = unsafe { (*managed).version };
                if major != VERSION[0] {
                    let expected = format!("DLPack's version {}", VERSION[0]);
                    return Err(Error::argument("dlpack", expected, format!("{major}.{minor}")));
                }
                // SAFETY: the layout is that of version 1.
                Ok(unsafe { &(*managed).tensor })
            }
        }
    }

    /// Whether the exporter declares the memory read-only.
    pub fn is_read_only(&self) -> bool {
        match self.managed {
            Managed::Unversioned(_) => false,
            // SAFETY: the struct is valid until its deleter is called, and has flags in version 1.
            Managed::Versioned(managed) => unsafe {
                (*managed).version[0] == VERSION[0] && (*managed).flags & READ_ONLY != 0
            },
        }
    }

    /// The element type.
    ///
    /// # Errors
    /// `name`, where the type is none of float32, float64, int32 and int64; `dlpack`, where the version is not 1.
    pub fn dtype(&self, name: &str) -> Result<DType> {
        let tensor = self.tensor()?;
        tensor.dtype().ok_or_else(|| {
            let Tensor { code, bits, lanes, .. } = tensor;
            let got = format!("DLPack's type {code} of {bits} bits and {lanes} lanes");
            Error::argument(name, "float32, float64, int32 or int64", got)
        })
    }

    /// The tensor as an array, which owns it.
    ///
    /// # Errors
    /// Those of [`Borrowed::dtype`]; `name`, where the memory is not that of a CUDA device or not in row-major order.
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
            // SAFETY: the struct has a size and a stride for every axis.
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
        // SAFETY: the memory has as many elements of this type until the deleter is called.
        Ok(unsafe { Array::remote(place, dtype, &shape, address, Box::new(self)) })
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // SAFETY: nothing else calls the deleter, and the memory is not used after it.
        unsafe {
            match self.managed {
                Managed::Unversioned(managed) => {
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

/// Whether strides are those of row-major order without gaps. Strides of axes of size 1 and of empty arrays do not
/// matter.
pub fn is_row_major(shape: &[usize], strides: &[i64]) -> bool {
    let mut next = 1;
    shape.contains(&0)
        || shape.iter().zip(strides).rev().all(|(size, stride)| {
            let follows = *size == 1 || *stride == next;
            next *= *size as i64;
            follows
        })
}

/// The manager context of an exported tensor.
struct Exported {
    shape: Vec<i64>,
    strides: Vec<i64>,
    _owner: Box<dyn Any + Send + Sync>,
}

/// The DLPack struct of an exported array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `DLManagedTensor`, which has no flags.
    Unversioned,
    /// `DLManagedTensorVersioned`.
    Versioned {
        /// Whether the memory is read-only.
        read_only: bool,
        /// Whether the array is a copy made for the consumer.
        copied: bool,
    },
}

/// Exports an array of a CUDA device, whose memory `owner` keeps valid until the deleter is called.
///
/// # Errors
/// `array`, where it lies on the host or has 16-bit elements.
pub fn lend(array: &View<'_>, owner: Box<dyn Any + Send + Sync>, form: Form) -> Result<*mut c_void> {
    let (Place::Cuda(ordinal), Data::Device(remote)) = (array.place(), array.data()) else {
        return Err(Error::argument("array", "an array in the memory of a CUDA device", "one of the host"));
    };
    let (code, bits) = code_of(array.dtype())?;
    let shape: Vec<i64> = array.shape().iter().map(|n| *n as i64).collect();
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1);
    }
    let exported = Box::new(Exported { shape, strides, _owner: owner });
    let tensor = Tensor {
        data: std::ptr::without_provenance_mut(remote.address() as usize),
        device: [CUDA, ordinal as i32],
        axes: exported.shape.len() as i32,
        code,
        bits,
        lanes: 1,
        shape: exported.shape.as_ptr(),
        strides: exported.strides.as_ptr(),
        byte_offset: 0,
    };
    let context = Box::into_raw(exported).cast();
    Ok(match form {
        Form::Unversioned => {
            let deleter = Some(delete as unsafe extern "C" fn(*mut ManagedTensor));
            Box::into_raw(Box::new(ManagedTensor { tensor, context, deleter })).cast()
        }
        Form::Versioned { read_only, copied } => {
            let deleter = Some(delete_versioned as unsafe extern "C" fn(*mut ManagedTensorVersioned));
            let flags = if read_only { READ_ONLY } else { 0 } | if copied { COPIED } else { 0 };
            let managed = ManagedTensorVersioned { version: VERSION, context, deleter, flags, tensor };
            Box::into_raw(Box::new(managed)).cast()
        }
    })
}

unsafe extern "C" fn delete(managed: *mut ManagedTensor) {
    // SAFETY: both pointers come from boxes of `lend`, and the consumer calls the deleter once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Exported>()));
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut ManagedTensorVersioned) {
    // SAFETY: as above.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Exported>()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const PLACE: Place = Place::Cuda(1);
    const OPEN: Form = Form::Versioned { read_only: false, copied: false };

    fn lent(shape: &[usize], owner: &Arc<()>, form: Form) -> Borrowed {
        // SAFETY: nothing uses the address.
        let view = unsafe { View::remote(PLACE, DType::F32, shape, 0x4000) };
        let managed = lend(&view, Box::new(owner.clone()), form).expect("an array of a device");
        // SAFETY: the struct was exported for this import.
        unsafe { Borrowed::take(managed, form != Form::Unversioned) }
    }

    #[test]
    fn the_deleter_is_called_once() {
        for form in [Form::Unversioned, OPEN, Form::Versioned { read_only: true, copied: true }] {
            let owner = Arc::new(());
            let borrowed = lent(&[2, 0, 3], &owner, form);
            assert_eq!(borrowed.is_read_only(), !matches!(form, Form::Unversioned | OPEN));
            let array = borrowed.into_array("x").expect("an array");
            assert_eq!((array.place(), array.dtype(), array.shape()), (PLACE, DType::F32, &[2, 0, 3][..]));
            assert_eq!(Arc::strong_count(&owner), 2);
            drop(array);
            assert_eq!(Arc::strong_count(&owner), 1);
        }
    }

    /// The error of importing a struct after `change`.
    fn changed(change: impl FnOnce(&mut ManagedTensorVersioned)) -> String {
        let owner = Arc::new(());
        let borrowed = lent(&[2, 3], &owner, OPEN);
        let Managed::Versioned(managed) = borrowed.managed else { panic!("another form") };
        // SAFETY: the struct is not shared.
        change(unsafe { &mut *managed });
        let error = borrowed.into_array("charges").map(|_| ()).expect_err("an error").to_string();
        assert_eq!(Arc::strong_count(&owner), 1, "{error}");
        error
    }

    #[test]
    fn unsupported_tensors_are_refused_and_deleted() {
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
    fn arrays_of_the_host_are_not_exported() {
        let error = lend(&View::from(&[1.0]), Box::new(()), Form::Unversioned).expect_err("an error");
        assert!(error.to_string().starts_with("`array`: expected an array in the memory of a CUDA device"));
    }

    #[test]
    fn strides_of_axes_of_size_one_do_not_matter() {
        assert!(is_row_major(&[], &[]));
        assert!(is_row_major(&[3, 1, 2], &[2, 77, 1]));
        assert!(is_row_major(&[3, 0, 2], &[1, 1, 1]));
        assert!(!is_row_major(&[3, 2], &[1, 3]));
        assert!(!is_row_major(&[3], &[0]));
        assert!(!is_row_major(&[3], &[-1]));
    }
}
