//! Launches on the CPU: rows in chunks over a pool, every sum in an order that depends neither on the number of threads
//! nor on other systems in the batch.
//!
//! Chunks never cross the border of a system and start anew at each, so a system gives equal bits alone and in a batch.
//! Each chunk has buffers of its own for additions to shared elements, which are added in the order of the chunks.
#![expect(unsafe_code, reason = "generated code is called here, and pointers are made for it")]

use crate::cluster_loop;
use madelung_core::Result;
use madelung_core::array::{Buffer, DType, Data, DataMut};
use madelung_core::backend::pool::{Pool, map_tasks, split_tasks};
use madelung_core::backend::{Bound, Context, Launch, OutputArray};
use madelung_core::runtime::{Elem, Entry, Isa, LaunchAbi, ParamKind, Role, SlotArray, StructureKind};
use madelung_core::stop::if_asked;
use madelung_core::structure::pairs::{ROWS_AT_ONCE, SearchTask, SearchedPairs};
use madelung_core::structure::{Batch, Mesh, PairList, Structure};

/// Rows per chunk, where rows do not loop over data and where they do.
const CHUNK: [usize; 2] = [4096, 64];
/// Into how many pieces a system is cut where rows add to each other's elements, each with its own buffer.
const PIECES: usize = 8;
/// Elements that a task adds up.
const ELEMENTS: usize = 1 << 15;

/// A launch that threads share.
pub(crate) struct Shared(pub(crate) LaunchAbi);
// SAFETY: threads read inputs, and write disjoint rows of outputs or buffers of their own.
unsafe impl Sync for Shared {}

/// Scratch of each task for sums over channels: slots and sizes in units of eight bytes, which is enough for
/// either element type.
struct Scratch(Vec<(usize, usize)>);

/// A rough number of nanoseconds for a row whose pairs are searched for.
const SEARCHED: usize = 1000;

/// Lanes of the widest registers, which are written whole.
const WIDEST: usize = 16;

impl Scratch {
    fn of(launch: &Launch<'_>) -> Self {
        let slots = launch.part.slots.iter().enumerate();
        Self(
            slots
                .filter_map(|(n, slot)| match slot.array {
                    SlotArray::Scratch(dim) => Some((n, launch.dims[dim] + WIDEST)),
                    _ => None,
                })
                .collect(),
        )
    }

    /// Scratch of one task, to which the launch points: valid as long as the returned buffers live.
    fn open(&self, launch: &mut LaunchAbi) -> Vec<Buffer<f64>> {
        let mut rooms: Vec<Buffer<f64>> = self.0.iter().map(|(_, size)| Buffer::zeros(*size)).collect();
        for ((slot, _), room) in self.0.iter().zip(&mut rooms) {
            launch.pointers[*slot] = room.as_mut_ptr().cast();
        }
        rooms
    }
}

/// A list whose pairs each task searches for, some rows at a time.
struct Searched<'l> {
    pairs: &'l SearchedPairs,
    by_columns: bool,
    rows: usize,
    /// The list's slots.
    slots: Vec<(usize, SlotArray)>,
}

/// The lists of a launch that need not be there as a whole: those whose rows alone, or columns alone, are visited, and whose
/// rows that follow each other are of one system.
///
/// # Errors
/// As [`SearchedPairs::list`], for others.
fn searched<'l>(launch: &Launch<'l>) -> Result<Vec<(usize, Searched<'l>)>> {
    use SlotArray::{Column, ColumnStart, End, PackedShift, PairEntry, PairRow, Shift, Start};
    let mut found = vec![];
    for (param, structure) in &launch.structures {
        let Some(pairs) = structure.as_searched() else { continue };
        let slots = launch.part.slots.iter().enumerate().filter(|(_, slot)| slot.param == *param);
        let slots: Vec<_> =
            slots.filter(|(_, slot)| slot.array.is_of_structure()).map(|(n, slot)| (n, slot.array)).collect();
        if slots.is_empty() {
            continue;
        }
        let are = |of: &[SlotArray]| slots.iter().all(|(_, array)| of.contains(array));
        let by_columns = !are(&[Start, End, Column, Shift, PackedShift]);
        let is_one_way = !by_columns || are(&[ColumnStart, PairRow, PairEntry, Shift, PackedShift]);
        if is_one_way && launch.part.scattered.is_empty() && launch.part.batch.is_some() {
            found.push((*param, Searched { pairs, by_columns, rows: launch.rows(), slots }));
        } else {
            pairs.list()?;
        }
    }
    Ok(found)
}

