//! An interpreter's world as arguments of an op.

use crate::by_chance::ByChance;
use crate::by_chance::geometry::{ATOMS, List, POINTS, WAVES, rows};
use crate::by_chance::interpreter::World;
use madelung_core::array::{Array, DType};
use madelung_core::op::{Arg, ArgKind, Op};
use madelung_core::runtime::{Kernel, ParamKind};
use madelung_core::structure::Batch;
use madelung_core::structure::Map;
use madelung_core::structure::pairs::{Kind, PairList};
use madelung_kernel::ir::Role;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Real arrays by argument.
pub(crate) type Arrays = BTreeMap<usize, Vec<f64>>;

/// How a list is declared that holds each pair from both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Full {
    /// As such: the forms for full lists.
    Full,
    /// As a list that promises nothing: the forms that need its transpose.
    Directed,
}

/// An op of one kernel, and arguments for it.
pub(crate) struct Given<'w> {
    pub(crate) op: Arc<Op>,
    world: &'w World,
    dims: BTreeMap<String, usize>,
    /// The kernel's parameter of each argument.
    params: Vec<usize>,
    ints: BTreeMap<usize, Array>,
    batches: BTreeMap<usize, Arc<Batch<'static>>>,
    lists: BTreeMap<usize, Arc<PairList<'static>>>,
    maps: BTreeMap<usize, Arc<Map<'static>>>,
}

fn width(kernel: &Kernel, kind: ParamKind) -> Option<&'static str> {
    match kind {
        ParamKind::Real { width, .. } | ParamKind::Output { width, .. } => width.map(|w| kernel.dims[w]),
        _ => None,
    }
}

/// The op of a kernel alone: each parameter is an argument or output of the same name.
fn op_of(kernel: &'static Kernel) -> Arc<Op> {
    let mut op = Op::new("random", "kernel", 1);
    for p in kernel.params {
        let dim = |d: usize| kernel.dims[d];
        let shape = |d: Option<usize>| -> Vec<&str> {
            let rows = d.map(dim).into_iter().chain(width(kernel, p.kind));
            rows.chain(p.axes.iter().copied()).collect()
        };
        op = match p.kind {
            ParamKind::Real { dim, zero: true, .. } => op.zero(p.name, &shape(dim)),
            ParamKind::Real { dim, .. } => op.real(p.name, &shape(dim)),
            ParamKind::Output { dim, .. } => op.output(p.name, &shape(dim)),
            ParamKind::Ints { dim, .. } => op.ints(p.name, &shape(Some(dim))),
            ParamKind::Scalar => op.scalar(p.name),
            ParamKind::IntScalar => op.int_scalar(p.name),
            ParamKind::Batch { rows, systems } => op.batch(p.name, dim(rows), dim(systems)),
            ParamKind::Pairs { rows, columns, entries: Some(e) } => {
                op.pairs_between(p.name, dim(rows), dim(columns), dim(e))
            }
            ParamKind::Pairs { rows, .. } => op.pairs(p.name, dim(rows)),
            ParamKind::Map { rows, into } => op.map(p.name, dim(rows), dim(into)),
            other => panic!("{other:?} is not generated"),
        };
    }
    op.step(kernel).build().expect("the op fits its kernel")
}

fn pair_list(list: &List, columns: usize, kind: Kind) -> PairList<'static> {
    let mut ptr = vec![0i64];
    let (mut others, mut shifts) = (vec![], vec![]);
    for row in list {
        others.extend(row.iter().map(|(j, _)| *j as i32));
        shifts.extend(row.iter().map(|(_, s)| *s));
        ptr.push(others.len() as i64);
    }
    PairList::from_csr(ptr, others, shifts, columns, kind).expect("a list")
}

