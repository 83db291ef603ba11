//! Lists of batches of which the systems that have left their skins are searched for again, as an op of integers.

use crate::atoms::{Atoms, OnHost, atoms, read, wrong};
use crate::coo::room;
use crate::device::{DeviceCoo, DeviceFrame};
use crate::list::{Form, ListArrays, Options, find_neighbors};
use madelung_core::array::{Array, DType, View, reserve};
use madelung_core::backend::Context;
use madelung_core::op::{Arg, Op};
use madelung_core::structure::pairs::{Kind, Neighbors, PairList, Shifts};
use madelung_core::structure::{Batch, Structure};
use madelung_core::{Error, Result};
use madelung_cuda::Cuda;
use std::sync::Arc;

/// `renewed_neighbors`: a list (`index`, `columns`, `images`) in rows or in clusters, in which the pairs of systems with a flag in
/// `rebuild` (B,) are those of the atoms' present positions, and all others are what they were; `kept` (B,) has 1 for these. An
/// empty `index` stands for no list, which is searched for as a whole, as it may be for other reasons.
///
/// `form` as for `find_neighbors`; with `frame` from 0 up the list is in form 0 or 1, in arrays of so many integers, entries of
/// `lanes` integers (1 in rows, 2 in clusters), and images or runs. One that does not fit has no pair and true counts, and
/// stays as it is: positions may follow what it has made NaN.
///
/// On a device, in rows, the whole list is searched for in every call.
pub(crate) fn declare() -> Result<Arc<Op>> {
    atoms(Op::new("madelung", "renewed_neighbors", 1))
        .ints("rebuild", &["System"])
        .ints("index", &["Index"])
        .ints("columns", &["Columns", "Lanes"])
        .ints("images", &["Images", "Width"])
        .int_scalar("form")
        .int_scalar("frame")
        .int_scalar("entries")
        .int_scalar("lanes")
        .int_scalar("runs")
        .integer_output("new_index", &["frame"], DType::I32)
        .integer_output("new_columns", &["entries", "lanes"], DType::I32)
        .integer_output("new_images", &["runs", "3"], DType::I32)
        .integer_output("kept", &["System"], DType::I32)
        .search(renewed_neighbors)
        .build()
}

/// Sizes of the results.
#[derive(Clone, Copy)]
struct Sizes {
    frame: usize,
    columns: [usize; 2],
    runs: usize,
}

impl Sizes {
    fn arrays(self, context: &Context<'_>) -> Result<ListArrays> {
        Ok(ListArrays {
            index: room(context, 0, &[self.frame])?,
            columns: room(context, 1, &self.columns)?,
            images: room(context, 2, &[self.runs, 3])?,
        })
    }
}

fn renewed_neighbors(context: &Context<'_>, args: &[Arg<'_>]) -> Result<Vec<Array>> {
    let (atoms, [form, sizes @ ..]) = read::<5>(args)?;
    let more =
        args.iter().skip(4).filter_map(|arg| if let Arg::Array(view) = arg { Some(view) } else { None });
    let [rebuild, index, columns, images] =
        <[&View<'_>; 4]>::try_from(more.collect::<Vec<_>>()).map_err(|_| wrong())?;
    let sizes = match sizes.map(usize::try_from) {
        [Ok(frame), Ok(entries), Ok(lanes), Ok(runs)] => {
            Some(Sizes { frame, columns: [entries, lanes], runs })
        }
        _ => None,
    };
    let systems = atoms.batch.sizes()[1].unwrap_or(0);
    if rebuild.shape() != [systems] {
        let got = format!("{:?}", rebuild.shape());
        return Err(Error::argument("rebuild", format!("a flag for each of {systems} systems"), got));
    }
    if let (Some(cuda), Some(_)) =
        (context.backend.as_any().downcast_ref::<Cuda>(), atoms.batch.as_device_batch())
    {
        return on_device(cuda, context, &atoms, sizes);
    }
    let raised: Vec<bool> = rebuild.to_i32("rebuild")?.iter().map(|flag| *flag != 0).collect();
    let former = Former { index, columns, images };
    let (list, is_whole) = match former.state(atoms.positions.shape()[0])? {
        State::Full if sizes.is_some() => return former.copied(context, sizes, systems),
        State::Holds if !raised.contains(&true) => return former.copied(context, sizes, systems),
        State::Holds if raised.contains(&false) => renewed(context, &atoms, &former, &raised, form)?,
        _ => (whole(context, &atoms, form)?, true),
    };
    let arrays = match sizes {
        None => ListArrays::of(&list, context)?,
        Some(sizes) => {
            let mut arrays = sizes.arrays(context)?;
            write(&mut arrays, list)?;
            arrays
        }
    };
    let mut kept = room(context, 3, &[systems])?;
    if let Array::I32(kept) = &mut kept {
        kept.iter_mut().zip(&raised).for_each(|(kept, raised)| *kept = i32::from(!is_whole && !raised));
    }
    Ok(vec![arrays.index, arrays.columns, arrays.images, kept])
}

/// Arrays of a list.
struct Former<'a> {
    index: &'a View<'a>,
    columns: &'a View<'a>,
    images: &'a View<'a>,
}