/// Search of one task, and the integers of its pairs as kernels read them.
struct Finder<'l> {
    task: SearchTask<'l>,
    slots: &'l [(usize, SlotArray)],
    /// First pair of each row, and the end of the last one: of the rows that were searched last.
    starts: Buffer<i64>,
    /// Pairs are their own entries.
    entries: Buffer<i32>,
}

impl<'l> Finder<'l> {
    fn new(list: &'l Searched<'_>) -> Self {
        // Only what a search has written is read.
        let ((starts, _), entries) = (Buffer::room(list.rows + 1), Buffer::default());
        Self { task: list.pairs.begin(list.by_columns), slots: &list.slots, starts, entries }
    }

    /// Points a launch to the pairs of some rows: valid until the next search.
    fn find(&mut self, rows: std::ops::Range<usize>, launch: &mut LaunchAbi) {
        let found = self.task.find(rows.clone());
        self.starts[rows.start] = 0;
        self.starts[rows.start + 1..=rows.end].copy_from_slice(&found.ends);
        let known = self.entries.len();
        if known < found.others.len() {
            self.entries.resize(2 * found.others.len(), 0);
            for (n, entry) in self.entries.iter_mut().enumerate().skip(known) {
                *entry = n as i32;
            }
        }
        for (slot, array) in self.slots {
            launch.pointers[*slot] = match array {
                SlotArray::Start | SlotArray::ColumnStart => self.starts.as_mut_ptr().cast(),
                SlotArray::End => self.starts[1..].as_mut_ptr().cast(),
                SlotArray::Column | SlotArray::PairRow => found.others.as_ptr().cast_mut().cast(),
                SlotArray::PackedShift => found.images.as_ptr().cast_mut().cast(),
                SlotArray::PairEntry => self.entries.as_mut_ptr().cast(),
                // Images are packed.
                _ => std::ptr::null_mut(),
            };
        }
    }
}

/// # Errors
/// A list of pairs that has to be there as a whole, and cannot be.
pub(crate) fn run(context: &Context<'_>, launch: &mut Launch<'_>, isa: Isa) -> Result<()> {
    let part = launch.part;
    let single = launch.dtype == DType::F32;
    let entry = part.run.entry(single, isa);
    let pool = &context.threads_for(cost(launch));
    let in_clusters = cluster_loop::systems(context.pair_loops, launch);
    let lists = searched(launch)?;
    let mut shared = Shared(pointers(launch, in_clusters.as_deref(), &lists, pool));
    let scratch = Scratch::of(launch);
    let segments: Vec<(usize, std::ops::Range<usize>)> = match part.batch.and_then(|p| launch.structure(p)) {
        Some(rows) if let Some(batch) = rows.as_batch() => {
            (0..batch.systems()).map(|s| (s, batch.members(s))).collect()
        }
        Some(rows) if let Some(mesh) = rows.as_mesh() => {
            (0..mesh.systems()).map(|s| (s, mesh.waves_of(s))).collect()
        }
        _ => vec![(0, 0..launch.rows())],
    };
    if part.scattered.is_empty() {
        let clusters = cluster_loop::sums(context.pair_loops, in_clusters, pool, launch, &shared, isa);
        let mut rows = entry;
        if let (Some(clusters), Some(form)) = (&clusters, &part.clusters) {
            rows = form.rows.entry(single, isa);
            shared.0.pointers[part.slots.len()] = clusters.sums.as_ptr().cast_mut().cast();
        }
        let of =
            |system: usize| if clusters.as_ref().is_some_and(|c| c.systems[system]) { rows } else { entry };
        let chunks = cut(&segments, CHUNK[usize::from(part.loops)]);
        let partials = chunked(pool, &shared, &scratch, &of, &chunks, &lists, part.reductions.len());
        reduce(launch, &chunks, &partials);
    } else if let Some((slot, mesh)) = planes(launch) {
        by_planes(pool, launch, &shared, &scratch, entry, slot, &mesh);
    } else {
        scattered(pool, launch, &shared, &scratch, entry, &segments);
    }
    Ok(())
}

