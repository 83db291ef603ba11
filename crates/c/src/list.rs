//! Neighbour lists.
#![allow(unsafe_code, reason = "exported names; memory is that of `memory`")]

use crate::context::{context_of, madelung_context};
use crate::memory::{array, give, handle, size, take};
use crate::status::status;
use madelung::batch::Batch;
use madelung::neighbors::Options;
use madelung::op::Structure;
use madelung::pairs::{Kind, Neighbors, PairList};
use madelung::{Error, Result, find_neighbors};

/// A neighbour list, which holds no pointer of its caller's.
pub struct madelung_list {
    pairs: Neighbors<'static>,
    /// The cutoff within which it was found.
    cutoff: Option<f64>,
}

/// Calls of several threads may read one list.
const _: () = {
    const fn is_shared<T: Sync>() {}
    is_shared::<madelung_list>()
};

impl madelung_list {
    /// The list, if it reaches as far as a cutoff.
    pub(crate) fn reaching(&self, cutoff: f64) -> Result<&dyn Structure> {
        match self.cutoff {
            Some(own) if own < cutoff => Err(Error::argument(
                "list",
                format!("one that reaches as far as the cutoff, {cutoff}"),
                format!("one of {own}"),
            )),
            _ => Ok(&self.pairs),
        }
    }
}

/// Each pair is there from both sides.
pub const MADELUNG_FULL: i32 = 0;
/// Each pair is there once.
pub const MADELUNG_HALF: i32 = 1;

fn kind_of(kind: i32) -> Result<Kind> {
    match kind {
        MADELUNG_FULL => Ok(Kind::Full),
        MADELUNG_HALF => Ok(Kind::Half),
        other => Err(Error::argument("kind", "MADELUNG_FULL or MADELUNG_HALF", other.to_string())),
    }
}

/// The cell and periodic axes of a system, three by three.
pub(crate) fn axes(cell: Option<&[f64]>, periodic: Option<[i32; 3]>) -> Result<([[f64; 3]; 3], [bool; 3])> {
    let mut rows = [[0.0; 3]; 3];
    if let Some(cell) = cell {
        rows.as_flattened_mut().copy_from_slice(cell);
    }
    if let Some(bad) = periodic.and_then(|axes| axes.into_iter().find(|x| ![0, 1].contains(x))) {
        return Err(Error::argument("periodic", "0 or 1 for each axis", bad.to_string()));
    }
    Ok((rows, periodic.map_or([cell.is_some(); 3], |axes| axes.map(|x| x == 1))))
}

/// A list of the pairs of atoms (N, 3) that are closer than the cutoff, in the form in which sums are fastest. `cell`: (3, 3),
/// or null; `periodic`: (3), or null for all axes where there is a cell.
///
/// Pointers are valid for what they are said to hold.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madelung_list_find(
    context: *const madelung_context,
    atoms: i64,
    positions: *const f64,
    cell: *const f64,
    periodic: *const i32,
    cutoff: f64,
    list: *mut *mut madelung_list,
) -> i32 {
    status(|| {
        // SAFETY: the caller's promise.
        let (context, n) = (unsafe { context_of(context) }?, size("atoms", atoms)?);
        // SAFETY: the caller's promise.
        let positions = unsafe { array("positions", positions, n, 3) }?;
        // SAFETY: the caller's promise.
        let cell = (!cell.is_null()).then(|| unsafe { array("cell", cell, 3, 3) }).transpose()?;
        let periodic =
            // SAFETY: the caller's promise.
            (!periodic.is_null()).then(|| unsafe { array("periodic", periodic, 3, 1) }).transpose()?;
        let (rows, axes) = axes(cell, periodic.map(|x| [x[0], x[1], x[2]]))?;
        let batch = Batch::single(n)?;
        let found = find_neighbors(
            positions.as_chunks::<3>().0,
            cutoff,
            Some(&[rows]),
            Some(&[axes]),
            &batch,
            &Options::full(),
            &context.threads(),
        )?;
        // SAFETY: the caller's promise.
        unsafe { give("list", list, madelung_list { pairs: found, cutoff: Some(cutoff) }) }
    })
}

/// A list from its rows: the entries of atom i are `first`[i] to `first`[i + 1], `others` their second atoms and `shifts` their
/// images (…, 3), in lattice vectors; null: none is moved. `kind`: MADELUNG_FULL or MADELUNG_HALF. Arrays are copied.
///
/// Pointers are valid for what they are said to hold: `first` for atoms + 1 numbers, the others for as many entries as its
/// last one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madelung_list_from_rows(
    atoms: i64,
    first: *const i64,
    others: *const i32,
    shifts: *const i32,
    kind: i32,
    list: *mut *mut madelung_list,
) -> i32 {
    status(|| {
        let n = size("atoms", atoms)?;
        // SAFETY: the caller's promise.
        let first = unsafe { array("first", first, n.saturating_add(1), 1) }?;
        let entries = size("first", *first.last().expect("one at least"))?;
        // SAFETY: the caller's promise.
        let others = unsafe { array("others", others, entries, 1) }?;
        let shifts = match shifts.is_null() {
            true => vec![[0; 3]; others.len()],
            // SAFETY: the caller's promise.
            false => unsafe { array("shifts", shifts, entries, 3) }?.as_chunks().0.to_vec(),
        };
        let made = PairList::from_csr(first.to_vec(), others.to_vec(), shifts, n, kind_of(kind)?)?;
        // SAFETY: the caller's promise.
        unsafe {
            give("list", list, madelung_list { pairs: Neighbors::Rows(made.into_owned()), cutoff: None })
        }
    })
}

