//! The front end of kernels that are not differentiated: `#[kernel(no_adjoint)]`.
//!
//! They may do what has no transpose: change variables, loop until something holds, compute indices, read their
//! outputs, count with atomics. Types are checked here as in other kernels; errors at run time (an index out of range,
//! an integer that does not fit) raise the status word.

mod expr;
mod func;
mod place;
mod stmt;
mod written;

pub(super) use func::check_function;

use super::grid::Grids;
use super::in_out;
use super::parameters::{declared, dimension, dimension_of, structure};
use super::{Functions, Source, docs, err, syntax, type_name};
use crate::imperative::{Body, Expr, Layout, Stmt, Type, Var, is_output};
use crate::ir::{self, Dim, Kernel, Kind, Param, ParamId};
use rustc_hash::FxHashMap as HashMap;
use syn::{FnArg, ItemFn, Result};
use written::Written;

/// Whether a kernel asks not to be differentiated.
pub(super) fn is_imperative(f: &ItemFn) -> bool {
    let mut found = false;
    if let Some(attr) = f.attrs.iter().find(|a| a.path().is_ident("kernel"))
        && let syn::Meta::List(_) = attr.meta
    {
        // Other arguments are checked where they are read.
        let _ = attr.parse_nested_meta(|meta| {
            found |= meta.path.is_ident("no_adjoint");
            if !meta.path.is_ident("no_adjoint") {
                meta.parse_nested_meta(|_| Ok(()))?;
            }
            Ok(())
        });
    }
    found
}

/// The value of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Real(Var),
    Int(Var),
    Bool(Var),
    Vec3([Var; 3]),
    Mat3([Var; 9]),
    IVec3([Var; 3]),
    /// A row of a dimension, known to be one.
    Row(Var, Dim),
}

impl Value {
    fn vars(&self) -> Vec<Var> {
        match self {
            Self::Real(v) | Self::Int(v) | Self::Bool(v) | Self::Row(v, _) => vec![*v],
            Self::Vec3(v) | Self::IVec3(v) => v.to_vec(),
            Self::Mat3(v) => v.to_vec(),
        }
    }

    /// A value of equal type, of other variables.
    fn with(&self, mut var: impl FnMut(Var) -> Var) -> Self {
        match self {
            Self::Real(v) => Self::Real(var(*v)),
            Self::Int(v) => Self::Int(var(*v)),
            Self::Bool(v) => Self::Bool(var(*v)),
            Self::Row(v, d) => Self::Row(var(*v), *d),
            Self::Vec3(v) => Self::Vec3(v.map(var)),
            Self::IVec3(v) => Self::IVec3(v.map(var)),
            Self::Mat3(v) => Self::Mat3(v.map(var)),
        }
    }
}

/// The referent of a name.
#[derive(Clone, Copy, Debug)]
enum Name {
    Value(Value),
    Variable(Value),
    Param(ParamId),
}

struct Lower<'a> {
    funcs: &'a Functions<'a>,
    dims: Vec<String>,
    params: Vec<Param>,
    names: Vec<HashMap<String, Name>>,
    types: Vec<Type>,
    /// Open blocks, outermost first.
    blocks: Vec<Vec<Stmt>>,
    /// The writes so far, and for each open loop those of the paths that leave it.
    written: Written,
    exits: Vec<Written>,
    inlining: Vec<String>,
    /// Constants other than zero, by which anything can be divided.
    nonzero: Vec<Var>,
    writes: bool,
    grids: Grids,
}

