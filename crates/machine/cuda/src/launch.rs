//! Generated kernels on a device: their text compiled once, pointers bound, sums over rows put where they belong.
#![expect(unsafe_code, reason = "kernels are launched with addresses of the call's arrays")]

use crate::memory::{Rooms, address};
use crate::primitives::{self as raw, Compiled, Length, Segments, Target, Text};
use crate::validation::arguments;
use crate::{Cuda, Device, Function, Program};
use madelung_core::Result;
use madelung_core::array::{DType, Data};
use madelung_core::backend::Context;
use madelung_core::backend::{Bound, Launch};
use madelung_core::runtime::{
    Division, FINISH_NODES, FINISH_SCATTERED, LaunchAbi, MAX_SPLINE_ORDER, MESH_HEADER, MESH_RECORD, PRELUDE,
    Part, SCATTERED_BYTES, SHAPES, SlotArray, node_bytes,
};
use std::collections::HashMap;
use std::sync::{OnceLock, PoisonError, RwLock};

/// Threads of a block: enough to hide latency with the registers that derivatives take.
const THREADS: u32 = 128;

/// A part as it is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Form {
    /// The part, by its address: parts are constants.
    part: usize,
    device: usize,
    dtype: DType,
    lanes: u32,
    /// The highest order of splines, and whether some have a lower one.
    order: u32,
    orders_differ: bool,
    scatter: u32,
    /// The binary logarithm of the addends that a node has at most.
    crowd: u32,
    packed: bool,
    /// Whether the compiler may fuse products with sums: the texts of formulas say themselves which they do.
    contracts: bool,
}

/// The functions of a part.
#[derive(Clone, Copy, Debug)]
struct Functions {
    /// The one that its rows run.
    rows: Function,
    /// The one that makes the records of their partners, where it is compiled to read them.
    records: Option<Function>,
}

fn functions() -> &'static RwLock<HashMap<Form, Functions>> {
    static FUNCTIONS: OnceLock<RwLock<HashMap<Form, Functions>>> = OnceLock::new();
    FUNCTIONS.get_or_init(RwLock::default)
}

/// The C++ type of a dtype.
fn real(dtype: DType) -> &'static str {
    if dtype == DType::F32 { "float" } else { "double" }
}

/// The functions of a part in a form.
fn function(device: &'static Device, part: &'static Part, form: Form) -> Result<Functions> {
    if let Some(functions) = functions().read().unwrap_or_else(PoisonError::into_inner).get(&form) {
        return Ok(*functions);
    }
    let numbers = [form.lanes, form.order, form.scatter, form.crowd].map(|n| n.to_string());
    let [lanes, order, scatter, crowd] = &numbers;
    let flag = |is: bool| if is { "1" } else { "0" };
    let defines = [
        ("REAL", real(form.dtype)),
        ("LANES", lanes),
        ("ORDER", order),
        ("SCATTER", scatter),
        ("CROWD", crowd),
        ("PACKED", flag(form.packed)),
        ("ORDERS_DIFFER", flag(form.orders_differ)),
    ];
    let text = format!("{PRELUDE}{}", part.cuda.text);
    let program =
        Program { name: part.cuda.name, text: text.into(), defines: &defines, contracts: form.contracts };
    let rows = device.function(&program, part.cuda.name)?;
    let records = part.cuda.records.filter(|_| form.packed);
    let records = records.map(|records| device.function(&program, records.name)).transpose()?;
    let found = Functions { rows, records };
    functions().write().unwrap_or_else(PoisonError::into_inner).insert(form, found);
    Ok(found)
}

/// The shapes of the meshes of a parameter ([`SlotArray::MeshShape`]), which the host has.
fn shapes<'a>(launch: &'a Launch<'_>, param: usize) -> &'a [i32] {
    match launch.integers(param, SlotArray::MeshShape).map(|view| view.data()) {
        Some(Data::I32(shapes)) => shapes,
        _ => unreachable!("the shapes of meshes lie on the host"),
    }
}

