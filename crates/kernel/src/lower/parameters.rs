//! The parameters of a kernel.

use super::grid::{check_rows, is_grid};
use super::{Lower, Value, err, type_name};
use crate::ir::{Kind, Op, Param};
use syn::{FnArg, Pat, Result};

const PARAMETER_TYPES: &str = "one of: `Real` or `i32` (attributes), `&Real`, `&Vec3`, `&Mat3` (one element), \
     `&[T; Dim]` with T = Real, Vec3, Mat3, IVec3 or i32 (one per row), `&[[Real; Feature]; Dim]` (channels for each row), \
     `&mut [Real; Dim]`, `&mut [Vec3; Dim]`, `&mut [Mat3; Dim]`, `&mut [[Real; Feature]; Dim]`, `&mut Real` (outputs), \
     `&Batch<Rows, Systems>`, `&Pairs<Rows>`, `&Pairs<Rows, Columns, Entries>`, `&HashGrid<Rows, Points>`, `&Map<Rows, Into>`, \
     `&Mesh<Systems, Nodes>`; T may be `Zero<T>`";

impl Lower<'_> {
    pub(super) fn parameter(&mut self, arg: &FnArg) -> Result<()> {
        let FnArg::Typed(typed) = arg else { return err(arg, "a kernel has no `self`") };
        let Pat::Ident(name) = &*typed.pat else {
            return err(&typed.pat, "a parameter is a plain name");
        };
        let kind = self.parameter_kind(&typed.ty)?;
        if self.lookup(&name.ident.to_string()).is_some() {
            return err(name, format!("there are two parameters `{}`", name.ident));
        }
        if let Kind::Batch { rows, .. } = kind
            && self.params.iter().any(|p| matches!(p.kind, Kind::Batch { rows: r, .. } if r == rows))
        {
            let message = format!(
                "`{}` are in another batch already: sums over rows are cut at the systems of one (use two kernels)",
                self.dim_name(rows)
            );
            return err(&typed.ty, message);
        }
        let same = self.params.iter().filter(|p| p.kind == kind).count();
        match kind {
            Kind::Scalar if same == 8 => {
                return err(name, "a kernel has at most 8 real attributes: hand on an array");
            }
            Kind::IntScalar if same == 4 => return err(name, "a kernel has at most 4 integer attributes"),
            _ => {}
        }
        let id = self.params.len();
        self.params.push(Param { name: name.ident.to_string(), kind });
        if is_grid(&typed.ty) {
            self.grids.declare(id, &name.ident);
        }
        let value = match kind {
            Kind::Scalar => Value::Scalar(self.b.real_op(Op::Scalar(id))),
            Kind::IntScalar => Value::Scalar(self.b.op_value(Op::IntScalar(id))),
            Kind::Real { dim: None, components, .. } => self.load(id, None, components),
            _ => Value::Param(id),
        };
        self.names[0].insert(name.ident.to_string(), value);
        Ok(())
    }

    fn parameter_kind(&mut self, ty: &syn::Type) -> Result<Kind> {
        let components = |t: &str| match t {
            "Real" => Some(1),
            "Vec3" => Some(3),
            "Mat3" => Some(9),
            _ => None,
        };
        let wrong = || err(ty, format!("a kernel parameter is {PARAMETER_TYPES}"));
        match type_name(ty).as_str() {
            "Real" => return Ok(Kind::Scalar),
            "i32" => return Ok(Kind::IntScalar),
            _ => {}
        }
        let syn::Type::Reference(reference) = ty else { return wrong() };
        let output = reference.mutability.is_some();
        match &*reference.elem {
            syn::Type::Array(array) => {
                let mut dim = |len: &syn::Expr| match len {
                    syn::Expr::Path(p) if p.path.get_ident().is_some() => {
                        Ok(self.dim(&quote::quote!(#p).to_string()))
                    }
                    len => {
                        err(len, "expected the name of a dimension: `&[Real; Atom]` has one element per atom")
                    }
                };
                let rows = dim(&array.len)?;
                if let syn::Type::Array(channels) = &*array.elem {
                    let width = dim(&channels.len)?;
                    if type_name(&channels.elem) != "Real" || rows == width {
                        return err(
                            &array.elem,
                            "an array with channels is `&[[Real; Feature]; Atom]`: reals, in rows of another dimension",
                        );
                    }
                    let (dim, width, components) = (Some(rows), Some(width), 1);
                    return Ok(if output {
                        Kind::Output { dim, components, width }
                    } else {
                        Kind::Real { dim, components, zero: false, width }
                    });
                }
                let (dim, width) = (rows, None);
                let mut element = type_name(&array.elem);
                if !output && matches!(element.as_str(), "i32" | "IVec3") {
                    return Ok(Kind::Ints { dim, components: if element == "i32" { 1 } else { 3 } });
                }
                let zero = element.starts_with("Zero<");
                if zero {
                    element = element.trim_start_matches("Zero<").trim_end_matches('>').to_string();
                }
                match components(&element) {
                    Some(components) if output && !zero => {
                        Ok(Kind::Output { dim: Some(dim), components, width })
                    }
                    Some(components) if !output => Ok(Kind::Real { dim: Some(dim), components, zero, width }),
                    _ => wrong(),
                }
            }
            syn::Type::Path(path) => {
                let segment = path.path.segments.last().expect("a path has a segment");
                let mut dims = vec![];
                if let syn::PathArguments::AngleBracketed(args) = &segment.arguments {
                    dims.extend(args.args.iter().map(|a| quote::quote!(#a).to_string()));
                }
                match (segment.ident.to_string().as_str(), dims.as_slice()) {
                    ("Batch", [rows, systems]) => {
                        Ok(Kind::Batch { rows: self.dim(rows), systems: self.dim(systems) })
                    }
                    ("Pairs", [rows]) => {
                        let rows = self.dim(rows);
                        Ok(Kind::Pairs { rows, columns: rows, entries: None })
                    }
                    ("Pairs", [rows, columns, entries @ ..]) if entries.len() < 2 => {
                        let (rows, columns) = (self.dim(rows), self.dim(columns));
                        Ok(Kind::Pairs { rows, columns, entries: entries.first().map(|e| self.dim(e)) })
                    }
                    ("HashGrid", [rows, columns, entries @ ..]) if !output && entries.len() < 2 => {
                        check_rows(&segment.arguments, &self.dims[self.index])?;
                        let (rows, columns) = (self.dim(rows), self.dim(columns));
                        Ok(Kind::Pairs { rows, columns, entries: entries.first().map(|e| self.dim(e)) })
                    }
                    ("Map", [rows, into]) => Ok(Kind::Map { rows: self.dim(rows), into: self.dim(into) }),
                    ("Mesh", [systems, nodes]) => {
                        Ok(Kind::Mesh { systems: self.dim(systems), nodes: self.dim(nodes) })
                    }
                    (t, []) => match components(t) {
                        Some(components) if output => Ok(Kind::Output { dim: None, components, width: None }),
                        Some(components) => {
                            Ok(Kind::Real { dim: None, components, zero: false, width: None })
                        }
                        None => wrong(),
                    },
                    _ => wrong(),
                }
            }
            _ => wrong(),
        }
    }
}
