//! The CUDA text of every kernel, compiled by the host's C++ compiler, as a backend.
//!
//! The C++ compiler gets the emulation of blocks and threads, the prelude and every text as it stands,
//! and for each function a call that launches it.
#![expect(
    unsafe_code,
    reason = "what the C++ compiler made is called here, with pointers as a GPU would get them"
)]

use crate::parts::is_launched;
use libloading::Library;
use madelung_core::array::{DType, DataMut};
use madelung_core::backend::{Bound, Launch, OutputArray};
use madelung_core::runtime::{
    Division, FINISH_NODES, FINISH_SCATTERED, Kernel, LaunchAbi, PRELUDE, ParamKind, Part, Records,
    Reduction, SCATTERED_BYTES, SlotArray, node_bytes,
};
pub(crate) use madelung_stand_in::Order;
use madelung_stand_in::{HOST, compiled};
use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, c_char};
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Runs rows `lo..hi`; the last arguments are the order of blocks and threads. What went wrong, or null.
type Function = unsafe extern "C" fn(*const LaunchAbi, i64, i64, *mut f64, i32, u64) -> *const c_char;

/// Makes the records of as many partners.
type MakeRecords = unsafe extern "C" fn(*const LaunchAbi, i64, i32, u64) -> *const c_char;

/// Makes numbers of n elements in fixed point; the last argument says whether they are added to what is there.
type Finish = unsafe extern "C" fn(*const u64, *mut u8, i64, bool, i32, u64) -> *const c_char;

/// The same of n nodes of the meshes of these shapes.
type FinishNodes =
    unsafe extern "C" fn(*const u64, *const i32, *mut u8, i64, bool, i32, u64) -> *const c_char;

/// The texts, compiled for arrays of one dtype.
pub(crate) struct Texts {
    dtype: DType,
    /// What becomes of what rows add to each other's elements.
    scatter: Scatter,
    /// The functions of each launch that a part takes, by name.
    passes: Vec<HashMap<&'static str, Function>>,
    /// The size of computed numbers, and the functions that make records, by the name of the part's, where records are read.
    records: Option<(usize, HashMap<&'static str, MakeRecords>)>,
    finish: Finish,
    finish_nodes: FinishNodes,
    /// The size of computed numbers.
    real: usize,
    ran: Mutex<BTreeSet<&'static str>>,
    /// What the functions are in.
    _libraries: Vec<Library>,
}

/// What becomes of what rows add to each other's elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scatter {
    /// It is added as it comes.
    Atomic,
    /// It is added in fixed point.
    Fixed,
}

impl Scatter {
    /// The value of the macro in each launch.
    fn passes(self) -> &'static [u32] {
        match self {
            Self::Atomic => &[0],
            Self::Fixed => &[1, 2],
        }
    }
}

/// The texts as a backend.
#[derive(Clone, Copy)]
pub(crate) struct Host {
    pub(crate) texts: &'static Texts,
    pub(crate) order: Order,
}

/// Every part of every form of some kernels.
pub(crate) fn parts_of(
    kernels: impl IntoIterator<Item = &'static Kernel>,
) -> impl Iterator<Item = (&'static Kernel, &'static Part)> {
    kernels.into_iter().flat_map(|kernel| {
        kernel.forms.iter().flat_map(move |form| form.parts.iter().map(move |part| (kernel, part)))
    })
}

/// The parts that no call ran, and should have.
pub(crate) fn idle(texts: &Texts, kernels: impl IntoIterator<Item = &'static Kernel>) -> Vec<&'static str> {
    let ran = texts.ran();
    let launched = parts_of(kernels).map(|(_, part)| part).filter(|part| is_launched(part));
    launched.map(|part| part.cuda.name).filter(|name| !ran.contains(name)).collect()
}

/// The C++ type of a dtype.
fn name_of(dtype: DType) -> &'static str {
    if dtype == DType::F32 { "float" } else { "double" }
}

