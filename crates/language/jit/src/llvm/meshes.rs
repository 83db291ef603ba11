//! Instructions on meshes: calls of this library.

use super::{Printer, Value};
use madelung_core::runtime::{Isa, MeshShape, Splines, WaveLine};
use madelung_kernel::program::{Field, Instruction as I, MAX_ORDERS, Shape, Table};

impl Printer {
    pub(super) fn of_meshes(&mut self, i: &I) {
        match *i {
            I::Mesh { slot, system, to } => {
                let (p, system, to) = (self.pointer(slot), self.int(system), self.shape(to));
                self.calls("madelung_mesh", &[("ptr", &p), ("i64", &system), ("ptr", &to)]);
            }
            I::WaveSystem { slot, wave, to } => {
                let (p, wave) = (self.pointer(slot), self.int(wave));
                let system = self.call("i64", "madelung_wave_system", &[("ptr", &p), ("i64", &wave)]);
                self.set_int(to, &system);
            }
            I::ShapeNumber { shape, n, to } => {
                let shape = self.shape(shape);
                let q = self.address("i64", &shape, &n.to_string());
                let x = self.line(format_args!("load i64, ptr {q}, align 8"));
                self.set_int(to, &x);
            }
            I::Splines { shape, axis, orders: _, at, to } => {
                let (shape, at, to) = (self.shape(shape), self.scalar(at), self.table(to));
                let lanes = match self.lanes.isa {
                    Isa::Portable => "portable",
                    Isa::Avx2 => "avx2",
                    Isa::Avx512 => "avx512",
                };
                let args = [("ptr", &*shape), ("i64", &axis.to_string()), ("double", &at), ("ptr", &to)];
                self.calls(&format!("madelung_splines_{lanes}"), &args);
            }
            I::Weight { table, derivative, node, to } => {
                let (table, node) = (self.table(table), self.int(node));
                let args = [("ptr", &*table), ("i64", &derivative.to_string()), ("i64", &node)];
                let x = self.call("double", "madelung_weight", &args);
                self.set_scalar(to, &x);
            }
            I::Node { shape, tables, to } => {
                let shape = self.shape(shape);
                let [x, y, z] = tables.map(|of| match of {
                    Some((table, node)) => self.node_index(table, node),
                    None => "0".to_string(),
                });
                let args = [("ptr", &*shape), ("i64", &x), ("i64", &y), ("i64", &z)];
                let node = self.call("i64", "madelung_node", &args);
                self.set_int(to, &node);
            }
            I::InPlanes { shape, table, node, to } => {
                let (shape, index) = (self.shape(shape), self.node_index(table, node));
                let is = self.call("i64", "madelung_in_planes", &[("ptr", &shape), ("i64", &index)]);
                let is = self.line(format_args!("icmp ne i64 {is}, 0"));
                self.set_condition(to, &is);
            }
            I::Reaches { shape, at, to } => {
                let (shape, at) = (self.shape(shape), self.scalar(at));
                let is = self.call("i64", "madelung_reaches", &[("ptr", &shape), ("double", &at)]);
                let is = self.line(format_args!("icmp ne i64 {is}, 0"));
                self.set_condition(to, &is);
            }
            I::Wave { field, shape, wave, to } => {
                let (shape, wave, (kind, moduli)) = (self.shape(shape), self.int(wave), self.of_field(field));
                let args = [("ptr", &*shape), ("i64", &wave), ("i64", &kind), ("ptr", &moduli)];
                let x = self.call("double", "madelung_wave", &args);
                self.set_scalar(to, &x);
            }
            I::LineIndex { axis, to } => {
                let line = self.wave_line();
                let args = [("ptr", &*line), ("i64", &axis.to_string())];
                let x = self.call("double", "madelung_line_index", &args);
                self.set_scalar(to, &x);
            }
            I::Weights { table, derivative, to } => {
                let (table, k, lanes) = (self.table(table), self.open.k.clone(), self.spilled());
                let (derivative, n) = (derivative.to_string(), self.lanes.n.to_string());
                let args =
                    [("ptr", &*table), ("i64", &derivative), ("i64", &k), ("i64", &n), ("ptr", &lanes)];
                self.calls("madelung_weights", &args);
                self.set_from(to, &lanes);
            }
            I::NodeLoad { slot, line, along, stride, component, to } => {
                let lanes = self.spilled();
                let args = self.of_line(slot, line, along, [stride, component], &lanes);
                let args: Vec<(&str, &str)> = args.iter().map(|(ty, x)| (*ty, &**x)).collect();
                self.calls(&format!("madelung_node_load_{}", self.real_type()), &args);
                self.set_from(to, &lanes);
            }
            I::NodeAdd { slot, line, along, stride, component, x } => {
                let (lanes, x, n) = (self.spilled(), self.vector(x), self.lanes.n);
                let x = self.doubles(&x);
                self.does(format_args!("store <{n} x double> {x}, ptr {lanes}, align 8"));
                let args = self.of_line(slot, line, along, [stride, component], &lanes);
                let args: Vec<(&str, &str)> = args.iter().map(|(ty, x)| (*ty, &**x)).collect();
                self.calls("madelung_node_add", &args);
            }
            I::LineField { field, to } => {
                let (line, lanes, (kind, moduli)) = (self.wave_line(), self.spilled(), self.of_field(field));
                let (k, n) = (self.open.k.clone(), self.count());
                let args = [
                    ("ptr", &*line),
                    ("i64", &*k),
                    ("i64", &*n),
                    ("i64", &*kind),
                    ("ptr", &*moduli),
                    ("ptr", &*lanes),
                ];
                self.calls("madelung_line_field", &args);
                self.set_from(to, &lanes);
            }
            ref other => unreachable!("not of meshes: {other:?}"),
        }
    }

