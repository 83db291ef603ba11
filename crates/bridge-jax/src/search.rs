//! A frame as a search for the pairs of a neighbour list.
//!
//! Operands: positions (N, 3), cells (1 or B, 3, 3) or (0, 3, 3) for none, periodic axes (1 or B, 3) or (0, 3) as
//! integers, and the system of each atom (N,). Attributes: `cutoff`, `half`, `systems`. Results: pairs (2, C), where
//! the pairs of each atom begin (N + 1,), and images (C, 3), all int32, with N behind the last pair. The offsets are
//! the true ones: where they end beyond C, there is no pair in the list at all.

use crate::ffi::Call;
use madelung_core::array::{Data, View};
use madelung_core::backend::pool::Threads;
use madelung_core::batch::Batch;
use madelung_core::{Error, Result};
use madelung_neighbors::{Coordinate, Options, PairList, neighbor_list};

pub(crate) const TARGET: &str = "madelung.neighbor_search_v1";

pub(crate) fn run(call: &Call<'_>) -> Result<()> {
    let cutoff = f64::from_bits(call.real("cutoff")?);
    let (half, systems) = (call.integer("half")? != 0, call.integer("systems")? as usize);
    let operands = call.operands()?;
    let names = ["positions", "cell", "pbc", "batch_idx"];
    if operands.len() != names.len() {
        return Err(Error::argument("operands", "4 arrays", operands.len().to_string()));
    }
    let views = operands.iter().zip(names).map(|(operand, name)| operand.view(&|| name.into()));
    let views: Vec<View<'_>> = views.collect::<Result<_>>()?;
    let batch = Batch::from_idx_array(&views[3], Some(systems))?;
    let options = if half { Options::half() } else { Options::full() };
    let cells = views[1].to_f64();
    let cells: Vec<[[f64; 3]; 3]> = cells.as_chunks::<3>().0.as_chunks::<3>().0.to_vec();
    let axes: Vec<[bool; 3]> =
        views[2].to_i32("pbc")?.as_chunks::<3>().0.iter().map(|a| a.map(|x| x != 0)).collect();
    let found = match views[0].data() {
        Data::F64(r) => search(r, cutoff, &cells, &axes, &batch, &options),
        Data::F32(r) => search(r, cutoff, &cells, &axes, &batch, &options),
        _ => Err(Error::argument("positions", "float32 or float64", views[0].dtype().to_string())),
    }?;
    let (atoms, pairs) = (batch.atoms(), found.len());
    let mut outputs = call.outputs()?;
    let room = match &outputs[..] {
        [_, _, shifts] => shifts.shape.first().copied().unwrap_or(0),
        _ => return Err(Error::argument("results", "3 arrays", outputs.len().to_string())),
    };
    let mut list = vec![narrow(atoms as i64)?; 2 * room];
    let mut shifts = vec![0i32; 3 * room];
    if pairs <= room {
        let coo = found.to_coo();
        list[..pairs].copy_from_slice(&coo.i);
        list[room..room + pairs].copy_from_slice(&coo.j);
        shifts[..3 * pairs].copy_from_slice(found.shifts().as_flattened());
    }
    let ptr = found.into_csr().neighbor_ptr.iter().map(|p| narrow(*p)).collect::<Result<Vec<i32>>>()?;
    outputs[0].write(&View::new(Data::I32(&list), &[2, room])?)?;
    outputs[1].write(&View::new(Data::I32(&ptr), &[atoms + 1])?)?;
    outputs[2].write(&View::new(Data::I32(&shifts), &[room, 3])?)
}

/// What is said on a CUDA device.
pub(crate) fn refuse(_: &Call<'_>) -> Result<()> {
    Err(Error::Unsupported(
        "neighbor_list: not under `jit` on a CUDA device yet: build the list outside, and give it to the function".into(),
    ))
}

fn search<T: Coordinate>(
    positions: &[T],
    cutoff: f64,
    cells: &[[[f64; 3]; 3]],
    axes: &[[bool; 3]],
    batch: &Batch<'_>,
    options: &Options,
) -> Result<PairList<'static>> {
    let cells = (!cells.is_empty()).then_some(cells);
    let axes = (!axes.is_empty()).then_some(axes);
    neighbor_list(positions.as_chunks::<3>().0, cutoff, cells, axes, batch, options, Threads::shared())
}

fn narrow(n: i64) -> Result<i32> {
    i32::try_from(n).map_err(|_| {
        let expected = format!("at most {} pairs, which is what int32 offsets can address", i32::MAX);
        Error::argument("cutoff", expected, format!("{n} pairs"))
    })
}
