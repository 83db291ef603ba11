//! Sums of charges: the ops of a prepared sum are called on tensors and added, each with its gradients.

use crate::memory::{of_torch, tensor};
use crate::system::{Read, System};
use crate::{Input, call, family};
use madelung::batch::Batch;
use madelung::electrostatics::prepared::{Argument, Lattice, Prepared, SumSettings, Summands, prepare};
use madelung::op::Structure;
use madelung::{Reduction, Result};
use std::sync::Arc;
use tch::{Device, Tensor};

/// The unit and the granularity of energies.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The factor of energies and all derivatives: 14.3996454784 for eV and Å.
    pub prefactor: f64,
    /// Energies of atoms (N,), or of systems (B,), which cost less.
    pub energy_reduction: Reduction,
}

impl Default for Options {
    fn default() -> Self {
        Self { prefactor: 1.0, energy_reduction: Reduction::Atom }
    }
}

impl Options {
    /// Energies of systems.
    pub fn per_system() -> Self {
        Self { energy_reduction: Reduction::System, ..Self::default() }
    }
}

/// Energies, with gradients by the tensors of the system; `settings`: of the values of these.
pub(crate) fn energies(
    system: &System<'_>,
    settings: impl FnOnce(&madelung::System<'_>) -> Result<SumSettings>,
    pairs: Option<&Arc<dyn Structure>>,
    options: &Options,
) -> Result<Tensor> {
    let read = system.read()?;
    let of = read.system(system)?;
    match prepare(&family::context(), &settings(&of)?, &of, pairs.map(|pairs| &**pairs))? {
        Prepared::Sum(sum) => added(system, &read, &sum, pairs, options),
        Prepared::Parts(parts) => in_parts(system, &read, &parts, options),
    }
}

fn added(
    system: &System<'_>,
    read: &Read,
    sum: &Summands,
    pairs: Option<&Arc<dyn Structure>>,
    options: &Options,
) -> Result<Tensor> {
    let cell = system.cell.f_expand([read.batch.systems() as i64, 3, 3], false).map_err(of_torch)?;
    let lattice = lattice_cells(&sum.lattice, &cell)?;
    let input = |argument: &Argument| {
        Ok(match argument {
            Argument::Positions => system.positions.into(),
            Argument::Charges(None) => system.charges.into(),
            Argument::Charges(Some(factors)) => {
                system.charges.f_mul(&tensor(factors)?).map_err(of_torch)?.into()
            }
            Argument::Cell => (&cell).into(),
            Argument::LatticeCell(_) => (&lattice).into(),
            Argument::Strain => system.strain.map_or(Input::Zero, Input::from),
            Argument::Batch => Input::Structure(read.batch.clone()),
            Argument::Prefactor => options.prefactor.into(),
            Argument::Pairs => Input::Structure(pairs.expect("the list that was given").clone()),
            Argument::Widths => system.widths.expect("the widths that were given").into(),
            Argument::Factors(_) => {
                let (_, factors) = system.exclusions.as_ref().expect("the exclusions that were given");
                (*factors).into()
            }
            Argument::Array(array) => tensor(array)?.into(),
            Argument::Structure(structure) => Input::Structure(structure.clone()),
            Argument::Real(x) => (*x).into(),
            Argument::Int(n) => (*n).into(),
        })
    };
    let each = sum.terms.iter().map(|term| {
        let inputs = term.arguments.iter().map(input).collect::<Result<Vec<_>>>()?;
        Ok(call(term.op(options.energy_reduction), inputs)?.swap_remove(0))
    });
    let total = each.reduce(|sum: Result<Tensor>, found| sum?.f_add(&found?).map_err(of_torch));
    // A batch without systems has no terms.
    total.unwrap_or_else(|| system.charges.f_zeros_like().map_err(of_torch))
}

/// The cells of the sum over the lattice.
fn lattice_cells(lattice: &Lattice, cell: &Tensor) -> Result<Tensor> {
    let mut cell = cell.shallow_clone();
    if let Some([heights, axes]) = &lattice.upright {
        let inputs = [cell.into(), tensor(heights)?.into(), tensor(axes)?.into()];
        cell = call(Lattice::upright_cells(), inputs)?.swap_remove(0);
    }
    if lattice.is_none.contains(&true) {
        let unit = Tensor::f_eye(3, (cell.kind(), Device::Cpu)).map_err(of_torch)?;
        let is_none = Tensor::from_slice(&lattice.is_none).view([-1, 1, 1]);
        cell = unit.f_where_self(&is_none, &cell).map_err(of_torch)?;
    }
    Ok(cell)
}

/// Energies of a batch, each part of which has a sum of its own systems.
fn in_parts(
    system: &System<'_>,
    read: &Read,
    parts: &[(SumSettings, Vec<usize>)],
    options: &Options,
) -> Result<Tensor> {
    let taken = |x: &Tensor, of: &[usize]| {
        let index = Tensor::from_slice(&of.iter().map(|n| *n as i64).collect::<Vec<_>>());
        x.f_index_select(0, &index).map_err(of_torch)
    };
    let (mut found, mut order) = (vec![], vec![]);
    for (settings, of) in parts {
        let members =
            of.iter().enumerate().flat_map(|(n, b)| read.batch.members(*b).map(move |i| (i, n as i32)));
        let (atoms, idx): (Vec<usize>, Vec<i32>) = members.unzip();
        let (positions, charges) = (taken(system.positions, &atoms)?, taken(system.charges, &atoms)?);
        let cell = match system.cell.dim() {
            3 => taken(system.cell, of)?,
            _ => system.cell.shallow_clone(),
        };
        let strain = system.strain.map(|x| taken(x, of)).transpose()?;
        let pbc = match system.pbc.len() {
            1 => system.pbc.clone(),
            _ => of.iter().map(|b| system.pbc[*b]).collect(),
        };
        let batch = Some(Arc::new(Batch::from_idx(idx, Some(of.len()))?));
        let whole = System::new(&positions, &charges, &cell);
        let part = System { strain: strain.as_ref(), pbc, batch, ..whole };
        found.push(energies(&part, |_| Ok(settings.clone()), None, options)?);
        order.extend(if options.energy_reduction == Reduction::System { of.clone() } else { atoms });
    }
    let mut places: Vec<usize> = (0..order.len()).collect();
    places.sort_by_key(|n| order[*n]);
    taken(&Tensor::f_cat(&found, 0).map_err(of_torch)?, &places)
}
