//! Pairs that are left out of a list, or scaled: their images and their list, and lists without them, as ops of integers
//! that frameworks call by name.

use crate::atoms::{Atoms, OnHost, wrong};
use crate::coo::room;
use crate::device;
use crate::lattice::{Lattice, Precision, displacement, lattices, squared};
use crate::list::ListArrays;
use madelung_core::array::{Array, DType, Place, View};
use madelung_core::backend::Context;
use madelung_core::op::{Arg, Constraint, Op, OpBuilder, Request};
use madelung_core::runtime::SlotArray;
use madelung_core::structure::pairs::Kind;
use madelung_core::structure::{Batch, Neighbors, PairList, Structure};
use madelung_core::{Error, Result};
use madelung_cuda::Cuda;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

/// Arguments of an op of pairs that are left out of a list, or scaled: their list, and factors. A step of
/// [`ENTRY_FACTORS`](crate::ENTRY_FACTORS) makes those of its entries.
pub fn excluded_pairs(op: OpBuilder) -> OpBuilder {
    op.pairs_between("excluded", "Atom", "Atom", "Excluded")
        .must_be(Constraint::Full)
        .map("exclusion_of", "Excluded", "Exclusion")
        .real("factors", &["Exclusion"])
        .scratch("entry_factors", &["Excluded"])
}

