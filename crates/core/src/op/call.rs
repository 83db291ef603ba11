//! Calls: an op with its arguments bound.

use super::bind::{check_room, has_gaps};
use super::declare::Op;
use super::lists::MadeLists;
use super::request::Arg;
use crate::array::{Array, DType, Shape, View};
use crate::backend::Context;
use crate::runtime::Role;
use crate::{Error, Result};

/// Call of an op: its arguments, checked, and what follows from them before anything runs.
pub(super) struct Call<'r, 'a> {
    pub(super) op: &'r Op,
    pub(super) context: &'r Context<'r>,
    pub(super) args: &'r [Arg<'a>],
    /// The dtype of the real arrays that are not stored, in which kernels compute.
    pub(super) dtype: DType,
    /// Sizes of the dimensions.
    pub(super) dims: Vec<(&'r str, usize)>,
    /// Integer attributes.
    pub(super) attrs: Vec<(&'r str, i64)>,
    /// The buffer and role of each result.
    pub(super) results: Vec<(usize, Role)>,
    /// Status word in the memory of a device.
    pub(super) word: Option<Array>,
    /// Lists that the call has made.
    pub(super) lists: MadeLists,
}

impl<'r> Call<'r, '_> {
    pub(super) fn shape(&self, buffer: usize) -> Result<Shape> {
        let shape = self.op.shape_of(buffer).unwrap_or(&[]);
        shape.iter().map(|s| s.evaluate(&self.dims, &self.attrs)).collect()
    }

    /// The size of one axis; 0 where there are fewer.
    pub(super) fn size(&self, buffer: usize, axis: usize) -> Result<usize> {
        let size = self.op.shape_of(buffer).and_then(|shape| shape.get(axis));
        size.map_or(Ok(0), |size| size.evaluate(&self.dims, &self.attrs))
    }

    /// A view has the dtype and shape of a buffer; `name` is called for an error alone.
    pub(super) fn fits(
        &self,
        name: &dyn Fn() -> String,
        buffer: usize,
        dtype: DType,
        view: &View<'_>,
    ) -> Result<()> {
        let shape = self.shape(buffer)?;
        if view.shape() != &*shape || view.dtype() != dtype {
            let expected = format!("{dtype} {:?}", &*shape);
            return Err(Error::argument(name(), expected, format!("{} {:?}", view.dtype(), view.shape())));
        }
        Ok(())
    }

    pub(super) fn zeros(&self, buffer: usize) -> Result<Array> {
        let (dtype, shape) = self.extent(buffer)?;
        self.context.allocator.zeros(dtype, &shape)
    }

    /// An array that is written as a whole before it is read; elements of no pair are zero.
    pub(super) fn room(&self, buffer: usize) -> Result<Array> {
        if has_gaps(self.op, self.args, buffer) {
            return self.zeros(buffer);
        }
        let (dtype, shape) = self.extent(buffer)?;
        self.context.allocator.room(dtype, &shape)
    }

    pub(super) fn extent(&self, buffer: usize) -> Result<(DType, Shape)> {
        let (dtype, shape) = (self.op.integer(buffer).unwrap_or(self.dtype), self.shape(buffer)?);
        check_room(self.op.buffer_name(buffer), dtype, &shape)?;
        Ok((dtype, shape))
    }

    /// An array for a role of a buffer; a result lies where the caller has memory for it.
    pub(super) fn made(&self, buffer: usize, r: Role, zeros: bool) -> Result<Array> {
        let zeros = zeros || has_gaps(self.op, self.args, buffer);
        // What is stored in another dtype is narrowed first.
        let computed = self.op.integer(buffer).is_some() || self.dtype_of(buffer) == self.dtype;
        let place = self.results.iter().position(|result| computed && *result == (buffer, r));
        if let Some(n) = place {
            let (dtype, shape) = self.extent(buffer)?;
            if let Some(mut array) = self.context.allocator.result(n, dtype, &shape)? {
                if zeros {
                    self.context.backend.fill(self.context, &mut array, 0.0)?;
                }
                return Ok(array);
            }
        }
        if zeros { self.zeros(buffer) } else { self.room(buffer) }
    }
}
