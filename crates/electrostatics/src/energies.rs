//! Results of sums, and what is asked for.

use madelung_core::array::{Array, DType};
use madelung_core::backend::Context;
use madelung_core::op::{Arg, Cotangent, Op, Request};
use madelung_core::{Error, Result};

/// The granularity of energies: per atom or per system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// Energies per atom (N,), each pair energy split equally.
    #[default]
    Atom,
    /// Energies per system (B,).
    System,
}

/// The requested results of a call, and their unit.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The factor of energies and all derivatives: 14.3996454784 for eV and Å.
    pub prefactor: f64,
    /// The granularity of energies.
    pub energy_reduction: Reduction,
    /// Whether to compute forces −∂E/∂r, (N, 3).
    pub compute_forces: bool,
    /// Whether to compute site potentials ∂E/∂q, (N,).
    pub compute_charge_gradients: bool,
    /// Whether to compute virials −∂E/∂ε, (B, 3, 3).
    pub compute_virial: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefactor: 1.0,
            energy_reduction: Reduction::Atom,
            compute_forces: false,
            compute_charge_gradients: false,
            compute_virial: false,
        }
    }
}

impl Options {
    /// Energies and forces.
    pub fn forces() -> Self {
        Self { compute_forces: true, ..Self::default() }
    }

    /// Energies, forces, charge gradients and virial.
    pub fn everything() -> Self {
        Self { compute_forces: true, compute_charge_gradients: true, compute_virial: true, ..Self::default() }
    }
}

/// The results of a call, in the dtype of the positions.
#[derive(Debug)]
pub struct Energies {
    /// Energies (N,) or (B,).
    pub energies: Array,
    /// Forces −∂E/∂r (N, 3).
    pub forces: Option<Array>,
    /// Site potentials ∂E/∂q (N,).
    pub charge_gradients: Option<Array>,
    /// Virials −∂E/∂ε (B, 3, 3).
    pub virial: Option<Array>,
}

impl Energies {
    /// The sum of two results.
    ///
    /// # Errors
    /// Those of [`Array::add`], where shapes differ; `other`, where it has other arrays.
    pub fn plus(mut self, other: &Self) -> Result<Self> {
        self.energies.add(&other.energies)?;
        for (own, more) in self.others().into_iter().zip(other.others_of()) {
            match (own, more) {
                (Some(own), Some(more)) => own.add(more)?,
                (None, None) => {}
                _ => return Err(Error::argument("other", "results of the same request", "of another one")),
            }
        }
        Ok(self)
    }

    /// The results of an op of energies, with arguments `positions`, `strain` and, where their gradients are wanted, `charges`.
    ///
    /// # Errors
    /// Those of [`Op::evaluate`]; `options`, where the op has no argument of a gradient that is wanted.
    pub fn of_op(context: &Context<'_>, op: &Op, args: &[Arg<'_>], options: &Options) -> Result<Self> {
        let wanted = [
            (options.compute_forces, "positions"),
            (options.compute_charge_gradients, "charges"),
            (options.compute_virial, "strain"),
        ];
        let argument = |name: &str| {
            let expected = format!("no gradient by `{name}`, which `{}` has not", op.name);
            op.arg(name).ok_or_else(|| Error::argument("options", expected, "one"))
        };
        let gradients: Vec<usize> =
            wanted.iter().filter(|(on, _)| *on).map(|(_, name)| argument(name)).collect::<Result<_>>()?;
        // The gradient of the sum of all energies.
        let cotangents = [Some(Cotangent::Uniform(1.0))];
        let cotangents = if gradients.is_empty() { &[][..] } else { &cotangents[..] };
        let request = Request { values: true, cotangents, gradients: &gradients, ..Request::default() };
        let mut done = op.evaluate(context, args, &request)?;
        let mut next = done.gradients.into_iter();
        let mut given = |on: bool| if on { next.next() } else { None };
        let negative = |gradient: Option<Array>| gradient.map(|g| g.map(|x| -x)).transpose();
        Ok(Self {
            energies: done.values.swap_remove(0),
            forces: negative(given(options.compute_forces))?,
            charge_gradients: given(options.compute_charge_gradients),
            virial: negative(given(options.compute_virial))?,
        })
    }

    fn others(&mut self) -> [Option<&mut Array>; 3] {
        [self.forces.as_mut(), self.charge_gradients.as_mut(), self.virial.as_mut()]
    }

    fn others_of(&self) -> [Option<&Array>; 3] {
        [self.forces.as_ref(), self.charge_gradients.as_ref(), self.virial.as_ref()]
    }

    /// Zeros for the results of so many atoms and systems.
    pub(crate) fn zeros(dtype: DType, atoms: usize, systems: usize, options: &Options) -> Self {
        let rows = if options.energy_reduction == Reduction::System { systems } else { atoms };
        let zeros = |on: bool, shape: &[usize]| on.then(|| Array::zeros(dtype, shape));
        Self {
            energies: Array::zeros(dtype, &[rows]),
            forces: zeros(options.compute_forces, &[atoms, 3]),
            charge_gradients: zeros(options.compute_charge_gradients, &[atoms]),
            virial: zeros(options.compute_virial, &[systems, 3, 3]),
        }
    }

    /// Writes the results of some atoms and systems to their rows; `rows`: those of energies.
    pub(crate) fn fill(
        &mut self,
        part: &Self,
        rows: &[usize],
        atoms: &[usize],
        systems: &[usize],
    ) -> Result<()> {
        write_rows(&mut self.energies, &part.energies, rows)?;
        let [forces, gradients, virial] = part.others_of();
        for ((own, more), rows) in
            self.others().into_iter().zip([forces, gradients, virial]).zip([atoms, atoms, systems])
        {
            if let (Some(own), Some(more)) = (own, more) {
                write_rows(own, more, rows)?;
            }
        }
        Ok(())
    }
}

/// Writes rows of an array to some rows of another one.
fn write_rows(into: &mut Array, from: &Array, rows: &[usize]) -> Result<()> {
    let width: usize = from.shape()[1..].iter().product();
    let values = from.to_f64()?;
    let mut all = into.to_f64()?;
    for (n, row) in rows.iter().enumerate() {
        all[row * width..(row + 1) * width].copy_from_slice(&values[n * width..(n + 1) * width]);
    }
    *into = Array::from_f64(into.dtype(), into.shape(), &all)?;
    Ok(())
}
