//! The table of functions by which a library of Python lends its tensors, and makes new ones, without a call of Python
//! (`DLPackExchangeAPI` of DLPack 1.3; PyTorch from 2.10).

use super::{Element, ManagedTensorVersioned, Tensor, VERSION, element_of, is_row_major};
use madelung_core::array::{Array, DType, Data, Place, View, is_left};
use madelung_core::backend::context::{Allocator, Heap};
use madelung_core::{Error, Result};
use std::ffi::{c_char, c_int, c_void};

/// `DLDeviceType`: memory of the host, and of CUDA devices.
const HOST: i32 = 1;
const CUDA: i32 = 2;

/// Largest number of axes of a tensor that is lent or made.
const AXES: usize = 4;

type SetError = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

/// `DLPackExchangeAPI`, as far as it is used.
#[repr(C)]
struct Table {
    version: [u32; 2],
    previous: *const c_void,
    allocate:
        unsafe extern "C" fn(*const Tensor, *mut *mut ManagedTensorVersioned, *mut c_void, SetError) -> c_int,
    from_object: *const c_void,
    to_object: unsafe extern "C" fn(*mut ManagedTensorVersioned, *mut *mut c_void) -> c_int,
    /// Null of a library that has none.
    view: Option<unsafe extern "C" fn(*mut c_void, *mut Tensor) -> c_int>,
}

/// A library's table.
#[derive(Clone, Copy)]
pub struct Exchange(&'static Table);

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Exchange").field(&self.0.version).finish()
    }
}

// SAFETY: the table does not change, and its functions may be called from any thread, those for objects with the lock of
// the interpreter.
unsafe impl Send for Exchange {}
// SAFETY: as above.
unsafe impl Sync for Exchange {}

/// A tensor that a library looked at.
#[derive(Debug)]
pub enum Lent<'a> {
    /// A view of its memory.
    View(View<'a>),
    /// A tensor of another place, type or order than calls take as they are.
    Other,
    /// No tensor; the interpreter has an exception.
    Raised,
}

impl Exchange {
    /// The table at an address; None of another version.
    ///
    /// # Safety
    /// The address is that of a `DLPackExchangeAPI` which stays as it is while the process lives.
    pub unsafe fn new(table: *const c_void) -> Option<Self> {
        // SAFETY: every version of the table begins with its version.
        let version = unsafe { *table.cast::<[u32; 2]>() };
        // SAFETY: the layout is that of this version.
        let table = (version[0] == VERSION[0]).then(|| Self(unsafe { &*table.cast() }));
        table.filter(|table| table.0.view.is_some())
    }