impl<'w> Given<'w> {
    pub(crate) fn new(kernel: &'static Kernel, of: &'w ByChance, full: Full) -> Self {
        let world = &of.world;
        let op = op_of(kernel);
        let dims = kernel.dims.iter().map(|d| (*d).to_string()).zip(world.dims.iter().copied()).collect();
        let param = |name: &str| kernel.params.iter().position(|p| p.name == name);
        let params = op.args.iter().map(|a| param(&a.name).expect("arguments are parameters")).collect();
        let mut given = Self {
            op,
            world,
            dims,
            params,
            ints: BTreeMap::new(),
            batches: BTreeMap::new(),
            lists: BTreeMap::new(),
            maps: BTreeMap::new(),
        };
        for (n, p) in given.params.iter().enumerate() {
            match kernel.params[*p].kind {
                ParamKind::Ints { dim, components } => {
                    let numbers: Vec<f64> = world.ints[p].iter().map(|x| f64::from(*x)).collect();
                    let components = (components > 1).then_some(components);
                    let shape: Vec<usize> = [world.dims[dim]].into_iter().chain(components).collect();
                    let array = Array::from_f64(DType::F64, &shape, &numbers).expect("its shape");
                    given.ints.insert(n, array.cast(DType::I32).unwrap());
                }
                ParamKind::Batch { .. } => {
                    let idx = world.batches[p].iter().map(|s| *s as i32).collect::<Vec<_>>();
                    given.batches.insert(n, Arc::new(Batch::from_idx(idx, Some(2)).expect("a batch")));
                }
                ParamKind::Pairs { columns, .. } => {
                    let kind = match (of.source.kernel.params[*p].name.as_str(), full) {
                        ("half", _) => Kind::Half,
                        ("near", _) | (_, Full::Directed) => Kind::Directed,
                        _ => Kind::Full,
                    };
                    let list = pair_list(&world.pairs[p], world.dims[columns], kind);
                    given.lists.insert(n, Arc::new(list));
                }
                ParamKind::Map { into, .. } => {
                    let of: Vec<i32> = world.maps[p].iter().map(|x| *x as i32).collect();
                    given.maps.insert(n, Arc::new(Map::new(of, world.dims[into]).expect("a map")));
                }
                _ => {}
            }
        }
        given
    }

    /// The real arrays of all arguments: values, a direction, …
    pub(crate) fn arrays(&self, role: Role) -> Arrays {
        let of = |(n, p): (usize, &usize)| Some((n, self.world.arrays.get(&(*p, role))?.clone()));
        self.params.iter().enumerate().filter_map(of).collect()
    }

    /// How many terms a row adds up at the most: those of each `+=` and `-=` of the kernel, in all loops around it.
    pub(crate) fn terms(&self, source: &str) -> usize {
        let row = self.world.pairs.values().flatten().map(Vec::len).max().unwrap_or(1);
        let members = ATOMS.iter().chain(&WAVES).chain(&POINTS).copied().max().unwrap_or(1);
        let channels = rows("Feature");
        let (mut open, mut head, mut terms) = (vec![1], String::new(), 0);
        for token in source.replace('{', " { ").replace('}', " } ").split_whitespace() {
            match token {
                "{" => {
                    let times = match head.split_once("for ").map(|(_, head)| head) {
                        Some(head) if head.contains(".row(") => row,
                        Some(head) if head.contains(".members(") => members,
                        Some(head) if head.contains("Feature") => channels,
                        Some(_) => 4,
                        None => 1,
                    };
                    open.push(open[open.len() - 1] * times);
                    head.clear();
                }
                "}" => {
                    open.pop();
                    head.clear();
                }
                token => {
                    if matches!(token, "+=" | "-=") {
                        terms += open[open.len() - 1];
                    }
                    head = if token.ends_with(';') { String::new() } else { head + token + " " };
                }
            }
        }
        terms
    }

    /// The shape of an argument, or of an output behind them.
    pub(crate) fn shape(&self, buffer: usize) -> Vec<usize> {
        let sizes = match buffer.checked_sub(self.op.args.len()) {
            Some(output) => &self.op.outputs[output].shape,
            None => match &self.op.args[buffer].kind {
                ArgKind::Real { shape, .. } => shape,
                kind => panic!("{kind:?} has no derivative"),
            },
        };
        let dims: Vec<(&str, usize)> = self.dims.iter().map(|(dim, n)| (&**dim, *n)).collect();
        sizes.iter().map(|s| s.evaluate(&dims, &[]).expect("a size")).collect()
    }

    /// An array of the shape of an argument, or of an output behind them.
    pub(crate) fn shaped(&self, dtype: DType, buffer: usize, data: &[f64]) -> Array {
        Array::from_f64(dtype, &self.shape(buffer), data).expect("its own shape")
    }

    pub(crate) fn args<'a>(&'a self, values: &'a BTreeMap<usize, Array>) -> Vec<Arg<'a>> {
        let of = |(n, p): (usize, &usize)| {
            if let Some(array) = values.get(&n) {
                return Arg::Array(array.view());
            }
            match self.op.args[n].kind {
                ArgKind::IntScalar => return Arg::Int(self.world.integers[p]),
                ArgKind::Scalar => return Arg::Real(self.world.reals[p]),
                _ => {}
            }
            let int = self.ints.get(&n).map(|a| Arg::Array(a.view()));
            let list = int.or_else(|| self.lists.get(&n).map(|l| Arg::Structure(&**l)));
            let batch = list.or_else(|| self.batches.get(&n).map(|b| Arg::Structure(&**b)));
            batch
                .or_else(|| self.maps.get(&n).map(|m| Arg::Structure(&**m)))
                .expect("every argument is given")
        };
        self.params.iter().enumerate().map(of).collect()
    }
}
