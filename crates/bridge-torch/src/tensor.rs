//! Tensors: owned handles of the shim, and views of their memory, on the CPU or on a CUDA device.
//!
//! A handle is a counted reference that keeps the tensor's memory. Views are read-only; as for every operator of torch,
//! inputs must not be written while the operator runs. Results lie in new tensors.
#![expect(unsafe_code, reason = "memory behind foreign handles")]

use crate::shim::{Handle, current_stream, shim};
use madelung_core::array::{Array, DType, Data, Place, View, is_left};
use madelung_core::backend::context::{Allocator, Heap};
use madelung_core::{Error, Result};
use madelung_cuda::memory::address;
use madelung_cuda::{Device, Stream};
use std::sync::OnceLock;

/// An owned reference to a tensor.
#[derive(Debug)]
pub(crate) struct Tensor(Handle);

// SAFETY: a handle is a counted reference with an atomic count, and reads through it are of data that does not change.
unsafe impl Send for Tensor {}
// SAFETY: as above.
unsafe impl Sync for Tensor {}

/// Memory of a call on the CPU: results are tensors, all else is of the heap, which keeps it for later calls (torch's
/// allocator would give it back to the system).
#[derive(Clone, Copy, Debug)]
pub(crate) struct TorchMemory;

impl Allocator for TorchMemory {
    fn zeros(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        Heap.zeros(dtype, shape)
    }

    fn room(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        Heap.room(dtype, shape)
    }

    fn result(&self, _: usize, dtype: DType, shape: &[usize]) -> Result<Option<Array>> {
        let bytes = shape.iter().product::<usize>() * dtype.size();
        if !is_left(bytes) {
            return Err(Error::memory(bytes, None));
        }
        let (tensor, data) = Tensor::empty(dtype, shape, Place::Host)?;
        if data.is_null() {
            return Ok(None);
        }
        // SAFETY: the new tensor is contiguous, aligned for its dtype and has as many elements of this size, whose zero
        // is all zero bytes; this handle is its only reference, and keeps the memory in place.
        unsafe {
            data.write_bytes(0, bytes);
            Ok(Some(Array::lent(dtype, shape, data, Box::new(tensor))))
        }
    }

    fn recycle(&self, array: Array) {
        drop(array);
    }
}

/// torch's current stream of a device.
///
/// # Errors
/// No such device.
pub fn stream(ordinal: usize) -> Result<Stream> {
    let (device, raw) = (Device::get(ordinal)?, current_stream(ordinal)?);
    // SAFETY: torch's streams live as long as the process.
    unsafe { device.stream(raw) }
}

/// Copies an array of a device to memory there, on torch's current stream.
///
/// # Errors
/// `from`, where it lies on the host; the driver's.
///
/// # Safety
/// `to` is memory of the device with room for the array, to which nothing else refers.
pub unsafe fn copied(to: u64, from: &View<'_>) -> Result<()> {
    let Place::Cuda(ordinal) = from.place() else {
        return Err(Error::argument("from", "an array of a device", "one of the host"));
    };
    // SAFETY: that of the caller.
    unsafe { stream(ordinal)?.copy(to, address(from), from.len() * from.dtype().size()) }
}

/// torch's caching allocator on a CUDA device, for torch's current stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TorchCudaMemory {
    pub(crate) stream: Stream,
}

impl TorchCudaMemory {
    fn place(&self) -> Place {
        Place::Cuda(self.stream.device().ordinal())
    }

    /// A new array, made zero.
    pub(crate) fn zeroed(&self, array: Array) -> Result<Array> {
        let view = array.view();
        // SAFETY: the new array has as many bytes, and no other reference.
        unsafe { self.stream.zero(address(&view), view.len() * view.dtype().size())? };
        Ok(array)
    }
}

impl Allocator for TorchCudaMemory {
    fn zeros(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        self.zeroed(self.room(dtype, shape)?)
    }

    fn room(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        let (tensor, data) = Tensor::empty(dtype, shape, self.place())?;
        Ok(tensor.into_remote(self.place(), dtype, shape, data))
    }

    fn recycle(&self, array: Array) {
        drop(array);
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: the handle is owned and not used again.
        unsafe { (shim().aoti_torch_delete_tensor_object)(self.0) };
    }
}

