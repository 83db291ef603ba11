//! Inputs of straight calls that are one number everywhere, where the call runs.

use madelung::array::{Array, DType, Data, View};
use std::cell::OnceCell;
use std::sync::Arc;

use super::given::one_system;
use crate::stream::Lane;

/// The constants of a call, each by the number of its input.
pub(super) struct Constants<'l> {
    made: Vec<OnceCell<Constant>>,
    /// The stream where the call runs; None: on the host.
    lane: Option<&'l Lane>,
}

enum Constant {
    Host(Array),
    Device(Arc<Array>),
}

impl Constant {
    fn view(&self) -> View<'_> {
        match self {
            Self::Host(array) => array.view(),
            Self::Device(array) => array.view(),
        }
    }
}

impl<'l> Constants<'l> {
    pub(super) fn new(inputs: usize, lane: Option<&'l Lane>) -> Self {
        Self { made: std::iter::repeat_with(OnceCell::new).take(inputs).collect(), lane }
    }

    /// A number `count` times. On a device one that an earlier call has made: what is refused launches nothing.
    pub(super) fn filled(&self, input: usize, dtype: DType, count: usize, x: f64) -> Option<View<'_>> {
        let made = match self.lane {
            Some(lane) => Constant::Device(lane.known(dtype, count, x)?),
            None => Constant::Host(Array::filled(dtype, &[count], x)),
        };
        Some(self.made[input].get_or_init(|| made).view())
    }

    /// The array that stands for zero.
    pub(super) fn absent(&self, input: usize, dtype: DType) -> Option<View<'_>> {
        match self.lane {
            Some(_) => self.filled(input, dtype, 0, 0.0),
            None => View::new(Data::F64(&[]), &[0]).ok(),
        }
    }

    /// Indices of one system for all rows.
    pub(super) fn one_system(&self, input: usize, rows: usize) -> Option<View<'_>> {
        match self.lane {
            Some(_) => self.filled(input, DType::I32, rows, 0.0),
            None => one_system(rows),
        }
    }

    /// The number of a constant of the host.
    pub(super) fn number(&self, input: usize) -> Option<f64> {
        self.made[input].get().and_then(|constant| constant.view().at(0))
    }
}