/// State of a former list.
enum State {
    /// No list.
    Nothing,
    /// A list that did not fit.
    Full,
    /// A list.
    Holds,
}

impl Former<'_> {
    fn is_in_clusters(&self) -> bool {
        self.columns.shape().get(1) == Some(&2)
    }

    fn state(&self, atoms: usize) -> Result<State> {
        let index = self.index.to_i32("index")?;
        if index.is_empty() {
            return Ok(State::Nothing);
        }
        let is_full = if self.is_in_clusters() {
            index.get(1).is_some_and(|status| *status != 0)
        } else {
            if index.len() != atoms + 1 {
                let got = index.len().to_string();
                return Err(Error::argument("index", format!("offsets of {atoms} atoms"), got));
            }
            index
                .last()
                .is_none_or(|pairs| usize::try_from(*pairs).is_ok_and(|n| n > self.columns.shape()[0]))
        };
        Ok(if is_full { State::Full } else { State::Holds })
    }

    /// The list.
    fn list(&self, atoms: usize) -> Result<Neighbors<'_>> {
        let (columns, images) = (flat(self.columns)?, flat(self.images)?);
        Neighbors::from_arrays([self.index, &columns, &images], atoms, Kind::Full, true)
    }

    /// The arrays as they are, with all systems kept.
    fn copied(&self, context: &Context<'_>, sizes: Option<Sizes>, systems: usize) -> Result<Vec<Array>> {
        let mut all = vec![];
        for (n, view) in [self.index, self.columns, self.images].into_iter().enumerate() {
            let shape: Vec<usize> = match (sizes, n) {
                (None, _) => view.shape().to_vec(),
                (Some(sizes), 0) => vec![sizes.frame],
                (Some(sizes), 1) => sizes.columns.into(),
                (Some(sizes), _) => vec![sizes.runs, 3],
            };
            if view.shape() != shape {
                let name = ["index", "columns", "images"][n];
                return Err(Error::argument(name, format!("shape {shape:?}"), format!("{:?}", view.shape())));
            }
            let mut copy = room(context, n, &shape)?;
            if let Array::I32(copy) = &mut copy {
                copy.copy_from_slice(&view.to_i32("neighbors")?);
            }
            all.push(copy);
        }
        let mut kept = room(context, 3, &[systems])?;
        kept.fill(1.0)?;
        all.push(kept);
        Ok(all)
    }
}

/// A column of an array as one of one dimension; anything else as it is.
fn flat<'a>(view: &View<'a>) -> Result<View<'a>> {
    match view.shape() {
        [rows, 1] => View::new(view.data(), &[*rows]),
        _ => Ok(view.clone()),
    }
}

fn options(form: i64, in_clusters: bool) -> Options {
    match (form, in_clusters) {
        (0, _) => Options::full().with_form(Form::Rows),
        (1, _) => Options::full().with_form(Form::Clusters),
        (_, true) => Options::full().with_form(Form::Mixed),
        (_, false) => Options::full(),
    }
}

fn whole(context: &Context<'_>, atoms: &Atoms<'_>, form: i64) -> Result<Neighbors<'static>> {
    let OnHost { positions, cells, axes, batch } = atoms.on_host()?;
    let (r, h, pool) = (positions.as_chunks().0, cells.as_deref(), context.threads());
    let options = options(form, false).with_precision(atoms.precision());
    find_neighbors(r, atoms.cutoff, h, Some(&axes), batch, &options, &pool)
}

