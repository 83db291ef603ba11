//! Arguments of the code of a part, in order: pointers, reductions, and values that belong together.

pub use madelung_abi::{Reduction, Slot, SlotArray as Array};

use crate::ir::{Acc, Body, Dim, Function, Kernel, OfWave, Op, ParamId, Range, Role, Stmt, Val};
use crate::mirror::Part;
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use std::collections::{BTreeMap, BTreeSet};

/// The layout of a part.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Pointers, in order.
    pub slots: Vec<Slot>,
    /// Sums over rows, in order.
    pub reductions: Vec<Reduction>,
    /// Arrays that rows add to at each other's elements.
    pub scattered: BTreeSet<Slot>,
    /// Scattered arrays whose elements are the nodes of a mesh, each with the mesh: rows add to them in nests of loops over
    /// nodes alone.
    pub nodes: BTreeMap<Slot, ParamId>,
    /// Arrays that rows add to only at elements that maps lead to, with these maps.
    pub maps: BTreeMap<Slot, BTreeSet<ParamId>>,
    /// Arrays that rows add to at elements of their own, which must be zero before.
    pub added: BTreeSet<Slot>,
    /// Arrays that are written.
    pub written: BTreeSet<Slot>,
    /// Whether places among the pairs of a row or the members of a system are counted, in reals.
    pub places: bool,
    /// Whether rows loop over data.
    pub loops: bool,
    /// The dimensions of channels.
    pub widths: BTreeSet<Dim>,
    /// The mesh, where all that rows do is add to its nodes: a call adds to those in some planes of its first axis only.
    pub planes: Option<ParamId>,
    /// The batch of the part's rows, if the kernel has one: launches are cut at its systems.
    pub batch: Option<ParamId>,
    /// Values of which both functions of a pair are needed.
    pub(crate) together: HashSet<(Val, Pair)>,
    /// Products that are computed within the sum they go to.
    pub fused: HashSet<Val>,
    /// Opposites that are subtracted from the accumulator they alone go to.
    pub subtracted: HashSet<Val>,
    /// Coordinates whose splines are tabulated where they are known, for all nodes of the axis at once.
    pub tables: Vec<Table>,
    /// Systems whose meshes the part has loops over.
    pub meshes: BTreeSet<(ParamId, Val)>,
}

/// Two functions of one value that share most of their work.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pair {
    /// erfc(x) and exp(−x²).
    ErfcExpNegSq,
    /// Sine and cosine.
    SinCos,
    /// √x and 1/√x.
    SqrtRecip,
}

impl Pair {
    /// The function that computes both.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ErfcExpNegSq => "erfc_exp_neg_sq",
            Self::SinCos => "sin_cos",
            Self::SqrtRecip => "sqrt_recip",
        }
    }
}

fn planes(b: &Body) -> Option<ParamId> {
    let (mut meshes, mut others) = (BTreeSet::new(), false);
    for s in b.walk() {
        match s {
            Stmt::Contribute { row: Some(row), .. } => match b.op(*row) {
                Op::MeshNode { mesh, .. } => {
                    meshes.insert(*mesh);
                }
                _ => others = true,
            },
            Stmt::Contribute { .. } | Stmt::Store { .. } => others = true,
            _ => {}
        }
    }
    meshes.first().copied().filter(|_| meshes.len() == 1 && !others)
}

/// The arrays that all contributions add to at nodes of one mesh, with the mesh.
fn nodes(b: &Body) -> BTreeMap<Slot, ParamId> {
    let (mut found, mut others) = (BTreeMap::new(), BTreeSet::new());
    for s in b.walk() {
        let Stmt::Contribute { param, role, row, .. } = s else { continue };
        let slot = Slot::new(*param, Array::Values(*role));
        let mesh = row.and_then(|row| match b.op(row) {
            Op::MeshNode { mesh, .. } => Some(*mesh),
            _ => None,
        });
        let is_other = mesh.is_none_or(|mesh| *found.entry(slot).or_insert(mesh) != mesh);
        if is_other {
            others.insert(slot);
        }
    }
    found.retain(|slot, _| !others.contains(slot));
    found
}

