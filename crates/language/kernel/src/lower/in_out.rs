//! In-out arrays, `&mut [InOut<Real>; Atom]`: outputs that hold at first what the caller's array holds.

use syn::Type;

/// The type of an element that is marked `InOut<…>`; None without the mark.
pub(super) fn marked(element: &Type) -> Option<&Type> {
    let Type::Path(path) = element else { return None };
    let segment = path.path.segments.last().filter(|segment| segment.ident == "InOut")?;
    let syn::PathArguments::AngleBracketed(args) = &segment.arguments else { return None };
    match args.args.first() {
        Some(syn::GenericArgument::Type(inner)) if args.args.len() == 1 => Some(inner),
        _ => None,
    }
}

/// Whether the elements of a parameter are marked.
pub(super) fn is_in_out(parameter: &Type) -> bool {
    match parameter {
        Type::Reference(reference) => is_in_out(&reference.elem),
        Type::Array(array) => is_in_out(&array.elem),
        element => marked(element).is_some(),
    }
}
