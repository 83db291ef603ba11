#![doc = include_str!("../../../docs/tch.md")]

mod family;
mod memory;
mod node;
mod sum;
mod system;

use family::{Call, Given, Shared};
use madelung::electrostatics::prepared::SumSettings;
use madelung::op::{Op, Structure};
use madelung::{Error, EwaldSettings, LatentSettings, PmeSettings, Result};
use std::sync::Arc;
pub use sum::Options;
use sum::energies;
pub use system::System;
use tch::Tensor;

/// Argument of a call.
#[derive(Debug)]
pub enum Input {
    /// A real or integer array.
    Tensor(Tensor),
    /// A batch, pair list, map or mesh.
    Structure(Arc<dyn Structure>),
    /// A real attribute.
    Real(f64),
    /// An integer attribute.
    Int(i64),
    /// The value of an argument that is zero in every call, such as a strain; for derivatives by it, give a tensor of
    /// zeros.
    Zero,
}

impl Input {
    /// A batch, pair list, map or mesh.
    pub fn structure(structure: impl Structure + 'static) -> Self {
        Self::Structure(Arc::new(structure))
    }
}

impl From<&Tensor> for Input {
    fn from(tensor: &Tensor) -> Self {
        Self::Tensor(tensor.shallow_clone())
    }
}

impl From<Tensor> for Input {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<f64> for Input {
    fn from(x: f64) -> Self {
        Self::Real(x)
    }
}

impl From<i64> for Input {
    fn from(x: i64) -> Self {
        Self::Int(x)
    }
}

/// The outputs of an op, with gradients by its real arguments to second order. `inputs`: its arguments, in their
/// order.
///
/// # Errors
/// Those of [`Op::evaluate`]; a tensor of a device, without values, or of a kind that no op has.
pub fn call(op: &Arc<Op>, inputs: impl IntoIterator<Item = Input>) -> Result<Vec<Tensor>> {
    let mut values = vec![];
    let args = inputs.into_iter().enumerate().map(|(n, input)| match input {
        Input::Tensor(x) => {
            values.push((n, x));
            Given::Tensor
        }
        Input::Structure(x) => Given::Structure(x),
        Input::Real(x) => Given::Real(x),
        Input::Int(x) => Given::Int(x),
        Input::Zero => Given::Zero,
    });
    let shared = Shared { op: op.clone(), args: args.collect() };
    let (count, got) = (op.passed().len(), shared.args.len());
    if got != count {
        let expected = format!("the {count} arguments of {}", op.full_name());
        return Err(Error::argument("inputs", expected, format!("{got} arguments")));
    }
    Ok(Call::new(shared, values).run()?.into_iter().map(|(_, x)| x).collect())
}

/// The Coulomb energy of charges by Ewald's sum, as [`madelung::ewald_summation`]: of atoms (N,) or systems (B,),
/// with gradients by the tensors of the system.
///
/// # Errors
/// Those of [`madelung::ewald_summation`] and [`call`].
pub fn ewald_summation(
    system: &System<'_>,
    settings: &EwaldSettings,
    pairs: Option<&Arc<dyn Structure>>,
    options: &Options,
) -> Result<Tensor> {
    energies(system, |_| Ok(SumSettings::ewald(settings)), pairs, options)
}

/// The Coulomb energy of charges with the long-range part of lattices on a mesh, as
/// [`madelung::particle_mesh_ewald`].
///
/// # Errors
/// As [`ewald_summation`].
pub fn particle_mesh_ewald(
    system: &System<'_>,
    settings: &PmeSettings,
    pairs: Option<&Arc<dyn Structure>>,
    options: &Options,
) -> Result<Tensor> {
    energies(system, |of| SumSettings::pme(settings, of), pairs, options)
}

/// The Coulomb energy over pairs, as [`madelung::coulomb`]: of those closer than `cutoff`, or without one of all
/// pairs of open systems and of a list; `alpha`: the damping, 0 for none.
///
/// # Errors
/// As [`ewald_summation`].
pub fn coulomb(
    system: &System<'_>,
    alpha: f64,
    cutoff: Option<f64>,
    pairs: Option<&Arc<dyn Structure>>,
    options: &Options,
) -> Result<Tensor> {
    energies(system, |of| SumSettings::coulomb(of, alpha, cutoff), pairs, options)
}

/// The damped shifted force sum over pairs closer than `cutoff`, as [`madelung::dsf`].
///
/// # Errors
/// As [`ewald_summation`].
pub fn dsf(
    system: &System<'_>,
    alpha: &[f64],
    cutoff: f64,
    pairs: Option<&Arc<dyn Structure>>,
    options: &Options,
) -> Result<Tensor> {
    energies(system, |_| Ok(SumSettings::dsf(alpha, cutoff)), pairs, options)
}

/// The electrostatic energy of latent charges, as [`madelung::latent_ewald`].
///
/// # Errors
/// As [`ewald_summation`].
pub fn latent_ewald(system: &System<'_>, settings: &LatentSettings, options: &Options) -> Result<Tensor> {
    energies(system, |of| SumSettings::latent(settings, of), None, options)
}
