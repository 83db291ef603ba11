//! Real 3-D Fourier transforms, by cuFFT.
//!
//! Plans are kept, one for each device, shape and number of meshes, so that a call that has run once on any stream can be
//! captured on another. A plan has no work area of its own: each call brings one, so streams do not wait for each other.

use super::{Arguments, Compiled, Queue, Scratch, Text, tiles};
use crate::cufft::{Plan, Transform};
use madelung_core::array::DType;
use madelung_core::backend::{Waves, half_spectrum};
use madelung_core::{Error, Result};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

const FFT: Text = Text::new("fft", &[include_str!("common.cuh"), include_str!("fft.cu")]);

/// The key of a plan: device, transform, mesh, number of meshes.
type Key = (usize, Transform, [usize; 3], usize);
static PLANS: LazyLock<Mutex<HashMap<Key, Arc<Plan>>>> = LazyLock::new(Mutex::default);

/// One direction of the transforms of `systems` meshes.
struct Meshes {
    real: &'static str,
    mesh: [usize; 3],
    systems: usize,
    waves: usize,
    spectrum_bytes: usize,
    transform: Transform,
}

impl Meshes {
    fn new(dtype: DType, mesh: [usize; 3], systems: usize, forward: bool) -> Result<Self> {
        let (real, transform) = match (dtype, forward) {
            (DType::F32, true) => ("f32", Transform::R2C),
            (DType::F32, false) => ("f32", Transform::C2R),
            (DType::F64, true) => ("f64", Transform::D2Z),
            (DType::F64, false) => ("f64", Transform::Z2D),
            (other, _) => return Err(Error::argument("dtype", "float32 or float64", other.to_string())),
        };
        let waves = half_spectrum(mesh).and_then(|waves| waves.checked_mul(systems));
        let fits = |waves: &usize| !mesh.contains(&0) && waves.checked_mul(4 * dtype.size()).is_some();
        let Some(waves) = waves.filter(fits) else {
            let expected = "three sizes ≥ 1 whose product fits in 64 bits";
            return Err(Error::argument("mesh", expected, format!("{mesh:?}")));
        };
        let spectrum_bytes = (waves * 2 * dtype.size()).next_multiple_of(ALIGNED);
        Ok(Self { real, mesh, systems, waves, spectrum_bytes, transform })
    }

    fn plan(&self, queue: &Queue) -> Result<Arc<Plan>> {
        let stream = queue.stream;
        let key = (stream.device().ordinal(), self.transform, self.mesh, self.systems);
        // Concurrent calls that need one plan make it once.
        let mut plans = PLANS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans.get(&key) {
            return Ok(Arc::clone(plan));
        }
        if stream.device().is_still() {
            let expected = "what a Fourier transform needs of memory is known on its device alone";
            return Err(Error::Unsupported(expected.into()));
        }
        if stream.is_capturing()? {
            return Err(Error::Unsupported(format!(
                "a Fourier transform of {} meshes of {:?}: its plan cannot be made while the stream captures a graph; \
                 run it once before the capture",
                self.systems, self.mesh
            )));
        }
        let plan = Arc::new(Plan::new(stream.device(), self.transform, self.mesh, self.systems)?);
        plans.insert(key, Arc::clone(&plan));
        Ok(plan)
    }

    /// The plan, and the addresses of the interleaved spectrum and of the work area.
    fn parts(&self, queue: &Queue, values: u64, scratch: Scratch) -> Result<(Arc<Plan>, u64, u64)> {
        let plan = self.plan(queue)?;
        scratch.check(self.scratch(&plan))?;
        // cuFFT takes reals two by two.
        let pair = if self.real == "f32" { 8 } else { 16 };
        if !values.is_multiple_of(pair) {
            let expected = format!("an address that is a multiple of {pair}");
            return Err(Error::argument("values", expected, format!("{values:#x}")));
        }
        let spectrum = scratch.address.next_multiple_of(ALIGNED as u64);
        Ok((plan, spectrum, spectrum + self.spectrum_bytes as u64))
    }

