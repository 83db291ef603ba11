//! Lists as arrays of a context, as frameworks have them.

use madelung_core::array::{Array, DType};
use madelung_core::backend::Context;
use madelung_core::structure::Neighbors;
use madelung_core::structure::pairs::Shifts;
use madelung_core::{Error, Result};
use std::borrow::Cow;

/// List in either form as three arrays of int32: see [`Neighbors::from_arrays`].
#[derive(Debug)]
pub struct ListArrays {
    /// `neighbor_ptr` (N + 1,), or the frame of clusters (F,).
    pub index: Array,
    /// Columns (P,), or entries of clusters (E, 2).
    pub columns: Array,
    /// Images, packed (P,) or (P, 3); or runs of clusters (R, 3).
    pub images: Array,
}

impl ListArrays {
    /// The arrays of a list, from the context's allocator.
    ///
    /// # Errors
    /// Memory ran out; `cutoff`, where there are more pairs than an int32 can count.
    pub fn of(list: &Neighbors<'_>, context: &Context<'_>) -> Result<Self> {
        let parts = parts(list)?;
        let rooms = parts.each_ref().map(|(flat, width)| match width {
            None => context.allocator.room(DType::I32, &[flat.len()]),
            Some(width) => context.allocator.room(DType::I32, &[flat.len() / width, *width]),
        });
        let [index, columns, images] = rooms;
        let mut arrays = Self { index: index?, columns: columns?, images: images? };
        arrays.write(list)?;
        Ok(arrays)
    }

    /// Writes a list to arrays with room for more, filled up with zeros, columns of rows with the number of atoms. Of a list that
    /// does not fit no pair is left: true offsets, which pass the room, or a header with the sizes and a status.
    ///
    /// # Errors
    /// Arrays of another form than the list's.
    pub fn write(&mut self, list: &Neighbors<'_>) -> Result<()> {
        let parts = parts(list)?;
        let arrays = [&mut self.index, &mut self.columns, &mut self.images];
        let mut rooms = arrays.map(|array| match array {
            Array::I32(elements) => Ok(&mut **elements),
            other => Err(Error::argument("list", "arrays of int32", other.dtype().to_string())),
        });
        let mut fits = true;
        for ((flat, _), room) in parts.iter().zip(&rooms) {
            fits &= room.as_ref().is_ok_and(|room| flat.len() <= room.len());
        }
        let fills = match list {
            Neighbors::Rows(list) => [0, list.rows() as i32, 0],
            Neighbors::Clusters(_) => [0; 3],
        };
        for (((flat, _), room), fill) in parts.iter().zip(&mut rooms).zip(fills) {
            let Ok(room) = room else { continue };
            let flat: &[i32] = if fits { flat } else { &[] };
            room[..flat.len()].copy_from_slice(flat);
            room[flat.len()..].fill(fill);
        }
        let [index, ..] = rooms;
        let index = index?;
        if fits {
            return Ok(());
        }
        match list {
            Neighbors::Clusters(list) => {
                let header = list.overflow();
                let room = header.len().min(index.len());
                index[..room].copy_from_slice(&header[..room]);
            }
            Neighbors::Rows(_) => {
                let ptr = &parts[0].0;
                let room = ptr.len().min(index.len());
                index[..room].copy_from_slice(&ptr[..room]);
            }
        }
        Ok(())
    }
}

type Part<'l> = (Cow<'l, [i32]>, Option<usize>);

/// The elements of the three arrays, and the length of their rows.
fn parts<'l>(list: &'l Neighbors<'_>) -> Result<[Part<'l>; 3]> {
    Ok(match list {
        Neighbors::Clusters(list) => {
            let (frame, runs, entries) = list.arrays();
            let flat = [frame.into(), entries.as_flattened().into(), runs.as_flattened().into()];
            let [frame, entries, runs] = flat;
            [(frame, None), (entries, Some(2)), (runs, Some(3))]
        }
        Neighbors::Rows(list) => {
            let narrow = |p: &i64| {
                i32::try_from(*p).map_err(|_| {
                    let expected =
                        format!("at most {} pairs, which is what int32 offsets can address", i32::MAX);
                    Error::argument("cutoff", expected, format!("{p} pairs"))
                })
            };
            let pairs = list.len() as i64;
            let ptr: Vec<i32> = list.starts().iter().chain([&pairs]).map(narrow).collect::<Result<_>>()?;
            let images = match list.images() {
                Shifts::Packed(packed) => ((**packed).into(), None),
                Shifts::Triples(triples) => (triples.as_flattened().into(), Some(3)),
            };
            [(ptr.into(), None), (list.others().into(), None), images]
        }
    })
}
