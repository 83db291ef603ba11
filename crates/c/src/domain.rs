//! Systems that several processes share.
#![allow(unsafe_code, reason = "exported names; memory is that of `memory`")]

use crate::context::{context_of, madelung_context};
use crate::memory::{array, give_back, of_size, size};
use crate::status::status;
use crate::types::{madelung_exchange, madelung_results, madelung_sum, madelung_system};
use madelung::electrostatics::domains::{Exchange, Processes, pme_reciprocal_space_of_domain, withdraw};
use madelung::electrostatics::mesh::SPLINE_ORDER;
use madelung::{
    DEFAULT_ACCURACY, Error, Options, PrescribedMesh, Reduction, Result, estimate_pme_parameters,
};

impl Exchange for madelung_exchange {
    fn all_to_all(
        &self,
        send: &[f64],
        sent: &[usize],
        receive: &mut [f64],
        received: &[usize],
    ) -> Result<()> {
        let [sent, received] =
            [sent, received].map(|counts| counts.iter().map(|n| *n as i64).collect::<Vec<_>>());
        let Some(call) = self.all_to_all else {
            return Err(Error::argument("all_to_all", "a function", "a null pointer"));
        };
        // SAFETY: the promise of the caller who gave the function; counts are those of the arrays.
        let failed =
            unsafe { call(self.data, send.as_ptr(), sent.as_ptr(), receive.as_mut_ptr(), received.as_ptr()) };
        match failed {
            0 => Ok(()),
            other => {
                Err(Error::argument("all_to_all", "messages that arrive", format!("its status {other}")))
            }
        }
    }
}

/// The reciprocal part of a MADELUNG_PME sum of a system that several processes share, each of which has atoms of its own,
/// anywhere in the cell, or none: the energies, forces and site potentials of these, and this process' share of the energy and
/// the virial, which add up over the processes. Of `sum`, `alpha`, `mesh`, `spline_order` (0: 5) and `prefactor` count; with the
/// cell and what results are wanted they are the same in all processes, which all call this. Where one of them is given what is
/// wrong, all have an error.
///
/// Pointers of the structs are valid for what they are said to hold, and the function of `exchange` does what it is said to do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madelung_mesh_of_domain(
    context: *const madelung_context,
    exchange: *const madelung_exchange,
    system: *const madelung_system,
    sum: *const madelung_sum,
    results: *const madelung_results,
) -> i32 {
    status(|| {
        // SAFETY: the caller's promise.
        let exchange = unsafe { of_size("exchange", exchange) }?;
        let processes = Processes::new(exchange.rank.into(), exchange.ranks.into(), &exchange)?;
        let prepared = || -> Result<_> {
            // SAFETY: the caller's promise.
            let (context, sum) = unsafe { (context_of(context)?, of_size("sum", sum)?) };
            // SAFETY: the caller's promise.
            let (results, system) = unsafe { (of_size("results", results)?, of_size("system", system)?) };
            // SAFETY: the caller's promise.
            Ok((context, sum, results, unsafe { system.system() }?, sum.on_mesh()?))
        };
        // The others wait for this process, or its word that it has an error.
        let (context, sum, results, system, given) =
            prepared().or_else(|error| withdraw(&processes).and(Err(error)))?;
        let energy_reduction = if results.energies.is_null() { Reduction::System } else { Reduction::Atom };
        let options = Options { energy_reduction, ..results.options(sum.prefactor) };
        let mesh = given.mesh_dimensions.map_or([0; 3], |each| each[0]);
        let order = given.spline_order.map_or(SPLINE_ORDER, |each| each[0]);
        let found =
            pme_reciprocal_space_of_domain(&context, &processes, &system, sum.alpha, mesh, order, &options)?;
        // SAFETY: the caller's promise.
        unsafe { results.fill(&found) }
    })
}

/// Chooses the parameters of MADELUNG_PME that are 0, for its accuracy and so many atoms at random places in a cell (3, 3), as
/// processes that share a system do. The accuracy is one of forces over q²_rms/(V/N)^(2/3), as in `madelung_choose`.
///
/// `cell` is valid for reading, and `sum` for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madelung_choose_mesh(atoms: i64, cell: *const f64, sum: *mut madelung_sum) -> i32 {
    status(|| {
        // SAFETY: the caller's promise.
        let (given, cell) = unsafe { (of_size("sum", sum.cast_const())?, array("cell", cell, 3, 3)?) };
        let settings = given.on_mesh()?;
        let mut rows = [[0.0; 3]; 3];
        rows.as_flattened_mut().copy_from_slice(cell);
        let first = |given: &Option<Vec<f64>>| given.as_ref().map(|each| each[0]);
        let prescribed = PrescribedMesh {
            alpha: first(&settings.alpha),
            cutoff: first(&settings.cutoff),
            mesh_dimensions: settings.mesh_dimensions.map(|each| each[0]),
            spline_order: settings.spline_order.map(|each| each[0]),
        };
        let accuracy = settings.accuracy.unwrap_or(DEFAULT_ACCURACY);
        let found = estimate_pme_parameters(size("atoms", atoms)?, &rows, Some(accuracy), prescribed)?;
        // SAFETY: the caller's promise.
        unsafe { give_back(&given.with_mesh(&found), sum) };
        Ok(())
    })
}