/// torch's numbers of dtypes, constant within a release.
fn dtypes() -> &'static [(i32, DType); 6] {
    static DTYPES: OnceLock<[(i32, DType); 6]> = OnceLock::new();
    DTYPES.get_or_init(|| {
        let s = shim();
        // SAFETY: functions without arguments.
        unsafe {
            [
                ((s.aoti_torch_dtype_float64)(), DType::F64),
                ((s.aoti_torch_dtype_float32)(), DType::F32),
                ((s.aoti_torch_dtype_int32)(), DType::I32),
                ((s.aoti_torch_dtype_int64)(), DType::I64),
                ((s.aoti_torch_dtype_float16)(), DType::F16),
                ((s.aoti_torch_dtype_bfloat16)(), DType::BF16),
            ]
        }
    })
}

/// torch's numbers of device types: CPU and CUDA.
fn devices() -> [i32; 2] {
    static DEVICES: OnceLock<[i32; 2]> = OnceLock::new();
    // SAFETY: functions without arguments.
    *DEVICES.get_or_init(|| unsafe {
        [(shim().aoti_torch_device_type_cpu)(), (shim().aoti_torch_device_type_cuda)()]
    })
}

/// An input tensor after its checks: on the call's device, contiguous, and of a supported dtype.
#[derive(Debug)]
pub(crate) struct InputTensor {
    _tensor: Tensor,
    place: Place,
    data: *const u8,
    sizes: [usize; AXES],
    axes: usize,
    dtype: DType,
}

/// Largest number of axes of an argument.
const AXES: usize = 4;

impl Tensor {
    /// # Safety
    /// The handle is an owned reference to a tensor, which the caller gives up.
    pub(crate) unsafe fn from_raw(handle: u64) -> Self {
        Self(handle as usize as Handle)
    }

    /// The handle, whose reference passes to the caller.
    pub(crate) fn into_raw(self) -> u64 {
        let handle = self.0 as usize as u64;
        std::mem::forget(self);
        handle
    }

    /// The tensor of an array in torch's memory; for an array of other memory, a copy.
    pub(crate) fn from_array(array: Array) -> Result<Self> {
        let array = match array.into_owner::<Self>() {
            Ok(tensor) => return Ok(tensor),
            Err(array) => array,
        };
        let (tensor, to) = Self::empty(array.dtype(), array.shape(), array.place())?;
        let view = array.view();
        if array.place() != Place::Host {
            // SAFETY: the new tensor has as many bytes, and no other reference.
            unsafe { copied(to.addr() as u64, &view)? };
            return Ok(tensor);
        }
        let bytes = view.len() * view.dtype().size();
        if bytes > 0 {
            // SAFETY: the new tensor is contiguous, has as many elements of equal size, and no other reference.
            unsafe { std::ptr::copy_nonoverlapping(view.data().pointer(), to, bytes) };
        }
        Ok(tensor)
    }

    /// A new tensor on a device as an array.
    fn into_remote(self, place: Place, dtype: DType, shape: &[usize], data: *mut u8) -> Array {
        // SAFETY: the tensor is contiguous, has as many elements of this dtype and no other reference; torch reuses its
        // memory only for later work of the stream.
        unsafe { Array::remote(place, dtype, shape, data.addr() as u64, Box::new(self)) }
    }

