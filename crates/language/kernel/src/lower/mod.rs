//! The typed front end: `kernels! { … }` source to SSA, with errors at the source position of unsupported syntax.

mod arrays;
mod expr;
mod functions;
mod grid;
pub mod imports;
mod loops;
mod mesh;
mod no_adjoint;
mod operators;
mod parameters;
mod stmt;
mod syntax;

use crate::ir::{Acc, Body, Dim, Kernel, Kind, LoopId, Op, Param, ParamId, Shape, Template, Type, Val};
use quote::ToTokens;
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use std::collections::BTreeMap;
use syn::{Error, Item, ItemFn, Result};

/// Options of a kernel's attribute.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Sets of inputs whose gradients get a form of their own, with a uniform cotangent: `fast(a, b)`.
    pub fast: Vec<Vec<ParamId>>,
    /// Whether gradients that add to partners' elements are wanted as well.
    pub scatter: bool,
    /// Whether gradients by everything have cluster forms, as they have beside `fast` ones.
    pub clusters: bool,
    /// Whether the code shall be small rather than fast: special functions stand apart, f32 has no lanes and f64 at most
    /// four.
    pub small: bool,
    /// Whether there is no machine code: the interpreter runs the kernel, with the same bits.
    pub interpreted: bool,
    /// Whether products are rounded before they are added.
    pub rounded: bool,
}

/// A kernel and the options of its attribute.
#[derive(Debug)]
pub struct Source {
    /// The kernel.
    pub kernel: Kernel,
    /// The options.
    pub options: Options,
    /// The doc comments.
    pub docs: Vec<String>,
    /// The visibility.
    pub visibility: syn::Visibility,
    /// Its name as written: the kernel's own may have a prefix.
    pub ident: syn::Ident,
}

/// Lowers every kernel of a `kernels!` block.
pub fn lower_block(file: &syn::File) -> Result<Vec<Source>> {
    let (funcs, kernels) = functions(file)?;
    kernels.into_iter().map(|k| lower(k, &funcs)).collect()
}

/// A `#[func]` and its `#[derivative]`.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    /// The function.
    pub value: &'a ItemFn,
    /// The partial derivatives, if given.
    pub derivative: Option<&'a ItemFn>,
}

impl Function<'_> {
    /// The function's source, as private items of a block.
    pub fn source(&self) -> proc_macro2::TokenStream {
        let item = |f: &ItemFn| {
            let attrs = f.attrs.iter().filter(|a| !a.path().is_ident("doc"));
            let (sig, block) = (&f.sig, &f.block);
            quote::quote!(#(#attrs)* #sig #block)
        };
        self.derivative.into_iter().fold(item(self.value), |mut all, d| {
            all.extend(item(d));
            all
        })
    }
}

/// The functions of a block that other blocks may import, each lowered once, alone: so an import finds no error in it.
pub fn lower_functions(file: &syn::File) -> Result<Vec<Function<'_>>> {
    let (funcs, _) = functions(file)?;
    funcs
        .values
        .iter()
        .map(|(name, value)| {
            let derivative = funcs.derivatives.get(name).copied();
            // Functions that only kernels without adjoint can compute are for these alone, and need no derivative.
            check_function(value, &funcs, false).or_else(|e| match derivative {
                None => check_function(value, &funcs, true).map_err(|_| e),
                Some(_) => Err(e),
            })?;
            Ok(Function { value, derivative })
        })
        .collect()
}

