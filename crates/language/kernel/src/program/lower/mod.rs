//! From a part of a form to a program: what is scalar and what on lanes (rows, nodes, strips of pairs), which products are
//! fused, and when sums of lanes go to f64.

mod cluster;
mod lanes;
mod loops;
mod memory;
mod mesh;
mod needed;
mod phase;
mod rows;
mod scalar;
mod shared;
mod stmt;
mod strips;

pub use cluster::{lower_clusters, lower_rows};
pub use phase::{Joined, Phase};

use super::{
    Address, Class, Condition, Indices, Instruction, Integer, Mask, Program, Room, Scalar, Shape, Table,
    Vector,
};
use crate::cluster::Clusters;
use crate::ir::{Acc, Body, Dim, Kernel, LoopId, Op, ParamId, Range, Role, Stmt, Type, Val, walk};
use crate::layout::{Array, Layout, Pair};
use crate::mirror::Part;
use needed::needed;
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use std::collections::{BTreeMap, BTreeSet};

/// Reals from outside that the body of a lane loop uses.
fn outside_values(b: &Body, body: &[Stmt]) -> BTreeSet<Val> {
    let mut defined = HashSet::default();
    let mut used = BTreeSet::new();
    for s in walk(body) {
        match s {
            Stmt::Let(v) => {
                defined.insert(*v);
                match b.op(*v) {
                    // Rows and pairs are addresses; the row of a load is used as such.
                    Op::Load { .. } | Op::LoadInt { .. } | Op::IndexOf { .. } => {}
                    op => op.for_each_arg(|a| {
                        used.insert(a);
                    }),
                }
            }
            s => s.for_each_arg(|v| {
                used.insert(v);
            }),
        }
    }
    used.into_iter()
        .filter(|v| !defined.contains(v) && b.ty(*v) == Type::Real && b.constant(*v).is_none())
        .collect()
}

/// The program of a part.
pub fn lower(kernel: &Kernel, part: &Part, layout: &Layout) -> Program {
    match rows::on_lanes(part, layout) {
        Some(rows) => rows::lower(kernel, &rows, layout),
        None => Lowering::new(kernel, &part.body, layout).row_by_row(),
    }
}

/// A value outside of lanes.
#[derive(Clone, Copy, Debug)]
enum Single {
    Real(Scalar),
    Int(Integer),
    Bool(Condition),
}

/// A value that differs between lanes.
#[derive(Clone, Copy, Debug)]
enum OnLanes {
    Real(Vector),
    Bool(Mask),
    Index(Indices),
    /// The first node of the line whose nodes the lanes are.
    Line(Integer),
}

/// The loop on lanes that is open.
struct Lanes {
    id: LoopId,
    /// Whether the instructions are within it, and not in a loop around it whose values are on lanes, too.
    within: bool,
    varying: HashSet<Val>,
    /// Sums that live in the loop's body and so are lanes themselves.
    inner: BTreeSet<Acc>,
    /// Sums of the loop, and the largest values that it looks for, with their places.
    sums: BTreeMap<Acc, Vector>,
    places: BTreeMap<Acc, Vector>,
    /// Rows of three and entries that are there.
    rows: HashMap<(usize, Val), [Vector; 3]>,
    entries: Option<Indices>,
}

impl Lanes {
    fn new(id: LoopId, inner: BTreeSet<Acc>) -> Self {
        Self {
            id,
            within: true,
            varying: HashSet::default(),
            inner,
            sums: BTreeMap::new(),
            places: BTreeMap::new(),
            rows: HashMap::default(),
            entries: None,
        }
    }
}

struct Lowering<'a> {
    kernel: &'a Kernel,
    b: &'a Body,
    layout: &'a Layout,
    program: Program,
    /// Open blocks.
    open: Vec<Vec<Instruction>>,
    lanes: Option<Lanes>,
    /// The values of rows on lanes: whether they vary, and those known ahead of the rows.
    rows: Option<(HashMap<Val, rows::Often>, HashSet<Val>)>,
    /// Whether lanes are nodes of a mesh.
    nodes: bool,
    /// The run of a cluster form's first phase, and the form whose second phase this is.
    run: Option<cluster::Run<'a>>,
    given: Option<&'a Clusters>,
    /// Pairs of functions that are there, by open block.
    paired: Vec<HashMap<(Val, Pair), [Vector; 2]>>,
    data_loops: HashMap<LoopId, Range>,
    needed: HashMap<LoopId, BTreeSet<(ParamId, Role)>>,
    /// The row that runs.
    row: Integer,
    reductions: Vec<Scalar>,
    reductions_on_lanes: Vec<Vector>,
    values: HashMap<Val, Single>,
    splats: HashMap<Val, Vector>,
    on_lanes: HashMap<Val, OnLanes>,
    sums: HashMap<Acc, Scalar>,
    /// Variables that are no reals.
    other_variables: HashMap<Acc, Single>,
    places: HashMap<Acc, Scalar>,
    /// Sums that are lanes, and places of the largest values.
    lane_sums: HashMap<Acc, Vector>,
    lane_places: HashMap<Acc, Vector>,
    /// The variable and the first turn of each loop.
    variables: HashMap<LoopId, Integer>,
    firsts: HashMap<LoopId, Integer>,
    widths: HashMap<Dim, Integer>,
    shapes: HashMap<(ParamId, Val), Shape>,
    tables: HashMap<(ParamId, Val, usize, Val), Table>,
}