/// The map whose element a row is.
fn map_of(b: &Body, row: Val) -> Option<ParamId> {
    match b.op(row) {
        Op::IndexOf { param, array: Array::MapOf, row } if *b.op(*row) == Op::Row => Some(*param),
        _ => None,
    }
}

/// Splines at one coordinate.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// The coordinate.
    pub at: Val,
    /// The mesh.
    pub mesh: ParamId,
    /// The system whose mesh it is.
    pub system: Val,
    /// The axis.
    pub axis: usize,
    /// Values and derivatives: one more than the highest derivative.
    pub orders: usize,
}

impl Table {
    /// The name of a table in printed code.
    pub(crate) fn name(mesh: ParamId, system: Val, axis: usize, at: Val) -> String {
        format!("t{mesh}_{system}_{axis}_{at}")
    }

    /// The value behind which the table can be: its coordinate, a product with the size of the system's mesh, or the
    /// system where that is folded to a constant.
    pub fn known(&self, b: &Body) -> Val {
        if b.constant(self.at).is_some() { self.system } else { self.at }
    }
}

fn tables(b: &Body) -> Vec<Table> {
    let mut found: BTreeMap<(Val, ParamId, Val, usize), usize> = BTreeMap::new();
    let mut need = |at: Val, mesh: ParamId, system: Val, axis: usize, n: usize| {
        let orders = found.entry((at, mesh, system, axis)).or_default();
        *orders = n.max(*orders);
    };
    for op in b.ops() {
        match *op {
            Op::Spline { mesh, system, axis, at, derivative, .. } => {
                need(at, mesh, system, axis, derivative + 1);
            }
            Op::MeshNode { mesh, system, at, .. } => {
                (0..3).for_each(|axis| need(at[axis], mesh, system, axis, 1));
            }
            _ => {}
        }
    }
    let table = |((at, mesh, system, axis), orders)| Table { at, mesh, system, axis, orders };
    found.into_iter().map(table).collect()
}

/// The systems whose meshes a part has loops over.
fn meshes(b: &Body) -> BTreeSet<(ParamId, Val)> {
    let of = |op: &Op| match *op {
        Op::SplineOrder { mesh, system }
        | Op::MeshSize { mesh, system, .. }
        | Op::Spline { mesh, system, .. }
        | Op::MeshNode { mesh, system, .. } => Some((mesh, system)),
        _ => None,
    };
    b.ops().filter_map(of).collect()
}

/// Attributes are passed apart from arrays, real and integer ones each in their own order.
pub(crate) fn scalar_position(kernel: &Kernel, param: ParamId) -> usize {
    let kind = kernel.params[param].kind;
    kernel.params[..param].iter().filter(|p| p.kind == kind).count()
}

/// The sum over rows that a contribution goes to, if it does not go to an element that the row computes.
fn reduction(b: &Body, param: ParamId, role: Role, component: usize, row: Option<Val>) -> Option<Reduction> {
    let batch = match row.map(|r| b.op(r)) {
        None => None,
        Some(op @ Op::IndexOf { param, .. }) if op.is_system() => Some(*param),
        Some(_) => return None,
    };
    Some(Reduction { param, role, component, batch })
}

