//! From the rows that tasks found, in any order, to the list.

use madelung_core::backend::pool::{Pool, split_tasks};
use madelung_core::pairs::{Kind, PairList};
use madelung_core::{Error, Result};

use crate::candidates::{Found, Placed, System, WORD};
use crate::search::Options;

/// Where the pairs of a row go.
struct Row<'a> {
    others: &'a mut [i32],
    shifts: &'a mut [[i32; 3]],
}

/// The list of all rows, in CSR.
pub(crate) fn assemble(
    found: &[Found],
    systems: &[System<'_>],
    placed: &[Placed],
    options: &Options,
    pool: &dyn Pool,
) -> Result<PairList<'static>> {
    let atoms = placed.len();
    let mut counts = vec![0u32; atoms];
    for &(i, count) in found.iter().flat_map(|found| &found.rows) {
        counts[i as usize] = count;
    }
    check_capacity(&counts, options)?;
    let mut ptr = vec![0i32; atoms + 1];
    for i in 0..atoms {
        ptr[i + 1] = ptr[i] + counts[i] as i32;
    }
    let len = ptr[atoms] as usize;
    let (mut others, mut shifts) = (vec![0i32; len], vec![[0i32; 3]; len]);

    // Rows lie by atom in the list and by task here: every task gets its own rows to write.
    let mut by_atom = Vec::with_capacity(atoms);
    let (mut others_left, mut shifts_left) = (&mut others[..], &mut shifts[..]);
    for &count in &counts {
        let (row_others, rest) = others_left.split_at_mut(count as usize);
        let (row_shifts, shifts_rest) = shifts_left.split_at_mut(count as usize);
        by_atom.push(Some(Row { others: row_others, shifts: row_shifts }));
        (others_left, shifts_left) = (rest, shifts_rest);
    }
    let mut rows: Vec<_> =
        found.iter().flat_map(|found| &found.rows).filter_map(|&(i, _)| by_atom[i as usize].take()).collect();
    let ends: Vec<usize> = found
        .iter()
        .scan(0, |end, found| {
            *end += found.rows.len();
            Some(*end)
        })
        .collect();
    let wrapped = placed.iter().any(|placed| placed.wrap != [0; 3]);
    split_tasks(pool, &mut rows, &ends, |task, rows| write(&found[task], rows, systems, placed, wrapped));
    drop(rows);
    PairList::from_search(ptr, others, shifts, atoms, options.kind)
}

/// Writes the rows of one task.
fn write(found: &Found, mut rows: &mut [Row<'_>], systems: &[System<'_>], placed: &[Placed], wrapped: bool) {
    let (mut keys, mut atoms, mut bits) = (&found.keys[..], &found.rows[..], &found.bits[..]);
    let (mut table, mut moved) = (Vec::new(), Vec::new());
    for &(block_rows, block_keys) in &found.blocks {
        let (block, rest) = keys.split_at(block_keys as usize);
        let (own, own_rest) = atoms.split_at(block_rows as usize);
        let (out, out_rest) = std::mem::take(&mut rows).split_at_mut(block_rows as usize);
        (keys, atoms, rows) = (rest, own_rest, out_rest);
        let system = &systems[systems.partition_point(|system| system.atoms.end <= own[0].0 as usize)];
        // What a candidate is in the list, padded like the bits; and which candidates are images.
        table.clear();
        table.extend(block.iter().map(|&key| {
            let (j, n) = ((key >> 32) as i32, system.images.image(key as u32));
            let wrap = if wrapped { placed[j as usize].wrap } else { [0; 3] };
            (j, [n[0] - wrap[0], n[1] - wrap[1], n[2] - wrap[2]])
        }));
        let words = block.len().div_ceil(WORD);
        table.resize(words * WORD, (0, [0; 3]));
        moved.clear();
        moved.extend(
            table
                .as_chunks::<WORD>()
                .0
                .iter()
                .map(|word| (0..WORD).fold(0u64, |bits, c| bits | u64::from(word[c].1 != [0; 3]) << c)),
        );
        for (&(i, _), row) in own.iter().zip(out) {
            let (row_bits, rest) = bits.split_at(words);
            bits = rest;
            let wrap = if wrapped { placed[i as usize].wrap } else { [0; 3] };
            // Arrays start as zeros: the shifts of a row that crosses no border are not even touched.
            if wrap == [0; 3] && row_bits.iter().zip(&moved).all(|(bits, moved)| bits & moved == 0) {
                pick(row_bits, &table, row.others.iter_mut(), |other, &(j, _)| *other = j);
            } else {
                let out = row.others.iter_mut().zip(row.shifts.iter_mut());
                pick(row_bits, &table, out, |(other, shift), &(j, n)| {
                    (*other, *shift) = (j, [n[0] + wrap[0], n[1] + wrap[1], n[2] + wrap[2]]);
                });
            }
        }
    }
}

/// Writes to each of `out` what the next set bit picks from `table`.
fn pick<T, O>(bits: &[u64], table: &[T], mut out: impl Iterator<Item = O>, write: impl Fn(O, &T)) {
    for (&word, table) in bits.iter().zip(table.as_chunks::<WORD>().0) {
        let mut word = word;
        while word != 0 {
            let Some(out) = out.next() else { return };
            write(out, &table[word.trailing_zeros() as usize % WORD]);
            word &= word - 1;
        }
    }
}

/// Checks sizes before anything is allocated for them.
fn check_capacity(counts: &[u32], options: &Options) -> Result<()> {
    let total: usize = counts.iter().map(|&count| count as usize).sum();
    let longest = counts.iter().max().map_or(0, |&count| count as usize);
    if let Some(max_neighbors) = options.max_neighbors.filter(|&given| given < longest) {
        let expected = format!("at least {longest}, the neighbours of the atom that has most");
        return Err(Error::argument("max_neighbors", expected, max_neighbors.to_string()));
    }
    if let Some(capacity) = options.capacity.filter(|&given| given < total) {
        let expected = format!("at least {total}, the number of pairs");
        return Err(Error::argument("capacity", expected, capacity.to_string()));
    }
    if total > i32::MAX as usize {
        return Err(too_many(options.kind, &total.to_string()));
    }
    Ok(())
}

/// The error for lists that 32-bit offsets cannot address.
pub(crate) fn too_many(kind: Kind, got: &str) -> Error {
    let half = if kind == Kind::Half { "" } else { ", or a half list" };
    let expected =
        format!("a cutoff within which there are at most {} pairs (fewer systems at once{half})", i32::MAX);
    Error::argument("cutoff", expected, format!("{got} pairs"))
}
