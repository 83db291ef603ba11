//! Orders of points in the memory of a device.

use super::grid::named;
use super::passes::{self, Call, Launches, Of, queue};
use crate::atoms::Atoms;
use crate::coo::room;
use crate::near::CURVE;
use madelung_core::Result;
use madelung_core::array::{Array, DType, Place};
use madelung_core::backend::Context;
use madelung_core::structure::pairs::Kind;
use madelung_cuda::Cuda;
use madelung_cuda::memory::{Rooms, address};
use madelung_cuda::primitives::{self as raw, Key, Length};
use madelung_cuda::validation::{self, arguments};

/// Bytes of a Box in order.cu, and bits of a place along the curve.
const BOX: usize = 48;
const PLACE: usize = 30;
/// Cells are not needed, and so large that none is too far away.
const CELL_SIZE: f64 = 1e30;

/// The number of each place's point within its system, int32 (N,): in an order in space, or as they are.
///
/// # Errors
/// `name` in errors stands for the points: dtype, shape or place is another; the driver's.
pub(crate) fn order(
    cuda: &Cuda,
    context: &Context<'_>,
    name: &str,
    points: &Atoms<'_>,
    in_space: bool,
) -> Result<Array> {
    let frame = points.frame()?;
    frame.check(Place::Cuda(cuda.device().ordinal())).map_err(|error| named(error, name))?;
    let (n, systems, stream) = (frame.batch.atoms(), frame.batch.systems(), cuda.stream());
    let word = passes::begin(stream, context, Some(frame.batch), passes::BATCH)?;
    let call = frame.call(0.0, CELL_SIZE, Kind::Directed, address(&word.view()));
    let order = room(context, 0, &[n])?;
    let launches = Launches { stream, of: Of::Orders, positions: points.positions.dtype() };
    let mut rooms = Rooms::new(context);
    let [of, ptr, into] = [frame.batch.idx(), frame.batch.ptr(), order.view()].map(|view| address(&view));
    let rows = if in_space {
        sorted(cuda, &mut rooms, &launches, &call, [address(points.positions), of, ptr], systems)?
    } else {
        0
    };
    launches.run("number", n, &arguments![&call, &of, &ptr, &rows, &into])?;
    drop(rooms);
    let names = || vec![name.into(), "cell".into(), "batch_idx".into()];
    validation::end(stream, context, word, &mut [], "spatial_order", &names)?;
    Ok(order)
}

/// The points in an order in space: an address of u32 (N,).
fn sorted(
    cuda: &Cuda,
    rooms: &mut Rooms<'_>,
    launches: &Launches,
    call: &Call,
    [r, of, ptr]: [u64; 3],
    systems: usize,
) -> Result<u64> {
    let n = call.points as usize;
    let boxes = rooms.context().allocator.zeros(DType::F64, &[BOX / 8 * systems])?;
    let geometry = rooms.scratch(passes::SYSTEM * systems)?.address;
    let [keys, rows] = [rooms.scratch(8 * n)?, rooms.scratch(4 * n)?].map(|s| s.address);
    let around = address(&boxes.view());
    launches.run("geometry", systems, &arguments![call, &ptr, &geometry])?;
    launches.run("surround", n, &arguments![call, &r, &of, &geometry, &around])?;
    launches.run("curve", n, &arguments![call, &r, &of, &geometry, &around, &CURVE, &keys, &rows])?;
    let bits = PLACE + systems.max(1).next_power_of_two().ilog2() as usize;
    let scratch = rooms.scratch(raw::sort_scratch(Key::U64, n))?;
    raw::sort_by_key(&queue(cuda), Key::U64, keys, rows, Length::new(n), bits, scratch)?;
    rooms.context().allocator.recycle(boxes);
    Ok(rows)
}