/// The highest order of splines in a call, and whether some have a lower one.
fn order(launch: &Launch<'_>) -> (u32, bool) {
    let meshes = launch.part.slots.iter().filter(|s| s.array == SlotArray::MeshShape);
    let orders = meshes.flat_map(|s| {
        let (records, _) = shapes(launch, s.param)[MESH_HEADER..].as_chunks::<MESH_RECORD>();
        records.iter().map(|record| record[3] as u32)
    });
    let ends = orders.fold(None, |ends, order| {
        let (low, high) = ends.unwrap_or((order, order));
        Some((order.min(low), order.max(high)))
    });
    ends.map_or((MAX_SPLINE_ORDER as u32, false), |(low, high)| (high, low < high))
}

/// The binary logarithm of the rows up to which sums at nodes have one unit, whatever the size of the call, and of the times
/// that such a row may add to one node.
const FEW: u32 = 20;
const TIMES: u32 = 4;

/// The threads of a row. The bits of a sum depend on it, and a system is to have the same ones alone and in a batch: so it
/// depends on the part and the width of channels, and never on how long the rows of this call are.
fn lanes(part: &Part, launch: &Launch<'_>, order: u32) -> u32 {
    match part.cuda.lanes {
        Division::None => 1,
        // Rows of lists are tens to hundreds long, systems hundreds and more.
        Division::Loops
            if part.slots.iter().any(|s| matches!(s.array, SlotArray::Start | SlotArray::ColumnStart)) =>
        {
            16
        }
        Division::Loops => 32,
        Division::Nodes => order.next_power_of_two(),
        Division::Channels(dim) => match launch.dims[dim] {
            0 => 1,
            width => 1 << width.ilog2().min(5),
        },
    }
}

/// Sums in fixed point that rows add to, until they become numbers.
struct Scattered {
    sums: u64,
    /// The slot of the shapes of the meshes whose nodes the elements are.
    shapes: Option<usize>,
    to: u64,
    elements: i64,
    adds: bool,
}