/// Lowers a function with arguments of which nothing is known but their types, as kernels without adjoint call it or as
/// others do.
fn check_function(f: &ItemFn, funcs: &Functions<'_>, no_adjoint: bool) -> Result<()> {
    let mut l = Lower::new(funcs, "Row".into());
    l.b.in_order = no_adjoint;
    for arg in &f.sig.inputs {
        let (name, ty) = syntax::argument(arg)?;
        let mut real = |_| {
            let p = l.params.len();
            let (kind, element) = (Kind::Scalar, Shape::Number);
            l.params.push(Param { name: String::new(), kind, element, channels: 0, in_out: false });
            l.b.real_op(Op::Scalar(p))
        };
        let word = type_name(ty);
        let value = match Shape::named(&word) {
            Some(shape) => Value::of(shape, (0..shape.components()).map(&mut real).collect()),
            None if word == "i32" || (no_adjoint && word == "i64") => {
                Value::Scalar(l.b.op_value(Op::IntScalar(0)))
            }
            None => return err(ty, ARGUMENT),
        };
        l.bind(name.ident.to_string(), value);
    }
    let name = f.sig.ident.to_string();
    l.inlining.push(name.clone());
    let functions::Returned::One(value) = l.function_body(f)? else {
        return err(&f.sig, "a function gives back one value");
    };
    l.check_returned(f, &value)?;
    l.template(&name).map(|_| ())
}

/// The functions and the kernels of a block.
fn functions(file: &syn::File) -> Result<(Functions<'_>, Vec<&ItemFn>)> {
    let mut funcs = Functions::default();
    let mut kernels = vec![];
    for item in &file.items {
        let Item::Fn(f) = item else {
            return err(
                item,
                "`kernels!` holds functions only: `#[func] fn`, `#[derivative(f)] fn` and `#[kernel] fn`, and imports of \
                 other blocks' functions",
            );
        };
        let name = f.sig.ident.to_string();
        let attr =
            f.attrs.iter().find(|a| ["func", "derivative", "kernel"].iter().any(|n| a.path().is_ident(n)));
        let before = match attr {
            Some(a) if a.path().is_ident("func") => {
                syntax::check_output(f)?;
                funcs.values.insert(name, f)
            }
            Some(a) if a.path().is_ident("derivative") => {
                syntax::check_output(f)?;
                let of: syn::Ident = a.parse_args()?;
                funcs.derivatives.insert(of.to_string(), f)
            }
            Some(_) => {
                kernels.push(f);
                None
            }
            None => {
                return err(&f.sig.ident, "say what this is: `#[kernel]`, `#[func]` or `#[derivative(f)]`");
            }
        };
        if before.is_some() {
            return err(
                &f.sig.ident,
                "this was already defined in this block: only one of the two would count",
            );
        }
    }
    for (of, f) in &funcs.derivatives {
        if !funcs.values.contains_key(of) {
            return err(
                &f.sig.ident,
                format!("`#[derivative({of})]`: there is no `#[func] fn {of}` in this block"),
            );
        }
    }
    Ok((funcs, kernels))
}

#[derive(Default)]
struct Functions<'a> {
    values: BTreeMap<String, &'a ItemFn>,
    derivatives: BTreeMap<String, &'a ItemFn>,
}

/// The types of a function's arguments.
const ARGUMENT: &str = "an argument is Real, i32, Vec2, Vec3, Vec4, Mat2 or Mat3";

fn err<T>(at: &impl ToTokens, message: impl std::fmt::Display) -> Result<T> {
    Err(Error::new_spanned(at, message))
}

/// The value of an expression.
#[derive(Clone, Debug)]
enum Value {
    Scalar(Val),
    /// The components of a vector or a matrix of reals.
    Tensor(Shape, Vec<Val>),
    /// Three integers; reals where they have to be differentiated.
    IVec3([Val; 3]),
    /// A variable of a kernel without adjoint: the first of its accumulators, and the value it began with.
    Variable(Acc, Box<Value>),
    /// The first of the accumulators of a sum of reals, vectors or matrices.
    Sum(Acc, Shape),
    /// The elements of a local array: values, or sums where it is `let mut`.
    Array(Vec<Value>),
    /// A sum for each channel of a dimension: the first of the accumulators of its components.
    Channels(Acc, Dim, Shape),
    Param(ParamId),
}

impl Value {
    /// The value of a shape that has these components.
    fn of(shape: Shape, components: Vec<Val>) -> Self {
        match shape {
            Shape::Number => Self::Scalar(components[0]),
            _ => Self::Tensor(shape, components),
        }
    }