impl<'a> Lowering<'a> {
    fn new(kernel: &'a Kernel, b: &'a Body, layout: &'a Layout) -> Self {
        let mut l = Self {
            kernel,
            b,
            layout,
            program: Program::default(),
            open: vec![vec![]],
            lanes: None,
            rows: None,
            nodes: false,
            run: None,
            given: None,
            paired: vec![HashMap::default()],
            data_loops: HashMap::default(),
            needed: needed(b),
            row: Integer(0),
            reductions: vec![],
            reductions_on_lanes: vec![],
            values: HashMap::default(),
            splats: HashMap::default(),
            on_lanes: HashMap::default(),
            sums: HashMap::default(),
            other_variables: HashMap::default(),
            places: HashMap::default(),
            lane_sums: HashMap::default(),
            lane_places: HashMap::default(),
            variables: HashMap::default(),
            firsts: HashMap::default(),
            widths: HashMap::default(),
            shapes: HashMap::default(),
            tables: HashMap::default(),
        };
        l.program.rows = [l.new_integer(), l.new_integer()];
        for dim in &layout.widths {
            let to = l.new_integer();
            l.emit(Instruction::Size { dim: *dim, to });
            l.widths.insert(*dim, to);
        }
        l
    }

    /// A part whose rows run one after the other.
    fn row_by_row(mut self) -> Program {
        self.nodes = mesh::is_alone(self.b);
        self.program.wide = self.nodes;
        let zero = self.constant(0.0);
        for _ in &self.layout.reductions {
            let to = self.new_scalar();
            self.emit(Instruction::Copy { from: zero, to });
            self.reductions.push(to);
        }
        let [from, to] = self.program.rows;
        self.row = self.new_integer();
        let row = self.row;
        self.begin();
        self.block(self.b.stmts());
        let body = self.end();
        self.emit(Instruction::For { variable: row, from, end: to, body });
        for (n, x) in self.reductions.clone().into_iter().enumerate() {
            self.emit(Instruction::Partial { n, x });
        }
        self.done()
    }

    fn done(mut self) -> Program {
        self.program.body = self.end();
        self.program
    }

    fn emit(&mut self, i: Instruction) {
        self.open.last_mut().expect("a block is open").push(i);
    }

    fn begin(&mut self) {
        self.open.push(vec![]);
    }

    fn end(&mut self) -> Vec<Instruction> {
        self.open.pop().expect("begin and end match")
    }

    fn register(&mut self, class: Class) -> u32 {
        let count = &mut self.program.registers[class as usize];
        *count += 1;
        *count - 1
    }

    fn new_scalar(&mut self) -> Scalar {
        Scalar(self.register(Class::Scalar))
    }

    fn new_integer(&mut self) -> Integer {
        Integer(self.register(Class::Integer))
    }

    fn new_condition(&mut self) -> Condition {
        Condition(self.register(Class::Condition))
    }

    /// A register on lanes: one for each vector within the loop on lanes, one outside.
    fn new_vector(&mut self) -> Vector {
        match &self.lanes {
            Some(lanes) if lanes.within => Vector::Each(self.register(Class::Each)),
            _ => self.new_one(),
        }
    }

    fn new_one(&mut self) -> Vector {
        Vector::One(self.register(Class::One))
    }

    fn new_mask(&mut self) -> Mask {
        Mask(self.register(Class::Mask))
    }

    fn new_indices(&mut self) -> Indices {
        Indices(self.register(Class::Indices))
    }

    fn new_room(&mut self) -> Room {
        Room(self.register(Class::Room))
    }

    /// The register of a constant.
    fn constant(&mut self, x: f64) -> Scalar {
        let known = self.program.scalars.iter().find(|(_, y)| y.to_bits() == x.to_bits());
        known.map(|(r, _)| *r).unwrap_or_else(|| {
            let to = self.new_scalar();
            self.program.scalars.push((to, x));
            to
        })
    }