/// The factor of an entry of a list, from the arguments of [`excluded_pairs`] behind the list; 1 for any other list.
pub fn pair_factors<'a>(behind: &'a [Arg<'_>]) -> impl Fn(usize) -> f64 + use<'a> {
    let given = || {
        let [Arg::Structure(map), Arg::Array(factors), ..] = behind else { return None };
        let of = map.array(SlotArray::MapOf).ok()??;
        Some((of.to_i32("exclusion_of").ok()?.into_owned(), factors.to_f64().ok()?))
    };
    let given = given();
    move |p| given.as_ref().map_or(1.0, |(of, factors)| factors[of[p] as usize])
}

/// Pairs that are left out of a list, or scaled, each from both sides in its nearest image.
#[derive(Clone, Debug)]
pub struct ExcludedPairs {
    /// Their list.
    pub list: PairList<'static>,
    /// The pair of each entry.
    pub of: Vec<i32>,
}

impl ExcludedPairs {
    /// The `pairs` of atoms at `positions` (N, 3), in cells (B, 3, 3) that are periodic along the axes `pbc`, a row of each
    /// system.
    ///
    /// # Errors
    /// `exclusions`, where atoms are not there, of two systems, or the same, or a pair is there twice.
    pub fn find(
        context: &Context<'_>,
        positions: &View<'_>,
        cells: &View<'_>,
        pbc: &[[bool; 3]],
        batch: &Batch<'_>,
        pairs: &[[i32; 2]],
    ) -> Result<Self> {
        let axes: Vec<[i32; 3]> = pbc.iter().map(|axes| axes.map(i32::from)).collect();
        let (axes, pairs, none) =
            (Array::from(&axes[..]), Array::from(pairs), Array::from(&[] as &[[i32; 3]]));
        let args = [
            Arg::Array(positions.clone()),
            Arg::Array(cells.clone()),
            Arg::Array(axes.view()),
            Arg::Array(pairs.view()),
            Arg::Array(none.view()),
            Arg::Structure(batch),
            Arg::Int(0),
        ];
        // The op looks at its arguments before it searches.
        static OP: OnceLock<Arc<Op>> = OnceLock::new();
        let op = OP.get_or_init(|| declare_list().expect("the declaration of the registry"));
        let request = Request { values: true, ..Request::default() };
        let found = op.evaluate(context, &args, &request)?.values;
        let ints = |n: usize| found[n].view().to_i32("exclusions").map(Cow::into_owned);
        let (ptr, columns, images, of) = (ints(0)?, ints(1)?, ints(2)?, ints(3)?);
        let list = PairList::from_csr(ptr, columns, images.as_chunks().0, batch.atoms(), Kind::Full)?;
        Ok(Self { list: list.into_owned(), of })
    }

    /// A list without these pairs, in the form in which it came; None where it has none of them.
    ///
    /// # Errors
    /// `pairs`, where it is of another number of atoms, or not on the host.
    pub fn left_out_of(&self, pairs: &dyn Structure) -> Result<Option<Box<dyn Structure>>> {
        let (atoms, given) = (self.list.rows(), pairs.sizes()[0]);
        if given != Some(atoms) {
            let got = given.map_or("another one".into(), |n| format!("one of {n}"));
            return Err(Error::argument("pairs", format!("a list of {atoms} atoms"), got));
        }
        match (pairs.as_clusters(), pairs.as_pairs()) {
            (Some(clusters), _) => Ok(Some(Box::new(clusters.without(&self.list)))),
            (None, Some(rows)) if rows.lacks(&self.list) => Ok(None),
            (None, Some(rows)) => Ok(Some(Box::new(rows.without(&self.list)?))),
            _ => Err(Error::argument("pairs", "a list on the host", "another one")),
        }
    }
}

/// `exclusion_list`: the list of pairs (P, 2), each from both sides, as offsets of each atom's entries (N + 1,),
/// columns (2P,), images (2P, 3) and the pair of each entry (2P,), sorted by i, j, S. Images are those of `shifts` (P, 3), or
/// without a row of these the nearest.
pub(crate) fn declare_list() -> Result<Arc<Op>> {
    Op::new("madelung", "exclusion_list", 1)
        .real("positions", &["Atom", "3"])
        .real("cell", &["System", "3", "3"])
        .ints("pbc", &["Axes", "3"])
        .ints("exclusions", &["Exclusion", "2"])
        .ints("shifts", &["Shift", "3"])
        .batch("batch_idx", "Atom", "System")
        .int_scalar("axes")
        .integer_output("ptr", &["Atom+1"], DType::I32)
        .integer_output("columns", &["Exclusion+Exclusion"], DType::I32)
        .integer_output("images", &["Exclusion+Exclusion", "3"], DType::I32)
        .integer_output("exclusion_of", &["Exclusion+Exclusion"], DType::I32)
        .search(exclusion_list)
        .build()
}

/// `rows_without`: a list in rows without the pairs of another one; with a `capacity` as `radius_search`.
pub(crate) fn declare_rows() -> Result<Arc<Op>> {
    Op::new("madelung", "rows_without", 1)
        .pairs("exclusions", "Atom")
        .pairs("pairs", "Atom")
        .int_scalar("capacity")
        .integer_output("ptr", &["Atom+1"], DType::I32)
        .integer_output("columns", &["capacity"], DType::I32)
        .integer_output("images", &["capacity", "3"], DType::I32)
        .search(without)
        .build()
}

/// `clusters_without`, on the host: a list in clusters, of arrays as long as it has now, without the pairs of another one.
pub(crate) fn declare_clusters() -> Result<Arc<Op>> {
    Op::new("madelung", "clusters_without", 1)
        .pairs("exclusions", "Atom")
        .pairs("pairs", "Atom")
        .int_scalar("frame")
        .int_scalar("entries")
        .int_scalar("runs")
        .integer_output("index", &["frame"], DType::I32)
        .integer_output("columns", &["entries", "2"], DType::I32)
        .integer_output("images", &["runs", "3"], DType::I32)
        .search(without)
        .build()
}

/// Pair from one side: atoms i and j, the image of j, and the number of the exclusion.
type Entry = (i32, i32, [i32; 3], i32);

fn exclusion_list(context: &Context<'_>, args: &[Arg<'_>]) -> Result<Vec<Array>> {
    let [Arg::Array(positions), Arg::Array(cell), Arg::Array(pbc), Arg::Array(pairs), rest @ ..] = args
    else {
        return Err(wrong());
    };
    let [Arg::Array(shifts), Arg::Structure(batch), Arg::Int(axes)] = rest else { return Err(wrong()) };
    let atoms = Atoms::new(("positions", positions), cell, pbc, *batch, *axes)?;
    if !shifts.is_empty() && shifts.shape()[0] != pairs.shape()[0] {
        let expected = format!("shifts of {} pairs", pairs.shape()[0]);
        return Err(Error::argument("exclusions", expected, shifts.shape()[0].to_string()));
    }
    if let Some(cuda) = context.backend.as_any().downcast_ref::<Cuda>() {
        return device::exclusions(cuda, context, &atoms, [pairs, shifts]);
    }
    let OnHost { positions: r, cells, axes, batch } = atoms.on_host()?;
    let (r, n) = (r.as_chunks::<3>().0, positions.shape()[0]);
    let lattices = lattices(cells.as_deref(), Some(&axes), batch.systems(), Precision::Double)?;
    let (pairs, shifts) = (pairs.to_i32("exclusions")?, shifts.to_i32("exclusions")?);
    let (pairs, shifts) = (pairs.as_chunks::<2>().0, shifts.as_chunks::<3>().0);
    let mut entries: Vec<Entry> = Vec::with_capacity(2 * pairs.len());
    for (p, &[i, j]) in pairs.iter().enumerate() {
        let refused = |expected: &str, got: String| {
            Err(Error::argument("exclusions", expected, format!("{got} (pair {p}: atoms {i} and {j})")))
        };
        if let Some(bad) = [i, j].iter().find(|a| !usize::try_from(**a).is_ok_and(|a| a < n)) {
            return refused(&format!("indices below {n}"), bad.to_string());
        }
        let [a, b] = [i as usize, j as usize];
        let systems = [a, b].map(|atom| batch.idx()[atom]);
        if systems[0] != systems[1] {
            let got = format!("atoms of systems {} and {}", systems[0], systems[1]);
            return refused("pairs of atoms of one system", got);
        }
        let lattice = &lattices[(systems[0] as usize).min(lattices.len() - 1)];
        let shift = shifts.get(p).copied().unwrap_or_else(|| nearest_image(lattice, r[a], r[b]));
        if let Some(axis) = (0..3).find(|k| shift[*k] != 0 && !lattice.periodic[*k]) {
            return refused("images along periodic axes", format!("{shift:?} along open axis {axis}"));
        }
        if i == j && shift == [0; 3] {
            return refused("two atoms, or an atom and its image", "an atom with itself".into());
        }
        entries.extend([(i, j, shift, p as i32), (j, i, shift.map(|s| -s), p as i32)]);
    }
    entries.sort_unstable();
    if let Some(twice) = entries.windows(2).find(|w| (w[0].0, w[0].1, w[0].2) == (w[1].0, w[1].1, w[1].2)) {
        let got = format!("pairs {} and {}: atoms {} and {}", twice[0].3, twice[1].3, twice[0].0, twice[0].1);
        return Err(Error::argument("exclusions", "each pair once, in one order of its atoms", got));
    }
    let arrays = [&[n + 1][..], &[entries.len()], &[entries.len(), 3], &[entries.len()]];
    let mut arrays = arrays.iter().enumerate().map(|(k, shape)| room(context, k, shape));
    let mut next = || arrays.next().unwrap_or_else(|| Err(wrong()));
    let (mut ptr, mut columns, mut images, mut of) = (next()?, next()?, next()?, next()?);
    if let (Array::I32(ptr), Array::I32(columns), Array::I32(images), Array::I32(of)) =
        (&mut ptr, &mut columns, &mut images, &mut of)
    {
        ptr.fill(0);
        for (k, (i, j, shift, p)) in entries.iter().enumerate() {
            ptr[*i as usize + 1] += 1;
            columns[k] = *j;
            images[3 * k..3 * k + 3].copy_from_slice(shift);
            of[k] = *p;
        }
        (0..n).for_each(|i| ptr[i + 1] += ptr[i]);
    }
    Ok(vec![ptr, columns, images, of])
}

