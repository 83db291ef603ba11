//! The text of each instruction: the value that it writes, or a statement where it writes no register.

use super::names::OF_ENTRY;
use super::{Open, Printer};
use crate::ir::Function;
use crate::program::{
    Combine, Compare, Family, Field, Fused, Instruction as I, Integer, IntegerOp, Memory, Term, Unary, Vector,
};
use std::fmt::{Debug, Display};

impl Printer<'_> {
    pub(super) fn text(&self, i: &I) -> String {
        match i.family() {
            Family::Control => unreachable!("control flow is no text: {i:?}"),
            Family::Scalars => self.scalars(i),
            Family::Lanes => self.lanes(i),
            Family::Elements => elements(i),
            Family::Meshes => self.meshes(i),
            Family::Loads | Family::LoadsOfPairs => self.loads(i),
            Family::Stores | Family::StoresOfPairs => self.stores(i),
        }
    }

    fn scalars(&self, i: &I) -> String {
        match i {
            I::Copy { from, .. } => format!("{from}"),
            I::CopyInteger { from, .. } => format!("{from}"),
            I::CopyCondition { from, .. } => format!("{from}"),
            I::SetCondition { value, .. } => format!("{value}"),
            I::Unary { op: Unary::Neg, x, .. } => format!("-{x}"),
            I::Unary { op: Unary::Recip, x, .. } => format!("1.0 / {x}"),
            I::Unary { op: Unary::Sqrt, x, .. } => format!("{x}.sqrt()"),
            I::Unary { op: Unary::Abs, x, .. } => format!("{x}.abs()"),
            I::Unary { op: Unary::Nearest | Unary::NearestOfAny, x, .. } => format!("{x}.round_ties_even()"),
            // An instruction, not a call.
            I::Unary { op: Unary::Call(Function::Floor), x, .. } => format!("{x}.floor()"),
            I::Unary { op: Unary::Call(f), x, .. } => format!("rt::scalar::{}({x})", f.rust()),
            I::Combine { op, x, y, .. } => combined(*op, "rt::scalar", x, y),
            I::Select { condition, x, y, .. } => format!("if {condition} {{ {x} }} else {{ {y} }}"),
            I::ToReal { x, .. } => format!("{x} as f64"),
            I::ToInteger { x, .. } => format!("{x} as i64"),
            I::Integers { op: op @ (IntegerOp::And | IntegerOp::Or | IntegerOp::Xor), x, y, .. } => {
                format!("{x} {} {y}", bits(*op))
            }
            I::Integers { op: op @ (IntegerOp::Shl | IntegerOp::Shr), x, y, .. } => {
                format!("{x}.wrapping_{}({y} as u32)", word(op))
            }
            I::Integers { op, x, y, .. } => format!("{x}.wrapping_{}({y})", word(op)),
            I::Compare { op, x, y, .. } => format!("{x} {} {y}", compared(*op)),
            I::CompareIntegers { op, x, y, .. } => format!("{x} {} {y}", compared(*op)),
            I::IsFinite { x, .. } => format!("{x}.is_finite()"),
            I::Conditions { op, x, y, .. } => format!("{x} {} {y}", bits(*op)),
            I::Not { x, .. } => format!("!{x}"),
            I::Attribute { n, .. } => format!("a.reals[{n}]"),
            I::IntegerAttribute { n, .. } => format!("a.ints[{n}]"),
            I::InCluster { cluster, lane, width, component, .. } => {
                format!("({cluster} * {width} + {component}) * L::N as i64 + {lane}")
            }
            I::Size { dim, .. } => format!("a.dims[{dim}]"),
            I::Count { .. } => format!("{} as i64", self.open.n),
            other => unreachable!("no scalars: {other:?}"),
        }
    }

    fn lanes(&self, i: &I) -> String {
        match i {
            I::Splat { x, .. } => format!("L::splat({x})"),
            I::Fill { x, .. } => format!("L::splat({x:?})"),
            I::CopyLanes { from, .. } => format!("{from}"),
            I::UnaryLanes { op: Unary::Neg, x, .. } => format!("-{x}"),
            I::UnaryLanes { op: Unary::Recip, x, .. } => format!("{x}.recip()"),
            I::UnaryLanes { op: Unary::Sqrt, x, .. } => format!("{x}.sqrt()"),
            I::UnaryLanes { op: Unary::Abs, x, .. } => format!("{x}.abs()"),
            I::UnaryLanes { op: Unary::Nearest, x, .. } => format!("rt::nearest({x})"),
            I::UnaryLanes { op: Unary::NearestOfAny, x, .. } => format!("rt::nearest_of_any({x})"),
            I::UnaryLanes { op: Unary::Call(f), x, .. } => format!("special::{}({x})", f.rust()),
            I::CombineLanes { op, x, y, .. } => combined(*op, "special", x, y),
            I::FusedLanes { op: Fused::Add, x, y, z, .. } => format!("{x}.mul_add({y}, {z})"),
            I::FusedLanes { op: Fused::Subtracted, x, y, z, .. } => format!("(-{x}).mul_add({y}, {z})"),
            I::FusedLanes { op: Fused::Sub, x, y, z, .. } => format!("{x}.mul_add({y}, -{z})"),
            I::PairLanes { of, x, .. } => format!("special::{}({x})", of.name()),
            I::CompareLanes { op: Compare::Lt, x, y, .. } => format!("{x}.lt({y})"),
            I::CompareLanes { op: Compare::Le, x, y, .. } => format!("{x}.le({y})"),
            I::CompareLanes { op: Compare::Eq, x, y, .. } => format!("{x}.eq({y})"),
            I::CompareLanes { op: Compare::Ne, x, y, .. } => format!("L::not({x}.eq({y}))"),
            I::MaskOf { condition, .. } => format!("L::mask({condition})"),
            I::Masks { op: IntegerOp::And, x, y, .. } => format!("L::and({x}, {y})"),
            I::Masks { x, y, .. } => format!("L::or({x}, {y})"),
            I::NotMask { x, .. } => format!("L::not({x})"),
            I::SelectLanes { mask, x, y, .. } => format!("L::select({mask}, {x}, {y})"),
            I::Sum { x, minus, sum } => self.where_active(&added(sum, x, None, *minus), sum),
            I::SumOfProduct { x, y, minus, sum } => self.where_active(&added(sum, x, Some(y), *minus), sum),
            I::Best { x, at, best, place } => {
                let active = if self.open.is_whole { "L::mask(true)" } else { "active" };
                let larger = format!("let larger = L::and({active}, {best}.lt({x}));");
                format!("{{ {larger} (L::select(larger, {x}, {best}), L::select(larger, {at}, {place})) }}")
            }
            I::BestOf { lanes, places, best, place } => {
                format!("rt::best({best}, {place}, {lanes}, {places})")
            }
            I::Total { x, .. } => format!("{x}.sum()"),
            I::Spill { x, .. } => format!("rt::spill::<L>({x})"),
            I::SpillMask { x, .. } => {
                format!("rt::spill::<L>(L::select({x}, L::splat(1.0), L::splat(0.0)))")
            }
            I::Clear { .. } => "rt::Spilled::<f64>::default()".into(),
            I::Pick { room, at, .. } => format!("rt::Elem::to_f64({room}[{at:#}])"),
            I::AddTo { sum, at, x } => format!("{sum}[{at:#}] += {x};"),
            I::Filled { room, .. } => format!("rt::filled::<L>(&{room})"),
            other => unreachable!("no lanes: {other:?}"),
        }
    }

    fn where_active(&self, after: &str, before: impl Display) -> String {
        match self.open.is_whole && self.open.entry.is_none() {
            true => after.into(),
            false => format!("L::select(active{OF_ENTRY}, {after}, {before})"),
        }
    }

    fn meshes(&self, i: &I) -> String {
        let Open { k, n, .. } = &self.open;
        match i {
            I::Mesh { slot, system, .. } => format!("rt::mesh_of(ints{slot}, {system:#})"),
            I::WaveSystem { slot, wave, .. } => format!("rt::wave_system(ints{slot}, {wave:#}) as i64"),
            I::ShapeNumber { shape, n, .. } => format!("{shape}[{n}] as i64"),
            I::Splines { shape, axis, orders, at, .. } => {
                format!("rt::Splines::<{orders}>::new::<L::Rows>(&{shape}, {axis}, {at})")
            }
            I::Weight { table, derivative, node, .. } => format!("{table}.weight({derivative}, {node})"),
            I::Node { shape, tables, .. } => {
                let at = tables.map(|at| at.map_or("0".into(), |(t, node)| format!("{t}.index({node})")));
                format!("rt::mesh_node(&{shape}, [{}]) as i64", at.join(", "))
            }
            I::InPlanes { shape, table, node, .. } => {
                format!("rt::in_planes(&{shape}, {table}.index({node}))")
            }
            I::Reaches { shape, at, .. } => format!("rt::reaches(&{shape}, {at})"),
            I::Wave { field, shape, wave, .. } => match field {
                Field::Index(axis) => format!("rt::wave_index(&{shape}, {wave:#}, {axis})"),
                Field::Count => format!("rt::wave_count(&{shape}, {wave:#})"),
                Field::Modulus(slot) => format!("rt::wave_modulus(&{shape}, doubles{slot}, {wave:#})"),
            },
            I::LineIndex { axis, .. } => format!("line.index({axis})"),
            I::Weights { table, derivative, .. } => format!("{table}.weights::<L>({derivative}, {k})"),
            I::NodeLoad { slot, line, along, stride: s, component: c, .. } => {
                format!("rt::node_load::<E, L, _>(reals{slot}, ({line:#}, &{along}), ({k}, {n}), ({s}, {c}))")
            }
            I::NodeAdd { slot, line, along, stride: s, component: c, x } => {
                let nodes = format!("({line:#}, &{along}), ({k}, {n})");
                format!("rt::node_add::<L, _>(doubles{slot}, {nodes}, ({s}, {c}), {x});")
            }
            I::LineField { field, .. } => match field {
                Field::Index(2) => format!("line.indices::<L>({k})"),
                Field::Index(axis) => format!("L::splat(line.index({axis}))"),
                Field::Count => format!("line.counts::<L>({k})"),
                Field::Modulus(slot) => format!("line.moduli::<L>(doubles{slot}, {k}, {n})"),
            },
            other => unreachable!("no meshes: {other:?}"),
        }
    }

    /// A function of lanes that loads side by side, into all lanes or the first ones.
    fn load(&self, function: &str, at: &str) -> String {
        match self.open.is_whole {
            true => format!("L::{function}({at})"),
            false => format!("L::{function}_first({at}, {})", self.open.n),
        }
    }

    /// The first element of the open vector, in rows that begin at an integer.
    fn first(&self, first: &Option<Integer>) -> String {
        let k = &self.open.k;
        first.map_or(k.clone(), |first| format!("{first:#} + {k}"))
    }

    fn loads(&self, i: &I) -> String {
        let (wide, Open { k, n, is_whole, .. }) = (self.program.wide, &self.open);
        match i {
            I::LoadLanes { slot, first, stride: s, component: c, .. } => {
                let at = self.first(first);
                match (wide, s) {
                    (true, _) => format!("rt::row_load::<E, L>(reals{slot}, {at}, {n}, {s}, {c})"),
                    (false, 1) => self.load("load", &format!("reals{slot}.add({at})")),
                    (false, _) => format!(
                        "L::gather(reals{slot}.add({s} * ({at})), rt::consecutive::<L>({n}), {s}, {c})"
                    ),
                }
            }
            I::LoadChannels { slot, first, .. } if *is_whole => {
                format!("L::load(reals{slot}.add({}))", self.first(first))
            }
            I::LoadChannels { slot, first, .. } => {
                format!("L::load_some(reals{slot}.add({}), {n})", self.first(first))
            }
            I::LoadLanes3 { slot, .. } if wide => format!("rt::row_load3::<E, L>(reals{slot}, {k}, {n})"),
            I::LoadLanes3 { slot, .. } => self.load("load3", &format!("reals{slot}.add(3 * {k})")),
            I::LoadInts { slot, stride: s, component: c, .. } if wide => {
                format!("rt::row_ints::<L>(ints{slot}, {k}, {n}, {s}, {c})")
            }
            I::LoadInts { slot, stride: s, component: c, .. } => {
                format!("L::int_gather(ints{slot}.add({s} * {k}), rt::consecutive::<L>({n}), {s}, {c})")
            }
            I::LoadInts3 { slot, .. } => self.load("int3", &format!("ints{slot}.add(3 * {k})")),
            I::Gather { slot, index, stride, offset, .. } => {
                let f = if wide { "rt::elements::<E, L>" } else { "L::gather" };
                format!("{f}(reals{slot}, {index}, {stride:#}, {offset:#})")
            }
            I::Gather3 { slot, index, .. } => format!("L::gather3(reals{slot}, {index})"),
            I::GatherTable { slot, rows, width, columns, .. } => {
                format!("rt::gather_table::<L>(reals{slot}, {rows}, {width:#}, {columns})")
            }
            I::GatherInts { slot, index, stride, component, .. } => {
                format!("L::int_gather(ints{slot}, {index}, {stride}, {component})")
            }
            I::Iterations { .. } => format!("rt::iterations::<L>({k}, {n})"),
            I::LoadIndices { slot, .. } if wide => format!("rt::row_index::<L>(ints{slot}, {k}, {n})"),
            I::LoadIndices { slot, .. } => self.load("index", &format!("ints{slot}.add({k})")),
            I::Lookup { slot, index, .. } => format!("rt::lookup::<L>(ints{slot}, {index})"),
            I::Shifts { triples, packed, entries: Some(entries), .. } => {
                format!("rt::shifts_at::<L>(ints{triples}, ints{packed}, {entries})")
            }
            I::Shifts { triples, packed, .. } if *is_whole => {
                format!("rt::shifts::<L>(ints{triples}, ints{packed}, {k})")
            }
            I::Shifts { triples, packed, .. } => {
                format!("rt::shifts_first::<L>(ints{triples}, ints{packed}, {k}, {n})")
            }
            I::Places { first, .. } => format!("rt::places::<L>({k} - {first:#})"),
            I::PlacesIn { starts, rows, entries, .. } => {
                format!("rt::places_in::<L>(longs{starts}, {rows}, {entries})")
            }
            I::LoadInClusters { slot, width, component, .. } => {
                format!("L::load({})", in_cluster(*slot, *width, *component))
            }
            I::LoadIndicesInClusters { slot, width, component, .. } => {
                format!("L::index({}.cast::<i32>())", in_cluster(*slot, *width, *component))
            }
            other => unreachable!("not to lanes: {other:?}"),
        }
    }

    fn stores(&self, i: &I) -> String {
        let (wide, Open { k, n, .. }) = (self.program.wide, &self.open);
        match i {
            I::StoreLanes { slot, first, stride: s, component: c, x, adds } => {
                let (at, adds) = (self.first(first), added_to(*slot, *adds));
                let f = if wide { "rt::row_put::<E, L>" } else { "rt::put_lanes::<L>" };
                format!("{f}(reals{slot}, ({at}, {n}), ({s}, {c}), {x}, {adds});")
            }
            I::AddChannels { slot, x, y } if self.held.contains(slot) => {
                let held = format!("held{slot}");
                format!("{held} = {};", added(&held, x, y.as_ref(), false))
            }
            I::AddChannels { slot, x, y } => {
                let after = added("L::load(at)", x, y.as_ref(), false);
                format!("let at = reals{slot}.add({k});\n({after}).store(at);")
            }
            I::AddConsecutive { slot, first, stride: s, component: c, x } => {
                format!("rt::scatter_lanes::<L>(doubles{slot}, {}, {s}, {c}, {x}, {n});", self.first(first))
            }
            I::Scatter { slot, index, stride, offset, x } => {
                format!("rt::scatter::<L>(doubles{slot}, {index}, {stride:#}, {offset:#}, {x}, {n});")
            }
            I::ScatterTable { slot, rows, width, columns, x } => {
                format!("rt::scatter_table::<L>(doubles{slot}, {rows}, {width:#}, {columns}, {x}, {n});")
            }
            I::AddInClusters { slot, width, component, terms } => {
                let add = |before: String, Term { x, y, minus }: &Term| added(before, x, y.as_ref(), *minus);
                let after = self.where_active(&terms.iter().fold("before".into(), add), "before");
                let at = in_cluster(*slot, *width, *component);
                format!("let at = {at};\nlet before = L::load(at);\n{after}.store(at);")
            }
            other => unreachable!("not to arrays: {other:?}"),
        }
    }
}