/// What texts are compiled for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Types {
    /// What arrays hold.
    pub(crate) storage: DType,
    /// What is computed.
    pub(crate) real: DType,
    /// What sums are carried in.
    pub(crate) sums: DType,
}

/// As a launch: threads in blocks, the last of which reaches beyond the rows. Threads that share rows come in blocks of two
/// warps.
const LAUNCH: &str = "
template <class Kernel>
static const char* launch(Kernel kernel, unsigned lanes, const Launch* a, long long lo, long long hi, double* partials,
                          int order, unsigned long long seed) {
  const unsigned threads = LANES > 1 ? 64 : 32, blocks = unsigned(((hi - lo) * lanes + threads - 1) / threads);
  return stand_in::launch(blocks, threads, {stand_in::Order::Kind(order), seed}, [&] {
    if constexpr (std::is_invocable_v<Kernel, Launch, long long, long long, double*>) kernel(*a, lo, hi, partials);
    else kernel(*a, lo, hi, partials, Shapes{});
  });
}
template <class Kernel>
static const char* make_records(Kernel kernel, const Launch* a, long long n, int order, unsigned long long seed) {
  return stand_in::launch(unsigned((n + 31) / 32), 32, {stand_in::Order::Kind(order), seed}, [&] { kernel(*a); });
}
extern \"C\" const char* host_finish(const Scattered* sums, STORAGE* to, long long n, bool adds, int order,
                                   unsigned long long seed) {
  return stand_in::launch(unsigned((n + 31) / 32), 32, {stand_in::Order::Kind(order), seed},
                          [&] { madelung_scattered(sums, to, n, adds); });
}
extern \"C\" const char* host_finish_nodes(const Node* sums, const int* shapes, STORAGE* to, long long n, bool adds, int order,
                                         unsigned long long seed) {
  return stand_in::launch(unsigned((n + 31) / 32), 32, {stand_in::Order::Kind(order), seed},
                          [&] { madelung_nodes(sums, shapes, to, n, adds, CROWD, Shapes{}); });
}
static_assert(sizeof(Scattered) == SCATTERED_BYTES, \"the size that backends are told\");
static_assert(sizeof(Node) == NODE_BYTES, \"the size that backends are told\");
";

fn source(kernels: &[&'static Kernel], types: Types, lanes: usize, scatter: u32, packed: bool) -> String {
    let (real, sums) = (name_of(types.real), name_of(types.sums));
    let mut text = format!(
        "{HOST}#define REAL {real}\n#define ACC {sums}\n#define LANES {lanes}\n#define SCATTER {scatter}\n#define PACKED {}\n#define \
         SCATTERED_BYTES {SCATTERED_BYTES}\n#define NODE_BYTES {}\n{PRELUDE}#define STORAGE {}\n#define T0 STORAGE\n{FINISH_SCATTERED}#define T0 STORAGE\n{FINISH_NODES}{LAUNCH}",
        u8::from(packed),
        node_bytes(types.real.size()),
        name_of(types.storage)
    );
    for (_, part) in parts_of(kernels.iter().copied()) {
        let name = part.cuda.name;
        let lanes = if part.cuda.lanes == Division::None { 1 } else { lanes };
        if types.storage != types.real {
            for n in 0..part.slots.len() {
                writeln!(text, "#define T{n} {}", name_of(types.storage)).expect("a string");
            }
        }
        writeln!(
            text,
            "{}\nextern \"C\" const char* host_{name}(const Launch* a, long long lo, long long hi, double* partials, int \
             order, unsigned long long seed) {{ return launch({name}, {lanes}, a, lo, hi, partials, order, seed); }}",
            part.cuda.text
        )
        .expect("a string");
        if let Some(records) = part.cuda.records.filter(|_| packed) {
            let name = records.name;
            writeln!(
                text,
                "extern \"C\" const char* host_{name}(const Launch* a, long long n, int order, unsigned long long seed) {{ \
                 return make_records({name}, a, n, order, seed); }}"
            )
            .expect("a string");
        }
        if types.storage != types.real {
            // The text takes back what it defines, and those of slots that hold no reals are left.
            for n in 0..part.slots.len() {
                writeln!(text, "#undef T{n}").expect("a string");
            }
        }
    }
    text
}

impl Texts {
    /// `lanes` threads per row; `packed`: what is gathered comes from records.
    ///
    /// # Panics
    /// Where there is no C++ compiler, or it refuses the text.
    pub(crate) fn new(
        kernels: &[&'static Kernel],
        types: Types,
        lanes: usize,
        scatter: Scatter,
        packed: bool,
    ) -> Self {
        let sources = scatter.passes().iter().map(|pass| source(kernels, types, lanes, *pass, packed));
        let libraries: Vec<Library> = sources.map(|text| compiled(&text)).collect();
        let functions = |library: &Library| {
            parts_of(kernels.iter().copied())
                .map(|(_, part)| {
                    // SAFETY: `source` gives this function this signature.
                    let found = unsafe { library.get::<Function>(format!("host_{}", part.cuda.name)) };
                    (part.cuda.name, *found.expect("one function per part"))
                })
                .collect()
        };
        let passes = libraries.iter().map(functions).collect();
        let make_records = |(part, records): (&'static Part, Records)| {
            // SAFETY: `source` gives this function this signature.
            let found = unsafe { libraries[0].get::<MakeRecords>(format!("host_{}", records.name)) };
            (part.cuda.name, *found.expect("one function per part that has records"))
        };
        let records = packed.then(|| {
            let parts = parts_of(kernels.iter().copied());
            let with_records = parts.filter_map(|(_, part)| Some((part, part.cuda.records?)));
            (types.real.size(), with_records.map(make_records).collect())
        });
        // SAFETY: `LAUNCH` gives this function this signature.
        let finish = *unsafe { libraries[0].get::<Finish>("host_finish") }.expect("a function");
        // SAFETY: likewise.
        let nodes = unsafe { libraries[0].get::<FinishNodes>("host_finish_nodes") };
        let finish_nodes = *nodes.expect("a function");
        Self {
            dtype: types.storage,
            scatter,
            passes,
            records,
            finish,
            finish_nodes,
            real: types.real.size(),
            ran: Mutex::default(),
            _libraries: libraries,
        }
    }

    /// The functions that have run.
    pub(crate) fn ran(&self) -> MutexGuard<'_, BTreeSet<&'static str>> {
        self.ran.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host {
    fn launch(&self, launch: &mut Launch<'_>) {
        let part = launch.part;
        self.texts.ran().insert(part.cuda.name);
        // Targets of sums over rows are added to, so what is not to be kept is zeroed first; outputs that rows write
        // are left with what no row should leave there.
        let keys: Vec<_> = launch.arrays.iter().map(|(key, _)| *key).collect();
        for (param, role) in &keys {
            let summed = part.reductions.iter().any(|r| (r.param, r.role) == (*param, *role));
            let scattered = part.scattered.iter().any(|n| {
                let slot = part.slots[*n];
                (slot.param, slot.array) == (*param, SlotArray::Values(*role))
            });
            if let Some(mut output) = launch.output(*param, *role).filter(|output| !output.adds) {
                let starts_at_zero = summed || (scattered && self.texts.scatter == Scatter::Atomic);
                fill(&mut output, if starts_at_zero { 0.0 } else { f64::NAN });
            }
        }
        let mut unwanted: Vec<Vec<f64>> = vec![];
        let mut bound = bind(launch, &mut unwanted);
        let is_fixed = self.texts.scatter == Scatter::Fixed;
        let mut sums = if is_fixed { fixed(launch, &mut bound, self.texts.real) } else { vec![] };
        let rows = launch.rows();
        let reductions = part.reductions.len();
        let mut partials = vec![f64::NAN; rows * reductions];
        let (order, seed) = self.order.as_cxx();
        // 16 bytes each: as records are aligned.
        let mut room: Vec<u128> = vec![];
        if let Some((records, (size, make))) = part.cuda.records.zip(self.texts.records.as_ref()) {
            let partners = launch.dims[records.dim];
            // All bits set: NaN.
            room.resize(partners * records.width * size / size_of::<u128>(), u128::MAX);
            bound.pointers[part.slots.len()] = room.as_mut_ptr().cast();
            // SAFETY: the launch was checked, so its arrays have so many rows; there is room for as many records.
            let failed = unsafe { make[part.cuda.name](&bound, partners as i64, order, seed) };
            assert_eq!(message(failed), None, "{}", records.name);
        }
        // A part that adds to nothing shared needs one launch, the last.
        let first = if part.scattered.is_empty() { self.texts.passes.len() - 1 } else { 0 };
        for functions in &self.texts.passes[first..] {
            let function = functions[part.cuda.name];
            // SAFETY: the launch was checked, so its pointers are good for the rows; `partials` has room for them.
            let failed = unsafe { function(&bound, 0, rows as i64, partials.as_mut_ptr(), order, seed) };
            assert_eq!(message(failed), None, "{}", part.cuda.name);
        }
        for sums in &mut sums {
            let (words, n, texts) = (sums.words.as_ptr(), sums.elements as i64, self.texts);
            // SAFETY: so many elements are in `words`, and where they go; the shapes are the launch's.
            let failed = unsafe {
                match sums.shapes {
                    Some(slot) => {
                        let shapes = bound.pointers[slot].cast_const().cast();
                        (texts.finish_nodes)(words, shapes, sums.to, n, sums.adds, order, seed)
                    }
                    None => (texts.finish)(words, sums.to, n, sums.adds, order, seed),
                }
            };
            assert_eq!(message(failed), None);
        }
        for (r, reduction) in part.reductions.iter().enumerate() {
            reduce(launch, reduction, partials.iter().skip(r).step_by(reductions));
        }
    }
}

madelung_stand_in::launches_by!(Host, |host, _context, args| {
    assert_eq!(args.dtype, host.texts.dtype, "the texts were compiled for another dtype");
    host.launch(args);
    Ok(())
});

/// What goes to every slot. Rows add to what nobody wants as well: that gets a place among `unwanted`.
fn bind(launch: &mut Launch<'_>, unwanted: &mut Vec<Vec<f64>>) -> LaunchAbi {
    let mut l = launch.abi();
    for (n, slot) in launch.part.slots.iter().enumerate() {
        let part = launch.part;
        l.pointers[n] = match slot.array {
            SlotArray::Values(role) => match launch.output(slot.param, role) {
                Some(mut output) => {
                    l.adds |= u64::from(output.adds) << n;
                    if !output.adds && part.added.contains(&n) {
                        fill(&mut output, 0.0);
                    }
                    output.pointer_mut()
                }
                None => match launch.array(slot.param, role) {
                    Some(Bound::Input(view)) => view.data().pointer().cast_mut(),
                    _ if part.scattered.contains(&n) => {
                        // Doubles: room enough for either dtype.
                        let mut room = vec![0.0; elements(launch, slot.param)];
                        let pointer = room.as_mut_ptr();
                        unwanted.push(room);
                        pointer.cast()
                    }
                    _ => std::ptr::null_mut(),
                },
            },
            // For every row its own.
            SlotArray::Scratch(dim) => {
                let mut room = vec![f64::NAN; launch.rows() * launch.dims[dim]];
                let pointer = room.as_mut_ptr();
                unwanted.push(room);
                pointer.cast()
            }
            array => {
                let integers = launch.integers(slot.param, array);
                integers.map_or(std::ptr::null_mut(), |view| view.data().pointer().cast_mut())
            }
        };
    }
    l
}

/// What went wrong in a launch.
fn message(failed: *const c_char) -> Option<&'static CStr> {
    // SAFETY: what is not null is a text with its zero, until this thread launches again.
    (!failed.is_null()).then(|| unsafe { CStr::from_ptr(failed) })
}

/// Elements in fixed point, in place of an array that rows add to at each other's elements.
struct Fixed {
    words: Vec<u64>,
    /// The slot of the shapes of the meshes whose nodes the elements are.
    shapes: Option<usize>,
    elements: usize,
    to: *mut u8,
    adds: bool,
}

/// Room for elements in fixed point, zero; an array that is not asked for has none. `real`: the size of computed numbers.
fn fixed(launch: &Launch<'_>, bound: &mut LaunchAbi, real: usize) -> Vec<Fixed> {
    let part = launch.part;
    let wanted = |n: &usize| {
        let SlotArray::Values(role) = part.slots[*n].array else { return None };
        match launch.array(part.slots[*n].param, role) {
            Some(Bound::Output { array, adds }) => Some((array.shape().iter().product::<usize>(), *adds)),
            _ => None,
        }
    };
    let mut rooms = vec![];
    for n in part.scattered {
        let to = std::mem::replace(&mut bound.pointers[*n], std::ptr::null_mut());
        if let Some((elements, adds)) = wanted(n) {
            let shapes = part.nodes.iter().find(|(slot, _)| slot == n).map(|(_, shapes)| *shapes);
            let bytes = match shapes {
                Some(slot) => {
                    let mesh = launch.structure(part.slots[slot].param).and_then(|mesh| mesh.as_mesh());
                    (mesh.expect("a mesh").systems() + elements) * node_bytes(real)
                }
                None => elements * SCATTERED_BYTES,
            };
            let mut words = vec![0u64; bytes / 8];
            bound.pointers[*n] = words.as_mut_ptr().cast();
            rooms.push(Fixed { words, shapes, elements, to, adds });
        }
    }
    rooms
}

/// How many numbers an array of a parameter has.
fn elements(launch: &Launch<'_>, param: usize) -> usize {
    let rows = match launch.kernel.params[param].kind {
        ParamKind::Real { dim, .. } | ParamKind::Output { dim, .. } => dim.map_or(1, |d| launch.dims[d]),
        ref kind => unreachable!("{kind:?} is not written"),
    };
    rows * launch.components(param)
}

fn fill(output: &mut OutputArray<'_>, x: f64) {
    match output.data_mut() {
        Some(DataMut::F32(d)) => d.fill(x as f32),
        Some(DataMut::F64(d)) => d.fill(x),
        // Integers, which are written whole.
        None => {}
    }
}

/// Adds the rows' sums to their targets, row by row.
fn reduce<'a>(launch: &mut Launch<'_>, r: &Reduction, sums: impl Iterator<Item = &'a f64>) {
    let components = launch.components(r.param);
    let system = |row: usize| match r.batch.and_then(|b| launch.structure(b)) {
        Some(rows) if let Some(mesh) = rows.as_mesh() => {
            (0..mesh.systems()).find(|b| mesh.waves_of(*b).contains(&row)).expect("a wave")
        }
        rows => rows.and_then(|rows| rows.as_batch()).map_or(0, |batch| batch.of(row)),
    };
    let systems: Vec<usize> = (0..launch.rows()).map(system).collect();
    let Some(mut output) = launch.output(r.param, r.role) else { return };
    let mut targets = output.view().to_f64().expect("an array of the host");
    for (row, sum) in sums.enumerate() {
        targets[systems[row] * components + r.component] += sum;
    }
    match output.data_mut() {
        Some(DataMut::F32(d)) => d.iter_mut().zip(targets).for_each(|(x, sum)| *x = sum as f32),
        Some(DataMut::F64(d)) => d.iter_mut().zip(targets).for_each(|(x, sum)| *x = sum),
        None => unreachable!("outputs are of the launch's type"),
    }
}