/// The list of one domain of a system, as each process of an engine has it: of `own` atoms, with entries among these and the
/// ghosts behind them, `atoms` in all, none of which is moved. The entries of atom i are `others`\[i\], `lengths`\[i\] of them,
/// for the `count` own atoms i of `rows`, each once, or all where it is null; rows that are not there are empty. An entry
/// counts where its `bits` are `wanted`, and the bits of its `mask` are an atom's index: so entries that an engine marks have
/// lists of their own. Arrays are copied.
///
/// `kind`: MADELUNG_HALF, each pair is there once, in one of the domains that own its atoms. What ghosts get of the energies
/// and forces is then added to that of the atoms that they stand for, as engines do that communicate forces of ghosts; the
/// atoms' `positions` (atoms, 3) bring the list into the form in which sums are fastest. MADELUNG_FULL: each own atom has all
/// its neighbours. Sums then have energies of own atoms and their whole forces, and ghosts get nothing; `positions` are not
/// looked at. Either way energies and virials add up over domains. MADELUNG_REAL_SPACE, MADELUNG_COULOMB with a cutoff and
/// pair potentials take such a list, of systems without exclusions.
///
/// Pointers are valid for what they are said to hold: `lengths` and `others` for `own` elements, of which those of `rows` are
/// read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madelung_list_of_domain(
    context: *const madelung_context,
    own: i64,
    atoms: i64,
    positions: *const f64,
    rows: *const i32,
    count: i64,
    lengths: *const i32,
    others: *const *const i32,
    mask: i32,
    bits: i32,
    wanted: i32,
    kind: i32,
    list: *mut *mut madelung_list,
) -> i32 {
    status(|| {
        // SAFETY: the caller's promise.
        let (context, kind) = (unsafe { context_of(context) }?, kind_of(kind)?);
        let (own, atoms, count) = (size("own", own)?, size("atoms", atoms)?, size("count", count)?);
        // SAFETY: the caller's promise.
        let (lengths, others) =
            unsafe { (array("lengths", lengths, own, 1)?, array("others", others, own, 1)?) };
        if own > atoms {
            return Err(Error::argument("own", format!("at most the {atoms} atoms"), own.to_string()));
        }
        if wanted & !bits != 0 {
            return Err(Error::argument(
                "wanted",
                format!("bits of `bits`, {bits:#x}"),
                format!("{wanted:#x}"),
            ));
        }
        let mut of = vec![None; own];
        // SAFETY: the caller's promise.
        let given = (!rows.is_null()).then(|| unsafe { array("rows", rows, count, 1) }).transpose()?;
        for row in given.map_or_else(|| (0..own as i32).collect(), <[i32]>::to_vec) {
            let free = usize::try_from(row).ok().filter(|row| of.get(*row) == Some(&None));
            let Some(i) = free else {
                let expected = format!("atoms below {own}, each once");
                return Err(Error::argument("rows", expected, row.to_string()));
            };
            // SAFETY: the caller's promise.
            of[i] = Some(unsafe { array("others", others[i], size("lengths", lengths[i].into())?, 1) }?);
        }
        let mut first = vec![0];
        let mut columns = Vec::with_capacity(of.iter().flatten().map(|row| row.len()).sum());
        for row in of {
            let of_row = row.unwrap_or(&[]).iter().filter(|entry| **entry & bits == wanted);
            columns.extend(of_row.map(|entry| entry & mask));
            first.push(columns.len() as i64);
        }
        let made = PairList::of_domain(first, columns, atoms, kind).map_err(|e| match e {
            Error::Argument { expected, got, .. } => Error::argument("others", expected, got),
            e => e,
        })?;
        let pairs = match kind {
            Kind::Half => {
                // SAFETY: the caller's promise.
                let positions = unsafe { array("positions", positions, atoms, 3) }?;
                Neighbors::of_domain(&made, &positions.as_chunks::<3>().0.into(), &context.threads())?
            }
            _ => Neighbors::Rows(made),
        };
        // SAFETY: the caller's promise.
        unsafe { give("list", list, madelung_list { pairs, cutoff: None }) }
    })
}

/// The number of pairs of a list, each from both sides in a full one.
///
/// `list` is a handle, and `pairs` is valid for writing a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madelung_list_pairs(list: *const madelung_list, pairs: *mut i64) -> i32 {
    status(|| {
        // SAFETY: the caller's promise.
        let found = unsafe { handle("list", list) }?.pairs.len();
        // SAFETY: the caller's promise.
        let place = unsafe { pairs.as_mut() }
            .ok_or_else(|| Error::argument("pairs", "a place for a number", "a null pointer"))?;
        *place = found as i64;
        Ok(())
    })
}

/// Frees a list; null is nothing.
///
/// `list` is null, or a handle that no call uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madelung_list_free(list: *mut madelung_list) {
    // SAFETY: the caller's promise.
    unsafe { take(list) };
}