/// The arrays that an op reads. `pairs`: the list that its loop goes over, and whether by columns.
fn arrays_of(op: &Op, pairs: Option<(ParamId, bool)>) -> Vec<Slot> {
    let of = |param: ParamId, arrays: &[Array]| arrays.iter().map(|a| Slot::new(param, *a)).collect();
    let of_list = |arrays: &[Array]| pairs.map_or_else(Vec::new, |(list, _)| of(list, arrays));
    let by_columns = pairs.is_some_and(|(_, by_columns)| by_columns);
    match *op {
        Op::Load { param, role, .. } => of(param, &[Array::Values(role)]),
        Op::LoadInt { param, .. } | Op::Element { param, .. } | Op::Atomic { param, .. } => {
            of(param, &[Array::Values(Role::VALUE)])
        }
        Op::IndexOf { param, array, .. } => of(param, &[array]),
        Op::PlaceIn { batch, .. } => of(batch, &[Array::SystemOf, Array::Members]),
        Op::SplineOrder { mesh, .. }
        | Op::MeshSize { mesh, .. }
        | Op::Spline { mesh, .. }
        | Op::MeshNode { mesh, .. } => of(mesh, &[Array::MeshShape]),
        Op::Wave { mesh, of: OfWave::Modulus, .. } => of(mesh, &[Array::MeshShape, Array::MeshModuli]),
        Op::Wave { mesh, .. } => of(mesh, &[Array::MeshShape]),
        Op::PairColumn(_) => of_list(&[Array::Column]),
        Op::PairRow(_) => of_list(&[Array::PairRow]),
        Op::PairShift(..) if by_columns => of_list(&[Array::Shift, Array::PackedShift, Array::PairEntry]),
        Op::PairShift(..) => of_list(&[Array::Shift, Array::PackedShift]),
        Op::PairEntry(_) if by_columns => of_list(&[Array::PairEntry]),
        Op::Place(_) if by_columns => of_list(&[Array::Start, Array::PairRow, Array::PairEntry]),
        _ => vec![],
    }
}

impl Layout {
    /// Reads a part.
    pub fn new(kernel: &Kernel, part: &Part) -> Self {
        let b = &part.body;
        let (mut slots, mut reductions) = (BTreeSet::new(), BTreeSet::new());
        let (mut scattered, mut added, mut written) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let (mut maps, mut elsewhere) = (BTreeMap::<Slot, BTreeSet<ParamId>>::new(), BTreeSet::new());
        let (mut places, mut loops, mut widths) = (false, false, BTreeSet::new());
        // The lists that loops over pairs go over, and whether by columns.
        let mut lists = HashMap::default();
        let mut over_channels = HashSet::default();
        for s in b.walk() {
            match *s {
                Stmt::Let(v) => {
                    let op = b.op(v);
                    if let Op::Load { channel: Some(c), .. } = op {
                        widths.insert(b.width(*c));
                    }
                    // The place in a loop over channels is compared with numbers of channels, which are small.
                    places |= match op {
                        Op::Place(l) => !over_channels.contains(l),
                        op => matches!(op, Op::PlaceIn { .. }),
                    };
                    loops |= matches!(op, Op::MeshNode { .. });
                    slots.extend(arrays_of(op, op.of_loop().and_then(|l| lists.get(&l).copied())));
                }
                Stmt::Store { param, role, .. } => {
                    written.insert(Slot::new(param, Array::Values(role)));
                    elsewhere.insert(Slot::new(param, Array::Values(role)));
                }
                Stmt::Write { param, .. } => {
                    slots.insert(Slot::new(param, Array::Values(Role::VALUE)));
                }
                Stmt::Loop(_) => loops = true,
                Stmt::DeclareChannels(m, dim) => {
                    slots.insert(Slot::new(m, Array::Scratch(dim)));
                }
                Stmt::Raise { place, .. } => places |= matches!(b.op(place), Op::Place(_)),
                Stmt::Contribute { param, role, row, component, channel, .. } => {
                    widths.extend(channel.map(|c| b.width(c)));
                    match reduction(b, param, role, component, row)
                        .filter(|_| channel.is_none() || row.is_none())
                    {
                        Some(reduction) => {
                            reductions.insert(reduction);
                        }
                        None => {
                            let slot = Slot::new(param, Array::Values(role));
                            let own = row.is_some_and(|r| matches!(b.op(r), Op::PairEntry(_)));
                            if own { &mut added } else { &mut scattered }.insert(slot);
                            match row.and_then(|row| map_of(b, row)) {
                                Some(map) => _ = maps.entry(slot).or_default().insert(map),
                                None => _ = elsewhere.insert(slot),
                            }
                            written.insert(slot);
                        }
                    }
                }
                Stmt::For { id, range, .. } => {
                    loops |= range.is_data() || b.in_order;
                    match range {
                        Range::Pairs { list, .. } => {
                            lists.insert(id, (list, false));
                            slots.extend([Array::Start, Array::End].map(|a| Slot::new(list, a)));
                        }
                        Range::Column { list, .. } => {
                            lists.insert(id, (list, true));
                            slots.insert(Slot::new(list, Array::ColumnStart));
                        }
                        Range::Members { batch, .. } => {
                            slots.insert(Slot::new(batch, Array::Members));
                        }
                        Range::Channels(dim) => {
                            over_channels.insert(id);
                            widths.insert(dim);
                        }
                        Range::Ints(..) => {}
                    }
                }
                _ => {}
            }
        }
        slots.extend(&written);
        maps.retain(|slot, _| !elsewhere.contains(slot));
        let batch = kernel.params.iter().position(|p| p.kind.rows_in_systems() == Some(part.index));
        // In order, one operation has one instruction.
        let (together, (fused, subtracted)) =
            if b.in_order { Default::default() } else { (together(b), fused(b)) };
        let fused = if kernel.rounded { HashSet::default() } else { fused };
        if b.in_order {
            written.extend(slots.iter().filter(|s| kernel.params[s.param].kind.is_output()));
        }
        Layout {
            slots: slots.into_iter().collect(),
            reductions: reductions.into_iter().collect(),
            nodes: nodes(b),
            scattered,
            maps,
            added,
            written,
            places,
            loops,
            widths,
            planes: planes(b),
            batch: batch.filter(|_| !b.in_order),
            together,
            fused,
            subtracted,
            tables: tables(b),
            meshes: meshes(b),
        }
    }

