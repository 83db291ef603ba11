//! Assembly of the list from the rows that tasks found, in any order.

use madelung_core::array::{Array, Buffer, DType, Plain, Rows};
use madelung_core::backend::Context;
use madelung_core::backend::pool::Pool;
use madelung_core::runtime::lanes::packed;
use madelung_core::structure::pairs::{Buffers, Kind, PairList, Shifts};
use madelung_core::{Error, Result};
use madelung_cpu::points::{WORD, pick};

use super::arrays::ListArrays;
use super::candidates::{Found, Search, System};
use super::options::Options;
use super::search::MOST_PAIRS;
use crate::CooArrays;

/// The list of all rows, in CSR, in the memory of another one.
pub(crate) fn assemble(
    found: &[Found],
    search: &Search<'_>,
    systems: &[System<'_>],
    options: &Options,
    pool: &dyn Pool,
    memory: Buffers,
) -> Result<PairList<'static>> {
    let Buffers { neighbor_ptr, others, packed: codes, triples } = memory;
    let ptr = offsets(found, search.placed.len(), options, neighbor_ptr)?;
    let (mut others, _) = room(others, ptr[ptr.len() - 1] as usize);
    let rows = FoundRows { found, search, systems, ptr: &ptr };
    let shifts = if are_packed(search, systems) {
        let (mut codes, zero) = room(codes, others.len());
        rows.write_packed(pool, &mut others, &mut codes, zero);
        Shifts::Packed(codes.into())
    } else {
        let (mut triples, _) = room(triples, others.len());
        rows.write_triples(pool, &mut others, &mut triples);
        Shifts::Triples(triples.into())
    };
    PairList::from_search(ptr, others, shifts, search.placed.len(), options.kind)
}

/// The list of all rows as arrays of a context, each element written once.
pub(crate) fn assemble_rows(
    found: &[Found],
    search: &Search<'_>,
    systems: &[System<'_>],
    options: &Options,
    context: &Context<'_>,
) -> Result<ListArrays> {
    let ptr = offsets(found, search.placed.len(), options, Buffer::default())?;
    let (rows, pool) = (FoundRows { found, search, systems, ptr: &ptr }, context.threads());
    let pairs = addressed(&ptr)?;
    let packed = are_packed(search, systems);
    let shape: &[usize] = if packed { &[pairs] } else { &[pairs, 3] };
    let room = |shape: &[usize]| context.allocator.room(DType::I32, shape);
    let mut arrays =
        ListArrays { index: room(&[ptr.len()])?, columns: room(&[pairs])?, images: room(shape)? };
    let ListArrays { index: Array::I32(index), columns: Array::I32(columns), images: Array::I32(images) } =
        &mut arrays
    else {
        return Err(context.backend.place().elsewhere("positions"));
    };
    index.iter_mut().zip(&*ptr).for_each(|(narrow, wide)| *narrow = *wide as i32);
    if packed {
        rows.write_packed(&pool, columns, images, false);
    } else {
        rows.write_triples(&pool, columns, images.as_chunks_mut().0);
    }
    Ok(arrays)
}

/// Rows that tasks found, and their offsets.
struct FoundRows<'a> {
    found: &'a [Found],
    search: &'a Search<'a>,
    systems: &'a [System<'a>],
    ptr: &'a [i64],
}

impl FoundRows<'_> {
    /// Writes columns and packed images; `zero`: where images are zeros already.
    fn write_packed(&self, pool: &dyn Pool, columns: &mut [i32], codes: &mut [i32], zero: bool) {
        let Self { found, search, systems, ptr } = *self;
        let (columns, images) = (Rows::new(columns, ptr), Rows::new(codes, ptr));
        pool.run(found.len(), &|task| {
            let into = Packed { rows: &images, zero };
            write(&found[task], search, systems, &columns, &mut PackedRows::new(search, into));
        });
    }

    /// Writes columns and images.
    fn write_triples(&self, pool: &dyn Pool, columns: &mut [i32], images: &mut [[i32; 3]]) {
        let Self { found, search, systems, ptr } = *self;
        let (columns, images) = (Rows::new(columns, ptr), Rows::new(images, ptr));
        pool.run(found.len(), &|task| {
            write(&found[task], search, systems, &columns, &mut TripleRows::new(search, &images));
        });
    }
}

