//! Elements of arrays: which one is meant, and whether that was checked before.

use super::{Lower, Value, err, syntax};
use crate::ir::{Dim, Kind, Op, Param, ParamId, Shape, Stmt, Type, Val};
use syn::{Expr, Result, UnOp};

/// An element of an array.
#[derive(Clone, Copy)]
pub(in crate::lower) struct Place {
    pub(super) param: ParamId,
    pub(super) row: Option<Val>,
    /// Whether it is certainly the row's own, which no other one touches unless it computes its number.
    pub(super) own: bool,
}

impl Lower<'_> {
    /// A row of a dimension: one that is known to be there, or a number that is compared with the rows there are.
    pub(in crate::lower) fn checked_row(&mut self, e: &Expr, dim: Dim, param: ParamId) -> Result<Val> {
        let Value::Scalar(index) = self.expr(e)? else { return err(e, "expected a row, or an integer") };
        match self.b.ty(index) {
            Type::Index(d) if d == dim => Ok(index),
            Type::Index(d) => {
                let (want, have) = (self.dim_name(dim), self.dim_name(d));
                let message = format!(
                    "this has an element per `{want}`, and the index is an `{have}` (a number of it is `as i64`)"
                );
                err(e, message)
            }
            Type::Int => {
                self.b.push(Stmt::Check { index, dim, param });
                Ok(index)
            }
            _ => err(e, "expected a row, or an integer"),
        }
    }

    pub(in crate::lower) fn place(&mut self, e: &Expr) -> Result<Place> {
        match e {
            Expr::Paren(p) => self.place(&p.expr),
            Expr::Index(ix) => {
                if self.is_computed(&ix.expr) || self.element(&ix.expr)?.is_some() {
                    return err(ix, syntax::WHOLE);
                }
                let param = self.param_named(&ix.expr)?;
                let Some(dim) = self.params[param].kind.dim() else {
                    if self.params[param].kind.structure().is_some() {
                        return err(
                            &ix.expr,
                            "batches, maps and pair lists are not indexed: `batch.of(row)`, loops over their rows",
                        );
                    }
                    return err(e, "this is one element: read it by `*output`, write it as `*output = …`");
                };
                let row = self.checked_row(&ix.index, dim, param)?;
                Ok(Place { param, row: Some(row), own: self.is_row(row) })
            }
            Expr::Unary(u) if matches!(u.op, UnOp::Deref(_)) => {
                let param = self.param_named(&u.expr)?;
                let kind = self.params[param].kind;
                if kind.dim().is_some() || kind.structure().is_some() {
                    return err(e, "this has rows: say which, `array[row]`");
                }
                Ok(Place { param, row: None, own: false })
            }
            _ => err(e, "expected an element of an array: `array[row]`, or `*output` where there is one"),
        }
    }

    /// The array whose own element this is; none for anything else.
    pub(in crate::lower) fn own_element(&mut self, e: &Expr) -> Result<Option<ParamId>> {
        match e {
            Expr::Paren(p) => self.own_element(&p.expr),
            Expr::Index(_) => self.place(e).map(|at| at.own.then_some(at.param)),
            _ => Ok(None),
        }
    }

    /// The element as [`super::Written`] knows it: none for the row's own and for one that stands alone.
    fn other(&self, at: Place) -> Option<Val> {
        let row = at.row.map(|row| match *self.b.op(row) {
            Op::Number(row) => row,
            _ => row,
        });
        row.filter(|row| !self.is_row(*row))
    }

    /// Notes that an element is written.
    pub(super) fn write(&mut self, at: Place) {
        let other = self.other(at);
        self.written.write(at.param, other);
    }

    /// The value of an element; of an output, of one that this row has written, or of its own in an in-out array.
    pub(in crate::lower) fn read_place(&mut self, at: Place, source: &Expr) -> Result<Value> {
        let other = self.other(at);
        let Param { name, kind, in_out, .. } = &self.params[at.param];
        let is_held = other.is_none() && *in_out;
        if kind.is_output() && !is_held && !self.written.has(at.param, other) {
            let message = match other {
                None => format!(
                    "`{name}` is read before this row writes it on every path, and outputs start as zeros: write it first, \
                     give the old values as an input, or mark it `InOut` to read what the array holds"
                ),
                Some(_) => {
                    let start = if *in_out { "its old value may be gone" } else { "outputs start as zeros" };
                    format!(
                        "an element of `{name}` other than the row's own is read before this row writes one: rows run in any order, \
                         and {start} (read an input, write to another array)"
                    )
                }
            };
            return err(source, message);
        }
        let Place { param, row, .. } = at;
        Ok(match self.params[param].kind {
            Kind::Real { .. } | Kind::Output { .. } => self.load(param, row, None),
            Kind::Ints { components: 3, .. } => Value::IVec3(
                [0, 1, 2].map(|component| self.b.op_value(Op::Element { param, row, component })),
            ),
            _ => Value::Scalar(self.b.op_value(Op::Element { param, row, component: 0 })),
        })
    }

    /// A place that can be written.
    pub(super) fn target(&mut self, e: &Expr) -> Result<Place> {
        let place = self.place(e)?;
        if !self.params[place.param].kind.is_output() {
            return err(e, "this parameter is read-only: declare it `&mut`");
        }
        self.stored.insert(place.param);
        Ok(place)
    }

    pub(super) fn store(&mut self, at: Place, value: &Value, source: &Expr) -> Result<()> {
        let Param { kind, element, .. } = &self.params[at.param];
        let want = if matches!(kind, Kind::Output { .. }) { element.word() } else { "i64" };
        let have = self.type_of(value);
        if want != have {
            let hint = conversion(want, &have);
            return err(source, format!("expected a {want}, and this is a {have}{hint}"));
        }
        for (component, value) in value.parts().into_iter().enumerate() {
            self.b.push(Stmt::Write { param: at.param, row: at.row, component, value });
        }
        self.write(at);
        Ok(())
    }
}

/// A hint for the error message: the conversion from one type to another.
pub(super) fn conversion(want: &str, have: &str) -> &'static str {
    match (want, have) {
        ("Real", "i64") => " (an integer becomes one as `n as Real`; a constant is `1.0`)",
        ("i64", "Real") => " (a real without its fraction is `x as i64`, after `floor(x)` rounded down)",
        ("i64", "IVec3" | "bool") => "",
        ("i64", have) if Shape::named(have).is_some() => "",
        ("i64", _) => " (the number of a row is `row as i64`)",
        _ => "",
    }
}
