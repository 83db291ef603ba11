//! The parameters of a kernel.

use super::grid::{Grids, check_rows, is_grid};
use super::{Lower, Value, err, syntax, type_name};
use crate::ir::{Dim, Kind, Op, Param, ParamId, Shape};
use quote::ToTokens;
use syn::{FnArg, Result};

const PARAMETER_TYPES: &str = "one of: `Real` or `i32` (attributes), `&T` (one element) and \
     `&[T; Dim]` (one per row) with T = Real, Vec2, Vec3, Vec4, Mat2 or Mat3, `&[IVec3; Dim]`, `&[i32; Dim]`, `&[[T; Feature]; Dim]` (channels for each row; with T = Real a table over the elements of maps, too), \
     `&mut T`, `&mut [T; Dim]`, `&mut [[T; Feature]; Dim]` (outputs), \
     `&Batch<Rows, Systems>`, `&Pairs<Rows>`, `&Pairs<Rows, Columns, Entries>`, `&HashGrid<Rows, Points>`, `&Map<Rows, Into>`, \
     `&Mesh<Systems, Nodes>`, `&Mesh<Systems, Nodes, Waves>`; T may be `Zero<T>`";

const WITHOUT_ADJOINT: &str = "one of: `Real` or `i32` (attributes), `&T` (one element) and `&[T; \
     Dim]` (one per row) with T = Real, Vec2, Vec3, Vec4, Mat2, Mat3, IVec3, i32 or i64, `&mut [T; Dim]` and `&mut T` with these but IVec3 \
     (outputs; `&mut [InOut<T>; Dim]` and `&mut InOut<T>` where they hold old values), `&Batch<Rows, Systems>`, \
     `&Pairs<Rows>`, `&Pairs<Rows, Columns, Entries>`, `&HashGrid<Rows, Points>`, `&Map<Rows, Into>`";

/// Adds a parameter of some kind, where there is room for it.
pub(super) fn declared(
    params: &mut Vec<Param>,
    grids: &mut Grids,
    name: &syn::PatIdent,
    ty: &syn::Type,
    (kind, element): (Kind, Shape),
) -> Result<ParamId> {
    let same = params.iter().filter(|p| p.kind == kind).count();
    match kind {
        Kind::Scalar if same == 8 => {
            return err(name, "a kernel has at most 8 real attributes: hand on an array");
        }
        Kind::IntScalar if same == 4 => return err(name, "a kernel has at most 4 integer attributes"),
        _ => {}
    }
    let channels = usize::from(kind.width().is_some());
    params.push(Param { name: name.ident.to_string(), kind, element, channels, in_out: is_in_out(ty) });
    if is_grid(ty) {
        grids.declare(params.len() - 1, &name.ident);
    }
    Ok(params.len() - 1)
}

/// Whether a parameter is an in-out array, `&mut [InOut<Real>; Atom]`: an output that holds at first what the caller's
/// array holds.
fn is_in_out(ty: &syn::Type) -> bool {
    type_name(ty).contains("InOut<")
}

