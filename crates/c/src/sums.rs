//! Sums of charges.
#![allow(unsafe_code, reason = "exported names; memory is that of `memory`")]

use crate::context::{context_of, madelung_context};
use crate::list::{axes, madelung_list};
use crate::memory::{array, give_back, of_size, room, size};
use crate::status::status;
use crate::types::*;
use madelung::array::View;
use madelung::batch::Batch;
use madelung::{
    Energies, Error, EwaldSettings, Options, PmeParameters, PmeSettings, Result, System, coulomb, dsf,
    ewald_real_space, ewald_reciprocal_space, ewald_summation, particle_mesh_ewald,
};
use std::borrow::Cow;

/// Excluded pairs, and factors of their energies.
pub(crate) type Exclusions<'a> = (&'a [[i32; 2]], Cow<'a, [f64]>);

/// A number that is given, or 0.
fn given(x: f64) -> Option<Vec<f64>> {
    (x != 0.0).then(|| vec![x])
}

impl madelung_system {
    /// The periodic axes.
    fn axes(&self) -> Result<[bool; 3]> {
        let cell = (!self.cell.is_null()).then_some(&[0.0; 9][..]);
        Ok(axes(cell, (self.has_periodic != 0).then_some(self.periodic))?.1)
    }

    /// Pairs that are left out, or scaled, with their factors; None: there are none.
    ///
    /// # Safety
    /// Pointers are valid for what they are said to hold.
    pub(crate) unsafe fn exclusions<'a>(&self) -> Result<Option<Exclusions<'a>>> {
        let count = size("exclusions", self.exclusions)?;
        if count == 0 {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        let pairs = unsafe { array("excluded", self.excluded, count, 2) }?.as_chunks().0;
        let factors = match self.factors.is_null() {
            true => vec![0.0; count].into(),
            // SAFETY: the caller's promise.
            false => unsafe { array("factors", self.factors, count, 1) }?.into(),
        };
        Ok(Some((pairs, factors)))
    }

    /// The system, in the memory of its caller.
    ///
    /// # Safety
    /// Pointers are valid for what they are said to hold.
    pub(crate) unsafe fn system<'a>(&self) -> Result<System<'a>> {
        let n = size("atoms", self.atoms)?;
        // SAFETY: the caller's promise.
        let positions = unsafe { array("positions", self.positions, n, 3) }?;
        // SAFETY: the caller's promise.
        let charges = unsafe { array("charges", self.charges, n, 1) }?;
        // SAFETY: the caller's promise.
        let cell = (!self.cell.is_null()).then(|| unsafe { array("cell", self.cell, 3, 3) }).transpose()?;
        let (rows, periodic) = axes(cell, (self.has_periodic != 0).then_some(self.periodic))?;
        let of_positions: View<'a> = positions.as_chunks::<3>().0.into();
        let batch = Batch::single(n)?;
        let mut system =
            System::with_boundaries(of_positions, charges.into(), (&rows[..]).into(), &[periodic], batch)?;
        // SAFETY: the caller's promise.
        if let Some((pairs, factors)) = unsafe { self.exclusions() }? {
            system = system.excluding(pairs, &factors)?;
        }
        if !self.widths.is_null() {
            // SAFETY: the caller's promise.
            system = system.with_widths(unsafe { array("widths", self.widths, n, 1) }?.into())?;
        }
        Ok(system)
    }
}

impl madelung_results {
    /// Options of the library, by what there are arrays for.
    pub(crate) fn options(&self, prefactor: f64) -> Options {
        Options {
            prefactor: if prefactor == 0.0 { 1.0 } else { prefactor },
            compute_forces: !self.forces.is_null(),
            compute_charge_gradients: !self.charge_gradients.is_null(),
            compute_virial: !self.virial.is_null(),
            ..Options::default()
        }
    }

    /// Writes results, or adds them to what is there.
    ///
    /// # Safety
    /// Arrays are null, or have room for the results of so many atoms.
    pub(crate) unsafe fn fill(&self, found: &Energies) -> Result<()> {
        let energies = found.energies.to_f64()?;
        let optional = |x: &Option<madelung::array::Array>| x.as_ref().map(|x| x.to_f64()).transpose();
        let total = vec![energies.iter().sum()];
        let all = [
            ("energy", self.energy, Some(total)),
            ("energies", self.energies, Some(energies)),
            ("forces", self.forces, optional(&found.forces)?),
            ("charge_gradients", self.charge_gradients, optional(&found.charge_gradients)?),
            ("virial", self.virial, optional(&found.virial)?),
        ];
        // All are looked at before one is written.
        let mut places = vec![];
        for (name, place, values) in all {
            let Some(values) = values else { continue };
            // SAFETY: the caller's promise.
            let place = unsafe { room(name, place, values.len()) }?;
            places.extend(place.map(|place| (place, values)));
        }
        for (place, values) in places {
            for (to, x) in place.iter_mut().zip(values) {
                *to = if self.adds != 0 { *to + x } else { x };
            }
        }
        Ok(())
    }
}

impl madelung_sum {
    fn waves(&self) -> EwaldSettings {
        EwaldSettings {
            alpha: given(self.alpha),
            cutoff: given(self.cutoff),
            k_cutoff: given(self.k_cutoff),
            accuracy: (self.accuracy != 0.0).then_some(self.accuracy),
            ..EwaldSettings::default()
        }
    }