/// The list of all rows in coordinate form, each element written once.
pub(crate) fn assemble_coo(
    found: &[Found],
    search: &Search<'_>,
    systems: &[System<'_>],
    options: &Options,
    context: &Context<'_>,
) -> Result<CooArrays> {
    let wide = offsets(found, search.placed.len(), options, Buffer::default())?;
    let pairs = addressed(&wide)?;
    let mut arrays = CooArrays::room(context, search.placed.len(), pairs)?;
    let CooArrays { list: Array::I32(list), ptr: Array::I32(ptr), shifts: Array::I32(shifts) } = &mut arrays
    else {
        return Err(context.backend.place().elsewhere("positions"));
    };
    let ((rows, columns), (images, _)) = (list.split_at_mut(pairs), shifts.as_chunks_mut());
    ptr.iter_mut().zip(&*wide).for_each(|(narrow, wide)| *narrow = *wide as i32);
    let (rows, columns, images) =
        (Rows::new(rows, &wide), Rows::new(columns, &wide), Rows::new(images, &wide));
    let packed = are_packed(search, systems);
    context.threads().run(found.len(), &|task| {
        let found = &found[task];
        found.rows.iter().for_each(|&[i, _]| rows.take(i as usize).fill(i as i32));
        if packed {
            let into = Unpacked { rows: &images, row: vec![] };
            write(found, search, systems, &columns, &mut PackedRows::new(search, into));
        } else {
            write(found, search, systems, &columns, &mut TripleRows::new(search, &images));
        }
    });
    Ok(arrays)
}

/// Offsets of the rows that were found, in the memory of others.
fn offsets(found: &[Found], atoms: usize, options: &Options, mut ptr: Buffer<i64>) -> Result<Buffer<i64>> {
    // Counts first, each behind its place; then sums.
    ptr.clear();
    ptr.resize(atoms + 1, 0);
    for &[i, count] in found.iter().flat_map(|found| &found.rows) {
        ptr[i as usize + 1] = i64::from(count);
    }
    check_capacity(&ptr[1..], options)?;
    for i in 0..atoms {
        ptr[i + 1] += ptr[i];
    }
    Ok(ptr)
}

/// The number of pairs, where int32 offsets can address them.
fn addressed(ptr: &[i64]) -> Result<usize> {
    let pairs = ptr[ptr.len() - 1];
    if i32::try_from(pairs).is_err() {
        let most = i32::MAX;
        let expected =
            format!("at most {most} pairs, which is what the int32 offsets of the result can address");
        return Err(Error::argument("cutoff", expected, format!("{pairs} pairs")));
    }
    Ok(pairs as usize)
}

fn are_packed(search: &Search<'_>, systems: &[System<'_>]) -> bool {
    systems.iter().all(|system| packed::fits(search.farthest(system)))
}

/// `len` elements, and whether they are untouched zeros, which the system gives for free until they are touched.
fn room<T: Plain + Default>(mut memory: Buffer<T>, len: usize) -> (Buffer<T>, bool) {
    if memory.capacity() < len {
        drop(memory);
        // A little more than is needed: the next list will be about as long.
        let (mut memory, zeros) = Buffer::room(len + len / 32);
        memory.truncate(len);
        return (memory, zeros);
    }
    memory.resize(len, T::default());
    (memory, false)
}

