//! Memory of a call on a device: results are tensors of their own, and what the call needs besides them are pieces of few
//! tensors, as a tensor costs more than a small launch.
#![expect(unsafe_code, reason = "pieces of memory")]

use crate::tensor::TorchCudaMemory;
use madelung_core::Result;
use madelung_core::array::{Array, DType};
use madelung_core::backend::Allocator;
use madelung_cuda::memory::address;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of the largest piece, of a tensor of pieces, and between the beginnings of pieces.
const LARGEST: usize = 1 << 16;
const TENSOR: usize = 1 << 18;
const STEP: usize = 256;

/// Memory of torch's on a device whose small arrays that are no results are pieces of tensors.
pub(crate) struct Pieces<'a> {
    whole: TorchCudaMemory,
    /// The array of a result.
    result: &'a (dyn Fn(DType, &[usize]) -> Result<Array> + Sync),
    /// The tensor of which pieces are taken, and its bytes that are.
    open: Mutex<Option<(Arc<Array>, usize)>>,
}

impl<'a> Pieces<'a> {
    pub(crate) fn new(
        whole: TorchCudaMemory,
        result: &'a (dyn Fn(DType, &[usize]) -> Result<Array> + Sync),
    ) -> Self {
        Self { whole, result, open: Mutex::default() }
    }
}

impl Allocator for Pieces<'_> {
    fn zeros(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        self.whole.zeroed(self.room(dtype, shape)?)
    }

    fn room(&self, dtype: DType, shape: &[usize]) -> Result<Array> {
        let bytes = shape.iter().product::<usize>() * dtype.size();
        if bytes == 0 || bytes > LARGEST {
            return self.whole.room(dtype, shape);
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (tensor, at) = match open.take() {
            Some((tensor, used)) if used + bytes <= TENSOR => (tensor, used),
            _ => match self.whole.room(DType::I64, &[TENSOR / DType::I64.size()]) {
                Ok(tensor) => (Arc::new(tensor), 0),
                // There may be memory for what is needed.
                Err(_) => return self.whole.room(dtype, shape),
            },
        };
        *open = Some((tensor.clone(), (at + bytes).next_multiple_of(STEP)));
        let (place, first) = (tensor.place(), address(&tensor.view()));
        // SAFETY: no other piece has these bytes of the tensor, which lives as long as the piece.
        Ok(unsafe { Array::remote(place, dtype, shape, first + at as u64, Box::new(tensor)) })
    }

    fn result(&self, _: usize, dtype: DType, shape: &[usize]) -> Result<Option<Array>> {
        (self.result)(dtype, shape).map(Some)
    }

    fn recycle(&self, array: Array) {
        drop(array);
    }
}
