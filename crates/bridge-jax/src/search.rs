//! The handler of the neighbour search.
//!
//! Operands: positions (N, 3), cells (1 or B, 3, 3) or (0, 3, 3) for none, periodic axes (1 or B, 3) or (0, 3) as
//! int32, and the system of each atom (N,), int32. Attributes: `cutoff`, `half`, `systems`. Results, all int32: pairs
//! (2, C), padded with N, offsets of each atom's pairs (N + 1,), and images (C, 3). The offsets always count all pairs:
//! if the last one exceeds the capacity C, the list holds no pairs. On CUDA, invalid values do not fail the call: the
//! device records the error, and the offsets exceed the capacity.
//!
//! On the CPU also a list in clusters: results are then the frame (F,), entries (E, 2) and runs (R, 3), see `ListArrays`.

use crate::ffi::{Call, Operand, Output};
use crate::runtime::{on_stream, scratch_of};
use madelung_core::array::{DType, Data, View};
use madelung_core::backend::Context;
use madelung_core::backend::pool::Threads;
use madelung_core::structure::Batch;
use madelung_core::structure::DeviceBatch;
use madelung_core::structure::pairs::Kind;
use madelung_core::{Error, Result};
use madelung_cuda::{Cuda, Stream, measure};
use madelung_neighbors::{
    CooArrays, Coordinate, DeviceFrame, Form, ListArrays, Neighbors, Options, Periodic, find_neighbors,
    neighbor_coo,
};

pub(crate) const TARGET: &str = "madelung.neighbor_search_v1";

const OPERANDS: [&str; 4] = ["positions", "cell", "pbc", "batch_idx"];

/// The arguments of a search, read from a frame.
struct SearchCall<'a> {
    cutoff: f64,
    half: bool,
    systems: usize,
    operands: [Operand<'a>; 4],
    outputs: Vec<Output<'a>>,
}

impl<'a> SearchCall<'a> {
    fn read(call: &Call<'a>) -> Result<Self> {
        let cutoff = f64::from_bits(call.real("cutoff")?);
        let (half, systems) = (call.integer("half")? != 0, call.integer("systems")? as usize);
        Ok(Self { cutoff, half, systems, operands: four(call.operands()?)?, outputs: call.outputs()? })
    }

    /// The views of the operands, each made by `view`.
    fn views<'v>(
        &self,
        view: impl Fn(&Operand<'a>, &dyn Fn() -> String) -> Result<View<'v>>,
    ) -> Result<[View<'v>; 4]> {
        let [r, h, axes, of] = std::array::from_fn(|n| view(&self.operands[n], &|| OPERANDS[n].into()));
        Ok([r?, h?, axes?, of?])
    }
}

fn four(operands: Vec<Operand<'_>>) -> Result<[Operand<'_>; 4]> {
    let wrong = |given: Vec<_>| Error::argument("operands", "4 arrays", given.len().to_string());
    operands.try_into().map_err(wrong)
}

fn three<'o, 'a>(outputs: &'o mut [Output<'a>]) -> Result<&'o mut [Output<'a>; 3]> {
    let got = outputs.len().to_string();
    outputs.try_into().map_err(|_| Error::argument("results", "3 arrays", got))
}

