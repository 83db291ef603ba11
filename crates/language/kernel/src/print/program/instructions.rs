//! The statement of each instruction.

use super::operands::{Adds, At, First, Operand, Pointer, does, set};
use super::{Open, Printer};
use crate::imperative::Atomic;
use crate::ir::Function;
use crate::program::{
    Combine, Compare, Family, Field, Fused, Instruction as I, Integer, IntegerOp, Table, Term, Unary, Vector,
};

impl Printer<'_> {
    pub(super) fn instruction(&mut self, i: &I) {
        match i.family() {
            Family::Control => self.control(i),
            Family::Scalars => self.scalars(i),
            Family::Lanes => self.lanes(i),
            Family::Elements => self.elements(i),
            Family::Meshes => self.meshes(i),
            Family::Loads | Family::LoadsOfPairs => self.loads(i),
            Family::Stores | Family::StoresOfPairs => self.stores(i),
        }
    }

    fn scalars(&mut self, i: &I) {
        let p = self;
        match i {
            I::Copy { from, to } => set!(p, to, "{}", from),
            I::CopyInteger { from, to } => set!(p, to, "{}", from),
            I::CopyCondition { from, to } => set!(p, to, "{}", from),
            I::SetCondition { value, to } => set!(p, to, "{}", if *value { "true" } else { "false" }),
            I::Unary { op, x, to } => match op {
                Unary::Neg => set!(p, to, "-{}", x),
                Unary::Recip => set!(p, to, "1.0 / {}", x),
                Unary::Sqrt => set!(p, to, "{}.sqrt()", x),
                Unary::Abs => set!(p, to, "{}.abs()", x),
                Unary::Nearest | Unary::NearestOfAny => set!(p, to, "{}.round_ties_even()", x),
                // An instruction, not a call.
                Unary::Call(Function::Floor) => set!(p, to, "{}.floor()", x),
                Unary::Call(f) => set!(p, to, "rt::scalar::{}({})", f.rust(), x),
            },
            I::Combine { op, x, y, to } => {
                let (x, y) = (x.text(p), y.text(p));
                p.set(to, &combined(*op, "rt::scalar", &x, &y));
            }
            I::Select { condition, x, y, to } => {
                set!(p, to, "if {} {{ {} }} else {{ {} }}", condition, x, y);
            }
            I::ToReal { x, to } => set!(p, to, "{} as f64", x),
            I::ToInteger { x, to } => set!(p, to, "{} as i64", x),
            I::Integers { op, x, y, to } => match op {
                IntegerOp::And | IntegerOp::Or | IntegerOp::Xor => set!(p, to, "{} {} {}", x, bits(*op), y),
                IntegerOp::Shl => set!(p, to, "{}.wrapping_shl({} as u32)", x, y),
                IntegerOp::Shr => set!(p, to, "{}.wrapping_shr({} as u32)", x, y),
                IntegerOp::Add => set!(p, to, "{}.wrapping_add({})", x, y),
                IntegerOp::Sub => set!(p, to, "{}.wrapping_sub({})", x, y),
                IntegerOp::Mul => set!(p, to, "{}.wrapping_mul({})", x, y),
                IntegerOp::Div => set!(p, to, "{}.wrapping_div({})", x, y),
                IntegerOp::Rem => set!(p, to, "{}.wrapping_rem({})", x, y),
            },
            I::Compare { op, x, y, to } => set!(p, to, "{} {} {}", x, compared(*op), y),
            I::CompareIntegers { op, x, y, to } => set!(p, to, "{} {} {}", x, compared(*op), y),
            I::IsFinite { x, to } => set!(p, to, "{}.is_finite()", x),
            I::Conditions { op, x, y, to } => set!(p, to, "{} {} {}", x, bits(*op), y),
            I::Not { x, to } => set!(p, to, "!{}", x),
            I::Attribute { n, to } => set!(p, to, "a.reals[{}]", n),
            I::IntegerAttribute { n, to } => set!(p, to, "a.ints[{}]", n),
            I::InCluster { cluster, lane, width, component, to } => {
                set!(p, to, "({} * {} + {}) * L::N as i64 + {}", cluster, width, component, lane);
            }
            I::Size { dim, to } => set!(p, to, "a.dims[{}]", dim),
            I::Count { to } => set!(p, to, "{} as i64", p.open.n),
            other => unreachable!("no scalars: {other:?}"),
        }
    }

    fn lanes(&mut self, i: &I) {
        let p = self;
        match i {
            I::Splat { x, to } => set!(p, to, "L::splat({})", x),
            I::Fill { x, to } => set!(p, to, "L::splat({})", format!("{x:?}")),
            I::CopyLanes { from, to } => set!(p, to, "{}", from),
            I::UnaryLanes { op, x, to } => match op {
                Unary::Neg => set!(p, to, "-{}", x),
                Unary::Recip => set!(p, to, "{}.recip()", x),
                Unary::Sqrt => set!(p, to, "{}.sqrt()", x),
                Unary::Abs => set!(p, to, "{}.abs()", x),
                Unary::Nearest => set!(p, to, "rt::nearest({})", x),
                Unary::NearestOfAny => set!(p, to, "rt::nearest_of_any({})", x),
                Unary::Call(f) => set!(p, to, "special::{}({})", f.rust(), x),
            },
            I::CombineLanes { op, x, y, to } => {
                let (x, y) = (x.text(p), y.text(p));
                p.set(to, &combined(*op, "special", &x, &y));
            }
            I::FusedLanes { op, x, y, z, to } => match op {
                Fused::Add => set!(p, to, "{}.mul_add({}, {})", x, y, z),
                Fused::Subtracted => set!(p, to, "(-{}).mul_add({}, {})", x, y, z),
                Fused::Sub => set!(p, to, "{}.mul_add({}, -{})", x, y, z),
            },
            I::PairLanes { pair, x, to } => {
                let x = x.text(p);
                p.set_all(to, ['(', ')'], &format!("special::{}({x})", pair.name()));
            }
            I::CompareLanes { op, x, y, to } => match op {
                Compare::Lt => set!(p, to, "{}.lt({})", x, y),
                Compare::Le => set!(p, to, "{}.le({})", x, y),
                Compare::Eq => set!(p, to, "{}.eq({})", x, y),
                Compare::Ne => set!(p, to, "L::not({}.eq({}))", x, y),
            },
            I::MaskOf { condition, to } => set!(p, to, "L::mask({})", condition),
            I::Masks { op, x, y, to } => {
                set!(p, to, "L::{}({}, {})", if *op == IntegerOp::And { "and" } else { "or" }, x, y);
            }
            I::NotMask { x, to } => set!(p, to, "L::not({})", x),
            I::SelectLanes { mask, x, y, to } => set!(p, to, "L::select({}, {}, {})", mask, x, y),
            I::Sum { x, minus, sum } => p.add_to(sum, x, None, *minus),
            I::SumOfProduct { x, y, minus, sum } => p.add_to(sum, x, Some(y), *minus),
            I::Best { x, at, best, place } => {
                let (x, at, is_larger) =
                    (x.text(p), at.text(p), format!("{}.lt({})", best.text(p), x.text(p)));
                let is_larger =
                    if p.open.is_whole { is_larger } else { format!("L::and(active, {is_larger})") };
                does!(p, "let larger = {};", is_larger);
                set!(p, best, "L::select(larger, {}, {})", x, best);
                set!(p, place, "L::select(larger, {}, {})", at, place);
            }
            I::BestOf { lanes, places, best, place } => {
                let x = format!(
                    "rt::best({}, {}, {}, {})",
                    best.text(p),
                    place.text(p),
                    lanes.text(p),
                    places.text(p)
                );
                p.set_all(&[*best, *place], ['(', ')'], &x);
            }
            I::Total { x, to } => set!(p, to, "{}.sum()", x),
            I::Spill { x, to } => set!(p, to, "rt::spill::<L>({})", x),
            I::SpillMask { x, to } => {
                set!(p, to, "rt::spill::<L>(L::select({}, L::splat(1.0), L::splat(0.0)))", x);
            }
            I::Clear { room } => set!(p, room, "rt::Spilled::<f64>::default()"),
            I::Pick { room, at, to } => set!(p, to, "rt::Elem::to_f64({}[{}])", room, At(at)),
            I::AddTo { room, at, x } => {
                let (name, _) = p.written(*room);
                does!(p, "{}[{}] += {};", name, At(at), x);
            }
            I::Filled { room, to } => set!(p, to, "rt::filled::<L>(&{})", room),
            other => unreachable!("no lanes: {other:?}"),
        }
    }

    /// A sum with one more term, in the lanes that have an iteration.
    fn add_to(&mut self, sum: &Vector, x: &Vector, y: Option<&Vector>, minus: bool) {
        let before = sum.text(self);
        let after = self.added(&before, x, y, minus);
        self.set(sum, &self.where_active(&after, &before));
    }

    fn added(&mut self, before: &str, x: &Vector, y: Option<&Vector>, minus: bool) -> String {
        let x = x.text(self);
        match y {
            Some(y) => format!("({}{x}).mul_add({}, {before})", if minus { "-" } else { "" }, y.text(self)),
            None => format!("{before} {} {x}", if minus { '-' } else { '+' }),
        }
    }

    fn where_active(&self, after: &str, before: &str) -> String {
        if self.open.is_whole && self.open.entry.is_none() {
            return after.into();
        }
        format!("L::select(active{}, {after}, {before})", self.suffix())
    }

    fn elements(&mut self, i: &I) {
        let p = self;
        match i {
            I::IsAsked { slots, to } => {
                let asked: Vec<String> =
                    slots.iter().map(|slot| format!("!a.pointers[{slot}].is_null()")).collect();
                p.set(to, &asked.join(" || "));
            }
            I::LoadDouble { slot, at, to } => set!(p, to, "*{}.add({})", p.doubles(slot), at),
            I::Load { slot, at, to } => set!(p, to, "rt::get({}, {})", p.reals(slot), at),
            I::LoadInt { slot, at, to } => set!(p, to, "f64::from(*{}.add({}))", p.ints(slot), at),
            I::Entry { slot, long, at, to } => {
                let of = if *long { Pointer::Longs } else { Pointer::Ints };
                set!(p, to, "i64::from(*{}.add({}))", p.pointer(*slot, of), at);
            }
            I::Shift { triples, packed, entry, component, to } => {
                let [triples, packed] = [triples, packed].map(|slot| p.ints(slot));
                set!(p, to, "f64::from(rt::shift({}, {}, {}, {}))", triples, packed, At(entry), component);
            }
            I::Put { slot, at, x, adds } => {
                does!(p, "rt::put({}, {}, {}, {});", p.reals(slot), at, x, Adds(*slot, *adds));
            }
            I::Add { slot, at, x } => does!(p, "rt::add({}, {}, {});", p.doubles(slot), at, x),
            I::ClearChannels { slot, dim } => {
                does!(p, "rt::clear({}, (a.dims[{}] as usize).next_multiple_of(L::N));", p.reals(slot), dim);
            }
            I::Partial { n, x } => does!(p, "*partials.add({}) += {};", n, x),
            I::SharedLoad { slot, at, to } => set!(p, to, "rt::load({}.add({}))", p.reals(slot), at),
            I::SharedStore { slot, at, x } => does!(p, "rt::store({}.add({}), {});", p.reals(slot), at, x),
            I::SharedLoadInt { slot, memory, shared, at, to } => {
                let array = p.memory(slot, *memory);
                match shared {
                    true => set!(p, to, "rt::load_int({}.add({}))", array, at),
                    false => set!(p, to, "i64::from(*{}.add({}))", array, at),
                }
            }
            I::SharedStoreInt { slot, memory, at, x, param } => {
                does!(p, "rt::store_int(a, {}.add({}), {}, {});", p.memory(slot, *memory), at, x, param);
            }
            I::Atomic { op, slot, memory, at, x, param, to } => {
                let op = match op {
                    Atomic::Add => "add",
                    Atomic::Max => "max",
                    Atomic::Min => "min",
                };
                let array = p.memory(slot, *memory);
                set!(p, to, "rt::atomic_{}(a, {}.add({}), {}, {})", op, array, at, x, param);
            }
            I::Raise { reason, param } => {
                does!(p, "rt::raise(a, rt::Reason::{}, {});", format!("{reason:?}"), param);
            }
            other => unreachable!("no elements: {other:?}"),
        }
    }

    fn meshes(&mut self, i: &I) {
        let p = self;
        match i {
            I::Mesh { slot, system, to } => set!(p, to, "rt::mesh_of({}, {})", p.ints(slot), At(system)),
            I::WaveSystem { slot, wave, to } => {
                set!(p, to, "rt::wave_system({}, {}) as i64", p.ints(slot), At(wave));
            }
            I::ShapeNumber { shape, n, to } => set!(p, to, "{}[{}] as i64", shape, n),
            I::Splines { shape, axis, orders, at, to } => {
                p.orders.insert(to.0, *orders);
                set!(p, to, "rt::Splines::<{}>::new::<L::Rows>(&{}, {}, {})", orders, shape, axis, at);
            }
            I::Weight { table, derivative, node, to } => {
                set!(p, to, "{}.weight({}, {})", table, derivative, node);
            }
            I::Node { shape, tables, to } => {
                let at = tables.map(|at| match at {
                    Some((table, node)) => format!("{}.index({})", table.text(p), node.text(p)),
                    None => "0".into(),
                });
                set!(p, to, "rt::mesh_node(&{}, [{}]) as i64", shape, at.join(", "));
            }
            I::InPlanes { shape, table, node, to } => {
                set!(p, to, "rt::in_planes(&{}, {}.index({}))", shape, table, node);
            }
            I::Reaches { shape, at, to } => set!(p, to, "rt::reaches(&{}, {})", shape, at),
            I::Wave { field, shape, wave, to } => match field {
                Field::Index(axis) => set!(p, to, "rt::wave_index(&{}, {}, {})", shape, At(wave), axis),
                Field::Count => set!(p, to, "rt::wave_count(&{}, {})", shape, At(wave)),
                Field::Modulus(slot) => {
                    set!(p, to, "rt::wave_modulus(&{}, {}, {})", shape, p.doubles(slot), At(wave));
                }
            },
            I::LineIndex { axis, to } => set!(p, to, "line.index({})", axis),
            I::Weights { table, derivative, to } => {
                set!(p, to, "{}.weights::<L>({}, {})", table, derivative, p.open.k.clone());
            }
            I::NodeLoad { slot, line, along, stride, component, to } => {
                let (array, nodes) = (p.reals(slot), p.nodes(line, along, *stride, *component));
                set!(p, to, "rt::node_load::<E, L, {}>({}, {})", p.orders[&along.0], array, nodes);
            }
            I::NodeAdd { slot, line, along, stride, component, x } => {
                let (array, nodes) = (p.doubles(slot), p.nodes(line, along, *stride, *component));
                does!(p, "rt::node_add::<L, {}>({}, {}, {});", p.orders[&along.0], array, nodes, x);
            }
            I::LineField { field, to } => {
                let k = p.open.k.clone();
                match field {
                    Field::Index(2) => set!(p, to, "line.indices::<L>({})", k),
                    Field::Index(axis) => set!(p, to, "L::splat(line.index({}))", axis),
                    Field::Count => set!(p, to, "line.counts::<L>({})", k),
                    Field::Modulus(slot) => {
                        set!(p, to, "line.moduli::<L>({}, {}, {})", p.doubles(slot), k, p.open.n);
                    }
                }
            }
            other => unreachable!("no meshes: {other:?}"),
        }
    }

    /// Components of the open nodes of a line.
    fn nodes(&mut self, line: &Integer, along: &Table, stride: usize, component: usize) -> String {
        let (line, along) = (At(line).text(self), along.text(self));
        let Open { k, n, .. } = &self.open;
        format!("({line}, &{along}), ({k}, {n}), ({stride}, {component})")
    }

    /// A function of lanes that loads side by side, into all lanes or the first ones.
    fn load(&self, function: &str, at: &str) -> String {
        if self.open.is_whole {
            return format!("L::{function}({at})");
        }
        format!("L::{function}_first({at}, {})", self.open.n)
    }

    fn loads(&mut self, i: &I) {
        let p = self;
        let (wide, k, n) = (p.program.wide, p.open.k.clone(), p.open.n);
        match i {
            I::LoadLanes { slot, first, stride, component, to } => {
                let (array, at) = (p.reals(slot), First(first).text(p));
                match (wide, stride) {
                    (true, _) => {
                        set!(
                            p,
                            to,
                            "rt::row_load::<E, L>({}, {}, {}, {}, {})",
                            array,
                            at,
                            n,
                            stride,
                            component
                        );
                    }
                    (false, 1) => p.set(to, &p.load("load", &format!("{array}.add({at})"))),
                    _ => set!(
                        p,
                        to,
                        "L::gather({}.add({} * ({})), rt::consecutive::<L>({}), {1}, {})",
                        array,
                        stride,
                        at,
                        n,
                        component
                    ),
                }
            }
            I::LoadChannels { slot, first, to } => {
                let at = format!("{}.add({})", p.reals(slot), First(first).text(p));
                match p.open.is_whole {
                    true => set!(p, to, "L::load({})", at),
                    false => set!(p, to, "L::load_some({}, {})", at, n),
                }
            }
            I::LoadLanes3 { slot, to } => {
                let array = p.reals(slot);
                let x = match wide {
                    true => format!("rt::row_load3::<E, L>({array}, {k}, {n})"),
                    false => p.load("load3", &format!("{array}.add(3 * {k})")),
                };
                p.set_all(to, ['[', ']'], &x);
            }
            I::LoadInts { slot, stride, component, to } => {
                let array = p.ints(slot);
                match wide {
                    true => {
                        set!(p, to, "rt::row_ints::<L>({}, {}, {}, {}, {})", array, k, n, stride, component)
                    }
                    false => set!(
                        p,
                        to,
                        "L::int_gather({}.add({} * {}), rt::consecutive::<L>({}), {1}, {})",
                        array,
                        stride,
                        k,
                        n,
                        component
                    ),
                }
            }
            I::LoadInts3 { slot, to } => {
                let at = format!("{}.add(3 * {k})", p.ints(slot));
                p.set_all(to, ['[', ']'], &p.load("int3", &at));
            }
            I::Gather { slot, index, stride, offset, to } => {
                let f = if wide { "rt::elements::<E, L>" } else { "L::gather" };
                set!(p, to, "{}({}, {}, {}, {})", f, p.reals(slot), index, At(stride), At(offset));
            }
            I::Gather3 { slot, index, to } => {
                let x = format!("L::gather3({}, {})", p.reals(slot), index.text(p));
                p.set_all(to, ['[', ']'], &x);
            }
            I::GatherTable { slot, rows, width, columns, to } => {
                let array = p.reals(slot);
                set!(p, to, "rt::gather_table::<L>({}, {}, {}, {})", array, rows, At(width), columns);
            }
            I::GatherInts { slot, index, stride, component, to } => {
                set!(p, to, "L::int_gather({}, {}, {}, {})", p.ints(slot), index, stride, component);
            }
            I::LoadIndices { slot, to } => {
                let array = p.ints(slot);
                match wide {
                    true => set!(p, to, "rt::row_index::<L>({}, {}, {})", array, k, n),
                    false => p.set(to, &p.load("index", &format!("{array}.add({k})"))),
                }
            }
            I::Lookup { slot, index, to } => set!(p, to, "rt::lookup::<L>({}, {})", p.ints(slot), index),
            I::Shifts { triples, packed, entries, to } => {
                let [triples, packed] = [triples, packed].map(|slot| p.ints(slot));
                let x = match (entries, p.open.is_whole) {
                    (Some(i), _) => format!("rt::shifts_at::<L>({triples}, {packed}, {})", i.text(p)),
                    (None, true) => format!("rt::shifts::<L>({triples}, {packed}, {k})"),
                    (None, false) => format!("rt::shifts_first::<L>({triples}, {packed}, {k}, {n})"),
                };
                p.set_all(to, ['[', ']'], &x);
            }
            I::Places { first, to } => set!(p, to, "rt::places::<L>({} - {})", k, At(first)),
            I::PlacesIn { starts, rows, entries, to } => {
                set!(p, to, "rt::places_in::<L>({}, {}, {})", p.longs(starts), rows, entries);
            }
            I::LoadInClusters { slot, width, component, to } => {
                set!(p, to, "L::load({})", p.in_cluster(slot, width, component));
            }
            I::LoadIndicesInClusters { slot, width, component, to } => {
                set!(p, to, "L::index({}.cast::<i32>())", p.in_cluster(slot, width, component));
            }
            other => unreachable!("not to lanes: {other:?}"),
        }
    }

    fn stores(&mut self, i: &I) {
        let p = self;
        let (k, n) = (p.open.k.clone(), p.open.n);
        match i {
            I::StoreLanes { slot, first, stride, component, x, adds } => {
                let (array, at, adds) = (p.reals(slot), First(first), Adds(*slot, *adds));
                match p.program.wide {
                    true => does!(
                        p,
                        "rt::row_put::<E, L>({}, ({}, {}), ({}, {}), {}, {});",
                        array,
                        at,
                        n,
                        stride,
                        component,
                        x,
                        adds
                    ),
                    false => does!(p, "rt::put_lanes::<L>({}, {}, {}, {}, {});", array, at, x, n, adds),
                }
            }
            I::AddChannels { slot, x, y } if p.held.contains(slot) => {
                let held = format!("held{slot}");
                let after = p.added(&held, x, y.as_ref(), false);
                does!(p, "{} = {};", held, after);
            }
            I::AddChannels { slot, x, y } => {
                does!(p, "let at = {}.add({});", p.reals(slot), k);
                let after = p.added("L::load(at)", x, y.as_ref(), false);
                does!(p, "({}).store(at);", after);
            }
            I::AddEntries { slot, stride, component, x } => {
                let array = p.reals(slot);
                does!(p, "rt::add_entries::<L>({}, {}, {}, {}, {}, {});", array, k, stride, component, x, n);
            }
            I::AddConsecutive { slot, first, stride, component, x } => {
                let (array, at) = (p.doubles(slot), First(first));
                does!(
                    p,
                    "rt::scatter_lanes::<L>({}, {}, {}, {}, {}, {});",
                    array,
                    at,
                    stride,
                    component,
                    x,
                    n
                );
            }
            I::Scatter { slot, index, stride, offset, x } => {
                let (array, stride, offset) = (p.doubles(slot), At(stride), At(offset));
                does!(p, "rt::scatter::<L>({}, {}, {}, {}, {}, {});", array, index, stride, offset, x, n);
            }
            I::ScatterTable { slot, rows, width, columns, x } => {
                let (array, width) = (p.doubles(slot), At(width));
                does!(
                    p,
                    "rt::scatter_table::<L>({}, {}, {}, {}, {}, {});",
                    array,
                    rows,
                    width,
                    columns,
                    x,
                    n
                );
            }
            I::AddInClusters { slot, width, component, terms } => {
                does!(p, "let at = {};\nlet before = L::load(at);", p.in_cluster(slot, width, component));
                let add =
                    |before: String, term: &Term| p.added(&before, &term.x, term.y.as_ref(), term.minus);
                let after = terms.iter().fold("before".to_string(), add);
                does!(p, "{}.store(at);", p.where_active(&after, "before"));
            }
            other => unreachable!("not to arrays: {other:?}"),
        }
    }
}

fn combined(op: Combine, functions: &str, x: &str, y: &str) -> String {
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
