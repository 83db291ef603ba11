//! The searches that frameworks call by name, each declared once: ops of integers, on the host and on a GPU.

use crate::CooArrays;
use crate::anywhere;
use crate::atoms::{Atoms, OnHost, atoms, read};
use crate::closest;
use crate::coo::room;
use crate::device::{DeviceCoo, DeviceFrame};
use crate::exclusions;
use crate::list::{Cutoff, Form, ListArrays, Method, NeighborSearch, Options};
use crate::renewed;
use crate::verlet;
use crate::within;
use madelung_core::array::{Array, DType, View};
use madelung_core::backend::Context;
use madelung_core::op::{Arg, Op, Registry};
use madelung_core::{Error, Result};
use madelung_cuda::Cuda;
use std::sync::OnceLock;

/// The searches of this crate.
///
/// `neighbor_search`: pairs (2, P), offsets of each atom's pairs (N + 1,) and images (P, 3). With a `capacity` from 0 up
/// that is P, filled up as [`CooArrays`] says; offsets count all pairs, and a list that does not fit has none. `method`: 1
/// (cell list), 2 (brute force) or whichever is faster, on the host.
///
/// `find_neighbors`: the arrays of [`ListArrays`], in `form` 0 (rows), 1 (clusters) or whichever is faster: on a device in
/// rows. Sizes of arrays in clusters from 0 up are room for those. `cutoffs`, if there are any, are those of each system, on
/// the host.
///
/// `nearest`, `spatial_order`, `point_order` and `query_order`: see [`closest`]. `radius_search` and `narrowed_pairs`: see
/// [`within`]. `points_within` and `nearest_points`: see [`anywhere`]. `needs_rebuild`: see [`verlet`]; `renewed_neighbors`: see [`renewed`]. `exclusion_list`, `rows_without` and,
/// on the host, `clusters_without`: see [`exclusions`].
///
/// The searches take positions, cells (0, 1 or B), their periodic axes (rows for each system or one for all, or without a row the
/// bits of `axes` for all), and the system of each atom.
pub fn searches() -> &'static Registry {
    static SEARCHES: OnceLock<Registry> = OnceLock::new();
    SEARCHES.get_or_init(|| declare().expect("declarations of searches are complete"))
}

fn declare() -> Result<Registry> {
    let neighbor_search = atoms(Op::new("madelung", "neighbor_search", 1))
        .int_scalar("half")
        .int_scalar("capacity")
        .int_scalar("method")
        .integer_output("neighbor_list", &["2", "capacity"], DType::I32)
        .integer_output("neighbor_ptr", &["Atom+1"], DType::I32)
        .integer_output("neighbor_shifts", &["capacity", "3"], DType::I32)
        .search(neighbor_search)
        .build()?;
    let find_neighbors = atoms(Op::new("madelung", "find_neighbors", 1))
        .real("cutoffs", &["Reach"])
        .int_scalar("form")
        .int_scalar("frame")
        .int_scalar("entries")
        .int_scalar("runs")
        .integer_output("index", &["frame"], DType::I32)
        .integer_output("columns", &["entries", "2"], DType::I32)
        .integer_output("images", &["runs", "3"], DType::I32)
        .search(find_neighbors)
        .build()?;
    let [spatial_order, point_order, query_order] = closest::declare_orders()?;
    Registry::new([
        neighbor_search,
        find_neighbors,
        closest::declare()?,
        spatial_order,
        point_order,
        query_order,
        verlet::declare()?,
        renewed::declare()?,
        within::declare()?,
        within::declare_narrowed()?,
        anywhere::declare_within()?,
        anywhere::declare_nearest()?,
        exclusions::declare_list()?,
        exclusions::declare_rows()?,
        exclusions::declare_clusters()?,
    ])
}

