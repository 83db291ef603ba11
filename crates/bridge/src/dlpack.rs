//! DLPack: C structs by which one library of a process exports arrays to another.
//!
//! Two structs are in use, `DLManagedTensor` and, from version 1 on, `DLManagedTensorVersioned`. Both are declared by
//! hand. The consumer calls the struct's deleter once, from any thread.
#![expect(unsafe_code, reason = "memory behind foreign structs")]

mod element;
mod exchange;

pub use element::Element;
pub use exchange::{Exchange, Lent, Results, host_data};
use madelung_core::array::DType;
use madelung_core::{Error, Result};
use std::any::Any;
use std::ffi::c_void;

/// `DLDeviceType`: memory of a CUDA device, and CUDA's managed memory.
const CUDA: i32 = 2;
const CUDA_MANAGED: i32 = 13;
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
    /// The element type; None of vectors, and of types that frameworks do not compute with.
    fn element(&self) -> Option<Element> {
        Element::of(self.code, self.bits).filter(|_| self.lanes == 1)
    }
}

/// The element type of a result of a call.
fn element_of(dtype: DType) -> Result<Element> {
    let element = Element::from(dtype);
    match element.dtype() {
        Some(_) => Ok(element),
        None => Err(Error::argument("array", "float32, float64, int32 or int64", dtype.to_string())),
    }
}

/// Place, type and shape of an array in the memory of a CUDA device, in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnDevice {
    /// The device, by CUDA's ordinal.
    pub ordinal: usize,
    /// The element type.
    pub element: Element,
    /// The shape.
    pub shape: Vec<usize>,
    /// The address of the first element.
    pub address: u64,
}

impl OnDevice {
    /// The number of elements; of a shape that fits in no memory, the largest number.
    pub fn count(&self) -> usize {
        self.shape.iter().fold(1, |n: usize, size| n.saturating_mul(*size))
    }

    /// The size in bytes; likewise.
    pub fn bytes(&self) -> usize {
        self.count().saturating_mul(self.element.size())
    }
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
    /// `name`, where the type is none of booleans and numbers of whole bytes; `dlpack`, where the version is not 1.
    pub fn element(&self, name: &str) -> Result<Element> {
        let tensor = self.tensor()?;
        tensor.element().ok_or_else(|| {
            let Tensor { code, bits, lanes, .. } = tensor;
            let got = format!("DLPack's type {code} of {bits} bits and {lanes} lanes");
            Error::argument(name, "booleans, integers, or real or complex numbers", got)
        })
    }

    /// The memory of the tensor, valid while it is there.
    ///
    /// # Errors
    /// Those of [`Borrowed::element`]; `name`, where the memory is not that of a CUDA device or not in row-major order.
    pub fn on_device(&self, name: &str) -> Result<OnDevice> {
        let tensor = self.tensor()?;
        let wrong = |expected: &str, got: String| Err(Error::argument(name, expected, got));
        let ordinal = match tensor.device {
            [CUDA | CUDA_MANAGED, ordinal] if ordinal >= 0 => ordinal as usize,
            [kind, _] => {
                return wrong(
                    "an array in the memory of a CUDA device",
                    format!("one of DLPack's device {kind}"),
                );
            }
        };
        let element = self.element(name)?;
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
        Ok(OnDevice { ordinal, element, shape, address })
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
pub fn lend(array: &OnDevice, owner: Box<dyn Any + Send + Sync>, form: Form) -> *mut c_void {
    let shape: Vec<i64> = array.shape.iter().map(|n| *n as i64).collect();
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1);
    }
    let exported = Box::new(Exported { shape, strides, _owner: owner });
    let tensor = Tensor {
        data: std::ptr::without_provenance_mut(array.address as usize),
        device: [CUDA, array.ordinal as i32],
        axes: exported.shape.len() as i32,
        code: array.element.code,
        bits: array.element.bits,
        lanes: 1,
        shape: exported.shape.as_ptr(),
        strides: exported.strides.as_ptr(),
        byte_offset: 0,
    };
    let context = Box::into_raw(exported).cast();
    match form {
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
    }
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

    const OPEN: Form = Form::Versioned { read_only: false, copied: false };

    fn array(shape: &[usize], name: &str) -> OnDevice {
        let element = Element::named(name).expect("a type");
        OnDevice { ordinal: 1, element, shape: shape.into(), address: 0x4000 }
    }

    fn lent(shape: &[usize], owner: &Arc<()>, form: Form) -> Borrowed {
        let managed = lend(&array(shape, "float32"), Box::new(owner.clone()), form);
        // SAFETY: the struct was exported for this import.
        unsafe { Borrowed::take(managed, form != Form::Unversioned) }
    }

    #[test]
    fn the_deleter_is_called_once() {
        for form in [Form::Unversioned, OPEN, Form::Versioned { read_only: true, copied: true }] {
            let owner = Arc::new(());
            let borrowed = lent(&[2, 0, 3], &owner, form);
            assert_eq!(borrowed.is_read_only(), !matches!(form, Form::Unversioned | OPEN));
            assert_eq!(borrowed.on_device("x").expect("an array"), array(&[2, 0, 3], "float32"));
            assert_eq!(Arc::strong_count(&owner), 2);
            drop(borrowed);
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
        let error = borrowed.on_device("charges").expect_err("an error").to_string();
        drop(borrowed);
        assert_eq!(Arc::strong_count(&owner), 1, "{error}");
        error
    }

    #[test]
    fn unsupported_tensors_are_refused_and_deleted() {
        let error = changed(|m| m.version = [2, 0]);
        assert_eq!(error, "`dlpack`: expected DLPack's version 1, got 2.0");
        let error = changed(|m| m.tensor.device = [1, 0]);
        assert!(error.starts_with("`charges`: expected an array in the memory of a CUDA device"), "{error}");
        let error = changed(|m| m.tensor.lanes = 4);
        assert!(error.ends_with("complex numbers, got DLPack's type 2 of 32 bits and 4 lanes"), "{error}");
        const TRANSPOSED: [i64; 2] = [1, 2];
        let error = changed(|m| m.tensor.strides = TRANSPOSED.as_ptr());
        assert!(error.ends_with("got strides [1, 2] of [2, 3]"), "{error}");
    }

    /// Types that no call has, by the codes of DLPack's header.
    #[test]
    fn any_type_is_handed_on() {
        let codes =
            [("bool", 6, 8), ("int8", 0, 8), ("uint16", 1, 16), ("bfloat16", 4, 16), ("complex128", 5, 128)];
        for (name, code, bits) in codes {
            let managed = lend(&array(&[2, 3], name), Box::new(()), OPEN);
            // SAFETY: the struct was exported for this import.
            let borrowed = unsafe { Borrowed::take(managed, true) };
            let tensor = borrowed.tensor().expect("this version");
            assert_eq!((tensor.code, tensor.bits, tensor.lanes), (code, bits, 1));
            let found = borrowed.on_device("x").expect("an array");
            assert_eq!((found.bytes(), found), (6 * usize::from(bits) / 8, array(&[2, 3], name)));
        }
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