/// Runs a part.
pub(crate) fn run(cuda: &Cuda, context: &Context<'_>, launch: &mut Launch<'_>) -> Result<()> {
    let (part, rows, stream) = (launch.part, launch.rows(), cuda.stream);
    let mut bound = launch.abi();
    bound.status = launch.word.map_or(std::ptr::null_mut(), |word| pointer(address(&word.view())).cast());
    let mut rooms = Rooms::new(context);
    let mut scattered = vec![];
    // The shapes of few meshes are an argument.
    let shapes_slot = part.slots.iter().position(|s| s.array == SlotArray::MeshShape);
    let mut argument = [0i32; SHAPES];
    for (n, slot) in part.slots.iter().enumerate() {
        let at = match slot.array {
            SlotArray::Values(role) => match launch.output(slot.param, role) {
                Some(output) => {
                    bound.adds |= u64::from(output.adds) << n;
                    let (view, adds) = (output.view(), output.adds);
                    let (to, elements) = (address(&view), view.len());
                    if part.scattered.contains(&n) && !cuda.atomics {
                        let mesh = part.nodes.iter().find(|(slot, _)| *slot == n).map(|(_, mesh)| *mesh);
                        let bytes = match mesh {
                            Some(mesh) => {
                                let systems = shapes(launch, part.slots[mesh].param)[0] as usize;
                                (systems + elements) * node_bytes(launch.dtype.size())
                            }
                            None => elements * SCATTERED_BYTES,
                        };
                        let sums = rooms.open(bytes / size_of::<f64>())?;
                        // SAFETY: the room has as many bytes.
                        unsafe { stream.zero(sums, bytes)? };
                        scattered.push(Scattered { sums, shapes: mesh, to, elements: elements as i64, adds });
                        sums
                    } else {
                        if !adds && (part.added.contains(&n) || part.scattered.contains(&n)) {
                            // SAFETY: the array has as many elements of this size.
                            unsafe { stream.zero(to, elements * view.dtype().size())? };
                        }
                        to
                    }
                }
                None => match launch.array(slot.param, role) {
                    Some(Bound::Input(view)) => address(view),
                    _ => 0,
                },
            },
            SlotArray::Scratch(dim) => rooms.open(rows * launch.dims[dim])?,
            array => match launch.integers(slot.param, array) {
                Some(view) => match view.data() {
                    Data::I32(few) if Some(n) == shapes_slot && few.len() <= SHAPES => {
                        argument[..few.len()].copy_from_slice(few);
                        0
                    }
                    // Numbers of the host go with launches.
                    Data::I32(integers) => written(cuda, &mut rooms, integers.iter().copied())?,
                    Data::F64(reals) => {
                        let words =
                            reals.iter().flat_map(|x| [x.to_bits() as i32, (x.to_bits() >> 32) as i32]);
                        written(cuda, &mut rooms, words)?
                    }
                    _ => address(&view),
                },
                None => 0,
            },
        };
        bound.pointers[n] = pointer(at);
    }
    let sums = part.reductions.len();
    let partials = if sums > 0 { rooms.open(rows * sums)? } else { 0 };
    let crowd = if rows <= 1 << FEW { FEW + TIMES } else { 31 };
    if rows > 0 {
        let (order, orders_differ) = order(launch);
        let lanes = lanes(part, launch, order);
        let blocks = (rows * lanes as usize).div_ceil(THREADS as usize);
        let (lo, hi) = (0i64, rows as i64);
        let from = cuda.records_from.max(1);
        let records = part.cuda.records.filter(|records| launch.dims[records.dim] >= from);
        let form = |scatter| Form {
            part: std::ptr::from_ref(part) as usize,
            device: stream.device().ordinal(),
            dtype: launch.dtype,
            lanes,
            order,
            orders_differ,
            scatter,
            crowd,
            packed: records.is_some(),
            contracts: !launch.kernel.is_differentiable(),
        };
        let passes = if scattered.is_empty() { 0..1 } else { 1..3 };
        if let Some(records) = records {
            let function = function(stream.device(), part, form(passes.start))?.records;
            let function = function.expect("a form that is packed has it");
            let partners = launch.dims[records.dim];
            let room = rooms.scratch(partners * records.width * launch.dtype.size())?;
            bound.pointers[part.slots.len()] = pointer(room.address);
            let blocks = partners.div_ceil(THREADS as usize);
            // SAFETY: the launch was checked, so its arrays have so many rows; the room has a record for each.
            unsafe { stream.launch(function, [blocks as u32, 1, 1], [THREADS, 1, 1], &arguments![&bound])? };
        }
        for scatter in passes {
            let function = function(stream.device(), part, form(scatter))?.rows;
            // SAFETY: the launch was checked, so its pointers are good for the rows (or the call's word is raised, and
            // no row follows an index); `partials` has room for the sums of every row.
            unsafe {
                let arguments = arguments![&bound, &lo, &hi, &partials, &argument];
                let arguments = &arguments[..if shapes_slot.is_some() { 5 } else { 4 }];
                stream.launch(function, [blocks as u32, 1, 1], [THREADS, 1, 1], arguments)?;
            }
        }
    }
    for s in scattered {
        finish(cuda, launch.dtype, &s, (&bound, &argument), crowd)?;
    }
    reduce(cuda, context, launch, partials)
}

fn pointer(address: u64) -> *mut u8 {
    std::ptr::without_provenance_mut(address as usize)
}

/// Kernels that are not any part's.
const HELPERS: Text =
    Text::new("helpers", &[PRELUDE, FINISH_SCATTERED, FINISH_NODES, include_str!("helpers.cu")]);

fn helpers(dtype: DType) -> Compiled {
    HELPERS.of(&[("REAL", real(dtype))]).with(&["madelung_scattered", "madelung_nodes", "write_words"])
}

pub(crate) fn programs() -> Vec<Compiled> {
    [DType::F32, DType::F64].map(helpers).into()
}

/// Words of 32 bits that go with a launch.
const WORDS: usize = 256;