/// A rough number of nanoseconds.
fn cost(launch: &Launch<'_>) -> usize {
    let rows = launch.rows();
    if !launch.part.loops {
        return rows * 10;
    }
    let structures = || launch.structures.iter().map(|(_, structure)| *structure);
    if let Some(mesh) = structures().find_map(Structure::as_mesh) {
        return rows * 2 * mesh.spline_order().pow(3);
    }
    // Channels run on lanes.
    let channels = launch.part.slots.iter().filter_map(|slot| match slot.array {
        SlotArray::Values(role) if !role.has(Role::HIDDEN) => Some(launch.components(slot.param) / 8),
        _ => None,
    });
    let rows = rows * channels.max().unwrap_or(1).max(1);
    let lists = || structures().filter(|structure| structure.kind() == StructureKind::Pairs);
    if lists().any(|list| list.as_searched().is_some()) {
        return rows * SEARCHED;
    }
    if lists().next().is_some() {
        return rows + lists().filter_map(|list| list.sizes()[2]).sum::<usize>() * 5;
    }
    let systems = structures().find_map(Structure::as_batch).map_or(1, Batch::systems);
    rows * 2 * (launch.dims.iter().copied().max().unwrap_or(0) / systems.max(1))
}

/// (system, first row, last row + 1)
type Chunk = (usize, usize, usize);

fn cut(segments: &[(usize, std::ops::Range<usize>)], size: usize) -> Vec<Chunk> {
    let mut chunks = vec![];
    for (system, rows) in segments {
        let mut lo = rows.start;
        while lo < rows.end {
            let hi = rows.end.min(lo + size);
            chunks.push((*system, lo, hi));
            lo = hi;
        }
    }
    chunks
}