    /// The positions of arrays whose elements are nodes, each with that of the mesh's shape.
    pub fn node_slots(&self) -> Vec<(usize, usize)> {
        let slots = |(slot, mesh): (&Slot, &ParamId)| {
            (self.slot(slot.param, slot.array), self.slot(*mesh, Array::MeshShape))
        };
        self.nodes.iter().map(slots).collect()
    }

    /// The slots of `maps`, once for each of their maps, with the slot of that map.
    pub fn map_slots(&self) -> Vec<(usize, usize)> {
        let slots = |(slot, maps): (&Slot, &BTreeSet<ParamId>)| {
            let array = self.slot(slot.param, slot.array);
            maps.iter().map(|map| (array, self.slot(*map, Array::MapOf))).collect::<Vec<_>>()
        };
        self.maps.iter().flat_map(slots).collect()
    }

    /// The position of an array among the pointers.
    pub fn slot(&self, param: ParamId, array: Array) -> usize {
        self.slots.binary_search(&Slot::new(param, array)).expect("every array of the part has a slot")
    }

    /// The argument of one of two functions that share their work, the pair, and which of them it is, where the part needs
    /// both.
    pub(crate) fn pair(&self, b: &Body, v: Val) -> Option<(Val, Pair, usize)> {
        half_of_pair(b, v).filter(|(x, pair, _)| self.together.contains(&(*x, *pair)))
    }

    /// The value that an accumulation of `v` adds to a sum, or subtracts from it.
    pub(crate) fn signed(&self, b: &Body, v: Val) -> (Val, char) {
        match *b.op(v) {
            Op::Neg(x) if self.subtracted.contains(&v) => (x, '-'),
            _ => (v, '+'),
        }
    }

    /// The first iteration of a loop and the one after the last: `at` writes an element of an array of integers, `value`
    /// a value.
    pub(crate) fn bounds(
        &self,
        range: Range,
        at: impl Fn(usize, &str) -> String,
        value: impl Fn(Val) -> String,
    ) -> (String, String) {
        let (slots, row) = match range {
            Range::Ints(lo, hi) => return (value(lo), value(hi)),
            Range::Channels(dim) => return ("0".into(), format!("w{dim}")),
            Range::Pairs { list, row } => {
                let row = value(row);
                let [lo, hi] = [Array::Start, Array::End].map(|array| at(self.slot(list, array), &row));
                return (lo, hi);
            }
            Range::Column { list, column } => (self.slot(list, Array::ColumnStart), value(column)),
            Range::Members { batch, system } => (self.slot(batch, Array::Members), value(system)),
        };
        (at(slots, &row), at(slots, &format!("{row} + 1")))
    }