    /// A new contiguous tensor of arbitrary values, and its memory.
    pub(crate) fn empty(dtype: DType, shape: &[usize], place: Place) -> Result<(Self, *mut u8)> {
        let s = shim();
        let (device, index) = match place {
            Place::Host => (devices()[0], 0),
            Place::Cuda(ordinal) => (devices()[1], ordinal as i32),
        };
        if shape.len() > AXES {
            return Err(Error::Unsupported(format!(
                "PyTorch: a result of more than {AXES} axes ({shape:?})"
            )));
        }
        let (mut sizes, mut strides) = ([0i64; AXES], [1i64; AXES]);
        sizes.iter_mut().zip(shape).for_each(|(size, n)| *size = *n as i64);
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * sizes[axis].max(1);
        }
        let number = dtypes().iter().find(|d| d.1 == dtype).map_or(0, |d| d.0);
        let (mut handle, mut data) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the arrays have as many elements as axes; the results go to local variables.
        unsafe {
            let made = (s.aoti_torch_empty_strided)(
                shape.len() as i64,
                sizes.as_ptr(),
                strides.as_ptr(),
                number,
                device,
                index,
                &raw mut handle,
            );
            s.done(made, format_args!("allocating {dtype} {shape:?}")).map_err(|error| {
                let bytes = shape.iter().product::<usize>() * dtype.size();
                // PyTorch says no more than a text, and not every version says one.
                let other = place != Place::Host && !error.to_string().contains("memory");
                if other { error } else { Error::memory(bytes, None) }
            })?;
            let tensor = Self(handle);
            s.done((s.aoti_torch_get_data_ptr)(handle, &raw mut data), "reading a tensor's address")?;
            Ok((tensor, data.cast()))
        }
    }

    /// The undefined tensor: `None` in Python.
    pub(crate) fn undefined() -> Result<Self> {
        let (s, mut handle) = (shim(), std::ptr::null_mut());
        // SAFETY: the result goes to a local variable.
        s.done(unsafe { (s.aoti_torch_new_uninitialized_tensor)(&raw mut handle) }, "making a tensor")?;
        Ok(Self(handle))
    }

    fn read<T: Copy>(&self, get: unsafe extern "C-unwind" fn(Handle, *mut T) -> i32, zero: T) -> Result<T> {
        let mut value = zero;
        // SAFETY: the handle is a tensor's, and the function writes one value.
        let code = unsafe { get(self.0, &raw mut value) };
        shim().done(code, "reading what a tensor is")?;
        Ok(value)
    }

    /// The place of the tensor; None for devices other than the CPU and CUDA.
    pub(crate) fn place(&self) -> Result<Option<Place>> {
        let (s, [cpu, cuda]) = (shim(), devices());
        Ok(match self.read(s.aoti_torch_get_device_type, 0)? {
            kind if kind == cpu => Some(Place::Host),
            kind if kind == cuda => {
                usize::try_from(self.read(s.aoti_torch_get_device_index, 0)?).ok().map(Place::Cuda)
            }
            _ => None,
        })
    }

    /// The tensor as a contiguous input of a call at `place`; `name` is the name of the argument in errors.
    pub(crate) fn into_input(mut self, place: Place, name: &dyn Fn() -> String) -> Result<InputTensor> {
        let s = shim();
        let number = self.read(s.aoti_torch_get_dtype, 0)?;
        let Some((_, dtype)) = dtypes().iter().find(|d| d.0 == number) else {
            let expected = "a tensor of floating-point numbers or of int32 or int64";
            return Err(Error::argument(name(), expected, "one of another dtype"));
        };
        let (mut sizes, axes) = self.sizes(name)?;
        // A tensor without elements may be anywhere.
        let elements: usize = sizes[..axes].iter().product();
        let at = self.place()?;
        if elements > 0 && at != Some(place) {
            let got = at.map_or("one on another device".into(), |at| format!("one on {at}"));
            let expected = match place {
                Place::Host => {
                    "a tensor on the CPU like the others, or all of them on one CUDA device".into()
                }
                Place::Cuda(_) => format!("a tensor on {place} like the others"),
            };
            return Err(Error::argument(name(), expected, got));
        }
        let layout = self.layout(&sizes[..axes])?;
        if layout == Layout::Other || (layout == Layout::Repeated && place != Place::Host) {
            self = self.contiguous()?;
            (sizes, _) = self.sizes(name)?;
        }
        let mut data = self.data()?;
        if elements > 0 && (data.is_null() || !data.addr().is_multiple_of(dtype.size())) {
            let expected = "a tensor whose memory is there and aligned (`.clone()` makes one)";
            return Err(Error::argument(name(), expected, format!("one at address {:#x}", data.addr())));
        }
        if layout == Layout::Repeated && place == Place::Host {
            (self, data) = self.filled(data, *dtype, &sizes[..axes])?;
        }
        Ok(InputTensor { _tensor: self, place, data, sizes, axes, dtype: *dtype })
    }

    /// The integers of a tensor on the CPU.
    pub(crate) fn integers(self, name: &dyn Fn() -> String) -> Result<Vec<i64>> {
        let input = self.into_input(Place::Host, name)?;
        match input.view()?.data() {
            Data::I64(list) => Ok(list.to_vec()),
            _ => Err(Error::argument(name(), "a tensor of int64", input.dtype.to_string())),
        }
    }

    fn sizes(&self, name: &dyn Fn() -> String) -> Result<([usize; AXES], usize)> {
        let s = shim();
        let axes = self.read(s.aoti_torch_get_dim, 0)? as usize;
        let from = self.read(s.aoti_torch_get_sizes, std::ptr::null_mut())?;
        let mut sizes = [0; AXES];
        if axes > 0 {
            // SAFETY: a tensor has a size for each axis, at an address that is valid while it lives.
            let from = unsafe { std::slice::from_raw_parts(from, axes) };
            if axes > AXES {
                return Err(Error::argument(
                    name(),
                    format!("at most {AXES} axes"),
                    format!("shape {from:?}"),
                ));
            }
            sizes.iter_mut().zip(from).for_each(|(size, n)| *size = *n as usize);
        }
        Ok((sizes, axes))
    }

    fn data(&self) -> Result<*const u8> {
        Ok(self.read(shim().aoti_torch_get_data_ptr, std::ptr::null_mut())?.cast_const().cast())
    }

    fn layout(&self, shape: &[usize]) -> Result<Layout> {
        if shape.is_empty() {
            return Ok(Layout::Contiguous);
        }
        let strides = self.read(shim().aoti_torch_get_strides, std::ptr::null_mut())?;
        // SAFETY: as for the sizes.
        let strides = unsafe { std::slice::from_raw_parts(strides, shape.len()) };
        let mut expected = 1;
        for (size, stride) in shape.iter().zip(strides).rev() {
            if *size != 1 && *stride != expected {
                let still = shape.iter().zip(strides).all(|(size, stride)| *size == 1 || *stride == 0);
                return Ok(match (shape.contains(&0), still) {
                    (true, _) => Layout::Contiguous,
                    (false, true) => Layout::Repeated,
                    (false, false) => Layout::Other,
                });
            }
            expected *= *size as i64;
        }
        Ok(Layout::Contiguous)
    }

    /// A contiguous tensor whose elements all equal the one at `data`, this tensor's own, and its memory. Cheaper than
    /// a call of the dispatcher.
    fn filled(&self, data: *const u8, dtype: DType, shape: &[usize]) -> Result<(Self, *const u8)> {
        let (tensor, to) = Self::empty(dtype, shape, Place::Host)?;
        let (bytes, size) = (shape.iter().product::<usize>() * dtype.size(), dtype.size());
        if to.is_null() {
            return Err(Error::Unsupported(format!("PyTorch: a tensor {shape:?} without memory")));
        }
        // SAFETY: the element is valid while this handle lives; the new tensor has `bytes` bytes and no other
        // reference; each step copies initialised bytes to the bytes behind them.
        unsafe {
            std::ptr::copy_nonoverlapping(data, to, size);
            let mut done = size;
            while done < bytes {
                let more = done.min(bytes - done);
                std::ptr::copy_nonoverlapping(to, to.add(done), more);
                done += more;
            }
        }
        Ok((tensor, to))
    }

    /// The result of `aten::contiguous`.
    fn contiguous(self) -> Result<Self> {
        // The handle, and the number of the memory format; the result replaces the handle.
        let mut stack = [self.into_raw(), 0];
        let (name, overload) = (c"aten::contiguous".as_ptr(), c"".as_ptr());
        // SAFETY: the arguments are those of the operator's schema, which takes the handle.
        let code = unsafe { (shim().aoti_torch_call_dispatcher)(name, overload, stack.as_mut_ptr()) };
        shim().done(code, "making a tensor contiguous")?;
        // SAFETY: the operator returns one tensor.
        Ok(unsafe { Self::from_raw(stack[0]) })
    }
}

