//! Arrays that a call makes, and which of them are its results.

use super::check::{check_room, has_gaps};
use super::evaluate::Run;
use super::request::Request;
use crate::Result;
use crate::array::{Array, DType, Shape};
use crate::runtime::Role;

impl Run<'_, '_> {
    pub(super) fn zeros(&self, buffer: usize) -> Result<Array> {
        let (dtype, shape) = self.extent(buffer)?;
        self.context.allocator.zeros(dtype, &shape)
    }

    /// An array that is written as a whole before it is read, but where there is no pair.
    pub(super) fn room(&self, buffer: usize) -> Result<Array> {
        if has_gaps(self.op, self.args, buffer) {
            return self.zeros(buffer);
        }
        let (dtype, shape) = self.extent(buffer)?;
        self.context.allocator.room(dtype, &shape)
    }

    pub(super) fn extent(&self, buffer: usize) -> Result<(DType, Shape)> {
        let (dtype, shape) = (self.op.integer(buffer).unwrap_or(self.dtype), self.shape(buffer)?);
        check_room(self.op.buffer_name(buffer), dtype, &shape, self.context.backend.place())?;
        Ok((dtype, shape))
    }

    /// An array for a role of a buffer, where the caller wants it if it is a result.
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

    /// The buffer and role of each result that a request asks for.
    pub(super) fn results_of(&self, request: &Request<'_, '_>) -> Vec<(usize, Role)> {
        let tangent = match request.directions.len() {
            0 => Role::VALUE,
            1 => Role::FIRST,
            _ => Role::FIRST.with(Role::SECOND),
        };
        let forwards = request.cotangents.is_empty();
        let outputs = self.op.args.len()..self.op.args.len() + self.op.outputs.len();
        let values = outputs.filter(|_| forwards || request.values);
        let values = values.map(|buffer| (buffer, if forwards { tangent } else { Role::VALUE }));
        let gradients = request.gradients.iter().map(|arg| (*arg, Role::COTANGENT.with(tangent)));
        let kept = request.save.map(|by| self.op.kept(by)).unwrap_or_default();
        values.chain(gradients).chain(kept).collect()
    }
}