fn elements(i: &I) -> String {
    match i {
        I::IsAsked { slots, .. } => {
            let asked = slots.iter().map(|slot| format!("!a.pointers[{slot}].is_null()"));
            asked.collect::<Vec<_>>().join(" || ")
        }
        I::LoadDouble { slot, at, .. } => format!("*doubles{slot}.add({at})"),
        I::Load { slot, at, .. } => format!("rt::get(reals{slot}, {at})"),
        I::LoadInt { slot, at, .. } => format!("f64::from(*ints{slot}.add({at}))"),
        I::Entry { slot, long: true, at, .. } => format!("*longs{slot}.add({at})"),
        I::Entry { slot, at, .. } => format!("i64::from(*ints{slot}.add({at}))"),
        I::Shift { triples, packed, entry, component, .. } => {
            format!("f64::from(rt::shift(ints{triples}, ints{packed}, {entry:#}, {component}))")
        }
        I::Put { slot, at, x, adds } => {
            format!("rt::put(reals{slot}, {at}, {x}, {});", added_to(*slot, *adds))
        }
        I::Add { slot, at, x } => format!("rt::add(doubles{slot}, {at}, {x});"),
        I::ClearChannels { slot, dim } => {
            format!("rt::clear(reals{slot}, (a.dims[{dim}] as usize).next_multiple_of(L::N));")
        }
        I::Partial { n, x } => format!("*partials.add({n}) += {x};"),
        I::SharedLoad { slot, at, .. } => format!("rt::load(reals{slot}.add({at}))"),
        I::SharedStore { slot, at, x } => format!("rt::store(reals{slot}.add({at}), {x});"),
        I::SharedLoadInt { slot, memory, shared: true, at, .. } => {
            format!("rt::load_int({}.add({at}))", shared(*memory, *slot))
        }
        I::SharedLoadInt { slot, memory, at, .. } => {
            format!("i64::from(*{}.add({at}))", shared(*memory, *slot))
        }
        I::SharedStoreInt { slot, memory, at, x, param } => {
            format!("rt::store_int(a, {}.add({at}), {x}, {param});", shared(*memory, *slot))
        }
        I::Atomic { op, slot, memory, at, x, param, .. } => {
            format!("rt::atomic_{}(a, {}.add({at}), {x}, {param})", word(op), shared(*memory, *slot))
        }
        I::Raise { reason, param } => format!("rt::raise(a, rt::Reason::{reason:?}, {param});"),
        other => unreachable!("no elements: {other:?}"),
    }
}