/// Writes the shifts of rows, in one form or the other.
trait ShiftRows {
    /// Takes the candidates of a cell, by atom and image code, of which the first `near` count.
    fn cell(&mut self, system: &System<'_>, atoms: &[i32], codes: &[i32], near: usize);
    /// Writes the row of atom `i`: of those of the cell's candidates that have a bit.
    fn row(&mut self, i: usize, system: &System<'_>, bits: &[u64], others: &[i32]);
}

/// Writes the rows of one task.
fn write(
    found: &Found,
    search: &Search<'_>,
    systems: &[System<'_>],
    columns: &Rows<'_, i32>,
    shifts: &mut impl ShiftRows,
) {
    let (mut cells, mut masks) = (found.cells.iter(), &found.masks[..]);
    let (mut rows, mut bits) = (&found.rows[..], &found.bits[..]);
    let (mut atoms_of_blocks, mut codes_of_blocks) = (&found.atoms[..], &found.codes[..]);
    let (mut atoms, mut codes) = (Vec::new(), Vec::new());
    for block in &found.blocks {
        let words = block.words as usize;
        let atoms_of_block = take(&mut atoms_of_blocks, words * WORD);
        let codes_of_block = take(&mut codes_of_blocks, words * WORD);
        for cell in cells.by_ref().take(block.cells as usize) {
            let (mask, own) = (take(&mut masks, words), take(&mut rows, cell.rows as usize));
            let Some(&[first, _]) = own.first() else { continue };
            let system = &systems[systems.partition_point(|system| system.atoms.end <= first as usize)];
            let near = cell.near as usize;
            let words = near.div_ceil(WORD);
            atoms.resize(words * WORD, 0);
            codes.resize(words * WORD, 0);
            pick(&search.cpu, mask, atoms_of_block, &mut atoms[..near]);
            pick(&search.cpu, mask, codes_of_block, &mut codes[..near]);
            shifts.cell(system, &atoms, &codes, near);
            for &[i, _] in own {
                let (bits, others) = (take(&mut bits, words), columns.take(i as usize));
                pick(&search.cpu, bits, &atoms, others);
                shifts.row(i as usize, system, bits, others);
            }
        }
    }
}

/// The place of shifts that are packed into one integer.
trait PackedShifts {
    /// Writes the row of atom `i` by `fill`.
    fn put(&mut self, i: usize, len: usize, fill: impl FnOnce(&mut [i32]));
    /// Writes zeros as the row of atom `i`.
    fn put_zeros(&mut self, i: usize);
}

/// Shifts that stay packed.
struct Packed<'a> {
    rows: &'a Rows<'a, i32>,
    /// Whether rows are zeros before they are written.
    zero: bool,
}

impl PackedShifts for Packed<'_> {
    fn put(&mut self, i: usize, _: usize, fill: impl FnOnce(&mut [i32])) {
        fill(self.rows.take(i));
    }

    fn put_zeros(&mut self, i: usize) {
        if !self.zero {
            self.rows.take(i).fill(0);
        }
    }
}

/// Shifts that are unpacked into three integers.
struct Unpacked<'a> {
    rows: &'a Rows<'a, [i32; 3]>,
    row: Vec<i32>,
}

impl PackedShifts for Unpacked<'_> {
    fn put(&mut self, i: usize, len: usize, fill: impl FnOnce(&mut [i32])) {
        self.row.resize(len, 0);
        fill(&mut self.row);
        for (image, &code) in self.rows.take(i).iter_mut().zip(&self.row) {
            *image = packed::unpack(code);
        }
    }

    fn put_zeros(&mut self, i: usize) {
        self.rows.take(i).as_flattened_mut().fill(0);
    }
}

/// Shifts packed into one integer, in which they add.
struct PackedRows<'a, P> {
    search: &'a Search<'a>,
    into: P,
    /// The shift of each candidate of the cell, and the bits of those with a nonzero one.
    images: Vec<i32>,
    moved: Vec<u64>,
}

impl<'a, P> PackedRows<'a, P> {
    fn new(search: &'a Search<'a>, into: P) -> Self {
        Self { search, into, images: vec![], moved: vec![] }
    }
}

