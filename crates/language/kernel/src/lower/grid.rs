//! Queries of grids: `for (j, shift) in grid.query(x[i], radius)` is a loop over the pairs that a search finds before
//! the kernel runs.

use super::{Lower, Value, err};
use crate::ir::{Kind, Op, ParamId, Query, Range, Role, Shape, Type};
use quote::ToTokens;
use syn::{Error, Expr, ExprForLoop, ExprMethodCall, Result};

pub(super) const FORM: &str = "a query is `for (j, shift) in grid.query(x[i], radius)`, and `for (j, shift, p) in …` where \
     the grid names its pairs";

const POSITION: &str = "a query is around the row's own element of an array of vectors, `x[i]` with `x: &[Vec3; Query]`: the \
     search comes before the kernel runs, so hand on what is computed as an array";

const RADIUS: &str = "the radius of a query is an attribute, `radius: Real`, the same for every row: what is nearer is told \
     in the loop, by an `if`";

/// The grids among a kernel's parameters.
#[derive(Default)]
pub(super) struct Grids(Vec<Grid>);

struct Grid {
    param: ParamId,
    name: syn::Ident,
    query: Option<Query>,
}

impl Grids {
    pub(super) fn declare(&mut self, param: ParamId, name: &syn::Ident) {
        self.0.push(Grid { param, name: name.clone(), query: None });
    }

    pub(super) fn has(&self, param: ParamId) -> bool {
        self.0.iter().any(|g| g.param == param)
    }

    /// Notes a query. `names`: the loop's variables; `entries`: whether the grid names its pairs.
    pub(super) fn query(&mut self, query: Query, at: &ExprMethodCall) -> Result<()> {
        let grid = self.0.iter_mut().find(|g| g.param == query.grid).expect("seen to be a grid");
        if *grid.query.get_or_insert(query) == query {
            return Ok(());
        }
        let message = format!(
            "`{}` is queried around other positions, or with another radius, above, and has one query in a kernel: take \
             two parameters, which may be given the same grid",
            grid.name
        );
        err(at, message)
    }

    /// The queries, in the order of the grids.
    pub(super) fn queries(self) -> Result<Vec<Query>> {
        let unused = |name: syn::Ident| {
            err(&name, format!("`{name}` is not queried: `for (j, shift) in {name}.query(x[i], radius)`"))
        };
        self.0.into_iter().map(|g| g.query.map_or_else(|| unused(g.name), Ok)).collect()
    }
}

/// Whether a parameter is a grid.
pub(super) fn is_grid(ty: &syn::Type) -> bool {
    let syn::Type::Reference(reference) = ty else { return false };
    let syn::Type::Path(path) = &*reference.elem else { return false };
    path.path.segments.last().is_some_and(|s| s.ident == "HashGrid")
}

/// The first dimension of a grid's type is the kernel's own.
pub(super) fn check_rows(arguments: &syn::PathArguments, own: &str) -> Result<()> {
    let syn::PathArguments::AngleBracketed(args) = arguments else { return Ok(()) };
    match args.args.first() {
        Some(rows) if rows.to_token_stream().to_string() != own => err(
            rows,
            format!(
                "a grid is queried around the kernel's own rows, `&HashGrid<{own}, Point>`: other rows have a kernel of \
                 their own"
            ),
        ),
        _ => Ok(()),
    }
}

/// The arguments of `grid.query(x[i], radius)`, in a loop that binds `names` names over a grid.
pub(super) fn arguments<'e>(
    f: &ExprForLoop,
    m: &'e ExprMethodCall,
    names: usize,
    is_grid: bool,
    entries: bool,
) -> Result<[&'e Expr; 2]> {
    if !is_grid {
        return err(
            m,
            "only grids are queried: take a parameter `&HashGrid<Query, Point>` (a pair list has been searched for, and \
             has `pairs.row(i)`)",
        );
    }
    let args: Vec<&Expr> = m.args.iter().collect();
    let &[position, radius] = args.as_slice() else { return err(m, FORM) };
    match names {
        2 => {}
        3 if entries => {}
        3 => {
            return err(
                &f.pat,
                "this grid does not name its pairs: `&HashGrid<Query, Point, Edge>`, and arrays `&[T; Edge]`",
            );
        }
        _ => {
            return err(
                &f.pat,
                "a query gives points and their images: `for (j, shift) in grid.query(x[i], radius)`",
            );
        }
    }
    Ok([position, radius])
}

/// The error of a loop over a grid's rows.
pub(super) fn no_rows<T>(m: &ExprMethodCall) -> Result<T> {
    err(m, "a grid has no pairs before it is queried: `grid.query(x[i], radius)`")
}

pub(super) fn wrong_position(at: &Expr) -> Error {
    Error::new_spanned(at, POSITION)
}

pub(super) fn wrong_radius(at: &Expr) -> Error {
    Error::new_spanned(at, RADIUS)
}

impl Lower<'_> {
    /// `grid.query(x[i], radius)`, in a loop that binds so many names.
    pub(super) fn query_range(&mut self, f: &ExprForLoop, m: &ExprMethodCall, names: usize) -> Result<Range> {
        let grid = self.param_named(&m.receiver)?;
        let entries = matches!(self.params[grid].kind, Kind::Pairs { entries: Some(_), .. });
        let [position, radius] = arguments(f, m, names, self.grids.has(grid), entries)?;
        let positions = self.own_position(position)?;
        let radius = match self.expr(radius)? {
            Value::Scalar(v) => match *self.b.op(v) {
                Op::Scalar(param) => param,
                _ => return Err(wrong_radius(radius)),
            },
            _ => return Err(wrong_radius(radius)),
        };
        self.grids.query(Query { grid, positions, radius }, m)?;
        let row = self.b.emit(Op::Row, Type::Index(self.index));
        Ok(Range::Pairs { list: grid, row })
    }

    /// The array whose own element this is.
    fn own_position(&mut self, e: &Expr) -> Result<ParamId> {
        if self.b.in_order {
            return match self.own_element(e)? {
                Some(param) if matches!(self.params[param].kind, Kind::Real { components: 3, .. }) => {
                    Ok(param)
                }
                _ => Err(wrong_position(e)),
            };
        }
        let Value::Tensor(Shape::Vector(3), components) = self.expr(e)? else {
            return Err(wrong_position(e));
        };
        let mut arrays = components.iter().enumerate().map(|(n, v)| match *self.b.op(*v) {
            Op::Load { param, role: Role::VALUE, row: Some(row), component, channel: None }
                if component == n && self.is_row(row) =>
            {
                Some(param)
            }
            _ => None,
        });
        let first = arrays.next().flatten();
        match first.filter(|_| arrays.all(|a| a == first)) {
            Some(param) if matches!(self.params[param].kind, Kind::Real { zero: false, .. }) => Ok(param),
            _ => Err(wrong_position(e)),
        }
    }
}