/// The type of an element of an in-out array, without the mark.
fn held(element: &syn::Type) -> Option<&syn::Type> {
    let syn::Type::Path(path) = element else { return None };
    let segment = path.path.segments.last().filter(|segment| segment.ident == "InOut")?;
    let syn::PathArguments::AngleBracketed(args) = &segment.arguments else { return None };
    match args.args.first() {
        Some(syn::GenericArgument::Type(inner)) if args.args.len() == 1 => Some(inner),
        _ => None,
    }
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
        let (kind, element) = self.parameter_kind(ty)?;
        if self.lookup(&name.ident.to_string()).is_some() {
            return err(name, format!("there are two parameters `{}`", name.ident));
        }
        if let Some(rows) = kind.rows_in_systems()
            && !self.b.in_order
            && self.params.iter().any(|p| p.kind.rows_in_systems() == Some(rows))
        {
            let message = format!(
                "`{}` are in another batch already: sums over rows are cut at the systems of one (use two kernels)",
                self.dim_name(rows)
            );
            return err(ty, message);
        }
        let id = declared(&mut self.params, &mut self.grids, name, ty, (kind, element))?;
        let value = match kind {
            Kind::Scalar => Value::Scalar(self.b.real_op(Op::Scalar(id))),
            Kind::IntScalar => Value::Scalar(self.b.op_value(Op::IntScalar(id))),
            Kind::Real { dim: None, .. } => self.load(id, None, None),
            _ => Value::Param(id),
        };
        self.names[0].insert(name.ident.to_string(), value);
        Ok(())
    }

    fn parameter_kind(&mut self, ty: &syn::Type) -> Result<(Kind, Shape)> {
        let in_order = self.b.in_order;
        let wrong = || {
            if in_order {
                return err(ty, format!("a parameter of a kernel without adjoint is {WITHOUT_ADJOINT}"));
            }
            err(ty, format!("a kernel parameter is {PARAMETER_TYPES}"))
        };
        if is_in_out(ty) && !in_order {
            return err(
                ty,
                "a kernel with derivatives does not read what it writes: give the old values as an input",
            );
        }
        match type_name(ty).as_str() {
            "Real" => return Ok((Kind::Scalar, Shape::Number)),
            "i32" => return Ok((Kind::IntScalar, Shape::Number)),
            _ => {}
        }
        let syn::Type::Reference(reference) = ty else { return wrong() };
        let output = reference.mutability.is_some();
        let (element, dim) = match &*reference.elem {
            syn::Type::Array(array) => {
                let rows = self.dim(&dimension_of(&array.len)?);
                if let syn::Type::Array(channels) = &*array.elem
                    && !in_order
                {
                    return self.channels_of(array, channels, rows, output);
                }
                (&*array.elem, Some(rows))
            }
            syn::Type::Path(path) => match structure(&mut self.dims, path)? {
                Some(Kind::Mesh { .. }) if in_order => return wrong(),
                Some(_) if output => return wrong(),
                Some(kind) => return Ok((kind, Shape::Number)),
                None => (&*reference.elem, None),
            },
            _ => return wrong(),
        };
        let element = match held(element) {
            Some(_) if !output => {
                return err(ty, "an in-out array is written, too: declare it `&mut`, as an output");
            }
            inner => inner.unwrap_or(element),
        };
        let name = type_name(element);
        let (zero, of) = match name.strip_prefix("Zero<") {
            Some(of) => (true, of.trim_end_matches('>')),
            None => (false, name.as_str()),
        };
        if zero && in_order {
            return err(
                element,
                "a zero is there for its derivatives, and this kernel has none: leave it out",
            );
        }
        let shape = match of {
            "i32" | "i64" => Shape::Number,
            "IVec3" => Shape::Vector(3),
            of => match Shape::named(of) {
                Some(shape) => shape,
                None => return wrong(),
            },
        };
        let components = shape.components();
        let kind = match (of, dim) {
            ("i32" | "IVec3", Some(dim)) if !output && !zero => Kind::Ints { dim, components },
            ("i32" | "i64", _) if in_order => Kind::Integers { dim, components, wide: of == "i64", output },
            ("i32" | "i64" | "IVec3", _) => return wrong(),
            _ if zero && (output || dim.is_none()) => return wrong(),
            _ if output => Kind::Output { dim, components, width: None },
            _ => Kind::Real { dim, components, zero, width: None },
        };
        Ok((kind, shape))
    }

    /// The kind and the element of `&[[Vec3; Feature]; Dim]`.
    fn channels_of(
        &mut self,
        array: &syn::TypeArray,
        channels: &syn::TypeArray,
        rows: Dim,
        output: bool,
    ) -> Result<(Kind, Shape)> {
        let width = self.dim(&dimension_of(&channels.len)?);
        let shape = match Shape::named(&type_name(&channels.elem)) {
            Some(shape) if rows != width || (shape == Shape::Number && !output) => shape,
            _ => {
                return err(
                    &array.elem,
                    "an array with channels is `&[[T; Feature]; Atom]` with T = Real, Vec2, Vec3, Vec4, Mat2 or Mat3, in \
                     rows of another dimension; a table over the elements of maps is of reals",
                );
            }
        };
        let (dim, width, components) = (Some(rows), Some(width), shape.components());
        let kind = if output {
            Kind::Output { dim, components, width }
        } else {
            Kind::Real { dim, components, zero: false, width }
        };
        Ok((kind, shape))
    }
}