    /// The numbers of a value.
    fn parts(&self) -> Vec<Val> {
        match self {
            Self::Scalar(v) => vec![*v],
            Self::IVec3(v) => v.to_vec(),
            Self::Tensor(_, v) => v.clone(),
            _ => vec![],
        }
    }

    /// A value of equal type, of other numbers.
    fn with(&self, mut number: impl FnMut(Val) -> Val) -> Self {
        match self {
            Self::Scalar(v) => Self::Scalar(number(*v)),
            Self::IVec3(v) => Self::IVec3(v.map(number)),
            Self::Tensor(shape, v) => Self::Tensor(*shape, v.iter().map(|v| number(*v)).collect()),
            other => other.clone(),
        }
    }
}

struct Lower<'a> {
    b: Body,
    dims: Vec<String>,
    index: Dim,
    params: Vec<Param>,
    names: Vec<HashMap<String, Value>>,
    funcs: &'a Functions<'a>,
    /// Open loops, outermost first, and the sums read and changed in each.
    loops: Vec<Loop>,
    branches: usize,
    /// The number of open loops at a sum's declaration.
    declared_in: HashMap<Acc, usize>,
    /// Open blocks, as in the body.
    blocks: Vec<Block>,
    stored: HashSet<ParamId>,
    inlining: Vec<String>,
    templates: HashMap<String, usize>,
    /// The batch and system that a loop over members visits.
    member_of: HashMap<LoopId, (ParamId, Val)>,
    /// The number of copies of the current statement that unrolled loops around it make.
    unrolled: i64,
    /// The sums over channels that have been read.
    channels_read: HashSet<Acc>,
    /// The extrema that the open loops search for, by the sum that stands for each.
    sought: HashMap<Acc, Sought>,
    /// Extrema that loops have found: the sum that holds each, and its value without derivative.
    found: HashMap<Acc, Val>,
    grids: grid::Grids,
    /// Writes of the row so far, and on each way out of the open loops.
    written: no_adjoint::Written,
    exits: Vec<no_adjoint::Written>,
}

/// A largest or smallest value that a loop looks for. The loop is run twice: once to see where the value is, and once
/// more to add it up as the sum of the one term that is found there. So its derivatives are those of a sum.
#[derive(Clone, Copy)]
struct Sought {
    best: Acc,
    /// In the second run: the place of the extremum, and the sum.
    at: Option<(Val, Acc)>,
}

#[derive(Default)]
struct Loop {
    id: LoopId,
    read: Vec<(Acc, String, proc_macro2::Span)>,
    changed: Vec<Acc>,
    /// Open branches in it, but for those that a `continue` made.
    branches: usize,
    /// Whether it goes over channels.
    channels: bool,
    /// Whether it goes over nodes of a mesh.
    mesh: bool,
}

/// The backward pass replays blocks when all is done, so nothing in a block may read a sum that changes later. Reads
/// are therefore placed outside the block (the sum does not change in a loop that reads it), and a branch that adds
/// to a sum adds to a copy of its own as well, which it reads.
#[derive(Default)]
struct Block {
    is_loop: bool,
    /// The sums declared here and the branch's copies, by the name of the original.
    sums: HashMap<Acc, Acc>,
}

