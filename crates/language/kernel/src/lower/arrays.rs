//! Small arrays of constant size, arrays with channels, and loops over channels.

use super::{Loop, Lower, Value, err, syntax};
use crate::ir::{Acc, Array, Dim, IntegerOp, Kind, Op, Param, ParamId, Role, Shape, Stmt, Type, Val};
use proc_macro2::{Delimiter, TokenTree};
use quote::ToTokens;
use rustc_hash::FxHashMap as HashMap;
use syn::{Expr, ExprIndex, Result};

/// The most elements of a local array, and the most iterations of a loop that is unrolled for one.
const UNROLLED: i64 = 64;

/// One more than the largest channel that a kernel names by its number.
const MOST_CHANNELS: i64 = 1 << 16;

const NUMBER: &str = "this is a number: only arrays, vectors and matrices have elements";

impl Lower<'_> {
    /// `[a, b, c]`
    pub(super) fn array(&mut self, a: &syn::ExprArray) -> Result<Value> {
        let elements = a.elems.iter().map(|e| self.expr(e)).collect::<Result<_>>()?;
        self.array_of(elements, a)
    }

    /// `[x; 4]`
    pub(super) fn repeat(&mut self, r: &syn::ExprRepeat) -> Result<Value> {
        if self.dimension(&r.len).is_some() {
            return err(r, "a value for each channel is a sum: `let mut s = [0.0; Feature]`");
        }
        let n = self.int(&r.len)?;
        match self.constant_int(n) {
            Some(n) if (1..=UNROLLED).contains(&n) => {
                let x = self.expr(&r.expr)?;
                self.array_of(vec![x; n as usize], r)
            }
            _ => err(&r.len, format!("a local array has a constant number of elements, 1 to {UNROLLED}")),
        }
    }

    fn array_of(&mut self, elements: Vec<Value>, at: &impl ToTokens) -> Result<Value> {
        let is_element = |v: &Value| match v {
            Value::Scalar(v) => self.b.ty(*v) == Type::Real,
            Value::Tensor(..) | Value::Array(_) => true,
            _ => false,
        };
        let types: Vec<String> = elements.iter().map(|v| self.type_of(v)).collect();
        if elements.is_empty()
            || elements.len() > UNROLLED as usize
            || !elements.iter().all(is_element)
            || types.iter().any(|t| *t != types[0])
        {
            let message = format!(
                "a local array has 1 to {UNROLLED} elements of one type: reals, vectors, matrices or arrays of these"
            );
            return err(at, message);
        }
        Ok(Value::Array(elements))
    }

    /// The number that an integer always is.
    pub(super) fn constant_int(&self, v: Val) -> Option<i64> {
        match *self.b.op(v) {
            Op::Int(n) => Some(n),
            Op::Integers(op, a, b) => {
                let (a, b) = (self.constant_int(a)?, self.constant_int(b)?);
                match op {
                    IntegerOp::Add => a.checked_add(b),
                    IntegerOp::Sub => a.checked_sub(b),
                    IntegerOp::Mul => a.checked_mul(b),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The value of an expression that begins with a local array, a vector or a matrix: it, an element of it, or a sum.
    pub(super) fn element(&mut self, e: &Expr) -> Result<Option<Value>> {
        match e {
            Expr::Path(p) => {
                let named = p.path.get_ident().and_then(|name| self.lookup(&name.to_string()));
                Ok(match named {
                    Some(Value::Sum(_, Shape::Number)) => None,
                    Some(v @ (Value::Array(_) | Value::Tensor(..) | Value::IVec3(_) | Value::Sum(..))) => {
                        Some(v)
                    }
                    Some(Value::Variable(first, like)) if !matches!(*like, Value::Scalar(_)) => {
                        Some(self.now(first, &like))
                    }
                    _ => None,
                })
            }
            Expr::Index(ix) => {
                let whole = match self.element(&ix.expr)? {
                    None if self.is_computed(&ix.expr) => self.expr(&ix.expr)?,
                    None => return Ok(None),
                    Some(whole) => whole,
                };
                let whole = if matches!(whole, Value::Sum(..)) { self.read(whole, &ix.expr) } else { whole };
                self.part(&whole, &ix.index, &ix.expr).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Whether an expression has a value, be it an element of an array of vectors, and is no array.
    pub(super) fn is_computed(&self, e: &Expr) -> bool {
        let (mut array, mut indices) = (e, 0);
        while let Expr::Index(ix) = array {
            (array, indices) = (&ix.expr, indices + 1);
        }
        match array {
            Expr::Path(p) => {
                p.path.get_ident().is_some_and(|name| self.leads_to_vector(&name.to_string(), indices))
            }
            _ => true,
        }
    }

    /// Whether so many indices of a name lead to a vector or a matrix that can be read: one of an array of these, two where
    /// the array has channels.
    fn leads_to_vector(&self, name: &str, indices: usize) -> bool {
        match self.lookup(name) {
            Some(Value::Channels(.., shape)) => shape != Shape::Number && indices == 1,
            Some(Value::Param(id)) => {
                let Param { kind, element, .. } = &self.params[id];
                let readable = self.b.in_order || !kind.is_output();
                *element != Shape::Number && readable && indices == 1 + usize::from(kind.width().is_some())
            }
            _ => false,
        }
    }

    /// An element of a local array, a component of a vector, or a row of a matrix.
    pub(super) fn part(&mut self, whole: &Value, index: &Expr, at: &Expr) -> Result<Value> {
        let parts = match whole {
            Value::Array(elements) => elements.clone(),
            Value::IVec3(v) => v.iter().map(|v| Value::Scalar(*v)).collect(),
            Value::Tensor(Shape::Matrix(n), v) => {
                v.chunks(*n).map(|row| Value::Tensor(Shape::Vector(*n), row.to_vec())).collect()
            }
            Value::Tensor(_, v) => v.iter().map(|v| Value::Scalar(*v)).collect(),
            _ => return err(at, NUMBER),
        };
        let n = self.int(index)?;
        match self.constant_int(n) {
            Some(n) if n < 0 || n as usize >= parts.len() => {
                let last = parts.len() - 1;
                err(index, format!("index {n} is out of range: the elements are 0 to {last}"))
            }
            Some(n) => Ok(parts[n as usize].clone()),
            None if self.b.in_order => err(
                index,
                "the components of a vector and the rows of a matrix are told by constants: select with `if`",
            ),
            None => err(
                index,
                "a local array, a vector or a matrix is indexed by constants and by the variables of loops with constant \
                 bounds (`for k in 0..4`): hand on an array parameter, or select with `if`",
            ),
        }
    }

    /// The value of an element: sums are read.
    pub(super) fn read(&mut self, v: Value, at: &Expr) -> Value {
        match v {
            Value::Sum(first, shape) => {
                self.note_read(first, at);
                let (depth, sum) = self.sum(first);
                let read = |c: usize| self.b.read_at(sum + c, depth);
                Value::of(shape, (0..shape.components()).map(read).collect())
            }
            Value::Array(elements) => Value::Array(elements.into_iter().map(|v| self.read(v, at)).collect()),
            v => v,
        }
    }

    fn note_read(&mut self, sum: Acc, at: &Expr) {
        let (name, span) = first_name(at);
        for l in &mut self.loops[self.declared_in[&sum]..] {
            l.read.push((sum, name.clone(), span));
        }
    }

    /// A loop with constant bounds that indexes a local array, written out. Not every loop is: `false`.
    pub(super) fn unroll(&mut self, f: &syn::ExprForLoop) -> Result<bool> {
        let (Expr::Range(r), syn::Pat::Ident(name)) = (&*f.expr, &*f.pat) else { return Ok(false) };
        let (Some(lo), Some(hi), syn::RangeLimits::HalfOpen(_)) = (&r.start, &r.end, &r.limits) else {
            return Ok(false);
        };
        if !self.indexes_local(f.body.to_token_stream()) {
            return Ok(false);
        }
        let (lo, hi) = (self.int(lo)?, self.int(hi)?);
        let (Some(lo), Some(hi)) = (self.constant_int(lo), self.constant_int(hi)) else { return Ok(false) };
        let times = hi.saturating_sub(lo).max(0).saturating_mul(self.unrolled);
        if times > UNROLLED {
            let message = format!(
                "a loop that indexes a local array is unrolled, with all loops around it that are: at most {UNROLLED} \
                 iterations, not {times}"
            );
            return err(&f.expr, message);
        }
        let before = std::mem::replace(&mut self.unrolled, times.max(1));
        self.loops.push(Loop::default());
        for k in lo..hi {
            let k = self.b.op_value(Op::Int(k));
            self.names.push(HashMap::from_iter([(name.ident.to_string(), Value::Scalar(k))]));
            self.block(&f.body.stmts)?;
            self.names.pop();
        }
        // Straight-line code: sums may be read between additions.
        self.loops.pop();
        self.unrolled = before;
        Ok(true)
    }

    /// Whether a name that is no parameter (nor a sum over channels), or an element of an array of vectors, is indexed in
    /// these tokens.
    fn indexes_local(&self, tokens: proc_macro2::TokenStream) -> bool {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        (0..tokens.len()).any(|n| match &tokens[n] {
            TokenTree::Group(g) if g.delimiter() == Delimiter::Bracket && n > 0 => {
                let local =
                    |name: &str| !matches!(self.lookup(name), Some(Value::Param(_) | Value::Channels(..)));
                let before = tokens[..n].iter().rev();
                let indices = before.take_while(|t| matches!(t, TokenTree::Group(_))).count();
                let is_local = match n.checked_sub(indices + 1).map(|at| &tokens[at]) {
                    Some(TokenTree::Ident(i)) if indices == 0 => local(&i.to_string()),
                    Some(TokenTree::Ident(i)) => self.leads_to_vector(&i.to_string(), indices),
                    _ => false,
                };
                is_local || self.indexes_local(g.stream())
            }
            TokenTree::Group(g) => self.indexes_local(g.stream()),
            _ => false,
        })
    }

    /// The dimension that an expression names.
    fn dimension(&self, e: &Expr) -> Option<Dim> {
        let Expr::Path(p) = e else { return None };
        let name = p.path.get_ident()?.to_string();
        if self.lookup(&name).is_some() { None } else { self.dims.iter().position(|d| *d == name) }
    }

    /// The dimension of `for c in Feature`.
    pub(super) fn channels(&self, e: &Expr) -> Result<Option<Dim>> {
        let Some(dim) = self.dimension(e) else { return Ok(None) };
        let has_rows = dim == self.index
            || self
                .params
                .iter()
                .filter_map(|p| p.kind.structure())
                .any(|(_, dims)| dims.contains(&Some(dim)));
        if has_rows {
            let name = self.dim_name(dim);
            let message = format!(
                "a loop over channels goes over a dimension that is neither the kernel's own nor in a batch, map, mesh or pair list; \
                 `{name}` is: loop over pairs or members"
            );
            return err(e, message);
        }
        Ok(Some(dim))
    }

    /// `let mut s = [0.0; Feature]`: a sum for each channel, of reals, vectors or matrices. None where it is something else.
    pub(super) fn channel_sums(&mut self, e: &Expr) -> Result<Option<Value>> {
        let Expr::Repeat(r) = e else { return Ok(None) };
        let Some(dim) = self.dimension(&r.len) else { return Ok(None) };
        self.channels(&r.len)?;
        let zero = self.expr(&r.expr)?;
        let shape = match self.reals(&zero) {
            Some((shape, zeros)) if zeros.iter().all(|z| self.b.constant(*z) == Some(0.0)) => shape,
            _ => return err(&r.expr, "sums over channels begin at 0.0, or at a vector or a matrix of zeros"),
        };
        if !self.loops.is_empty() || self.branches > 0 {
            return err(e, "sums over channels are declared outside loops and branches");
        }
        let sums: Vec<Acc> = (0..shape.components()).map(|_| self.b.new_acc()).collect();
        for sum in &sums {
            self.b.push(Stmt::DeclareChannels(*sum, dim));
        }
        self.declared_in.insert(sums[0], 0);
        Ok(Some(Value::Channels(sums[0], dim, shape)))
    }

    fn named_channels(&self, e: &Expr) -> Option<(Acc, Dim, Shape)> {
        let Expr::Path(p) = e else { return None };
        match self.lookup(&p.path.get_ident()?.to_string()) {
            Some(Value::Channels(sum, dim, shape)) => Some((sum, dim, shape)),
            _ => None,
        }
    }

    /// The variable of a loop over channels of this dimension.
    fn channel(&mut self, dim: Dim, c: Val, e: &Expr) -> Result<Val> {
        if self.b.ty(c) == Type::Index(dim) && matches!(self.b.op(c), Op::LoopVar(_)) {
            return Ok(c);
        }
        let name = self.dim_name(dim);
        err(e, format!("this has a value for each channel: index it by the variable of `for c in {name}`"))
    }

    /// Whether an index is the element of a map.
    fn is_element(&self, v: Val) -> bool {
        matches!(self.b.op(v), Op::IndexOf { array: Array::MapOf, .. })
    }

    /// `s[c]` and `features[j][c]`. None where there are no channels.
    pub(super) fn channel_value(&mut self, ix: &ExprIndex) -> Result<Option<Value>> {
        if let Some((sum, dim, shape)) = self.named_channels(&ix.expr) {
            let c = self.index(&ix.index)?;
            let c = self.channel(dim, c, &ix.index)?;
            self.note_read(sum, &ix.expr);
            self.channels_read.insert(sum);
            let read = |component| self.b.emit(Op::ReadChannel(sum + component, c), Type::Real);
            return Ok(Some(Value::of(shape, (0..shape.components()).map(read).collect())));
        }
        let Expr::Index(inner) = &*ix.expr else { return Ok(None) };
        if matches!(&*inner.expr, Expr::Index(_)) {
            // No vector: `element` reads the components of these.
            self.channel_value(inner)?;
            return err(inner, NUMBER);
        }
        let (param, row, c) = self.channel_place(ix)?;
        if matches!(self.params[param].kind, Kind::Output { .. }) {
            return err(ix, "an output cannot be read: its old value is gone in the backward pass");
        }
        Ok(Some(self.load(param, Some(row), Some(c))))
    }

    /// Parameter, row and channel of `features[j][c]`, or row and column of `table[kind.of(i)][kind.of(j)]`.
    fn channel_place(&mut self, ix: &ExprIndex) -> Result<(ParamId, Val, Val)> {
        let Expr::Index(inner) = &*ix.expr else {
            return err(&ix.expr, "expected `array[row][channel]`");
        };
        if matches!(&*inner.expr, Expr::Index(_)) {
            return err(ix, syntax::WHOLE);
        }
        let param = self.param_named(&inner.expr)?;
        let (Kind::Real { dim: Some(dim), width: Some(width), .. }
        | Kind::Output { dim: Some(dim), width: Some(width), .. }) = self.params[param].kind
        else {
            if self.params[param].element != Shape::Number {
                return err(ix, syntax::WHOLE);
            }
            return err(
                &inner.expr,
                "this array has no channels: one that has is `&[[Real; Feature]; Atom]`",
            );
        };
        let row = self.index(&inner.index)?;
        self.check_row(dim, row, &inner.index)?;
        let is_table = self.params[param].element == Shape::Number && !self.params[param].kind.is_output();
        let in_table = is_table && self.is_element(row);
        if in_table || dim == width {
            let column = self.index(&ix.index)?;
            if in_table && self.is_element(column) {
                self.check_row(width, column, &ix.index)?;
                return Ok((param, row, column));
            }
        }
        if dim == width {
            return err(ix, "a table is indexed by elements of maps: `table[kind.of(i)][kind.of(j)]`");
        }
        let c = self.index(&ix.index)?;
        match self.constant_int(c) {
            Some(n @ 0..MOST_CHANNELS) => {
                let channels = &mut self.params[param].channels;
                *channels = (*channels).max(n as usize + 1);
                Ok((param, row, self.b.emit(Op::Channel(n as usize, width), Type::Index(width))))
            }
            Some(n) => {
                err(&ix.index, format!("channel {n} is out of range: a number is 0 to {}", MOST_CHANNELS - 1))
            }
            None => Ok((param, row, self.channel(width, c, &ix.index)?)),
        }
    }

    /// `s[c] += x`, `total[system][c] += x`. False where there are no channels.
    pub(super) fn add_to_channel(
        &mut self,
        ix: &ExprIndex,
        value: &Value,
        at: &syn::ExprBinary,
    ) -> Result<bool> {
        if let Some((sum, dim, shape)) = self.named_channels(&ix.expr) {
            let c = self.index(&ix.index)?;
            let channel = self.channel(dim, c, &ix.index)?;
            // (Where it was read in a loop that is open, that loop says so.)
            let in_open_loop = self.loops.iter().any(|l| l.read.iter().any(|r| r.0 == sum));
            if self.channels_read.contains(&sum) && !in_open_loop {
                let (name, _) = first_name(&ix.expr);
                let message = format!(
                    "`{name}` was read above: a sum over channels is whole before it is read (use a second one)"
                );
                return err(at, message);
            }
            for (component, value) in self.components(value, shape, &at.right)?.into_iter().enumerate() {
                self.b.push(Stmt::AccumulateChannel { sum: sum + component, channel, value });
            }
            for l in &mut self.loops {
                l.changed.push(sum);
            }
            return Ok(true);
        }
        if !matches!(&*ix.expr, Expr::Index(_)) {
            return Ok(false);
        }
        let (param, row, c) = self.channel_place(ix)?;
        if !matches!(self.params[param].kind, Kind::Output { .. }) {
            return err(&at.left, "this parameter is read-only: declare it `&mut`");
        }
        if self.is_row(row) {
            return err(at, "a row writes its own element once: `output[i][c] = …`");
        }
        let by_number = matches!(self.b.op(c), Op::Channel(..));
        if self.loops.len() > usize::from(!by_number) {
            return err(
                at,
                "adding to an output inside a loop over data: sum into a `let mut` and add once after the loop",
            );
        }
        let value = self.components(value, self.params[param].element, &at.right)?;
        for (component, value) in value.into_iter().enumerate() {
            let (role, row, channel) = (Role::VALUE, Some(row), Some(c));
            self.b.push(Stmt::Contribute { param, role, row, component, channel, value });
        }
        self.stored.insert(param);
        Ok(true)
    }

    /// `out[i][c] = x`
    pub(super) fn assign_channel(&mut self, a: &syn::ExprAssign, ix: &ExprIndex) -> Result<()> {
        let (param, row, c) = self.channel_place(ix)?;
        if !matches!(self.params[param].kind, Kind::Output { .. }) {
            return err(&a.left, "this parameter is read-only: declare it `&mut`");
        }
        if self.loops.len() != 1 || self.branches > 0 || matches!(self.b.op(c), Op::Channel(..)) {
            return err(
                a,
                "an output is written once per row and channel: in a loop over channels that stands in no other loop or \
                 branch",
            );
        }
        if !self.is_row(row) {
            return err(&ix.expr, "a row stores to its own element only; add to shared ones with `+=`");
        }
        if !self.stored.insert(param) {
            return err(a, "this output was already written: its first value would be lost");
        }
        let value = self.expr(&a.right)?;
        let value = self.components(&value, self.params[param].element, &a.right)?;
        for (component, value) in value.into_iter().enumerate() {
            let (role, channel) = (Role::VALUE, Some(c));
            self.b.push(Stmt::Store { param, role, component, channel, value });
        }
        Ok(())
    }
}

fn first_name(e: &Expr) -> (String, proc_macro2::Span) {
    match e.to_token_stream().into_iter().next() {
        Some(TokenTree::Ident(name)) => (name.to_string(), name.span()),
        _ => (String::new(), proc_macro2::Span::call_site()),
    }
}