/// The memory layout of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Contiguous,
    /// All strides are 0, as in an expanded scalar (the cotangent of a sum).
    Repeated,
    Other,
}

impl InputTensor {
    fn shape(&self) -> &[usize] {
        &self.sizes[..self.axes]
    }

    pub(crate) fn view(&self) -> Result<View<'_>> {
        if self.place != Place::Host {
            // SAFETY: `into_input` checked that the memory is contiguous, aligned and of this dtype; it lives as long
            // as the handle, and torch orders writes on the stream.
            return Ok(unsafe {
                View::remote(self.place, self.dtype, self.shape(), self.data.addr() as u64)
            });
        }
        let data = match self.dtype {
            DType::F16 => Data::F16(self.elements()),
            DType::BF16 => Data::BF16(self.elements()),
            DType::F32 => Data::F32(self.elements()),
            DType::F64 => Data::F64(self.elements()),
            DType::I32 => Data::I32(self.elements()),
            DType::I64 => Data::I64(self.elements()),
        };
        View::new(data, self.shape())
    }

    /// The elements; `T` is the type of the dtype.
    fn elements<T>(&self) -> &[T] {
        debug_assert_eq!(size_of::<T>(), self.dtype.size());
        match self.shape().iter().product() {
            0 => &[],
            // SAFETY: `into_input` checked that the memory is contiguous, aligned and of this dtype; it lives as long
            // as the handle.
            n => unsafe { std::slice::from_raw_parts(self.data.cast(), n) },
        }
    }
}