    /// The memory of a tensor in row-major order, on the host or on a CUDA device.
    ///
    /// # Safety
    /// `object` is an object of the table's library, the interpreter is locked, and the tensor keeps its memory, which
    /// nothing writes to, for `'a`.
    pub unsafe fn view<'a>(self, object: *mut c_void) -> Lent<'a> {
        let Some(look) = self.0.view else { return Lent::Other };
        let mut tensor = std::mem::MaybeUninit::<Tensor>::uninit();
        // SAFETY: the function fills the tensor, or says that it has not.
        let tensor = unsafe {
            if look(object, tensor.as_mut_ptr()) != 0 {
                return Lent::Raised;
            }
            tensor.assume_init()
        };
        let Some(dtype) = tensor.element().and_then(Element::dtype) else { return Lent::Other };
        let place = match (tensor.device, usize::try_from(tensor.device[1])) {
            ([HOST, _], _) => Place::Host,
            ([CUDA, _], Ok(ordinal)) => Place::Cuda(ordinal),
            _ => return Lent::Other,
        };
        let axes = tensor.axes as usize;
        let mut shape = [0; AXES];
        if axes > AXES {
            return Lent::Other;
        }
        if axes > 0 {
            // SAFETY: the tensor has a size for each axis, and a stride where it has any.
            let (sizes, strides) = unsafe {
                let strides =
                    (!tensor.strides.is_null()).then(|| std::slice::from_raw_parts(tensor.strides, axes));
                (std::slice::from_raw_parts(tensor.shape, axes), strides)
            };
            shape.iter_mut().zip(sizes).for_each(|(size, n)| *size = *n as usize);
            if strides.is_some_and(|strides| !is_row_major(&shape[..axes], strides)) {
                return Lent::Other;
            }
        }
        let shape = &shape[..axes];
        let count = shape.iter().product::<usize>();
        let start = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize);
        if count > 0 && (start.is_null() || !start.addr().is_multiple_of(dtype.size())) {
            return Lent::Other;
        }
        // SAFETY: the memory is there, aligned, and has as many elements of this type for `'a`.
        unsafe {
            if place != Place::Host {
                return Lent::View(View::remote(place, dtype, shape, start.addr() as u64));
            }
            View::new(host_data(dtype, start, count), shape).map_or(Lent::Other, Lent::View)
        }
    }

    /// A new tensor of the host of arbitrary values.
    ///
    /// # Errors
    /// The library has no memory, or no tensors of this type.
    fn made(self, dtype: DType, shape: &[usize]) -> Result<Made> {
        let bytes = shape.iter().product::<usize>() * dtype.size();
        let Element { code, bits } = element_of(dtype)?;
        if shape.len() > AXES {
            return Err(Error::Unsupported(format!("a result of {} axes", shape.len())));
        }
        let (mut sizes, mut strides) = ([0_i64; AXES], [1_i64; AXES]);
        sizes.iter_mut().zip(shape).for_each(|(size, n)| *size = *n as i64);
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * sizes[axis].max(1);
        }
        let like = Tensor {
            data: std::ptr::null_mut(),
            device: [HOST, 0],
            axes: shape.len() as i32,
            code,
            bits,
            lanes: 1,
            shape: sizes.as_ptr(),
            strides: strides.as_ptr(),
            byte_offset: 0,
        };
        let mut made = std::ptr::null_mut();
        // SAFETY: the prototype lives through the call, which fills `made` or says that it has not.
        let code =
            unsafe { (self.0.allocate)(&raw const like, &raw mut made, std::ptr::null_mut(), not_told) };
        if code != 0 || made.is_null() {
            return Err(Error::memory(bytes, None));
        }
        Ok(Made(made))
    }
}

/// Receiver of a library's error, of which the caller tells in other words.
unsafe extern "C" fn not_told(_: *mut c_void, _: *const c_char, _: *const c_char) {}

/// Elements in memory of the host; of int32, unless of another of the types that DLPack and ops have.
///
/// # Safety
/// The conditions of [`std::slice::from_raw_parts`], where there are elements.
pub unsafe fn host_data<'a>(dtype: DType, start: *const u8, count: usize) -> Data<'a> {
    unsafe fn elements<'a, T>(start: *const u8, count: usize) -> &'a [T] {
        // SAFETY: that of the caller.
        if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(start.cast(), count) } }
    }
    // SAFETY: that of the caller; the type is that of the dtype.
    unsafe {
        match dtype {
            DType::F64 => Data::F64(elements(start, count)),
            DType::F32 => Data::F32(elements(start, count)),
            DType::I64 => Data::I64(elements(start, count)),
            _ => Data::I32(elements(start, count)),
        }
    }
}

/// A tensor of the library that no object of Python has yet.
#[derive(Debug)]
struct Made(*mut ManagedTensorVersioned);

// SAFETY: DLPack requires that the deleter may be called from any thread.
unsafe impl Send for Made {}
// SAFETY: as above; nothing is written through a shared reference.
unsafe impl Sync for Made {}

impl Made {
    fn data(&self) -> *mut u8 {
        // SAFETY: the struct is valid until its deleter is called.
        let tensor = unsafe { &(*self.0).tensor };
        tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize)
    }

    fn into_raw(self) -> *mut ManagedTensorVersioned {
        let raw = self.0;
        std::mem::forget(self);
        raw
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: nothing else calls the deleter.
        unsafe {
            if let Some(deleter) = (*self.0).deleter {
                deleter(self.0);
            }
        }
    }
}

