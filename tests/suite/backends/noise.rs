//! How far rounding moves a result.
//!
//! A sum whose terms cancel keeps the rounding of its terms, so its own size is no measure of its error. This backend
//! measures it: the Rust code, with every real number that goes into a kernel changed by a little of its own, at
//! random. What changes by δ · s where the inputs of all kernels change by δ has an error of order ε · s, however it
//! is computed: no code can tell its inputs from what they are rounded to.

use crate::common::systems::SplitMix64;
use madelung::Result;
use madelung::array::{Array, DType, DataMut, Place, View};
use madelung::backend::Context;
use madelung::cpu::Cpu;
use madelung_core::backend::Backend;
use madelung_core::backend::{Bound, Launch, LaunchArgs};
use std::sync::{Mutex, PoisonError};

/// The relative change: far above the rounding of f64, far below what curvature shows.
pub(crate) const SIZE: f64 = 1e-8;

pub(crate) struct Noise(Mutex<SplitMix64>);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(SplitMix64(seed)))
    }

    fn noisy(&self, view: &View<'_>) -> Array {
        let mut rng = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers: Vec<f64> =
            view.to_f64().unwrap().iter().map(|x| x * (1.0 + SIZE * rng.uniform(-1.0, 1.0))).collect();
        Array::from_f64(DType::F64, view.shape(), &numbers).expect("the view's own shape")
    }
}

madelung_stand_in::launches_by!(Noise, |noise, context, args| noise.launch(context, args));

impl Noise {
    fn launch(&self, context: &Context<'_>, launch: &mut Launch<'_>) -> Result<()> {
        assert_eq!(launch.dtype, DType::F64, "noise is far below the rounding of other dtypes");
        let is_real = |view: &View<'_>| view.dtype() == DType::F64;
        // Outputs are copied, as what they hold may be added to.
        let mut copies: Vec<Option<Array>> = launch
            .arrays
            .iter()
            .map(|(_, bound)| match bound {
                Bound::Input(view) if is_real(view) => Some(self.noisy(view)),
                Bound::Output { array, .. } => Some(array.view().to_array().expect("an array of the host")),
                Bound::Input(_) | Bound::Unwanted => None,
            })
            .collect();
        let arrays = launch.arrays.iter().zip(&mut copies).map(|((key, bound), copy)| {
            let bound = match (bound, copy) {
                (Bound::Input(_), Some(noisy)) => Bound::Input(noisy.view()),
                (Bound::Input(view), None) => Bound::Input(view.clone()),
                (Bound::Output { adds, .. }, Some(array)) => Bound::Output { array, adds: *adds },
                (Bound::Output { .. } | Bound::Unwanted, _) => Bound::Unwanted,
            };
            (*key, bound)
        });
        let args = LaunchArgs {
            kernel: launch.kernel,
            part: launch.part,
            dtype: launch.dtype,
            dims: launch.dims,
            arrays: arrays.collect(),
            structures: launch.structures.clone(),
            reals: launch.reals.clone(),
            ints: launch.ints.clone(),
            status: launch.status,
            word: None,
        };
        let mut noisy = Launch::new(args, Place::Host)?;
        Cpu::new().launch(context, &mut noisy)?;
        drop(noisy);
        let keys: Vec<_> = launch.arrays.iter().map(|(key, _)| *key).collect();
        for ((param, role), copy) in keys.into_iter().zip(&copies) {
            if let (Some(mut output), Some(Array::F64(copy))) = (launch.output(param, role), copy) {
                let Some(DataMut::F64(to)) = output.data_mut() else { unreachable!("outputs are f64") };
                to.copy_from_slice(copy);
            }
        }
        Ok(())
    }
}