/// The elements of some systems, where there is one for each.
fn of<T: Copy>(each: &[T], chosen: impl Iterator<Item = usize>) -> Vec<T> {
    if each.len() == 1 { each.to_vec() } else { chosen.map(|b| each[b]).collect() }
}

/// The list, and whether all of it was searched for: so it is where another form would be faster, and where a system is wrong, which
/// the search of all names.
fn renewed(
    context: &Context<'_>,
    atoms: &Atoms<'_>,
    former: &Former<'_>,
    raised: &[bool],
    form: i64,
) -> Result<(Neighbors<'static>, bool)> {
    let OnHost { positions, cells, axes, batch } = atoms.on_host()?;
    let (r, pool): (&[[f64; 3]], _) = (positions.as_chunks().0, context.threads());
    let chosen = || raised.iter().enumerate().filter(|(_, is)| **is).map(|(b, _)| b);
    let (mut moved, mut ptr) = (vec![], vec![0]);
    for b in chosen() {
        let members = &r[batch.members(b)];
        reserve(&mut moved, members.len());
        moved.extend_from_slice(members);
        ptr.push(moved.len() as i32);
    }
    let (cells, axes) = (cells.map(|cells| of(&cells, chosen())), of(&axes, chosen()));
    let some = Batch::from_ptr(ptr)?;
    let options = options(form, former.is_in_clusters()).with_precision(atoms.precision());
    let found = find_neighbors(&moved, atoms.cutoff, cells.as_deref(), Some(&axes), &some, &options, &pool);
    match found {
        Ok(found) if found.as_clusters().is_some() == former.is_in_clusters() => {
            Ok((former.list(batch.atoms())?.renewed(&found, raised, batch, &pool)?, false))
        }
        _ => Ok((whole(context, atoms, form)?, true)),
    }
}

/// Writes a list to arrays with room for more; images of rows as three integers.
fn write(arrays: &mut ListArrays, list: Neighbors<'static>) -> Result<()> {
    let Neighbors::Rows(rows) = list else { return arrays.write(&list) };
    let atoms = rows.rows();
    let csr = rows.into_csr();
    let images = Shifts::Triples(csr.shifts.into_owned().into());
    let others = csr.others.into_owned();
    let rows = PairList::from_search(csr.neighbor_ptr.into_owned(), others, images, atoms, Kind::Full)?;
    arrays.write(&Neighbors::Rows(rows))
}

fn on_device(
    cuda: &Cuda,
    context: &Context<'_>,
    atoms: &Atoms<'_>,
    sizes: Option<Sizes>,
) -> Result<Vec<Array>> {
    let batch = atoms.batch.as_device_batch().ok_or_else(wrong)?;
    let Atoms { positions, cell, pbc, cutoff, .. } = atoms;
    let frame = DeviceFrame { positions, cell: *cell, pbc, batch };
    let counted = DeviceCoo::count(cuda, context, &frame, *cutoff, Kind::Full)?;
    let sizes = match sizes {
        Some(sizes) if sizes.columns[1] == 2 => {
            let text = "neighbours in clusters are lists of the CPU: make one with form='rows'";
            return Err(Error::Unsupported(text.into()));
        }
        Some(sizes) => sizes,
        None => {
            let pairs = counted.total()?;
            Sizes { frame: batch.atoms() + 1, columns: [pairs, 1], runs: pairs }
        }
    };
    if [sizes.frame, sizes.runs] != [batch.atoms() + 1, sizes.columns[0]] {
        let expected = format!("{} offsets, and as many images as columns", batch.atoms() + 1);
        return Err(Error::argument("frame", expected, format!("{} and {}", sizes.frame, sizes.runs)));
    }
    let arrays = sizes.arrays(context)?;
    let kept = context.allocator.zeros(DType::I32, &[batch.systems()])?;
    counted.write_rows([&arrays.index, &arrays.columns, &arrays.images])?;
    Ok(vec![arrays.index, arrays.columns, arrays.images, kept])
}