/// Memory of a call whose results are tensors of a library; all else is of the heap, which keeps it for later calls.
#[derive(Clone, Copy, Debug)]
pub struct Results {
    /// The library.
    pub exchange: Exchange,
    /// Whether a matrix of each system comes without the axis of systems, as there is one alone.
    pub single: bool,
}

impl Results {
    /// The object of a result.
    ///
    /// # Errors
    /// The library has no memory.
    ///
    /// # Safety
    /// The interpreter is locked. The caller owns the reference; where it is null, the interpreter has an exception.
    pub unsafe fn object(self, array: Array) -> Result<*mut c_void> {
        let made = match array.into_owner::<Made>() {
            Ok(made) => made,
            Err(array) => {
                let (made, view) = (self.made(array.dtype(), array.shape())?, array.view());
                if !view.is_empty() {
                    // SAFETY: the new tensor has as many elements of the same type, and no other reference.
                    unsafe {
                        let from = view.data().pointer();
                        std::ptr::copy_nonoverlapping(from, made.data(), view.len() * view.dtype().size());
                    }
                }
                made
            }
        };
        let mut object = std::ptr::null_mut();
        // SAFETY: the function takes the tensor over.
        let code = unsafe { (self.exchange.0.to_object)(made.into_raw(), &raw mut object) };
        Ok(if code == 0 { object } else { std::ptr::null_mut() })
    }

    fn made(self, dtype: DType, shape: &[usize]) -> Result<Made> {
        let own = if self.single && *shape == [1, 3, 3] { &shape[1..] } else { shape };
        self.exchange.made(dtype, own)
    }
}

impl Allocator for Results {
    fn zeros(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        Heap.zeros(dtype, shape)
    }

    fn room(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        Heap.room(dtype, shape)
    }

    fn result(&self, _: usize, dtype: DType, shape: &[usize]) -> Result<Option<Array>> {
        let bytes = shape.iter().product::<usize>() * dtype.size();
        if bytes == 0 {
            return Ok(None);
        }
        if !is_left(bytes) {
            return Err(Error::memory(bytes, None));
        }
        let made = self.made(dtype, shape)?;
        let data = made.data();
        // SAFETY: the new tensor is contiguous, aligned for its dtype and has as many elements of this size, whose zero
        // is all zero bytes; `made` is its only reference, and keeps the memory in place.
        unsafe {
            data.write_bytes(0, bytes);
            Ok(Some(Array::lent(dtype, shape, data, Box::new(made))))
        }
    }