fn chunked(
    pool: &dyn Pool,
    shared: &Shared,
    scratch: &Scratch,
    entry: &(dyn Fn(usize) -> Entry + Sync),
    chunks: &[Chunk],
    lists: &[(usize, Searched<'_>)],
    sums: usize,
) -> Vec<f64> {
    // Neighbouring chunks go to one task; which ones changes nothing in the result.
    let tasks = chunks.len().min(pool.threads() * 8).max(1);
    let of_task = |t: usize| chunks.len() * t / tasks..chunks.len() * (t + 1) / tasks;
    let task = |t: usize| {
        let mine = &chunks[of_task(t)];
        let mut launch = shared.0;
        let _scratch = scratch.open(&mut launch);
        let mut finders: Vec<Finder<'_>> = lists.iter().map(|(_, list)| Finder::new(list)).collect();
        let mut partials = vec![0.0; mine.len() * sums];
        for (n, (system, lo, hi)) in mine.iter().enumerate() {
            if_asked();
            let at = partials[n * sums..].as_mut_ptr();
            let step = if finders.is_empty() { hi - lo } else { ROWS_AT_ONCE };
            for lo in (*lo..*hi).step_by(step.max(1)) {
                let rows = lo..*hi.min(&(lo + step));
                finders.iter_mut().for_each(|finder| finder.find(rows.clone(), &mut launch));
                // SAFETY: the launch was checked; these rows belong to this chunk alone, `at` has room for its sums, and
                // lists that were searched for have pairs of these rows with partners that are there.
                unsafe { entry(*system).run(&launch, rows.start, rows.end, at) };
            }
        }
        partials
    };
    if tasks == 1 { task(0) } else { map_tasks(pool, tasks, task).concat() }
}

/// The arrays of a launch. Of a list in clusters, rows are made where the part, or a system, takes them.
fn pointers(
    launch: &mut Launch<'_>,
    in_clusters: Option<&[bool]>,
    searched: &[(usize, Searched<'_>)],
    pool: &dyn Pool,
) -> LaunchAbi {
    let (part, mut l) = (launch.part, launch.abi());
    let rows_of = |param: usize| {
        let clusters = launch.structure(param)?.as_clusters()?;
        Some(match in_clusters.filter(|_| part.clusters.as_ref().is_some_and(|form| form.list == param)) {
            None => Some(clusters.rows_with(pool)),
            Some(systems) if systems.contains(&false) => Some(clusters.other_rows_with(pool)),
            Some(_) => None,
        })
    };
    let lists: Vec<Option<Option<&PairList<'_>>>> = (0..launch.kernel.params.len()).map(rows_of).collect();
    for (n, slot) in part.slots.iter().enumerate() {
        l.pointers[n] = match slot.array {
            _ if part.scattered.contains(&n) => continue,
            // Each task has scratch and searches of its own.
            SlotArray::Scratch(_) => continue,
            array if array.is_of_structure() && searched.iter().any(|(param, _)| *param == slot.param) => {
                continue;
            }
            SlotArray::Values(role) => match (launch.output(slot.param, role), part.added.contains(&n)) {
                (Some(mut output), is_sum) => {
                    l.adds |= u64::from(output.adds) << n;
                    if !output.adds && is_sum {
                        clear(&mut output);
                    }
                    output.pointer_mut()
                }
                (None, _) => match launch.array(slot.param, role) {
                    Some(Bound::Input(view)) => view.data().pointer().cast_mut(),
                    _ => std::ptr::null_mut(),
                },
            },
            array => {
                let integers = match lists[slot.param] {
                    None => launch.integers(slot.param, array),
                    Some(rows) => rows.and_then(|rows| rows.array(array).ok().flatten()),
                };
                integers.map_or(std::ptr::null_mut(), |view| view.data().pointer().cast_mut())
            }
        };
    }
    l
}

/// Adds the chunks' sums to their targets, in order.
fn reduce(launch: &mut Launch<'_>, chunks: &[Chunk], partials: &[f64]) {
    let reductions = launch.part.reductions;
    let sums = reductions.len();
    for r in reductions {
        if let Some(mut output) = launch.output(r.param, r.role).filter(|output| !output.adds) {
            clear(&mut output);
        }
    }
    for (r, reduction) in reductions.iter().enumerate() {
        let kernel = launch.kernel;
        let Some(mut output) = launch.output(reduction.param, reduction.role) else { continue };
        let stride = match kernel.params[reduction.param].kind {
            ParamKind::Real { components, .. } | ParamKind::Output { components, .. } => components,
            _ => 1,
        };
        let mut n = 0;
        while n < chunks.len() {
            let system = chunks[n].0;
            let mut sum = 0.0;
            while n < chunks.len() && (reduction.batch.is_none() || chunks[n].0 == system) {
                sum += partials[n * sums + r];
                n += 1;
            }
            let row = if reduction.batch.is_some() { system } else { 0 };
            add_at(&mut output, row * stride + reduction.component, sum);
        }
    }
}

fn clear(output: &mut OutputArray<'_>) {
    match output.data_mut() {
        Some(DataMut::F32(d)) => d.fill(0.0),
        Some(DataMut::F64(d)) => d.fill(0.0),
        None => {}
    }
}

fn add_at(output: &mut OutputArray<'_>, at: usize, x: f64) {
    match output.data_mut() {
        Some(DataMut::F32(d)) => d[at] = (f64::from(d[at]) + x) as f32,
        Some(DataMut::F64(d)) => d[at] += x,
        None => {}
    }
}

/// The rows of the arrays that rows add to at each other's elements, and the length of a row; none where it is not wanted.
fn scattered_sizes(launch: &Launch<'_>) -> Vec<Option<[usize; 2]>> {
    let len = |n: &usize| {
        let slot = launch.part.slots[*n];
        let SlotArray::Values(role) = slot.array else { return None };
        match launch.array(slot.param, role) {
            Some(Bound::Output { array, .. }) => match array.shape() {
                [rows, of_row @ ..] => Some([*rows, of_row.iter().product()]),
                [] => Some([1, 1]),
            },
            // Unwanted: the code adds to nothing.
            _ => None,
        }
    };
    launch.part.scattered.iter().map(len).collect()
}

/// The slot and the shape of the mesh whose nodes are all that the part's rows add to.
fn planes(launch: &Launch<'_>) -> Option<(usize, Mesh)> {
    let param = launch.part.planes?;
    let slot = launch.part.slots.iter().position(|s| s.param == param && s.array == SlotArray::MeshShape)?;
    Some((slot, launch.mesh(param)?.clone()))
}

/// A launch by planes of the mesh: each task visits all rows for its own planes, so every node sums in the order of the
/// rows, for any number of tasks.
fn by_planes(
    pool: &dyn Pool,
    launch: &mut Launch<'_>,
    shared: &Shared,
    scratch: &Scratch,
    entry: Entry,
    mesh_slot: usize,
    mesh: &Mesh,
) {
    let (part, rows) = (launch.part, launch.rows());
    let mut all = Shared(shared.0);
    // f64 arrays take the sums as they are, others when these are whole.
    let mut sums: Vec<Option<Buffer<f64>>> = vec![];
    // Arrays that begin as zeros, and the numbers of a node.
    let mut clear = vec![];
    let planes = mesh.planes();
    for (size, n) in scattered_sizes(launch).into_iter().zip(part.scattered) {
        let mut sum: Option<Buffer<f64>> = None;
        all.0.pointers[*n] = match output_of(launch, *n) {
            Some(mut output) => match (output.adds, output.data_mut()) {
                (adds, Some(DataMut::F64(d))) => {
                    if !adds {
                        clear.push((*n, d.len() / mesh.nodes().max(1)));
                    }
                    d.as_mut_ptr().cast()
                }
                _ => {
                    let len = size.map_or(0, |[rows, of_row]| rows * of_row);
                    clear.push((*n, len / mesh.nodes().max(1)));
                    sum.insert(Buffer::room(len).0).as_mut_ptr().cast()
                }
            },
            None => std::ptr::null_mut(),
        };
        sums.push(sum);
    }
    let tasks = pool.threads().min(planes);
    let all = &all;
    pool.run(tasks, &|t| {
        let mut mine = all.0;
        let _scratch = scratch.open(&mut mine);
        let of_task = planes * t / tasks..planes * (t + 1) / tasks;
        let nodes = [of_task.start, of_task.end].map(|plane| mesh.first_node_of(plane));
        let mut shapes = mesh.with_planes(of_task);
        for (slot, node) in &clear {
            let first = mine.pointers[*slot].cast::<f64>();
            // SAFETY: an array over the nodes has so many numbers for each node, and these planes are this task's own.
            unsafe { first.add(nodes[0] * node).write_bytes(0, (nodes[1] - nodes[0]) * node) };
        }
        mine.pointers[mesh_slot] = shapes.as_mut_ptr().cast();
        // SAFETY: the launch was checked; this call adds to nodes in planes that no other task has, and has no sums.
        unsafe { entry.run(&mine, 0, rows, std::ptr::null_mut()) };
    });
    for (sum, slot) in sums.iter().zip(part.scattered) {
        if let Some(sum) = sum {
            add_to_output(pool, launch, *slot, &[(0, sum)]);
        }
    }
}

/// The array that a slot writes, where it is wanted.
fn output_of<'l>(launch: &'l mut Launch<'_>, slot: usize) -> Option<OutputArray<'l>> {
    let slot = launch.part.slots[slot];
    if let SlotArray::Values(role) = slot.array { launch.output(slot.param, role) } else { None }
}

/// Adds up `sums`, each from an element on, into the array of a slot, where it is wanted.
fn add_to_output(pool: &dyn Pool, launch: &mut Launch<'_>, slot: usize, sums: &[(usize, &[f64])]) {
    let Some(mut output) = output_of(launch, slot) else { return };
    match (output.adds, output.data_mut()) {
        (adds, Some(DataMut::F32(d))) => add_up(pool, d, sums, adds),
        (adds, Some(DataMut::F64(d))) => add_up(pool, d, sums, adds),
        (_, None) => {}
    }
}

/// The elements that some rows of a launch add to, from the first to the last: those that maps lead to, or all of them
/// where something else does.
fn span(launch: &Launch<'_>, slot: usize, of: usize, chunks: &[Chunk]) -> std::ops::Range<usize> {
    let part = launch.part;
    let maps = part.maps.iter().filter(|(array, _)| *array == slot);
    let maps = maps.map(|(_, map)| launch.integers(part.slots[*map].param, SlotArray::MapOf));
    let mut ends = None;
    for map in maps {
        let Some(Data::I32(elements)) = map.as_ref().map(|view| view.data()) else { return 0..of };
        let (first, last) = ends.get_or_insert((i32::MAX, i32::MIN));
        for element in chunks.iter().flat_map(|(_, lo, hi)| &elements[*lo..*hi]) {
            (*first, *last) = ((*first).min(*element), (*last).max(*element));
        }
    }
    match ends {
        None => 0..of,
        Some((first, last)) if first > last => 0..0,
        Some((first, last)) => first as usize..last as usize + 1,
    }
}

/// A launch by pieces of each system, of which each has buffers for the span of the elements that its rows add to.
fn scattered(
    pool: &dyn Pool,
    launch: &mut Launch<'_>,
    shared: &Shared,
    scratch: &Scratch,
    entry: Entry,
    segments: &[(usize, std::ops::Range<usize>)],
) {
    let part = launch.part;
    let sizes = scattered_sizes(launch);
    let sums = part.reductions.len();
    let launched = &*launch;
    let pieces = map_tasks(pool, PIECES, |p| {
        let chunks: Vec<Chunk> = segments
            .iter()
            .map(|(s, r)| (*s, r.start + r.len() * p / PIECES, r.start + r.len() * (p + 1) / PIECES))
            .collect();
        let mut mine = shared.0;
        let _scratch = scratch.open(&mut mine);
        // Beside the elements that rows add to, buffers are room that nothing reads or writes.
        let mut buffers: Vec<(std::ops::Range<usize>, Buffer<f64>)> = vec![];
        for (size, slot) in sizes.iter().zip(part.scattered) {
            let [rows, of_row] = size.unwrap_or([0, 0]);
            let (mut buffer, are_zeros) = Buffer::<f64>::room(rows * of_row);
            let elements = span(launched, *slot, rows, &chunks);
            let elements = elements.start * of_row..elements.end * of_row;
            if !are_zeros {
                buffer[elements.clone()].fill(0.0);
            }
            mine.pointers[*slot] =
                if size.is_some() { buffer.as_mut_ptr().cast() } else { std::ptr::null_mut() };
            buffers.push((elements, buffer));
        }
        let mut partials = vec![0.0; chunks.len() * sums];
        for (n, (_, lo, hi)) in chunks.iter().enumerate() {
            if_asked();
            let at = partials[n * sums..].as_mut_ptr();
            // SAFETY: as in `chunked`; scattered sums go to this piece's own buffers.
            unsafe { entry.run(&mine, *lo, *hi, at) };
        }
        (buffers, chunks, partials)
    });
    for (n, slot) in part.scattered.iter().enumerate() {
        let of_pieces = pieces.iter().map(|(buffers, ..)| &buffers[n]);
        let of_pieces: Vec<(usize, &[f64])> =
            of_pieces.map(|(elements, sums)| (elements.start, &sums[elements.clone()])).collect();
        add_to_output(pool, launch, *slot, &of_pieces);
    }
    // System by system, piece by piece.
    let mut chunks = vec![];
    let mut partials = vec![];
    for s in 0..segments.len() {
        for (_, of_piece, sums_of_piece) in &pieces {
            chunks.push(of_piece[s]);
            partials.extend_from_slice(&sums_of_piece[s * sums..(s + 1) * sums]);
        }
    }
    reduce(launch, &chunks, &partials);
}

/// The pieces' sums, each from an element on, in their order, to the array.
fn add_up<T: Elem>(pool: &dyn Pool, array: &mut [T], pieces: &[(usize, &[f64])], adds: bool) {
    let ends: Vec<usize> =
        (1..=array.len().div_ceil(ELEMENTS)).map(|c| array.len().min(c * ELEMENTS)).collect();
    split_tasks(pool, array, &ends, |c, part| {
        let from = c * ELEMENTS;
        let mut sums = vec![0.0; part.len()];
        for (first, piece) in pieces {
            let (lo, hi) = (from.max(*first), (from + part.len()).min(first + piece.len()));
            if lo < hi {
                let of_piece = &piece[lo - first..hi - first];
                sums[lo - from..hi - from].iter_mut().zip(of_piece).for_each(|(sum, x)| *sum += x);
            }
        }
        for (x, sum) in part.iter_mut().zip(sums) {
            let before = if adds { x.to_f64() } else { 0.0 };
            *x = T::of_f64(before + sum);
        }
    });
}
