//! How far rounding moves a result.
//!
//! A sum whose terms cancel keeps the rounding of its terms, so its own size is no measure of its error. This backend
//! measures it: the Rust code, with every real number that goes into a kernel changed by a little of its own, at
//! random. What changes by δ · s where the inputs of all kernels change by δ has an error of order ε · s, however it
//! is computed: no code can tell its inputs from what they are rounded to.

use crate::common::systems::SplitMix64;
use madelung::Result;
use madelung::array::{Array, DType, View};
use madelung::backend::Context;
use madelung::cpu::Cpu;
use madelung_core::backend::Backend;
use madelung_core::backend::{Bound, LaunchArgs};
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
            view.to_f64().iter().map(|x| x * (1.0 + SIZE * rng.uniform(-1.0, 1.0))).collect();
        Array::from_f64(DType::F64, view.shape(), &numbers).expect("the view's own shape")
    }
}

madelung_stand_in::launches_by!(Noise, |noise, context, args| noise.launch(context, args));

impl Noise {
    fn launch(&self, context: &Context<'_>, launch: &mut LaunchArgs<'_>) -> Result<()> {
        assert_eq!(launch.dtype, DType::F64, "noise is far below the rounding of other dtypes");
        let is_real = |view: &View<'_>| view.dtype() == DType::F64;
        let inputs: Vec<Option<Array>> = launch
            .arrays
            .iter()
            .map(|(_, bound)| match bound {
                Bound::Input(view) if is_real(view) => Some(self.noisy(view)),
                _ => None,
            })
            .collect();
        let arrays = launch.arrays.iter_mut().zip(&inputs).map(|((key, bound), noisy)| {
            let bound = match (bound, noisy) {
                (_, Some(noisy)) => Bound::Input(noisy.view()),
                (Bound::Input(view), None) => Bound::Input(view.clone()),
                (Bound::Output { array, adds }, _) => Bound::Output { array, adds: *adds },
                (Bound::Unwanted, _) => Bound::Unwanted,
            };
            (*key, bound)
        });
        let mut noisy = LaunchArgs {
            kernel: launch.kernel,
            part: launch.part,
            dtype: launch.dtype,
            dims: launch.dims,
            arrays: arrays.collect(),
            batches: launch.batches.clone(),
            pairs: launch.pairs.clone(),
            maps: launch.maps.clone(),
            meshes: launch.meshes.clone(),
            device: vec![],
            reals: launch.reals.clone(),
            ints: launch.ints.clone(),
            status: launch.status,
            word: None,
        };
        Cpu::new().launch(context, &mut noisy)
    }
}