    /// The register of a constant.
    fn integer(&mut self, x: i64) -> Integer {
        let known = self.program.integers.iter().find(|(_, y)| *y == x);
        known.map(|(r, _)| *r).unwrap_or_else(|| {
            let to = self.new_integer();
            self.program.integers.push((to, x));
            to
        })
    }

    /// The register of a constant on lanes.
    fn constant_on_lanes(&mut self, x: f64) -> Vector {
        let known = self.program.vectors.iter().find(|(_, y)| y.to_bits() == x.to_bits());
        let known = known.map(|(r, _)| *r).unwrap_or_else(|| {
            let to = self.register(Class::One);
            self.program.vectors.push((to, x));
            to
        });
        Vector::One(known)
    }

    fn varies(&self, v: Val) -> bool {
        self.lanes.as_ref().is_some_and(|l| l.varying.contains(&v))
    }

    /// A real outside of lanes.
    fn scalar(&mut self, v: Val) -> Scalar {
        match (self.b.op(v), self.values.get(&v)) {
            (Op::Const(bits), _) => self.constant(f64::from_bits(*bits)),
            (_, Some(Single::Real(x))) => *x,
            (op, known) => unreachable!("value {v} is no real outside of lanes: {op:?}, {known:?}"),
        }
    }

    /// An integer or a row.
    fn int(&mut self, v: Val) -> Integer {
        match (self.b.op(v), self.values.get(&v)) {
            (Op::Int(i), _) => self.integer(*i),
            (Op::Channel(n, _), _) => self.integer(*n as i64),
            (Op::Row, _) => self.row,
            (_, Some(Single::Int(x))) => *x,
            (op, known) => unreachable!("value {v} is no integer outside of lanes: {op:?}, {known:?}"),
        }
    }

    fn condition(&self, v: Val) -> Condition {
        match self.values.get(&v) {
            Some(Single::Bool(x)) => *x,
            known => {
                unreachable!("value {v} is no condition outside of lanes: {:?}, {known:?}", self.b.op(v))
            }
        }
    }

    /// A real on lanes.
    fn real(&mut self, v: Val) -> Vector {
        if let Some(x) = self.b.constant(v) {
            return self.constant_on_lanes(x);
        }
        let varies = self.varies(v);
        match (varies, self.splats.get(&v), self.on_lanes.get(&v)) {
            (false, Some(x), _) | (true, _, Some(OnLanes::Real(x))) => *x,
            known => unreachable!("value {v} is no real on lanes: {:?}, {known:?}", self.b.op(v)),
        }
    }

    fn mask(&mut self, v: Val) -> Mask {
        if !self.varies(v) {
            let (condition, to) = (self.condition(v), self.new_mask());
            self.emit(Instruction::MaskOf { condition, to });
            return to;
        }
        match self.on_lanes.get(&v) {
            Some(OnLanes::Bool(x)) => *x,
            known => unreachable!("value {v} is no condition on lanes: {known:?}"),
        }
    }

    fn indices(&mut self, v: Val) -> Indices {
        match (self.b.op(v), self.on_lanes.get(&v)) {
            (_, Some(OnLanes::Index(x))) => *x,
            // Rows on lanes, which add to elements of their own and of others.
            (Op::Row, None) => {
                let to = self.new_indices();
                self.emit(Instruction::Iterations { to });
                to
            }
            (op, known) => unreachable!("value {v} has no index on each lane: {op:?}, {known:?}"),
        }
    }

    fn slot(&self, param: ParamId, array: Array) -> usize {
        self.layout.slot(param, array)
    }

    /// The slot of an array and the components of its elements.
    fn array(&self, param: ParamId, role: Role) -> (usize, usize) {
        (self.slot(param, Array::Values(role)), self.kernel.components(param, role))
    }

    fn address(&mut self, row: Option<Val>, stride: usize, component: usize) -> Address {
        Address { row: row.map(|row| self.int(row)), stride, component }
    }

    fn block(&mut self, stmts: &'a [Stmt]) {
        self.paired.push(HashMap::default());
        // Loads of a block are known there, and in the blocks within it.
        let loaded = self.lanes.as_ref().map(|l| (l.rows.clone(), l.entries));
        for s in stmts {
            self.stmt(s);
        }
        if let (Some(lanes), Some(loaded)) = (&mut self.lanes, loaded) {
            (lanes.rows, lanes.entries) = loaded;
        }
        self.paired.pop();
    }
}

/// An element that stands at a register.
fn at(row: Integer) -> Address {
    Address { row: Some(row), stride: 1, component: 0 }
}
