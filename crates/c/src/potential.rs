//! Pair potentials.
#![allow(unsafe_code, reason = "exported names; memory is that of `memory`")]

use crate::context::{context_of, madelung_context};
use crate::list::{axes, madelung_list};
use crate::memory::{array, handle, of_size, size, text};
use crate::status::status;
use crate::types::{madelung_results, madelung_system};
use madelung::array::{Array, DType, View};
use madelung::batch::Batch;
use madelung::map::Map;
use madelung::neighbors::ExcludedPairs;
use madelung::op::{Arg, Op};
use madelung::potentials::registry;
use madelung::{Energies, Error, Options, Result};

/// The end of a pair's energy: the taper 1 − 10x³ + 15x⁴ − 6x⁵ from `onset` to the cutoff.
pub const MADELUNG_TAPER: i32 = 0;
/// CHARMM's switch, from `onset` to the cutoff.
pub const MADELUNG_SWITCH: i32 = 1;
/// No end: energies are cut off.
pub const MADELUNG_CUT: i32 = 2;

/// The energy of a pair potential, "lennard_jones", "born_mayer", …, and what else there are arrays for; charges and widths
/// of the system are not looked at. `types`: (N), from 0 to below `kinds`; `tables`: the parameters of the potential in their
/// order, (kinds, kinds) each, of which the mean of both elements counts; `prefactor`: as of a sum, 0: 1; `end`:
/// MADELUNG_TAPER, …, with an `onset` of 0 for nine tenths of the cutoff.
///
/// Handles are handles of this library, and pointers are valid for what they are said to hold.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madelung_pair_potential(
    context: *const madelung_context,
    system: *const madelung_system,
    list: *const madelung_list,
    name: *const std::ffi::c_char,
    types: *const i32,
    kinds: i64,
    tables: *const *const f64,
    parameters: i64,
    prefactor: f64,
    cutoff: f64,
    end: i32,
    onset: f64,
    results: *const madelung_results,
) -> i32 {
    status(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { context_of(context) }?;
        // SAFETY: the caller's promise.
        let (name, given) = unsafe { (text("name", name)?, of_size("system", system)?) };
        // SAFETY: the caller's promise.
        let (results, list) = unsafe { (of_size("results", results)?, handle("list", list)?) };
        let (n, k) = (size("atoms", given.atoms)?, size("kinds", kinds)?);
        let unknown =
            || Error::argument("name", "the name of a pair potential, `lennard_jones`", format!("`{name}`"));
        // Potentials of types are those with an energy of two types at a distance.
        let op = registry()
            .get(name)
            .filter(|_| registry().get(&format!("{name}_at")).is_some())
            .ok_or_else(unknown)?;
        // SAFETY: the caller's promise.
        let positions = unsafe { array("positions", given.positions, n, 3) }?;
        // SAFETY: the caller's promise.
        let cell = (!given.cell.is_null()).then(|| unsafe { array("cell", given.cell, 3, 3) }).transpose()?;
        let (rows, periodic) = axes(cell, (given.has_periodic != 0).then_some(given.periodic))?;
        // SAFETY: the caller's promise.
        let types = unsafe { array("types", types, n, 1) }?;
        // SAFETY: the caller's promise.
        let each = unsafe { array("tables", tables, size("parameters", parameters)?, 1) }?;
        let each: Vec<Array> = each
            .iter()
            // SAFETY: the caller's promise.
            .map(|table| Array::from_f64(DType::F64, &[k, k], unsafe { array("tables", *table, k, k) }?))
            .collect::<Result<_>>()?;
        // Behind the positions and the cell, before the strain.
        let wanted = op.arg("strain").expect("an argument of pair potentials") - 2;
        if each.len() != wanted {
            let names: Vec<&str> = op.args[2..2 + wanted].iter().map(|arg| arg.name.as_str()).collect();
            let expected = format!("{wanted} tables: {}", names.join(", "));
            return Err(Error::argument("parameters", expected, each.len().to_string()));
        }
        let onset = if onset == 0.0 { 0.9 * cutoff } else { onset };
        let (taper, switch) = match end {
            MADELUNG_TAPER => (onset, cutoff),
            MADELUNG_SWITCH => (cutoff, onset),
            MADELUNG_CUT => (cutoff, cutoff),
            other => {
                return Err(Error::argument("end", "MADELUNG_TAPER, _SWITCH or _CUT", other.to_string()));
            }
        };
        if end != MADELUNG_CUT && !(onset > 0.0 && onset < cutoff) {
            return Err(Error::argument("onset", "a distance below the cutoff", onset.to_string()));
        }
        let (batch, map) = (Batch::single(n)?, Map::new(types, k)?);
        let r: View<'_> = positions.as_chunks::<3>().0.into();
        let rows = Array::from_f64(DType::F64, &[1, 3, 3], rows.as_flattened())?;
        let options = Options { compute_charge_gradients: false, ..results.options(prefactor) };
        let mut first = vec![Arg::Array(r.clone()), Arg::Array(rows.view())];
        first.extend(each.iter().map(|table| Arg::Array(table.view())));
        first.extend([Arg::Zero, Arg::Structure(&batch), Arg::Real(options.prefactor), Arg::Structure(&map)]);
        let last = [cutoff, taper, switch].map(Arg::Real);
        let sum = |op: &Op, pairs: &[Arg<'_>]| {
            Energies::of_op(&context, op, &[&first, pairs, &last].concat(), &options)
        };
        let pairs = list.reaching(cutoff)?;
        // SAFETY: the caller's promise.
        let mut found = match unsafe { given.exclusions() }? {
            None => sum(op, &[Arg::Structure(pairs)])?,
            Some(_) if pairs.own_rows().is_some() => {
                let got = given.exclusions.to_string();
                return Err(Error::argument("exclusions", "0 with the list of a domain", got));
            }
            Some((excluded, factors)) => {
                let left = ExcludedPairs::find(&context, &r, &rows.view(), &[periodic], &batch, excluded)?;
                let (of, factors) = (Map::new(&left.of[..], excluded.len())?, View::from(&*factors));
                let scaled = [Arg::Structure(&left.list), Arg::Structure(&of), Arg::Array(factors)];
                let near = left.left_out_of(pairs)?;
                let near = near.as_deref().unwrap_or(pairs);
                let exclusions = registry().get(&format!("{name}_exclusions")).expect("an op beside that");
                sum(op, &[Arg::Structure(near)])?.plus(&sum(exclusions, &scaled)?)?
            }
        };
        found.charge_gradients =
            (!results.charge_gradients.is_null()).then(|| Array::zeros(DType::F64, &[n]));
        // SAFETY: the caller's promise.
        unsafe { results.fill(&found) }
    })
}
