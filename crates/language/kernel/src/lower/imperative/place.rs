//! Elements of arrays: which one is meant, and whether that was checked before.

use super::written::ROW;
use super::{Lower, Name, Value, err, syntax};
use crate::imperative::{Atomic, Expr as Computed, Stmt, Type, Var};
use crate::ir::{self, Dim, Kind, ParamId};
use syn::{Expr, Result, UnOp};

/// An element of an array.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) param: ParamId,
    pub(super) row: Option<Var>,
    /// Whether it is certainly the row's own, which no other one touches unless it computes its number.
    pub(super) own: bool,
}

impl Lower<'_> {
    pub(super) fn param_named(&self, e: &Expr) -> Result<ParamId> {
        if let Expr::Path(p) = e
            && let Some(name) = p.path.get_ident()
        {
            return match self.lookup(&name.to_string()) {
                Some(Name::Param(id)) => Ok(id),
                Some(_) => err(e, format!("`{name}` is not an array, batch or pair list")),
                None => err(e, format!("there is no parameter `{name}`")),
            };
        }
        err(e, "expected the name of a parameter")
    }

    /// A row of a dimension: one that is known to be there, or a number that is compared with the rows there are.
    pub(super) fn row(&mut self, e: &Expr, dim: Dim, param: ParamId) -> Result<Var> {
        match self.expr(e)? {
            Value::Row(v, d) if d == dim => Ok(v),
            Value::Row(_, d) => {
                let (want, have) = (&self.dims[dim], &self.dims[d]);
                err(
                    e,
                    format!(
                        "this has an element per `{want}`, and the index is an `{have}` (a number of it is `as i64`)"
                    ),
                )
            }
            Value::Int(index) => {
                self.push(Stmt::Check { index, dim, param });
                Ok(index)
            }
            _ => err(e, "expected a row, or an integer"),
        }
    }

    pub(super) fn place(&mut self, e: &Expr) -> Result<Place> {
        match e {
            Expr::Paren(p) => self.place(&p.expr),
            Expr::Index(ix) => {
                let value = match &*ix.expr {
                    Expr::Path(p) => match p.path.get_ident().and_then(|name| self.lookup(&name.to_string()))
                    {
                        Some(Name::Value(v) | Name::Variable(v)) => Some(v),
                        _ => None,
                    },
                    e => self.expr(e).ok(),
                };
                match value {
                    Some(Value::Vec3(_) | Value::IVec3(_)) => return err(ix, syntax::components(ix)),
                    Some(Value::Mat3(_)) => return err(ix, syntax::rows(ix)),
                    _ => {}
                }
                let param = self.param_named(&ix.expr)?;
                let Some(dim) = self.dim_of(param) else {
                    return match self.params[param].kind {
                        Kind::Batch { .. } | Kind::Pairs { .. } => err(
                            &ix.expr,
                            "batches and pair lists are not indexed: `batch.of(row)`, loops over their rows",
                        ),
                        _ => err(e, "this is one element: read it by `*output`, write it as `*output = …`"),
                    };
                };
                let own = matches!(&*ix.index, Expr::Path(p) if p.path.get_ident().is_some_and(
                    |name| matches!(self.lookup(&name.to_string()), Some(Name::Value(Value::Row(0, _))))));
                let row = self.row(&ix.index, dim, param)?;
                Ok(Place { param, row: Some(row), own })
            }
            Expr::Unary(u) if matches!(u.op, UnOp::Deref(_)) => {
                let param = self.param_named(&u.expr)?;
                match (self.params[param].kind, self.dim_of(param)) {
                    (Kind::Batch { .. } | Kind::Pairs { .. }, _) | (_, Some(_)) => {
                        err(e, "this has rows: say which, `array[row]`")
                    }
                    _ => Ok(Place { param, row: None, own: false }),
                }
            }
            _ => err(e, "expected an element of an array: `array[row]`, or `*output` where there is one"),
        }
    }

    /// The value of an element; of an output, of one that this row has written, or of its own in an in-out array.
    pub(super) fn read(&mut self, at: Place, source: &Expr) -> Result<Value> {
        let ir::Param { name, in_out, .. } = &self.params[at.param];
        let own = matches!(at.row, None | Some(ROW));
        if self.is_output(at.param) && !(own && *in_out) && !self.written.has(at.param, at.row) {
            let message = if own {
                format!(
                    "`{name}` is read before this row writes it on every path, and outputs start as zeros: write it first, \
                     give the old values as an input, or mark it `InOut` to read what the array holds"
                )
            } else {
                let start = if *in_out { "its old value may be gone" } else { "outputs start as zeros" };
                format!(
                    "an element of `{name}` other than the row's own is read before this row writes one: rows run in any order, \
                     and {start} (read an input, write to another array)"
                )
            };
            return err(source, message);
        }
        Ok(self.load(at.param, at.row))
    }

    /// A place that can be written.
    pub(super) fn target(&mut self, e: &Expr) -> Result<Place> {
        let place = self.place(e)?;
        if !self.is_output(place.param) {
            return err(e, "this parameter is read-only: declare it `&mut`");
        }
        self.writes = true;
        Ok(place)
    }

    pub(super) fn store(&mut self, at: Place, value: Value, source: &Expr) -> Result<()> {
        let want = match self.params[at.param].kind {
            Kind::Output { components: 1, .. } => "Real",
            Kind::Output { components: 3, .. } => "Vec3",
            Kind::Output { .. } => "Mat3",
            _ => "i64",
        };
        let have = self.type_of(&value);
        if want != have {
            return err(source, format!("expected a {want}, and this is a {have}{}", conversion(want, have)));
        }
        for (component, value) in value.vars().into_iter().enumerate() {
            self.push(Stmt::Store { param: at.param, row: at.row, component, value });
        }
        self.written.write(at.param, at.row);
        Ok(())
    }

    /// `atomic_add(counts[c], 1)`: the value before.
    pub(super) fn atomic(&mut self, op: Atomic, at: &Expr, value: &Expr) -> Result<Value> {
        let place = self.target(at)?;
        let Kind::Integers { .. } = self.params[place.param].kind else {
            return err(
                at,
                "reals are not counted atomically: their sum would depend on the order of rows (write one per row and \
                 sum these, or count in integers of a fixed unit)",
            );
        };
        let value = self.int(value)?;
        self.written.write(place.param, place.row);
        let atomic = Computed::Atomic { op, param: place.param, row: place.row, value };
        Ok(Value::Int(self.emit(Type::Int, atomic)))
    }
}

/// A hint for the error message: the conversion from one type to another.
pub(super) fn conversion(want: &str, have: &str) -> &'static str {
    match (want, have) {
        ("Real", "i64") => " (an integer becomes one as `n as Real`; a constant is `1.0`)",
        ("i64", "Real") => " (a real without its fraction is `x as i64`, after `floor(x)` rounded down)",
        ("i64", "Vec3" | "Mat3" | "IVec3" | "bool") => "",
        ("i64", _) => " (the number of a row is `row as i64`)",
        _ => "",
    }
}