fn type_name(t: &syn::Type) -> String {
    quote::quote!(#t).to_string().replace(' ', "")
}

fn lower(f: &ItemFn, funcs: &Functions<'_>) -> Result<Source> {
    let (index_name, index_dim, inputs) = syntax::signature(f)?;
    let mut l = Lower::new(funcs, index_dim);
    l.b.in_order = no_adjoint::is_asked(f)?;
    let row = l.b.emit(Op::Row, Type::Index(0));
    l.bind(index_name, Value::Scalar(row));
    for arg in inputs {
        l.parameter(arg)?;
    }
    let most = DIMENSIONS[usize::from(l.b.in_order)];
    if l.dims.len() > most {
        let message = format!("a kernel has at most {most} dimensions, not {}", l.dims.len());
        return err(&f.sig.ident, message);
    }
    l.block(&f.block.stmts)?;
    if l.stored.is_empty() {
        return err(&f.sig.ident, "this kernel writes nothing");
    }
    let (mut options, mut prefix) = (Options::default(), None);
    if !l.b.in_order {
        (options, prefix) = attributes(f, &l.params)?;
        l.b.remove_unused();
    }
    let queries = l.grids.queries()?;
    let ident = f.sig.ident.clone();
    let name = prefix.map_or_else(|| ident.to_string(), |prefix| format!("{prefix}_{ident}"));
    let (rounded, body) = (options.rounded, l.b);
    let kernel = Kernel { name, dims: l.dims, index: l.index, params: l.params, queries, body, rounded };
    let (docs, visibility) = (docs(f), f.vis.clone());
    if kernel.body.in_order {
        no_adjoint::check_arrays(&kernel, f)?;
    }
    Ok(Source { kernel, options, docs, visibility, ident })
}

/// The most dimensions of a kernel: those of a launch, less one where [`Role`](crate::ir::Role) has a word for each in four
/// bits; and of one without adjoint.
const DIMENSIONS: [usize; 2] = [15, 16];

fn docs(f: &ItemFn) -> Vec<String> {
    let doc = |a: &syn::Attribute| match &a.meta {
        syn::Meta::NameValue(m) if m.path.is_ident("doc") => match &m.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(s), .. }) => Some(s.value()),
            _ => None,
        },
        _ => None,
    };
    f.attrs.iter().filter_map(doc).collect()
}

/// The options, and the start of the name: `#[kernel(fast(positions), fast(positions, strain), scatter, clusters, small,
/// interpreted, rounded, prefix(ewald))]`.
fn attributes(f: &ItemFn, params: &[Param]) -> Result<(Options, Option<String>)> {
    let attr = f.attrs.iter().find(|a| a.path().is_ident("kernel"));
    let Some(syn::Meta::List(_)) = attr.map(|a| &a.meta) else { return Ok(Default::default()) };
    let (mut found, mut prefix) = (Options::default(), None);
    attr.expect("matched above").parse_nested_meta(|meta| {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        let flag = match name.as_str() {
            "scatter" => Some(&mut found.scatter),
            "clusters" => Some(&mut found.clusters),
            "small" => Some(&mut found.small),
            "interpreted" => Some(&mut found.interpreted),
            "rounded" => Some(&mut found.rounded),
            _ => None,
        };
        if let Some(flag) = flag {
            *flag = true;
            return Ok(());
        }
        if meta.path.is_ident("prefix") {
            return meta.parse_nested_meta(|word| {
                prefix = Some(word.path.require_ident()?.to_string());
                Ok(())
            });
        }
        if !meta.path.is_ident("fast") {
            return Err(meta.error(
                "expected `fast(input, …)`: inputs whose gradients get a form of their own; `scatter`: gradients that \
                 add to partners' elements as well; `clusters`: gradients in clusters of atoms, too; `small`: compiles \
                 fast, runs slowly; `interpreted`: no machine code at all; `rounded`: products are rounded before they \
                 are added; or `prefix(word)`: the start of the kernel's name",
            ));
        }
        let mut set = vec![];
        meta.parse_nested_meta(|input| {
            let name = input.path.require_ident()?.to_string();
            match params.iter().position(|p| p.name == name && matches!(p.kind, Kind::Real { .. })) {
                Some(p) => set.push(p),
                None => return Err(input.error(format!("`{name}` is not a differentiable parameter"))),
            }
            Ok(())
        })?;
        found.fast.push(set);
        Ok(())
    })?;
    found.clusters |= !found.fast.is_empty();
    Ok((found, prefix))
}

impl<'a> Lower<'a> {
    fn new(funcs: &'a Functions<'a>, index: String) -> Self {
        Lower {
            b: Body::new(None),
            dims: vec![index],
            index: 0,
            params: vec![],
            names: vec![HashMap::default()],
            funcs,
            loops: vec![],
            branches: 0,
            declared_in: HashMap::default(),
            blocks: vec![Block::default()],
            stored: HashSet::default(),
            inlining: vec![],
            templates: HashMap::default(),
            member_of: HashMap::default(),
            unrolled: 1,
            channels_read: HashSet::default(),
            sought: HashMap::default(),
            found: HashMap::default(),
            grids: grid::Grids::default(),
            written: no_adjoint::Written::default(),
            exits: vec![],
        }
    }
}