    fn recycle(&self, array: Array) {
        drop(array);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Tensors that the library of these tests has made, and those that were given back.
    static MADE: AtomicUsize = AtomicUsize::new(0);
    static GONE: AtomicUsize = AtomicUsize::new(0);

    /// A tensor of that library: its own memory, sizes and strides behind the struct.
    struct Own {
        memory: Vec<f64>,
        numbers: Vec<i64>,
    }

    unsafe extern "C" fn allocate(
        like: *const Tensor,
        made: *mut *mut ManagedTensorVersioned,
        _: *mut c_void,
        _: SetError,
    ) -> c_int {
        // SAFETY: the prototype of a call of `Exchange`.
        unsafe {
            let axes = (*like).axes as usize;
            let sizes = std::slice::from_raw_parts((*like).shape, axes);
            if sizes.contains(&13) {
                return -1;
            }
            let strides = std::slice::from_raw_parts((*like).strides, axes);
            let memory = vec![f64::NAN; sizes.iter().product::<i64>() as usize];
            let mut own = Box::new(Own { memory, numbers: [sizes, strides].concat() });
            let tensor = Tensor {
                data: own.memory.as_mut_ptr().cast(),
                shape: own.numbers.as_ptr(),
                strides: own.numbers[axes..].as_ptr(),
                ..std::ptr::read(like)
            };
            let context = Box::into_raw(own).cast();
            let managed =
                ManagedTensorVersioned { version: VERSION, context, deleter: Some(delete), flags: 0, tensor };
            *made = Box::into_raw(Box::new(managed));
        }
        MADE.fetch_add(1, Ordering::SeqCst);
        0
    }

    unsafe extern "C" fn delete(managed: *mut ManagedTensorVersioned) {
        // SAFETY: both come from `allocate`.
        unsafe {
            let managed = Box::from_raw(managed);
            drop(Box::from_raw(managed.context.cast::<Own>()));
        }
        GONE.fetch_add(1, Ordering::SeqCst);
    }

    /// Objects are the structs themselves.
    unsafe extern "C" fn to_object(made: *mut ManagedTensorVersioned, object: *mut *mut c_void) -> c_int {
        // SAFETY: a place of the caller.
        unsafe { *object = made.cast() };
        0
    }

    unsafe extern "C" fn view(object: *mut c_void, tensor: *mut Tensor) -> c_int {
        if object.is_null() {
            return -1;
        }
        // SAFETY: an object of `to_object`, and a place of the caller.
        unsafe { *tensor = std::ptr::read(&raw const (*object.cast::<ManagedTensorVersioned>()).tensor) };
        0
    }

    fn table(major: u32) -> Table {
        let (previous, from_object) = (std::ptr::null(), std::ptr::null());
        Table { version: [major, 3], previous, allocate, from_object, to_object, view: Some(view) }
    }

    #[test]
    fn tensors_are_made_lent_and_given_back() {
        // SAFETY: tables that live as long as the process.
        let [other, exchange] = unsafe {
            [2, 1].map(|major| Exchange::new((&raw const *Box::leak(Box::new(table(major)))).cast()))
        };
        assert!(other.is_none());
        let results = Results { exchange: exchange.expect("version 1"), single: true };
        let mut array = results.result(0, DType::F64, &[1, 3, 3]).unwrap().expect("a tensor");
        assert_eq!(array.to_f64().unwrap(), [0.0; 9]);
        array.fill(2.0).unwrap();
        // An array of other memory is copied.
        for (array, shape) in [(array, &[3, 3][..]), (Array::filled(DType::F64, &[4, 2], 2.0), &[4, 2])] {
            // SAFETY: the object is looked at while it lives, and given back.
            unsafe {
                let object = results.object(array).unwrap();
                let Lent::View(lent) = results.exchange.view(object) else { panic!("a view") };
                assert_eq!((lent.shape(), lent.to_f64().unwrap()), (shape, vec![2.0; lent.len()]));
                let tensor = &raw mut (*object.cast::<ManagedTensorVersioned>()).tensor;
                let before = std::ptr::read(tensor);
                for change in [
                    |x: &mut Tensor| x.device[0] = 3,
                    |x: &mut Tensor| x.bits = 16,
                    |x: &mut Tensor| x.byte_offset = 4,
                    |x: &mut Tensor| std::mem::swap(&mut x.shape, &mut x.strides),
                ] {
                    change(&mut *tensor);
                    assert!(matches!(results.exchange.view(object), Lent::Other));
                    std::ptr::write(tensor, std::ptr::read(&raw const before));
                }
                delete(object.cast());
            }
        }
        // SAFETY: the table says that null is no tensor.
        assert!(matches!(unsafe { results.exchange.view(std::ptr::null_mut()) }, Lent::Raised));
        assert!(results.result(0, DType::F64, &[13]).is_err());
        assert!(results.result(0, DType::F64, &[0, 3]).unwrap().is_none());
        // Of a call that fails.
        drop(results.result(1, DType::F32, &[5]).unwrap());
        assert_eq!(MADE.load(Ordering::SeqCst), 3);
        assert_eq!(GONE.load(Ordering::SeqCst), 3);
    }
}
