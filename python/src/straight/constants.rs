//! Inputs of straight calls that are one number everywhere, where the call runs.

use madelung::array::{Array, DType, Data, View};
use pyo3::intern;
use pyo3::prelude::*;
use std::cell::OnceCell;
use std::sync::Arc;

use super::given::one_system;
use crate::plain::Plain;
use crate::stream::Lane;

/// The constants of a call, each by the number of its input.
pub(super) struct Constants<'a, 'py> {
    made: Vec<OnceCell<Constant<'py>>>,
    site: At<'a, 'py>,
}

/// The place of a call.
pub(super) enum At<'a, 'py> {
    Host,
    /// A stream of `madelung.cuda`.
    Lane(&'a Arc<Lane>),
    /// A stream of PyTorch's, with the mode that makes constants beside the first tensor of a call.
    Torch {
        plain: &'a Plain,
        stream: (usize, usize),
        mode: &'a Bound<'py, PyAny>,
        like: &'a Bound<'py, PyAny>,
    },
}

enum Constant<'py> {
    Host(Array),
    Device(Arc<Array>),
    Tensor(Bound<'py, PyAny>),
}

impl<'a, 'py> Constants<'a, 'py> {
    pub(super) fn new(inputs: usize, site: At<'a, 'py>) -> Self {
        Self { made: std::iter::repeat_with(OnceCell::new).take(inputs).collect(), site }
    }

    /// Whether the call runs on the host.
    pub(super) fn on_host(&self) -> bool {
        matches!(self.site, At::Host)
    }

    /// A number `count` times. On a stream of `madelung.cuda` one that an earlier call has made: what is refused launches
    /// nothing.
    pub(super) fn filled(
        &self,
        input: usize,
        dtype: DType,
        count: usize,
        x: f64,
    ) -> PyResult<Option<View<'_>>> {
        let made = match &self.site {
            At::Host => Constant::Host(Array::filled(dtype, &[count], x)),
            At::Lane(lane) => match lane.known(dtype, count, x) {
                Some(array) => Constant::Device(array),
                None => return Ok(None),
            },
            At::Torch { plain, stream: (ordinal, stream), mode, like } => {
                let key = (*ordinal, *stream, dtype, count, x.to_bits());
                let py = like.py();
                let make = || match (dtype, count) {
                    (DType::I32, rows) => mode.call_method1(intern!(py, "one_system"), (like, rows)),
                    (_, 0) => mode.call_method1(intern!(py, "absent"), (like,)),
                    (_, count) => mode.call_method1(intern!(py, "constant"), (x, like, count)),
                };
                match plain.constant(py, key, make)? {
                    Some(tensor) => Constant::Tensor(tensor),
                    None => return Ok(None),
                }
            }
        };
        Ok(match (self.made[input].get_or_init(|| made), &self.site) {
            (Constant::Host(array), _) => Some(array.view()),
            (Constant::Device(array), _) => Some(array.view()),
            (Constant::Tensor(tensor), At::Torch { plain, .. }) => plain.memory(tensor)?,
            (Constant::Tensor(_), _) => None,
        })
    }

    /// The array that stands for zero.
    pub(super) fn absent(&self, input: usize, dtype: DType) -> PyResult<Option<View<'_>>> {
        if self.on_host() {
            return Ok(View::new(Data::F64(&[]), &[0]).ok());
        }
        self.filled(input, dtype, 0, 0.0)
    }

    /// Indices of one system for all rows.
    pub(super) fn one_system(&self, input: usize, rows: usize) -> PyResult<Option<View<'_>>> {
        if self.on_host() { Ok(one_system(rows)) } else { self.filled(input, DType::I32, rows, 0.0) }
    }
}
