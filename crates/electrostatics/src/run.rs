//! Prepared sums, evaluated on the host.

use crate::energies::{Energies, Options, Reduction};
use crate::prepared::{Argument, Prepared, SumSettings, Summands, prepare};
use crate::system::System;
use madelung_core::Result;
use madelung_core::array::{Array, View};
use madelung_core::backend::Context;
use madelung_core::op::Arg;
use madelung_core::structure::Structure;

/// The results of a sum: parameters that `settings` leaves open are chosen, and a list is built unless `pairs` is one.
pub(crate) fn run(
    context: &Context<'_>,
    settings: &SumSettings,
    system: &System<'_>,
    pairs: Option<&dyn Structure>,
    options: &Options,
) -> Result<Energies> {
    match prepare(context, settings, system, pairs)? {
        Prepared::Sum(sum) => sum.evaluated(context, system, &system.charges, pairs, options),
        Prepared::Parts(parts) => in_parts(context, &parts, system, options),
    }
}

/// The results of a batch, each part of which has a sum of its own systems.
fn in_parts(
    context: &Context<'_>,
    parts: &[(SumSettings, Vec<usize>)],
    system: &System<'_>,
    options: &Options,
) -> Result<Energies> {
    let dtype = system.positions.dtype();
    let mut whole = Energies::zeros(dtype, system.batch.atoms(), system.systems(), options);
    for (settings, of) in parts {
        let atoms: Vec<usize> = of.iter().flat_map(|b| system.batch.members(*b)).collect();
        let part = system.part(of, &atoms)?;
        let found = run(context, settings, &part.system(&system.pbc, of)?, None, options)?;
        let of_energies = if options.energy_reduction == Reduction::System { of } else { &atoms };
        whole.fill(&found, of_energies, &atoms, of)?;
    }
    Ok(whole)
}

impl Summands {
    /// The results for charges (N,) of the system that the sum was prepared for, and the list that it was given.
    pub(crate) fn evaluated(
        &self,
        context: &Context<'_>,
        system: &System<'_>,
        charges: &View<'_>,
        pairs: Option<&dyn Structure>,
        options: &Options,
    ) -> Result<Energies> {
        let each = self.terms.iter().map(|term| {
            let charged = match &term.arguments[..] {
                [_, Argument::Charges(Some(factors)), ..] => {
                    let (mut q, factors) = (charges.to_f64()?, factors.to_f64()?);
                    q.iter_mut().zip(factors).for_each(|(q, factor)| *q *= factor);
                    Some(Array::from_f64(charges.dtype(), charges.shape(), &q)?)
                }
                _ => None,
            };
            let args = term.arguments.iter().map(|argument| match argument {
                Argument::Positions => Arg::Array(system.positions.clone()),
                Argument::Charges(_) => {
                    Arg::Array(charged.as_ref().map_or_else(|| charges.clone(), Array::view))
                }
                Argument::Cell => Arg::Array(system.cell.view()),
                Argument::Strain => Arg::Zero,
                Argument::Batch => Arg::Structure(&system.batch),
                Argument::Prefactor => Arg::Real(options.prefactor),
                Argument::Pairs => Arg::Structure(pairs.expect("the list that was given")),
                Argument::Widths => Arg::Array(system.widths.clone().expect("the widths that were given")),
                other => other.made().expect("what the caller has is above"),
            });
            let args: Vec<Arg<'_>> = args.collect();
            Energies::of_op(context, term.op(options.energy_reduction), &args, options)
        });
        let total = each.reduce(|sum, found| sum?.plus(&found?));
        // A batch without systems has no terms.
        let none = || Ok(Energies::zeros(system.positions.dtype(), 0, system.systems(), options));
        total.unwrap_or_else(none)
    }
}