/// Searches on the CPU.
pub(crate) fn run(call: &Call<'_>) -> Result<()> {
    let mut query = SearchCall::read(call)?;
    let (cutoff, systems) = (query.cutoff, query.systems);
    let views = query.views(Operand::view)?;
    let batch = Batch::from_idx_array(&views[3], Some(systems))?;
    let options = if query.half { Options::half() } else { Options::full() };
    let cells = views[1].to_f64()?;
    let cells: Vec<[[f64; 3]; 3]> = cells.as_chunks::<3>().0.as_chunks::<3>().0.to_vec();
    let axes: Vec<[bool; 3]> =
        views[2].to_i32("pbc")?.as_chunks::<3>().0.iter().map(|a| a.map(|x| x != 0)).collect();
    let in_clusters = matches!(&query.outputs[..], [frame, ..] if frame.shape.len() == 1);
    let options = options.with_form(if in_clusters { Form::Clusters } else { Form::Rows });
    let found = match views[0].data() {
        Data::F64(r) => search(r, cutoff, &cells, &axes, &batch, &options),
        Data::F32(r) => search(r, cutoff, &cells, &axes, &batch, &options),
        _ => Err(Error::argument("positions", "float32 or float64", views[0].dtype().to_string())),
    }?;
    let outputs = three(&mut query.outputs)?;
    let found = match found {
        Neighbors::Rows(rows) => rows,
        found => {
            let context = madelung_cpu::context();
            let [index, columns, images] =
                outputs.each_ref().map(|output| context.allocator.room(DType::I32, &output.shape));
            let mut arrays = ListArrays { index: index?, columns: columns?, images: images? };
            arrays.write(&found)?;
            let arrays = [arrays.index, arrays.columns, arrays.images];
            return outputs
                .iter_mut()
                .zip(&arrays)
                .try_for_each(|(output, array)| output.write(&array.view()));
        }
    };
    let (atoms, pairs) = (batch.atoms(), found.len());
    let room = outputs[2].shape.first().copied().unwrap_or(0);
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

/// Enqueues a search on XLA's stream, with scratch from XLA's allocator.
pub(crate) fn run_on_cuda(call: &Call<'_>) -> Result<()> {
    let mut query = SearchCall::read(call)?;
    on_stream(call, None, |context, stream| put(&mut query, context, stream))
}

/// Enqueues a search on XLA's stream, with the last result as scratch.
pub(crate) fn run_with_scratch(call: &Call<'_>) -> Result<()> {
    let mut query = SearchCall::read(call)?;
    let scratch = scratch_of(&mut query.outputs)?;
    on_stream(call, Some(&scratch), |context, stream| put(&mut query, context, stream))
}

/// The size in bytes of the scratch result of a search among `systems` systems, for operands and results of these types
/// and shapes.
///
/// # Errors
/// The arrays do not fit a search.
pub fn search_scratch(
    systems: usize,
    operands: &[(DType, Vec<usize>)],
    results: &[(DType, Vec<usize>)],
) -> Result<usize> {
    let operands = operands.iter().map(|(dtype, shape)| Operand::without_memory(*dtype, shape)).collect();
    let outputs = results.iter().map(|(dtype, shape)| Output::without_memory(*dtype, shape)).collect();
    // The amount of scratch does not depend on the cutoff or the kind.
    let mut query = SearchCall { cutoff: 1.0, half: false, systems, operands: four(operands)?, outputs };
    measure(|context, stream| put(&mut query, context, stream))
}

fn put(query: &mut SearchCall<'_>, context: &Context<'_>, stream: Stream) -> Result<()> {
    let place = context.backend.place();
    let [positions, cell, pbc, of] = query.views(|operand, name| operand.view_on(place, name))?;
    let mut ptr = context.allocator.room(DType::I32, &[query.systems + 1])?;
    let batch = DeviceBatch::derived(of, &mut ptr)?;
    let cell = (cell.shape().first() != Some(&0)).then_some(&cell);
    let pbc = match pbc.shape().first() {
        Some(0) => Periodic::All([cell.is_some(); 3]),
        _ => Periodic::Each(pbc),
    };
    let kind = if query.half { Kind::Half } else { Kind::Full };
    let frame = DeviceFrame { positions: &positions, cell, pbc: &pbc, batch: &batch };
    let [list, offsets, shifts] = three(&mut query.outputs)?;
    let mut into = CooArrays {
        list: list.array_on(place)?,
        ptr: offsets.array_on(place)?,
        shifts: shifts.array_on(place)?,
    };
    neighbor_coo(&Cuda::new(stream), context, &frame, (query.cutoff, kind), &mut into)?;
    context.allocator.recycle(ptr);
    Ok(())
}

fn search<T: Coordinate>(
    positions: &[T],
    cutoff: f64,
    cells: &[[[f64; 3]; 3]],
    axes: &[[bool; 3]],
    batch: &Batch<'_>,
    options: &Options,
) -> Result<Neighbors<'static>> {
    let cells = (!cells.is_empty()).then_some(cells);
    let axes = (!axes.is_empty()).then_some(axes);
    find_neighbors(positions.as_chunks::<3>().0, cutoff, cells, axes, batch, options, Threads::shared())
}

fn narrow(n: i64) -> Result<i32> {
    i32::try_from(n).map_err(|_| {
        let expected = format!("at most {} pairs, which is what int32 offsets can address", i32::MAX);
        Error::argument("cutoff", expected, format!("{n} pairs"))
    })
}