/// Lowers one kernel.
pub(super) fn lower(f: &ItemFn, funcs: &Functions<'_>) -> Result<Source> {
    check_attribute(f)?;
    let (index, dim, inputs) = syntax::signature(f)?;
    let mut l = Lower::new(funcs, dim);
    let row = l.emit(Type::Int, Expr::Row);
    l.bind(index, Name::Value(Value::Row(row, 0)));
    for arg in inputs {
        l.parameter(arg)?;
    }
    if l.dims.len() > 16 {
        return err(&f.sig.inputs, "a kernel has at most 16 dimensions");
    }
    l.block(&f.block.stmts)?;
    if !l.writes {
        return err(&f.sig.ident, "this kernel writes nothing");
    }
    let body = Body { types: l.types, stmts: l.blocks.pop().expect("the body is open") };
    let kernel = Kernel {
        name: f.sig.ident.to_string(),
        dims: l.dims,
        index: 0,
        params: l.params,
        queries: l.grids.queries()?,
        body: ir::Body::new(None),
    };
    let arrays = Layout::new(&kernel, &body).slots.len();
    if arrays > 64 {
        let message =
            format!("it uses {arrays} arrays and a launch has room for 64: split the kernel in two");
        return err(&f.sig.ident, message);
    }
    Ok(Source {
        kernel,
        imperative: Some(body),
        options: super::Options::default(),
        docs: docs(f),
        visibility: f.vis.clone(),
        ident: f.sig.ident.clone(),
    })
}

fn check_attribute(f: &ItemFn) -> Result<()> {
    let attr = f.attrs.iter().find(|a| a.path().is_ident("kernel")).expect("a kernel has its attribute");
    attr.parse_nested_meta(|meta| {
        if meta.path.is_ident("no_adjoint") {
            Ok(())
        } else {
            Err(meta.error("`no_adjoint` stands alone: such a kernel has no gradient, so no form of one"))
        }
    })
}

const PARAMETER_TYPES: &str = "one of: `Real` or `i32` (attributes), `&Real`, `&Vec3`, `&Mat3` (one element), `&[T; \
     Dim]` with T = Real, Vec3, Mat3, IVec3, i32 or i64 (one per row), `&mut [T; Dim]` and `&mut T` with these but IVec3 \
     (outputs; `&mut [InOut<T>; Dim]` and `&mut InOut<T>` where they hold old values), `&Batch<Rows, Systems>`, `&Pairs<Rows>`, \
     `&Pairs<Rows, Columns, Entries>`, `&HashGrid<Rows, Points>`";

impl<'a> Lower<'a> {
    fn new(funcs: &'a Functions<'a>, index: String) -> Self {
        Self {
            funcs,
            dims: vec![index],
            params: vec![],
            names: vec![HashMap::default()],
            types: vec![],
            blocks: vec![vec![]],
            written: Written::default(),
            exits: vec![],
            inlining: vec![],
            nonzero: vec![],
            writes: false,
            grids: Grids::default(),
        }
    }
}