fn neighbor_search(context: &Context<'_>, args: &[Arg<'_>]) -> Result<Vec<Array>> {
    let (atoms, [half, capacity, method]) = read(args)?;
    let capacity = usize::try_from(capacity).ok();
    let options = if half == 0 { Options::full() } else { Options::half() };
    let options = match method {
        1 => options.with_method(Method::CellList),
        2 => options.with_method(Method::BruteForce),
        _ => options,
    };
    let options = options.with_precision(atoms.precision());
    let found = if let (Some(cuda), Some(batch)) =
        (context.backend.as_any().downcast_ref::<Cuda>(), atoms.batch.as_device_batch())
    {
        let Atoms { positions, cell, pbc, cutoff, .. } = &atoms;
        let frame = DeviceFrame { positions, cell: *cell, pbc, batch };
        let counted = DeviceCoo::count(cuda, context, &frame, *cutoff, options.kind)?;
        let capacity = capacity.map_or_else(|| counted.total(), Ok)?;
        let mut found = CooArrays::room(context, batch.atoms(), capacity)?;
        counted.write(&mut found)?;
        found
    } else {
        let OnHost { positions, cells, axes, batch } = atoms.on_host()?;
        let (r, h, pbc) = (positions.as_chunks().0, cells.as_deref(), Some(&axes[..]));
        let found = NeighborSearch::new().coo(r, atoms.cutoff, h, pbc, batch, &options, context)?;
        match capacity {
            Some(capacity) => found.with_room(context, capacity)?,
            None => found,
        }
    };
    Ok(vec![found.list, found.ptr, found.shifts])
}

fn find_neighbors(context: &Context<'_>, args: &[Arg<'_>]) -> Result<Vec<Array>> {
    let (atoms, [form, rooms @ ..]) = read::<4>(args)?;
    if let (Some(cuda), Some(batch)) =
        (context.backend.as_any().downcast_ref::<Cuda>(), atoms.batch.as_device_batch())
    {
        let has_cutoffs = args.iter().skip(4).any(|arg| matches!(arg, Arg::Array(view) if !view.is_empty()));
        if form == 1 || has_cutoffs {
            let text = "neighbours in clusters, and by cutoffs of systems, are lists of the CPU";
            return Err(Error::Unsupported(text.into()));
        }
        let Atoms { positions, cell, pbc, cutoff, .. } = &atoms;
        let frame = DeviceFrame { positions, cell: *cell, pbc, batch };
        let counted = DeviceCoo::count(cuda, context, &frame, *cutoff, Options::full().kind)?;
        let (pairs, images) = counted.images()?;
        let [index, columns, images] = [
            room(context, 0, &[batch.atoms() + 1])?,
            room(context, 1, &[pairs])?,
            room(context, 2, &images)?,
        ];
        counted.write_rows([&index, &columns, &images])?;
        return Ok(vec![index, columns, images]);
    }
    let OnHost { positions, cells, axes, batch } = atoms.on_host()?;
    let options = match form {
        0 => Options::full().with_form(Form::Rows),
        1 => Options::full().with_form(Form::Clusters),
        _ => Options::full(),
    };
    let options = options.with_precision(atoms.precision());
    let (r, h, pbc) = (positions.as_chunks().0, cells.as_deref(), Some(&axes[..]));
    let cutoffs =
        args.iter().skip(4).find_map(|arg| if let Arg::Array(view) = arg { Some(view) } else { None });
    let cutoffs = cutoffs.map(View::to_f64).transpose()?.unwrap_or_default();
    let cutoff = if cutoffs.is_empty() { Cutoff::All(atoms.cutoff) } else { Cutoff::Each(&cutoffs) };
    let arrays = match rooms.map(usize::try_from) {
        [Ok(frame), Ok(entries), Ok(runs)] if form == 1 => {
            let [index, columns, images] = [
                room(context, 0, &[frame])?,
                room(context, 1, &[entries, 2])?,
                room(context, 2, &[runs, 3])?,
            ];
            let mut arrays = ListArrays { index, columns, images };
            arrays.write(&crate::find_neighbors(r, cutoff, h, pbc, batch, &options, &context.threads())?)?;
            arrays
        }
        _ => NeighborSearch::new().arrays(r, cutoff, h, pbc, batch, &options, context)?,
    };
    Ok(vec![arrays.index, arrays.columns, arrays.images])
}