/// The pointer to numbers that rows share.
fn shared(memory: Memory, slot: usize) -> String {
    match memory {
        Memory::Real => format!("reals{slot}"),
        Memory::Int32 => format!("ints{slot}"),
        Memory::Int64 => format!("longs{slot}"),
    }
}

/// The word of an operation in names of functions.
fn word(op: impl Debug) -> String {
    format!("{op:?}").to_lowercase()
}

/// A component of the open entry's cluster.
fn in_cluster(slot: usize, width: usize, component: usize) -> String {
    format!("reals{slot}.add((cluster{OF_ENTRY} * {width} + {component}) * L::N)")
}

/// A sum and a term, or a fused product.
fn added(before: impl Display, x: &Vector, y: Option<&Vector>, minus: bool) -> String {
    match (y, minus) {
        (Some(y), true) => format!("(-{x}).mul_add({y}, {before})"),
        (Some(y), false) => format!("({x}).mul_add({y}, {before})"),
        (None, true) => format!("{before} - {x}"),
        (None, false) => format!("{before} + {x}"),
    }
}

/// Whether a slot is added to.
fn added_to(slot: usize, adds: bool) -> String {
    if adds { "true".into() } else { format!("a.adds({slot})") }
}

fn combined(op: Combine, functions: &str, x: impl Display, y: impl Display) -> String {
    match op {
        Combine::Add => format!("{x} + {y}"),
        Combine::Sub => format!("{x} - {y}"),
        Combine::Mul => format!("{x} * {y}"),
        Combine::Div => format!("{x} / {y}"),
        Combine::Pow => format!("{functions}::pow({x}, {y})"),
        Combine::Atan2 => format!("{functions}::atan2({x}, {y})"),
    }
}

fn compared(op: Compare) -> &'static str {
    match op {
        Compare::Lt => "<",
        Compare::Le => "<=",
        Compare::Eq => "==",
        Compare::Ne => "!=",
    }
}

fn bits(op: IntegerOp) -> &'static str {
    match op {
        IntegerOp::And => "&",
        IntegerOp::Or => "|",
        IntegerOp::Xor => "^",
        other => unreachable!("no operation on bits: {other:?}"),
    }
}