impl Lower<'_> {
    fn dim(&mut self, name: &str) -> Dim {
        parameters::dimension(&mut self.dims, name)
    }

    /// An element of an array of reals.
    fn load(&mut self, param: ParamId, row: Option<Val>, channel: Option<Val>) -> Value {
        let (role, shape) = (crate::ir::Role::VALUE, self.params[param].element);
        let at = |component| self.b.real_op(Op::Load { param, role, row, component, channel });
        Value::of(shape, (0..shape.components()).map(at).collect())
    }

    /// The shape of a value of reals, and its components; none where it is something else.
    fn reals(&self, v: &Value) -> Option<(Shape, Vec<Val>)> {
        match v {
            Value::Scalar(v) if self.b.ty(*v) == Type::Real => Some((Shape::Number, vec![*v])),
            Value::Tensor(shape, v) => Some((*shape, v.clone())),
            _ => None,
        }
    }

    fn lookup(&self, name: &str) -> Option<Value> {
        self.names.iter().rev().find_map(|n| n.get(name).cloned())
    }

    fn bind(&mut self, name: String, value: Value) {
        self.names.last_mut().expect("a block is open").insert(name, value);
    }

    fn is_row(&self, v: Val) -> bool {
        *self.b.op(v) == Op::Row
    }

    fn dim_name(&self, d: Dim) -> &str {
        &self.dims[d]
    }

    /// The derivative template of a function, lowered once.
    fn template(&mut self, name: &str) -> Result<Option<usize>> {
        if let Some(t) = self.templates.get(name) {
            return Ok(Some(*t));
        }
        let Some(f) = self.funcs.derivatives.get(name).copied() else { return Ok(None) };
        let args = self.funcs.values[name].sig.inputs.len();
        if f.sig.inputs.len() != args {
            return err(&f.sig.inputs, format!("a derivative has the arguments of its function: {args}"));
        }
        // Known before it is there: a derivative may call the function itself, and others with derivatives.
        let id = self.b.templates.len();
        self.b.templates.push(Template::default());
        self.templates.insert(name.to_string(), id);
        self.b.templates[id] = self.lower_template(f)?;
        Ok(Some(id))
    }

    fn lower_template(&mut self, f: &ItemFn) -> Result<Template> {
        let mut l = Lower::new(self.funcs, String::new());
        (l.b, l.dims, l.index) = (Body::new(Some(&self.b)), self.dims.clone(), self.index);
        (l.inlining, l.templates) = (vec![f.sig.ident.to_string()], self.templates.clone());
        let mut args = 0;
        for arg in &f.sig.inputs {
            let (name, ty) = syntax::argument(arg)?;
            if type_name(ty) != "Real" {
                return err(arg, "a function with its own derivative takes reals only");
            }
            // A placeholder: templates are instantiated with the caller's values.
            let v = l.b.emit(Op::Scalar(args), Type::Real);
            l.bind(name.ident.to_string(), Value::Scalar(v));
            args += 1;
        }
        let partials = match l.function_body(f)? {
            functions::Returned::One(Value::Scalar(v)) => vec![v],
            functions::Returned::Tuple(values) => values,
            functions::Returned::One(_) => return err(&f.sig, "a derivative is a Real, or a tuple of them"),
        };
        if partials.len() != args {
            let message =
                format!("this must give one partial derivative per argument: {args}, not {}", partials.len());
            return err(&f.block.stmts.last(), message);
        }
        self.b.templates = l.b.templates.clone();
        self.templates = l.templates.clone();
        let values = (0..l.b.len()).map(|v| l.b.op(v).clone()).collect();
        Ok(Template { values, args, partials })
    }
}