/// The image S at which |r_j − r_i + S · cell| is smallest; of several the first in lexicographic order.
fn nearest_image(lattice: &Lattice, i: [f64; 3], j: [f64; 3]) -> [i32; 3] {
    let d: [f64; 3] = std::array::from_fn(|k| j[k] - i[k]);
    let s = lattice.fractional(d);
    let axis = |k: usize, x: f64| if lattice.periodic[k] { x } else { 0.0 };
    let start: [i32; 3] = std::array::from_fn(|k| axis(k, -s[k].round()) as i32);
    let length = |image: [i32; 3]| squared(displacement(&lattice.rows, i, j, image));
    // No component along the frame is longer than the vector over the height.
    let reach = length(start).sqrt();
    let range = |k: usize| {
        let most = axis(k, (reach / lattice.heights[k]).min(1e3) + 1e-9);
        ((-s[k] * axis(k, 1.0) - most).ceil() as i32)..=((-s[k] * axis(k, 1.0) + most).floor() as i32)
    };
    let images = range(0).flat_map(|x| range(1).flat_map(move |y| range(2).map(move |z| [x, y, z])));
    images.fold(start, |best, image| match length(image).total_cmp(&length(best)) {
        Ordering::Less => image,
        Ordering::Equal if image < best => image,
        _ => best,
    })
}

fn without(context: &Context<'_>, args: &[Arg<'_>]) -> Result<Vec<Array>> {
    let [Arg::Structure(left_out), Arg::Structure(pairs), rooms @ ..] = args else { return Err(wrong()) };
    if let (Some(cuda), [Arg::Int(capacity)]) = (context.backend.as_any().downcast_ref::<Cuda>(), rooms) {
        let found = device::without(cuda, context, [*left_out, *pairs], usize::try_from(*capacity).ok())?;
        return Ok(vec![found.index, found.columns, found.images]);
    }
    host(context)?;
    let left_out = left_out.as_pairs().ok_or_else(wrong)?;
    // Clusters asked for pairs would make rows of all of them.
    let list = match pairs.as_clusters() {
        Some(clusters) if rooms.len() == 3 => Neighbors::Clusters(Box::new(clusters.without(left_out))),
        _ => Neighbors::Rows(pairs.as_pairs().ok_or_else(wrong)?.without(left_out)?),
    };
    let rooms: Vec<Option<usize>> =
        rooms.iter().map(|x| if let Arg::Int(n) = x { usize::try_from(*n).ok() } else { None }).collect();
    let rows = pairs.sizes()[0].unwrap_or(0);
    let [index, columns, images] = match rooms[..] {
        [Some(frame), Some(entries), Some(runs)] => [vec![frame], vec![entries, 2], vec![runs, 3]],
        [capacity] => {
            let capacity = capacity.unwrap_or(list.len());
            [vec![rows + 1], vec![capacity], vec![capacity, 3]]
        }
        _ => return Err(wrong()),
    };
    let mut arrays = ListArrays {
        index: room(context, 0, &index)?,
        columns: room(context, 1, &columns)?,
        images: room(context, 2, &images)?,
    };
    arrays.write(&list)?;
    Ok(vec![arrays.index, arrays.columns, arrays.images])
}

fn host(context: &Context<'_>) -> Result<()> {
    if context.backend.place() == Place::Host {
        return Ok(());
    }
    Err(Error::Unsupported("lists in clusters are those of the CPU".into()))
}