    /// The position of an array of the pair list that a loop goes over.
    pub(crate) fn list_slot(&self, range: Range, array: Array) -> usize {
        match range {
            Range::Pairs { list, .. } | Range::Column { list, .. } => self.slot(list, array),
            _ => unreachable!("pairs come from a loop over pairs"),
        }
    }

    /// The position of the room for a sum over channels.
    pub(crate) fn scratch(&self, sum: Acc) -> usize {
        let found = |s: &Slot| s.param == sum && matches!(s.array, Array::Scratch(_));
        self.slots.iter().position(found).expect("a sum over channels is declared")
    }

    /// The position of a sum among the reductions.
    pub(crate) fn reduction(
        &self,
        b: &Body,
        param: ParamId,
        role: Role,
        component: usize,
        row: Option<Val>,
    ) -> Option<usize> {
        self.reductions.binary_search(&reduction(b, param, role, component, row)?).ok()
    }
}

fn together(b: &Body) -> HashSet<(Val, Pair)> {
    let mut seen: HashMap<(Val, Pair), [bool; 2]> = HashMap::default();
    for s in b.walk() {
        if let Stmt::Let(v) = s
            && let Some((x, pair, which)) = half_of_pair(b, *v)
        {
            seen.entry((x, pair)).or_default()[which] = true;
        }
    }
    seen.into_iter().filter(|(_, both)| *both == [true; 2]).map(|(key, _)| key).collect()
}

/// The argument of one of two functions, the pair that they are, and which of them it is.
fn half_of_pair(b: &Body, v: Val) -> Option<(Val, Pair, usize)> {
    match *b.op(v) {
        Op::Call(Function::Erfc, x) => Some((x, Pair::ErfcExpNegSq, 0)),
        Op::Call(Function::ExpNegSq, x) => Some((x, Pair::ErfcExpNegSq, 1)),
        Op::Call(Function::Sin, x) => Some((x, Pair::SinCos, 0)),
        Op::Call(Function::Cos, x) => Some((x, Pair::SinCos, 1)),
        Op::Sqrt(x) => Some((x, Pair::SqrtRecip, 0)),
        Op::Recip(root) => match *b.op(root) {
            Op::Sqrt(x) => Some((x, Pair::SqrtRecip, 1)),
            _ => None,
        },
        _ => None,
    }
}

/// Products used once, by a sum in their own block; and opposites used once, by an accumulator there.
fn fused(b: &Body) -> (HashSet<Val>, HashSet<Val>) {
    #[derive(Default)]
    struct Uses {
        count: HashMap<Val, usize>,
        defined_in: HashMap<Val, usize>,
        used_in: HashMap<Val, usize>,
        blocks: usize,
    }
    fn walk(b: &Body, stmts: &[Stmt], u: &mut Uses) {
        let here = u.blocks;
        for s in stmts {
            b.for_each_use(s, |v| {
                *u.count.entry(v).or_default() += 1;
                u.used_in.insert(v, here);
            });
            if let Stmt::Let(v) = s {
                u.defined_in.insert(*v, here);
            }
            for block in s.blocks() {
                u.blocks += 1;
                walk(b, block, u);
            }
        }
    }
    let mut u = Uses::default();
    walk(b, b.stmts(), &mut u);
    let (mut found, mut subtracted) = (HashSet::default(), HashSet::default());
    let single = |x: &Val| u.count[x] == 1 && u.defined_in.get(x) == u.used_in.get(x);
    for s in b.walk() {
        let candidates = match s {
            Stmt::Let(v) => match b.op(*v) {
                Op::Add(x, y) => vec![*x, *y],
                Op::Sub(x, y) => vec![*y, *x],
                _ => vec![],
            },
            Stmt::AccumulateChannel { value, .. } => vec![*value],
            Stmt::Accumulate(_, v) => match b.op(*v) {
                Op::Neg(x) if single(v) => {
                    subtracted.insert(*v);
                    vec![*x]
                }
                _ => vec![*v],
            },
            _ => vec![],
        };
        found.extend(candidates.into_iter().find(|x| matches!(b.op(*x), Op::Mul(..)) && single(x)));
    }
    (found, subtracted)
}
