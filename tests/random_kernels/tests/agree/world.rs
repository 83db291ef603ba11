//! Arguments for a kernel, by the names of its parameters.

use crate::generator::Random;
use crate::geometry::{ATOMS, Geometry, List, POINTS, WAVES, cells, half, members, rows};
use madelung_core::array::{Array, DType, Data, View};
use madelung_core::batch::Batch;
use madelung_core::map::Map;
use madelung_core::op::{Arg, Op};
use madelung_core::pairs::{Kind, PairList};
use madelung_core::runtime::{Kernel, ParamKind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The relative change of [`World::jittered`].
pub(crate) const JITTER: f64 = 1e-10;

#[derive(Clone)]
pub(crate) struct World {
    dims: BTreeMap<&'static str, usize>,
    /// Real arrays, directions of them, and weights of the outputs, by argument.
    pub(crate) arrays: BTreeMap<usize, Vec<f64>>,
    pub(crate) first: BTreeMap<usize, Vec<f64>>,
    pub(crate) second: BTreeMap<usize, Vec<f64>>,
    pub(crate) weights: Vec<Vec<f64>>,
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
        let shape = |d: Option<usize>, components: usize| {
            let mut shape: Vec<&str> = d.into_iter().map(dim).collect();
            shape.extend(width(kernel, p.kind));
            shape.extend(match components {
                3 => &["3"][..],
                9 => &["3", "3"],
                _ => &[],
            });
            shape
        };
        op = match p.kind {
            ParamKind::Real { dim, components, zero: true, .. } => op.zero(p.name, &shape(dim, components)),
            ParamKind::Real { dim, components, .. } => op.real(p.name, &shape(dim, components)),
            ParamKind::Output { dim, components, .. } => op.output(p.name, &shape(dim, components)),
            ParamKind::Ints { dim, components } => op.ints(p.name, &shape(Some(dim), components)),
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

impl World {
    pub(crate) fn of(number: usize, kernel: &'static Kernel) -> (Arc<Op>, Self) {
        let op = op_of(kernel);
        let mut r = Random::new(number as u64 + 7);
        let g = Geometry::new(&mut r);
        let count = |list: &List| list.iter().map(Vec::len).sum::<usize>();
        let halves = half(&g.list);
        let has = |name: &str| kernel.params.iter().any(|p| p.name == name);
        let bonds = if has("half") { count(&halves) } else { count(&g.list) };
        let dims: BTreeMap<&'static str, usize> = kernel
            .dims
            .iter()
            .map(|d| {
                let size = match *d {
                    "Bond" => bonds,
                    "Edge" => count(&g.near),
                    d => rows(d),
                };
                (*d, size)
            })
            .collect();
        let mut w = Self {
            dims,
            arrays: BTreeMap::new(),
            first: BTreeMap::new(),
            second: BTreeMap::new(),
            weights: vec![],
            ints: BTreeMap::new(),
            batches: BTreeMap::new(),
            lists: BTreeMap::new(),
            maps: BTreeMap::new(),
        };
        let atoms: usize = ATOMS.iter().sum();
        let points: usize = POINTS.iter().sum();
        let mut random = |n: usize, lo: f64, hi: f64| (0..n).map(|_| r.between(lo, hi)).collect::<Vec<f64>>();
        for p in kernel.params {
            let size = |d: usize| w.dims[kernel.dims[d]];
            let channels = width(kernel, p.kind).map_or(1, |d| w.dims[d]);
            let at = op.arg(p.name);
            match (p.kind, at) {
                (ParamKind::Real { dim, components, zero, .. }, Some(n)) => {
                    let len = dim.map_or(1, size) * components * channels;
                    let data = match p.name {
                        _ if zero => vec![0.0; len],
                        "positions" => g.positions.clone(),
                        "points" => g.points.clone(),
                        "cell" => cells().into_iter().flatten().flatten().collect(),
                        "a" | "b" | "alpha" => random(len, 0.6, 1.7),
                        _ => random(len, -1.2, 1.4),
                    };
                    w.arrays.insert(n, data);
                    // Its value cannot be moved, so there are no differences to compare with.
                    if zero {
                        continue;
                    }
                    w.first.insert(n, random(len, -1.0, 1.0));
                    w.second.insert(n, random(len, -1.0, 1.0));
                }
                (ParamKind::Output { dim, components, .. }, _) => {
                    w.weights.push(random(dim.map_or(1, size) * components * channels, -1.0, 1.0));
                }
                (ParamKind::Ints { dim, components }, Some(n)) => {
                    let numbers = random(size(dim) * components, 0.0, 2.99);
                    let shape: Vec<usize> =
                        std::iter::once(size(dim)).chain((components > 1).then_some(components)).collect();
                    let numbers: Vec<f64> = numbers.iter().map(|x| x.floor()).collect();
                    let array =
                        Array::from_f64(DType::F64, &shape, &numbers).expect("a shape").cast(DType::I32);
                    w.ints.insert(n, array);
                }
                (ParamKind::Batch { rows, .. }, Some(n)) => {
                    let sizes = match kernel.dims[rows] {
                        "Atom" => ATOMS,
                        "Wave" => WAVES,
                        _ => POINTS,
                    };
                    let idx: Vec<i32> = members(&sizes).iter().map(|s| *s as i32).collect();
                    w.batches.insert(n, Arc::new(Batch::from_idx(idx, Some(2)).expect("a batch")));
                }
                (ParamKind::Pairs { .. }, Some(n)) => {
                    let list = match p.name {
                        "near" => pair_list(&g.near, points, Kind::Directed),
                        "half" => pair_list(&halves, atoms, Kind::Half),
                        _ => pair_list(&g.list, atoms, Kind::Full),
                    };
                    w.lists.insert(n, Arc::new(list));
                }
                (ParamKind::Map { rows, into }, Some(n)) => {
                    let of = random(size(rows), 0.0, size(into) as f64 - 0.01);
                    let of: Vec<i32> = of.iter().map(|x| *x as i32).collect();
                    w.maps.insert(n, Arc::new(Map::new(of, size(into)).expect("a map")));
                }
                _ => {}
            }
        }
        (op, w)
    }

    /// Whether its numbers are small enough, and curve little enough, for finite differences.
    pub(crate) fn is_tame(number: usize, kernel: &'static Kernel) -> bool {
        let (op, w) = Self::of(number, kernel);
        let at = |t: f64| {
            let mut x = w.arrays.clone();
            for (n, d) in &w.first {
                x.get_mut(n).expect("an argument").iter_mut().zip(d).for_each(|(x, d)| *x += t * d);
            }
            op.value(&madelung_cpu::context(), &w.args(&op, &x))
                .ok()
                .map(|v| v.iter().flat_map(Array::to_f64).collect::<Vec<_>>())
        };
        let slope = |h: f64| {
            let [a, b, c, d] = [at(-2.0 * h)?, at(-h)?, at(h)?, at(2.0 * h)?];
            Some(
                (0..a.len())
                    .map(|n| (a[n] - 8.0 * b[n] + 8.0 * c[n] - d[n]) / (12.0 * h))
                    .collect::<Vec<_>>(),
            )
        };
        let (Some(value), Some(whole), Some(halved)) =
            (at(0.0), slope(crate::STEP), slope(0.5 * crate::STEP))
        else {
            return false;
        };
        let rms = (whole.iter().map(|x| x * x).sum::<f64>() / whole.len() as f64).sqrt().max(0.1);
        let error = whole.iter().zip(&halved).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
        value.iter().all(|x| x.abs() < 1e3) && rms < 1e3 && error < 1e-10 * rms
    }

    /// The same with every real changed by a little of its own.
    pub(crate) fn jittered(&self, seed: u64) -> Self {
        let (mut w, mut r) = (self.clone(), Random::new(seed + 100));
        let all = w.arrays.values_mut().chain(w.first.values_mut()).chain(w.second.values_mut());
        for x in all.flatten().chain(w.weights.iter_mut().flatten()) {
            *x *= 1.0 + JITTER * r.between(-1.0, 1.0);
        }
        w
    }

    /// How many terms a row adds up at the most: those of each `+=` and `-=` of the kernel, in all loops around it.
    pub(crate) fn terms(&self, source: &str) -> usize {
        let row = self.lists.values().map(|l| l.max_row()).max().unwrap_or(1);
        let members = ATOMS.iter().chain(&WAVES).chain(&POINTS).copied().max().unwrap_or(1);
        let channels = self.dims.get("Feature").copied().unwrap_or(1);
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

    pub(crate) fn shape(&self, op: &Op, buffer: usize) -> Vec<usize> {
        let sizes = match buffer.checked_sub(op.args.len()) {
            Some(output) => &op.outputs[output].shape,
            None => match &op.args[buffer].kind {
                madelung_core::op::ArgKind::Real { shape, .. } => shape,
                kind => panic!("{kind:?} has no derivative"),
            },
        };
        let dims = self.dims.iter().map(|(d, n)| ((*d).to_string(), *n)).collect();
        sizes.iter().map(|s| s.evaluate(&dims, &BTreeMap::new()).expect("a size")).collect()
    }

    pub(crate) fn args<'a>(&'a self, op: &Op, arrays: &'a BTreeMap<usize, Vec<f64>>) -> Vec<Arg<'a>> {
        (0..op.args.len())
            .map(|n| {
                if let Some(data) = arrays.get(&n) {
                    return Arg::Array(
                        View::new(Data::F64(data), &self.shape(op, n)).expect("its own shape"),
                    );
                }
                let int = || self.ints.get(&n).map(|a| Arg::Array(a.view()));
                let batch = || self.batches.get(&n).map(|b| Arg::Batch(b));
                let list = || self.lists.get(&n).map(|l| Arg::Pairs(l));
                let map = || self.maps.get(&n).map(|m| Arg::Map(m));
                let attribute = || match op.args[n].kind {
                    madelung_core::op::ArgKind::IntScalar => Arg::Int(3),
                    _ => Arg::Real(1.1),
                };
                int().or_else(batch).or_else(list).or_else(map).unwrap_or_else(attribute)
            })
            .collect()
    }
}
