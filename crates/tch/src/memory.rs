//! Tensors as arrays of ops, and the other way round.
//!
//! Sound because a [`Dense`] keeps its tensor, whose elements it has found in the memory of the process, one after
//! the other, aligned, and of the kind that it says; and because, as for every operator of torch, nobody writes to
//! the inputs of a call while it runs.
#![expect(unsafe_code, reason = "memory behind foreign pointers")]

use half::{bf16, f16};
use madelung::array::{Array, DType, Data, View};
use madelung::{Error, Result};
use tch::{Device, Kind, TchError, Tensor};

/// A tensor whose elements lie one after the other in the memory of the process.
pub(crate) struct Dense {
    tensor: Tensor,
    dtype: DType,
    shape: Vec<usize>,
}

impl Dense {
    /// A tensor of an argument: its own memory, or a copy where elements lie otherwise.
    ///
    /// # Errors
    /// One of another device, without values, or of a kind that no op has.
    pub(crate) fn new(name: &str, tensor: &Tensor) -> Result<Self> {
        let wrong =
            |got: String| Error::argument(name, "a dense tensor on the CPU, of float64, float32, …", got);
        if !tensor.defined() {
            return Err(wrong("an undefined one".into()));
        }
        if tensor.device() != Device::Cpu {
            let got = format!("one on {:?}: madelung-tch has no device yet", tensor.device());
            return Err(Error::argument(name, "a tensor on the CPU", got));
        }
        let kind = tensor.f_kind().map_err(|error| wrong(error.to_string()))?;
        let Some(dtype) = dtype_of(kind) else {
            let expected = "float64, float32, float16, bfloat16, int64 or int32";
            return Err(Error::argument(name, expected, format!("{kind:?}")));
        };
        if tensor.is_sparse() || tensor.is_mkldnn() {
            return Err(wrong("a sparse one, or one of MKL-DNN".into()));
        }
        let dense = tensor.f_resolve_neg().and_then(|x| x.f_contiguous()).map_err(of_torch)?;
        if !dense.data_ptr().addr().is_multiple_of(dtype.size()) {
            return Err(wrong("one whose memory is not aligned".into()));
        }
        let shape: Vec<usize> = dense.size().iter().map(|n| *n as usize).collect();
        // Torch's zeros that are never written have no memory.
        if dense.data_ptr().is_null() && shape.iter().all(|n| *n > 0) {
            return Err(wrong("one without memory".into()));
        }
        Ok(Self { tensor: dense, dtype, shape })
    }

    /// Its elements.
    pub(crate) fn view(&self) -> Result<View<'_>> {
        let count = self.shape.iter().product();
        let pointer = self.tensor.data_ptr();
        macro_rules! of {
            ($kind:ident, $type:ty) => {{
                let mut data: &[$type] = &[];
                // Of no elements torch may have no address.
                if count > 0 {
                    // SAFETY: the tensor has so many elements of this kind, and the checks of `new` hold.
                    data = unsafe { std::slice::from_raw_parts(pointer.cast(), count) };
                }
                Data::$kind(data)
            }};
        }
        let data = match self.dtype {
            DType::F16 => of!(F16, f16),
            DType::BF16 => of!(BF16, bf16),
            DType::F32 => of!(F32, f32),
            DType::F64 => of!(F64, f64),
            DType::I32 => of!(I32, i32),
            DType::I64 => of!(I64, i64),
        };
        View::new(data, &self.shape)
    }
}

/// A new tensor with the elements of an array of the host.
///
/// # Errors
/// Those of torch, such as one about memory.
pub(crate) fn tensor(array: &Array) -> Result<Tensor> {
    let view = array.view();
    view.place().check_host("result")?;
    let bytes = view.len() * view.dtype().size();
    let mut data: &[u8] = &[];
    if bytes > 0 {
        // SAFETY: plain numbers of the host, one after the other.
        data = unsafe { std::slice::from_raw_parts(view.data().pointer(), bytes) };
    }
    let shape: Vec<i64> = view.shape().iter().map(|n| *n as i64).collect();
    Tensor::f_from_data_size(data, &shape, kind_of(view.dtype())).map_err(of_torch)
}

/// An error of torch.
pub(crate) fn of_torch(error: TchError) -> Error {
    Error::Unsupported(format!("torch: {error}"))
}

fn dtype_of(kind: Kind) -> Option<DType> {
    Some(match kind {
        Kind::Half => DType::F16,
        Kind::BFloat16 => DType::BF16,
        Kind::Float => DType::F32,
        Kind::Double => DType::F64,
        Kind::Int => DType::I32,
        Kind::Int64 => DType::I64,
        _ => return None,
    })
}

fn kind_of(dtype: DType) -> Kind {
    match dtype {
        DType::F16 => Kind::Half,
        DType::BF16 => Kind::BFloat16,
        DType::F32 => Kind::Float,
        DType::F64 => Kind::Double,
        DType::I32 => Kind::Int,
        DType::I64 => Kind::Int64,
    }
}