/// Address of words of the host: constants of the device, or a room to which they go as arguments of launches, so that they
/// are there in a captured graph, too.
fn written(cuda: &Cuda, rooms: &mut Rooms<'_>, words: impl Iterator<Item = i32>) -> Result<u64> {
    let words: Vec<i32> = words.collect();
    if let Some(address) = cuda.stream.constant(&words)? {
        return Ok(address);
    }
    let to = rooms.open(words.len().div_ceil(2))?;
    let function = helpers(DType::F64).function(cuda.stream.device(), "write_words")?;
    for (n, some) in words.chunks(WORDS).enumerate() {
        let mut all = [0i32; WORDS];
        all[..some.len()].copy_from_slice(some);
        let at = to + (n * WORDS * size_of::<i32>()) as u64;
        // SAFETY: there is room for as many words, which are copied at the launch.
        unsafe { cuda.stream.launch(function, [1; 3], [some.len() as u32, 1, 1], &arguments![&all, &at])? };
    }
    Ok(to)
}

/// Makes numbers of what rows added in fixed point; `crowd`: see [`Form::crowd`].
fn finish(
    cuda: &Cuda,
    dtype: DType,
    s: &Scattered,
    (bound, argument): (&LaunchAbi, &[i32; SHAPES]),
    crowd: u32,
) -> Result<()> {
    let name = if s.shapes.is_some() { "madelung_nodes" } else { "madelung_scattered" };
    let function = helpers(dtype).function(cuda.stream.device(), name)?;
    let blocks = (s.elements as usize).div_ceil(THREADS as usize);
    if blocks == 0 {
        return Ok(());
    }
    let (blocks, threads) = ([blocks as u32, 1, 1], [THREADS, 1, 1]);
    // SAFETY: both arrays have as many elements, of the sizes that the kernel knows; the shapes are those of the launch.
    unsafe {
        match s.shapes.map(|slot| bound.pointers[slot]) {
            Some(shapes) => {
                let arguments = arguments![&s.sums, &shapes, &s.to, &s.elements, &s.adds, &crowd, argument];
                cuda.stream.launch(function, blocks, threads, &arguments)
            }
            None => {
                let arguments = arguments![&s.sums, &s.to, &s.elements, &s.adds];
                cuda.stream.launch(function, blocks, threads, &arguments)
            }
        }
    }
}

/// Adds the rows' sums up, in an order that depends on each system alone.
fn reduce(cuda: &Cuda, context: &Context<'_>, launch: &mut Launch<'_>, partials: u64) -> Result<()> {
    let reductions = launch.part.reductions;
    let mut done: Vec<Option<usize>> = vec![];
    for batch in reductions.iter().map(|r| r.batch) {
        if done.contains(&batch) {
            continue;
        }
        done.push(batch);
        let mut targets = vec![];
        for (column, r) in reductions.iter().enumerate().filter(|(_, r)| r.batch == batch) {
            let stride = launch.components(r.param);
            let Some(output) = launch.output(r.param, r.role) else { continue };
            let (view, adds) = (output.view(), output.adds);
            let whole = reductions.iter().filter(|o| (o.param, o.role) == (r.param, r.role)).count();
            if !adds
                && whole < stride
                && reductions[..column].iter().all(|o| (o.param, o.role) != (r.param, r.role))
            {
                // SAFETY: the array has as many elements of this size.
                unsafe { cuda.stream.zero(address(&view), view.len() * view.dtype().size())? };
            }
            targets.push(Target {
                array: address(&view),
                dtype: view.dtype(),
                stride,
                component: r.component,
                column,
                adds,
            });
        }
        let (rows, columns) = (launch.rows(), reductions.len());
        let mut rooms = Rooms::new(context);
        let segments = match batch.and_then(|p| launch.integers(p, SlotArray::Members)) {
            Some(ptr) => {
                let offsets = match ptr.data() {
                    Data::I32(integers) => written(cuda, &mut rooms, integers.iter().copied())?,
                    _ => address(&ptr),
                };
                Segments::Offsets { offsets, count: ptr.len() - 1, rows }
            }
            None => Segments::All(Length::new(rows)),
        };
        for some in targets.chunks(raw::TARGETS) {
            let mut rooms = Rooms::new(context);
            let scratch = rooms.scratch(raw::reduce_scratch(rows, some.len()))?;
            raw::reduce_partials(&cuda.queue(), partials, columns, segments, some, scratch)?;
        }
    }
    Ok(())
}