    pub(super) fn shape(&mut self, r: Shape) -> String {
        self.slot(&format!("h{}", r.0), &format!("[{} x i64]", size_of::<MeshShape>() / 8))
    }

    fn table(&mut self, r: Table) -> String {
        self.slot(&format!("t{}", r.0), &format!("[{} x i64]", size_of::<Splines<MAX_ORDERS>>() / 8))
    }

    /// The open line of waves.
    pub(super) fn wave_line(&mut self) -> String {
        self.slot("line", &format!("[{} x i64]", size_of::<WaveLine>() / 8))
    }

    /// Room through which lanes are given.
    fn spilled(&mut self) -> String {
        self.slot("spilled", "[16 x double]")
    }

    fn set_from(&mut self, to: madelung_kernel::program::Vector, lanes: &str) {
        let n = self.lanes.n;
        let x = self.line(format_args!("load <{n} x double>, ptr {lanes}, align 8"));
        self.set_vector(to, &x);
    }

    fn node_index(&mut self, table: Table, node: madelung_kernel::program::Integer) -> Value {
        let (table, node) = (self.table(table), self.int(node));
        self.call("i64", "madelung_node_index", &[("ptr", &table), ("i64", &node)])
    }

    /// The iterations of the open vector.
    fn count(&self) -> Value {
        self.open.rest.as_ref().map_or(self.lanes.n.to_string(), |rest| rest.n.clone())
    }

    /// A field as its number, and its moduli.
    fn of_field(&mut self, field: Field) -> (Value, Value) {
        match field {
            Field::Index(axis) => (axis.to_string(), "null".to_string()),
            Field::Count => ("3".to_string(), "null".to_string()),
            Field::Modulus(slot) => ("4".to_string(), self.pointer(slot)),
        }
    }

    /// Arguments of functions on nodes of a line.
    fn of_line(
        &mut self,
        slot: usize,
        line: madelung_kernel::program::Integer,
        along: Table,
        [stride, component]: [usize; 2],
        lanes: &str,
    ) -> Vec<(&'static str, Value)> {
        let (p, line, along) = (self.pointer(slot), self.int(line), self.table(along));
        let (k, n) = (self.open.k.clone(), self.count());
        vec![
            ("ptr", p),
            ("i64", line),
            ("ptr", along),
            ("i64", k),
            ("i64", n),
            ("i64", stride.to_string()),
            ("i64", component.to_string()),
            ("ptr", lanes.to_string()),
        ]
    }
}
