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