impl Lower<'_> {
    fn emit(&mut self, ty: Type, e: Expr) -> Var {
        let v = self.types.len();
        self.types.push(ty);
        self.push(Stmt::Let(v, e));
        v
    }

    fn push(&mut self, s: Stmt) {
        self.blocks.last_mut().expect("a block is open").push(s);
    }

    /// The statements that `f` pushes.
    fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<(Vec<Stmt>, T)> {
        self.blocks.push(vec![]);
        self.names.push(HashMap::default());
        let result = f(self)?;
        self.names.pop();
        Ok((self.blocks.pop().expect("pushed above"), result))
    }

    /// Statements of two branches.
    fn branches<T>(
        &mut self,
        then: impl FnOnce(&mut Self) -> Result<T>,
        otherwise: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<[(Vec<Stmt>, T); 2]> {
        let before = self.written.clone();
        let then = self.nested(then)?;
        let after = std::mem::replace(&mut self.written, before);
        let otherwise = self.nested(otherwise)?;
        self.written.join(after);
        Ok([then, otherwise])
    }

    fn lookup(&self, name: &str) -> Option<Name> {
        self.names.iter().rev().find_map(|n| n.get(name).copied())
    }

    fn bind(&mut self, name: String, value: Name) {
        self.names.last_mut().expect("a block is open").insert(name, value);
    }

    fn type_of(&self, v: &Value) -> &str {
        match v {
            Value::Real(_) => "Real",
            Value::Int(_) => "i64",
            Value::Bool(_) => "bool",
            Value::Vec3(_) => "Vec3",
            Value::Mat3(_) => "Mat3",
            Value::IVec3(_) => "IVec3",
            Value::Row(_, d) => &self.dims[*d],
        }
    }

    fn dim(&mut self, name: &str) -> Dim {
        dimension(&mut self.dims, name)
    }

    fn parameter(&mut self, arg: &FnArg) -> Result<()> {
        let (name, ty) = syntax::parameter(arg)?;
        let kind = self.parameter_kind(ty)?;
        if self.lookup(&name.ident.to_string()).is_some() {
            return err(name, format!("there are two parameters `{}`", name.ident));
        }
        let id = declared(&mut self.params, &mut self.grids, name, ty, kind)?;
        let value = match kind {
            Kind::Scalar => Name::Value(Value::Real(self.emit(Type::Real, Expr::Attribute(id)))),
            Kind::IntScalar => Name::Value(Value::Int(self.emit(Type::Int, Expr::Attribute(id)))),
            Kind::Real { dim: None, .. } => Name::Value(self.load(id, None)),
            _ => Name::Param(id),
        };
        self.bind(name.ident.to_string(), value);
        Ok(())
    }

    fn parameter_kind(&mut self, ty: &syn::Type) -> Result<Kind> {
        let wrong = || err(ty, format!("a parameter of a kernel without adjoint is {PARAMETER_TYPES}"));
        match type_name(ty).as_str() {
            "Real" => return Ok(Kind::Scalar),
            "i32" => return Ok(Kind::IntScalar),
            _ => {}
        }
        let syn::Type::Reference(reference) = ty else { return wrong() };
        let output = reference.mutability.is_some();
        let (element, dim) = match &*reference.elem {
            syn::Type::Array(array) => (&*array.elem, Some(dimension_of(&array.len)?)),
            syn::Type::Path(path) => match structure(&mut self.dims, path)? {
                Some(kind @ (Kind::Batch { .. } | Kind::Pairs { .. })) if !output => return Ok(kind),
                Some(_) => return wrong(),
                None => (&*reference.elem, None),
            },
            _ => return wrong(),
        };
        let one = dim.is_none();
        let element = match in_out::marked(element) {
            Some(_) if !output => {
                return err(ty, "an in-out array is written, too: declare it `&mut`, as an output");
            }
            inner => inner.unwrap_or(element),
        };
        let name = type_name(element);
        let components = match name.as_str() {
            "Vec3" => 3,
            "Mat3" => 9,
            "IVec3" if !output && !one => 3,
            "Real" | "i32" | "i64" => 1,
            _ if name.starts_with("Zero<") => {
                return err(
                    element,
                    "a zero is there for its derivatives, and this kernel has none: leave it out",
                );
            }
            _ => return wrong(),
        };
        let dim = dim.map(|d| self.dim(&d));
        Ok(match (name.as_str(), dim) {
            ("i32" | "IVec3", Some(dim)) if !output => Kind::Ints { dim, components },
            ("i32" | "i64", _) => Kind::Integers { dim, components, wide: name == "i64", output },
            _ if output => Kind::Output { dim, components, width: None },
            _ => Kind::Real { dim, components, zero: false, width: None },
        })
    }

    /// The dimension of an array.
    fn dim_of(&self, param: ParamId) -> Option<Dim> {
        match self.params[param].kind {
            Kind::Real { dim, .. } | Kind::Output { dim, .. } | Kind::Integers { dim, .. } => dim,
            Kind::Ints { dim, .. } => Some(dim),
            _ => None,
        }
    }

    fn is_output(&self, param: ParamId) -> bool {
        is_output(self.params[param].kind)
    }

    /// An element of an array.
    fn load(&mut self, param: ParamId, row: Option<Var>) -> Value {
        let kind = self.params[param].kind;
        let (ty, components) = match kind {
            Kind::Real { components, .. } | Kind::Output { components, .. } => (Type::Real, components),
            Kind::Ints { components, .. } | Kind::Integers { components, .. } => (Type::Int, components),
            _ => unreachable!("only arrays are loaded from"),
        };
        let mut at = |component| self.emit(ty, Expr::Load { param, row, component });
        match (ty, components) {
            (Type::Real, 1) => Value::Real(at(0)),
            (_, 1) => Value::Int(at(0)),
            (Type::Real, 3) => Value::Vec3([0, 1, 2].map(at)),
            (_, 3) => Value::IVec3([0, 1, 2].map(at)),
            _ => Value::Mat3([0, 1, 2, 3, 4, 5, 6, 7, 8].map(at)),
        }
    }
}