    /// The bytes of scratch, with those for alignment.
    fn scratch(&self, plan: &Plan) -> usize {
        self.spectrum_bytes + plan.work_bytes() + ALIGNED
    }

    fn program(&self) -> Compiled {
        FFT.of(&[("ELEMENT", self.real)])
    }
}

/// The alignment of cuFFT's work area.
const ALIGNED: usize = 256;

/// The bytes of scratch for [`real_fft`] and [`inverse_real_fft`] of `systems` meshes. Their plans are made here if they
/// are not there yet.
///
/// # Errors
/// `dtype`, where it is neither f32 nor f64; `mesh`, where a size is 0 or too large; there is no cuFFT; the stream captures
/// a graph, and a plan would have to be made.
pub fn fft_scratch(queue: &Queue, dtype: DType, mesh: [usize; 3], systems: usize) -> Result<usize> {
    let mut bytes = 0;
    for forward in [true, false] {
        let meshes = Meshes::new(dtype, mesh, systems, forward)?;
        if meshes.waves > 0 {
            bytes = bytes.max(meshes.scratch(&*meshes.plan(queue)?));
        }
    }
    Ok(bytes)
}

/// The Fourier transform of `systems` real meshes, as [`Context::real_fft`] has it: from `values` to the real and the
/// imaginary part of their half spectra.
///
/// # Errors
/// As [`fft_scratch`]; `values`, where it is not aligned to two elements; `scratch`, where it is too small; those of
/// cuFFT and of the driver.
///
/// [`Context::real_fft`]: madelung_core::backend::Context::real_fft
pub fn real_fft(
    queue: &Queue,
    waves: Waves,
    (dtype, values): (DType, u64),
    mesh: [usize; 3],
    systems: usize,
    [re, im]: [u64; 2],
    scratch: Scratch,
) -> Result<()> {
    let meshes = Meshes::new(dtype, mesh, systems, true)?;
    if meshes.waves == 0 {
        return Ok(());
    }
    let (plan, spectrum, work) = meshes.parts(queue, values, scratch)?;
    queue.transform(&plan, values, spectrum, work)?;
    let factor: f64 = if waves == Waves::All { 2.0 } else { 1.0 };
    let arguments = Arguments::new()
        .word(spectrum)
        .word(re)
        .word(im)
        .word(meshes.waves as u64)
        .word(mesh[2] as u64)
        .word(factor.to_bits());
    meshes.program().launch(queue, "fft_split", tiles(meshes.waves), arguments)
}

/// The real part of the inverse transform without a factor, as [`Context::inverse_real_fft`] has it: from the real and the
/// imaginary part of half spectra to `values`.
///
/// # Errors
/// As [`real_fft`].
///
/// [`Context::inverse_real_fft`]: madelung_core::backend::Context::inverse_real_fft
pub fn inverse_real_fft(
    queue: &Queue,
    waves: Waves,
    [re, im]: [u64; 2],
    mesh: [usize; 3],
    systems: usize,
    (dtype, values): (DType, u64),
    scratch: Scratch,
) -> Result<()> {
    let meshes = Meshes::new(dtype, mesh, systems, false)?;
    if meshes.waves == 0 {
        return Ok(());
    }
    let (plan, spectrum, work) = meshes.parts(queue, values, scratch)?;
    // cuFFT counts the waves that stand for two twice.
    let factor: f64 = if waves == Waves::All { 1.0 } else { 0.5 };
    let arguments = Arguments::new()
        .word(re)
        .word(im)
        .word(spectrum)
        .word(meshes.waves as u64)
        .word(mesh[0] as u64)
        .word(mesh[1] as u64)
        .word(mesh[2] as u64)
        .word(factor.to_bits());
    meshes.program().launch(queue, "fft_join", tiles(meshes.waves), arguments)?;
    queue.transform(&plan, spectrum, values, work)
}

pub(crate) fn programs() -> Vec<Compiled> {
    ["f32", "f64"].map(|real| FFT.of(&[("ELEMENT", real)]).with(&["fft_split", "fft_join"])).to_vec()
}