    pub(crate) fn on_mesh(&self) -> Result<PmeSettings> {
        let nodes = self.mesh.map(usize::try_from);
        let mesh = match nodes {
            [Ok(0), Ok(0), Ok(0)] => None,
            [Ok(a), Ok(b), Ok(c)] => Some(vec![[a, b, c]]),
            _ => {
                return Err(Error::argument(
                    "mesh",
                    "numbers of nodes from 0 up",
                    format!("{:?}", self.mesh),
                ));
            }
        };
        let order = usize::try_from(self.spline_order).map_err(|_| {
            Error::argument("spline_order", "a number from 0 up", self.spline_order.to_string())
        })?;
        Ok(PmeSettings {
            alpha: given(self.alpha),
            cutoff: given(self.cutoff),
            mesh_dimensions: mesh,
            spline_order: (order != 0).then(|| vec![order]),
            accuracy: (self.accuracy != 0.0).then_some(self.accuracy),
            ..PmeSettings::default()
        })
    }
}

impl madelung_sum {
    /// The sum with the parameters of a mesh.
    pub(crate) fn with_mesh(self, found: &PmeParameters) -> Self {
        let mesh = found.mesh_dimensions.map(|k| k as i32);
        Self {
            alpha: found.alpha,
            cutoff: found.cutoff,
            mesh,
            spline_order: found.spline_order as i32,
            ..self
        }
    }
}

/// The energy of charges, and what else there are arrays for. `list`: a list that reaches as far as the cutoff or further; null:
/// pairs are searched for.
///
/// Handles are handles of this library, and pointers of the structs are valid for what they are said to hold.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madelung_energies(
    context: *const madelung_context,
    system: *const madelung_system,
    list: *const madelung_list,
    sum: *const madelung_sum,
    results: *const madelung_results,
) -> i32 {
    status(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { context_of(context) }?;
        // SAFETY: the caller's promise.
        let (sum, results) = unsafe { (of_size("sum", sum)?, of_size("results", results)?) };
        // SAFETY: the caller's promise.
        let system = unsafe { of_size("system", system)?.system() }?;
        let options = results.options(sum.prefactor);
        // SAFETY: the caller's promise.
        let list = unsafe { list.as_ref() };
        let pairs = list.map(|list| list.reaching(sum.cutoff)).transpose()?;
        let within = || Error::argument("list", "a list", "a null pointer");
        let found = match sum.kind {
            MADELUNG_EWALD => ewald_summation(&context, &system, &sum.waves(), pairs, &options),
            MADELUNG_PME => particle_mesh_ewald(&context, &system, &sum.on_mesh()?, pairs, &options),
            MADELUNG_COULOMB => {
                let cutoff = (sum.cutoff != 0.0).then_some(sum.cutoff);
                coulomb(&context, &system, sum.alpha, cutoff, pairs, &options)
            }
            MADELUNG_DSF => dsf(&context, &system, &[sum.alpha], sum.cutoff, pairs, &options),
            MADELUNG_REAL_SPACE => {
                let pairs = pairs.ok_or_else(within)?;
                ewald_real_space(&context, &system, &[sum.alpha], pairs, sum.cutoff, &options)
            }
            MADELUNG_RECIPROCAL_SPACE => {
                ewald_reciprocal_space(&context, &system, &[sum.alpha], &[sum.k_cutoff], &options)
            }
            other => Err(Error::argument("kind", "one of MADELUNG_EWALD, …", other.to_string())),
        }?;
        // SAFETY: the caller's promise.
        unsafe { results.fill(&found) }
    })
}

/// Chooses the parameters of MADELUNG_EWALD or MADELUNG_PME that are 0, for its accuracy; those of systems with one periodic axis
/// or none, which are summed over all pairs, stay.
///
/// Pointers of the system are valid for what they are said to hold, and `sum` for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madelung_choose(system: *const madelung_system, sum: *mut madelung_sum) -> i32 {
    status(|| {
        // SAFETY: the caller's promise.
        let given = unsafe { of_size("sum", sum.cast_const()) }?;
        // SAFETY: the caller's promise.
        let system = unsafe { of_size("system", system) }?;
        let is_lattice = system.axes()?.iter().filter(|on| **on).count() > 1;
        // SAFETY: the caller's promise.
        let system = unsafe { system.system() }?;
        let chosen = match given.kind {
            // Sums over all pairs have no parameters.
            MADELUNG_EWALD | MADELUNG_PME if !is_lattice => given,
            MADELUNG_EWALD => {
                let found = given.waves().parameters(&system)?[0];
                madelung_sum { alpha: found.alpha, cutoff: found.cutoff, k_cutoff: found.k_cutoff, ..given }
            }
            MADELUNG_PME => given.with_mesh(&given.on_mesh()?.parameters(&system)?[0]),
            other => {
                return Err(Error::argument("kind", "MADELUNG_EWALD or MADELUNG_PME", other.to_string()));
            }
        };
        // SAFETY: the caller's promise.
        unsafe { give_back(&chosen, sum) };
        Ok(())
    })
}