impl<P: PackedShifts> ShiftRows for PackedRows<'_, P> {
    fn cell(&mut self, system: &System<'_>, atoms: &[i32], codes: &[i32], near: usize) {
        let home = system.images.code([0; 3]);
        self.images.clear();
        self.moved.clear();
        let wrapped = self.search.wraps != [0; 3];
        if wrapped || codes[..near].iter().any(|&code| code != home) {
            let image = |code: i32| if code == home { 0 } else { packed::pack(system.images.image(code)) };
            self.images.extend(codes[..near].iter().map(|&code| image(code)));
            if wrapped {
                let wraps = atoms.iter().map(|&j| packed::pack(self.search.placed[j as usize].wrap));
                self.images.iter_mut().zip(wraps).for_each(|(image, wrap)| *image -= wrap);
            }
            self.images.resize(codes.len(), 0);
            let word =
                |images: &[i32; WORD]| (0..WORD).fold(0, |bits, c| bits | u64::from(images[c] != 0) << c);
            self.moved.extend(self.images.as_chunks().0.iter().map(word));
        }
    }

    fn row(&mut self, i: usize, _: &System<'_>, bits: &[u64], others: &[i32]) {
        let wrapped = self.search.wraps != [0; 3];
        let wrap = if wrapped { packed::pack(self.search.placed[i].wrap) } else { 0 };
        if wrap != 0 || bits.iter().zip(&self.moved).any(|(bits, moved)| bits & moved != 0) {
            let (search, images) = (self.search, &self.images);
            self.into.put(i, others.len(), |row| {
                pick(&search.cpu, bits, images, row);
                if wrap != 0 {
                    row.iter_mut().for_each(|shift| *shift += wrap);
                }
            });
        } else {
            self.into.put_zeros(i);
        }
    }
}

/// Shifts of atoms that are too many boxes apart to be packed.
struct TripleRows<'a> {
    search: &'a Search<'a>,
    rows: &'a Rows<'a, [i32; 3]>,
    /// Image codes of the cell's candidates and, behind these, of a row.
    codes: Vec<i32>,
}

impl<'a> TripleRows<'a> {
    fn new(search: &'a Search<'a>, rows: &'a Rows<'a, [i32; 3]>) -> Self {
        Self { search, rows, codes: vec![] }
    }
}

impl ShiftRows for TripleRows<'_> {
    fn cell(&mut self, _: &System<'_>, _: &[i32], codes: &[i32], _: usize) {
        self.codes.clear();
        self.codes.extend_from_slice(codes);
    }

    fn row(&mut self, i: usize, system: &System<'_>, bits: &[u64], others: &[i32]) {
        let candidates = bits.len() * WORD;
        self.codes.resize(candidates + others.len(), 0);
        let (codes, of_row) = self.codes.split_at_mut(candidates);
        pick(&self.search.cpu, bits, codes, of_row);
        let from = self.search.placed[i].wrap;
        for ((shift, &j), &code) in self.rows.take(i).iter_mut().zip(others).zip(&*of_row) {
            let (n, to) = (system.images.image(code), self.search.placed[j as usize].wrap);
            *shift = std::array::from_fn(|k| n[k] + from[k] - to[k]);
        }
    }
}

/// The first `n` of `rest`, which then begins behind them.
fn take<'a, T>(rest: &mut &'a [T], n: usize) -> &'a [T] {
    let (first, behind) = rest.split_at(n);
    *rest = behind;
    first
}

/// Checks sizes before anything is allocated for them.
fn check_capacity(counts: &[i64], options: &Options) -> Result<()> {
    let total = counts.iter().sum::<i64>() as usize;
    let longest = counts.iter().max().map_or(0, |&count| count as usize);
    if let Some(max_neighbors) = options.max_neighbors.filter(|&given| given < longest) {
        let expected = format!("at least {longest}, the neighbours of the atom that has most");
        return Err(Error::argument("max_neighbors", expected, max_neighbors.to_string()));
    }
    if let Some(capacity) = options.capacity.filter(|&given| given < total) {
        let expected = format!("at least {total}, the number of pairs");
        return Err(Error::argument("capacity", expected, capacity.to_string()));
    }
    Ok(())
}

/// The error for lists that no memory holds.
pub(crate) fn too_many(kind: Kind, got: &str) -> Error {
    let half = if kind == Kind::Half { "" } else { ", or a half list" };
    let expected =
        format!("a cutoff within which there are at most {MOST_PAIRS} pairs (fewer systems at once{half})");
    Error::argument("cutoff", expected, format!("{got} pairs"))
}
