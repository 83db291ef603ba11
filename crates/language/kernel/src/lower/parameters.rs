//! The parameters of a kernel.

use super::grid::{Grids, check_rows, is_grid};
use super::in_out::is_in_out;
use super::{Lower, Value, err, syntax, type_name};
use crate::ir::{Dim, Kind, Op, Param, ParamId};
use quote::ToTokens;
use syn::{FnArg, Result};

const PARAMETER_TYPES: &str = "one of: `Real` or `i32` (attributes), `&Real`, `&Vec3`, `&Mat3` (one element), \
     `&[T; Dim]` with T = Real, Vec3, Mat3, IVec3 or i32 (one per row), `&[[Real; Feature]; Dim]` (channels for each row, or a table over the elements of maps), \
     `&mut [Real; Dim]`, `&mut [Vec3; Dim]`, `&mut [Mat3; Dim]`, `&mut [[Real; Feature]; Dim]`, `&mut Real` (outputs), \
     `&Batch<Rows, Systems>`, `&Pairs<Rows>`, `&Pairs<Rows, Columns, Entries>`, `&HashGrid<Rows, Points>`, `&Map<Rows, Into>`, \
     `&Mesh<Systems, Nodes>`, `&Mesh<Systems, Nodes, Waves>`; T may be `Zero<T>`";

/// Adds a parameter of some kind, where there is room for it.
pub(super) fn declared(
    params: &mut Vec<Param>,
    grids: &mut Grids,
    name: &syn::PatIdent,
    ty: &syn::Type,
    kind: Kind,
) -> Result<ParamId> {
    let same = params.iter().filter(|p| p.kind == kind).count();
    match kind {
        Kind::Scalar if same == 8 => {
            return err(name, "a kernel has at most 8 real attributes: hand on an array");
        }
        Kind::IntScalar if same == 4 => return err(name, "a kernel has at most 4 integer attributes"),
        _ => {}
    }
    params.push(Param { name: name.ident.to_string(), kind, in_out: is_in_out(ty) });
    if is_grid(ty) {
        grids.declare(params.len() - 1, &name.ident);
    }
    Ok(params.len() - 1)
}

/// The number of a dimension.
pub(super) fn dimension(dims: &mut Vec<String>, name: &str) -> Dim {
    dims.iter().position(|d| d == name).unwrap_or_else(|| {
        dims.push(name.to_string());
        dims.len() - 1
    })
}

/// The name of the dimension that is an array's length.
pub(super) fn dimension_of(len: &syn::Expr) -> Result<String> {
    match len {
        syn::Expr::Path(p) if p.path.get_ident().is_some() => Ok(p.path.require_ident()?.to_string()),
        len => err(len, "expected the name of a dimension: `&[Real; Atom]` has one element per atom"),
    }
}

/// The kind of a parameter that relates dimensions: a batch, pairs, a grid, a map or a mesh. None for any other type.
pub(super) fn structure(dims: &mut Vec<String>, path: &syn::TypePath) -> Result<Option<Kind>> {
    let segment = path.path.segments.last().expect("a path has a segment");
    let syn::PathArguments::AngleBracketed(args) = &segment.arguments else { return Ok(None) };
    let names: Vec<String> = args.args.iter().map(|a| a.to_token_stream().to_string()).collect();
    if segment.ident == "HashGrid" {
        check_rows(&segment.arguments, &dims[0])?;
    }
    let mut dim = |name: &String| dimension(dims, name);
    Ok(Some(match (segment.ident.to_string().as_str(), names.as_slice()) {
        ("Batch", [rows, systems]) => Kind::Batch { rows: dim(rows), systems: dim(systems) },
        ("Map", [rows, into]) => Kind::Map { rows: dim(rows), into: dim(into) },
        ("Mesh", [systems, nodes, waves @ ..]) if waves.len() < 2 => {
            Kind::Mesh { systems: dim(systems), nodes: dim(nodes), waves: waves.first().map(dim) }
        }
        ("Pairs", [rows]) => Kind::Pairs { rows: dim(rows), columns: dim(rows), entries: None },
        ("Pairs" | "HashGrid", [rows, columns, entries @ ..]) if entries.len() < 2 => {
            Kind::Pairs { rows: dim(rows), columns: dim(columns), entries: entries.first().map(dim) }
        }
        _ => return Ok(None),
    }))
}

impl Lower<'_> {
    pub(super) fn parameter(&mut self, arg: &FnArg) -> Result<()> {
        let (name, ty) = syntax::parameter(arg)?;
        let kind = self.parameter_kind(ty)?;
        if self.lookup(&name.ident.to_string()).is_some() {
            return err(name, format!("there are two parameters `{}`", name.ident));
        }
        if let Some(rows) = kind.rows_in_systems()
            && self.params.iter().any(|p| p.kind.rows_in_systems() == Some(rows))
        {
            let message = format!(
                "`{}` are in another batch already: sums over rows are cut at the systems of one (use two kernels)",
                self.dim_name(rows)
            );
            return err(ty, message);
        }
        let id = declared(&mut self.params, &mut self.grids, name, ty, kind)?;
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
        if is_in_out(ty) {
            return err(
                ty,
                "a kernel with derivatives does not read what it writes: give the old values as an input",
            );
        }
        match type_name(ty).as_str() {
            "Real" => return Ok(Kind::Scalar),
            "i32" => return Ok(Kind::IntScalar),
            _ => {}
        }
        let syn::Type::Reference(reference) = ty else { return wrong() };
        let output = reference.mutability.is_some();
        match &*reference.elem {
            syn::Type::Array(array) => {
                let mut dim = |len: &syn::Expr| dimension_of(len).map(|name| self.dim(&name));
                let rows = dim(&array.len)?;
                if let syn::Type::Array(channels) = &*array.elem {
                    let width = dim(&channels.len)?;
                    if type_name(&channels.elem) != "Real" || (output && rows == width) {
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
                if let Some(kind) = structure(&mut self.dims, path)? {
                    return if output { wrong() } else { Ok(kind) };
                }
                match components(&type_name(&reference.elem)) {
                    Some(components) if output => Ok(Kind::Output { dim: None, components, width: None }),
                    Some(components) => Ok(Kind::Real { dim: None, components, zero: false, width: None }),
                    None => wrong(),
                }
            }
            _ => wrong(),
        }
    }
}
