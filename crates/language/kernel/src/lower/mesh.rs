//! Loops over the nodes of a mesh around a point, and the numbers of its waves.

use super::{Block, Loop, Lower, Value, err, syntax};
use crate::ir::{Array, Kind, OfWave, Op, Range, Shape, Stmt, Type};
use rustc_hash::FxHashMap as HashMap;
use syn::Result;

impl Lower<'_> {
    /// `for (node, weight) in mesh.around(system, u)`: a loop over the splines of each axis, of which the weight is the
    /// product.
    pub(super) fn mesh_loop(&mut self, f: &syn::ExprForLoop, m: &syn::ExprMethodCall) -> Result<()> {
        let form = "a loop over a mesh is `for (node, weight) in mesh.around(system, u)`, u: Vec3 being the fractional \
                    coordinates";
        let names = syntax::loop_variables(&f.pat, form)?;
        let args: Vec<_> = m.args.iter().collect();
        let [node_name, weight_name] = names.as_slice() else { return err(&f.pat, form) };
        let &[of, point] = args.as_slice() else {
            return err(m, form);
        };
        let mesh = self.param_named(&m.receiver)?;
        let Kind::Mesh { systems, nodes, .. } = self.params[mesh].kind else { return err(m, form) };
        if !self.loops.is_empty() || self.branches > 0 {
            return err(&f.expr, "a loop over a mesh stands outside other loops and branches");
        }
        let system = self.index(of)?;
        self.check_row(systems, system, of)?;
        let Value::Tensor(Shape::Vector(3), u) = self.expr(point)? else {
            return err(point, "expected the fractional coordinates, a Vec3");
        };
        let at = [0, 1, 2].map(|axis| {
            let size = self.b.op_value(Op::MeshSize { mesh, system, axis });
            let size = self.b.real_op(Op::FromInt(size));
            self.b.real_op(Op::Mul(u[axis], size))
        });
        let none = self.b.op_value(Op::Int(0));
        let order = self.b.op_value(Op::SplineOrder { mesh, system });
        let mut ids = [0; 3];
        let node = [0, 1, 2].map(|axis| {
            ids[axis] = self.b.new_loop();
            self.b.open(true);
            self.blocks.push(Block { is_loop: true, ..Block::default() });
            self.loops.push(Loop { id: ids[axis], mesh: true, ..Loop::default() });
            self.b.emit(Op::LoopVar(ids[axis]), Type::Int)
        });
        let [x, y, z] = [0, 1, 2].map(|axis| {
            self.b.real_op(Op::Spline { mesh, system, axis, at: at[axis], node: node[axis], derivative: 0 })
        });
        let xy = self.b.real_op(Op::Mul(x, y));
        let weight = self.b.real_op(Op::Mul(xy, z));
        let node = self.b.emit(Op::MeshNode { mesh, system, at, node }, Type::Index(nodes));
        self.names.push(HashMap::default());
        self.bind(node_name.clone(), Value::Scalar(node));
        self.bind(weight_name.clone(), Value::Scalar(weight));
        self.block(&f.body.stmts)?;
        self.names.pop();
        for id in ids.into_iter().rev() {
            let body = self.close_loop()?;
            self.b.push(Stmt::For { id, range: Range::Ints(none, order), body });
        }
        Ok(())
    }

    /// `mesh.system(w)`, `mesh.wave(w)`, `mesh.count(w)` and `mesh.modulus(w)` of a wave.
    pub(super) fn wave_method(&mut self, m: &syn::ExprMethodCall) -> Result<Value> {
        let form = "waves of a `&Mesh<System, Node, Wave>` have `mesh.system(w)`, `mesh.wave(w)`, `mesh.count(w)` and \
                    `mesh.modulus(w)`";
        let mesh = self.param_named(&m.receiver)?;
        let Kind::Mesh { systems, waves: Some(waves), .. } = self.params[mesh].kind else {
            return err(m, form);
        };
        let [arg] = m.args.iter().collect::<Vec<_>>()[..] else { return err(m, form) };
        let row = self.index(arg)?;
        self.check_row(waves, row, arg)?;
        let op = Op::IndexOf { param: mesh, array: Array::MeshShape, row };
        let system = self.b.emit(op, Type::Index(systems));
        let mut number = |of| self.b.real_op(Op::Wave { mesh, system, row, of });
        Ok(match m.method.to_string().as_str() {
            "wave" => Value::IVec3([0, 1, 2].map(|axis| number(OfWave::Index(axis)))),
            "count" => Value::Scalar(number(OfWave::Count)),
            "modulus" => Value::Scalar(number(OfWave::Modulus)),
            _ => Value::Scalar(system),
        })
    }
}
