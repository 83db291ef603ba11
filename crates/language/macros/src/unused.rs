//! Parameters that a kernel does not use. Only the compiler can warn, so it gets a function with these parameters, at
//! their places in the source.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;
use syn::{FnArg, Item, Pat};

/// A function whose unused parameters are those of the block's kernels.
pub(crate) fn parameters(file: &syn::File) -> TokenStream {
    let mut items = TokenStream::new();
    for item in &file.items {
        let Item::Fn(f) = item else { continue };
        if !f.attrs.iter().any(|a| a.path().is_ident("kernel")) {
            continue;
        }
        let block = &f.block;
        let body = quote!(#block);
        // The first one is the row. A batch is there for whoever asks for a row's system, and says where sums are cut.
        let unused: Vec<_> = f
            .sig
            .inputs
            .iter()
            .skip(1)
            .filter_map(|arg| match arg {
                FnArg::Typed(arg) => match &*arg.pat {
                    Pat::Ident(name) if !is_batch(&arg.ty) && !holds(body.clone(), &name.ident) => {
                        Some(&name.ident)
                    }
                    _ => None,
                },
                FnArg::Receiver(_) => None,
            })
            .collect();
        if !unused.is_empty() {
            items.extend(quote! {
                const _: () = {
                    #[allow(dead_code, reason = "there to be read by the compiler")]
                    fn kernel(#(#unused: ()),*) {}
                };
            });
        }
    }
    items
}

fn is_batch(ty: &syn::Type) -> bool {
    matches!(ty, syn::Type::Reference(r) if matches!(&*r.elem, syn::Type::Path(p)
        if p.path.segments.last().is_some_and(|s| s.ident == "Batch")))
}

fn holds(tokens: TokenStream, name: &proc_macro2::Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => holds(group.stream(), name),
        TokenTree::Ident(ident) => ident == *name,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and columns of the parameters that the compiler sees as unused.
    fn unused(kernel: &str) -> Vec<(String, usize)> {
        let file = syn::parse_str(kernel).expect("Rust");
        let items: syn::File = syn::parse2(parameters(&file)).expect("Rust");
        let mut found = vec![];
        for item in &items.items {
            let Item::Const(syn::ItemConst { expr, .. }) = item else {
                panic!("a constant around a function")
            };
            let syn::Expr::Block(block) = &**expr else { panic!("a block") };
            let [syn::Stmt::Item(Item::Fn(f))] = &*block.block.stmts else { panic!("a function") };
            for arg in &f.sig.inputs {
                let FnArg::Typed(syn::PatType { pat, .. }) = arg else { panic!("a name") };
                let Pat::Ident(name) = &**pat else { panic!("a name") };
                found.push((name.ident.to_string(), name.ident.span().start().column));
            }
        }
        found
    }

    #[test]
    fn unused_parameters_stand_where_the_source_has_them() {
        let kernel = "#[kernel] fn k(i: Atom, x: &[Real; Atom], scale: Real, _known: &Real, atoms: &Batch<Atom, System>, \
                      out: &mut [Real; Atom]) { out[i] = x[i]; }";
        let at = |name: &str| (name.to_string(), kernel.find(name).expect("a name"));
        assert_eq!(unused(kernel), [at("scale"), at("_known")]);
        assert_eq!(unused(&kernel.replace("x[i];", "x[i] * scale * _known;")), []);
        assert_eq!(unused("#[func] fn f(x: Real, y: Real) -> Real { x }"), []);
    }
}
