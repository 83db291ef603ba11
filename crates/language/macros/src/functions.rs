//! Functions across crates. A procedural macro sees the tokens of its own call and no others, so a function that is
//! not private leaves a `macro_rules!` of its name that holds its source (and that of its derivative and of whatever it
//! calls). A block that imports it, `use other_crate::potential::short_range;`, expands through that macro, which hands
//! the block back with the source added.

use madelung_kernel::lower::Function;
use madelung_kernel::lower::imports::{Import, calls, carried, imported, rename};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use syn::Visibility;

/// The expansion of a block with imports: a call of the first import's macro, which returns the block with one import
/// less.
pub(crate) fn expand(runtime: &TokenStream, mut imports: Vec<Import>, file: &syn::File) -> TokenStream {
    let Import { path, name } = imports.remove(0);
    let rest = imports.iter().map(|Import { path, name }| quote!((#name #path)));
    let items = &file.items;
    quote! { #path! { { #runtime::__kernels } { (#runtime) @ (#name) [ #(#rest)* ] { #(#items)* } } } }
}

/// The output of an import's macro, after the runtime: the block and the source.
pub(crate) struct Expanded {
    pub(crate) imports: Vec<Import>,
    pub(crate) file: syn::File,
}

impl syn::parse::Parse for Expanded {
    fn parse(input: syn::parse::ParseStream<'_>) -> syn::Result<Self> {
        let (name, pending, block, source);
        syn::parenthesized!(name in input);
        let name: Ident = name.parse()?;
        syn::bracketed!(pending in input);
        let mut imports = vec![];
        while !pending.is_empty() {
            let import;
            syn::parenthesized!(import in pending);
            imports.push(Import { name: import.parse()?, path: import.parse()? });
        }
        syn::braced!(block in input);
        let file: syn::File = block.parse()?;
        let original: Ident = input.parse()?;
        syn::braced!(source in input);
        let imported = imported(&original, &name, source.parse()?)?;
        let items = imported.items.into_iter().chain(file.items).collect();
        Ok(Self { imports, file: syn::File { items, ..imported } })
    }
}

/// The source of a kernel of a block, and of the functions that it calls.
pub(crate) fn kernel_source(file: &syn::File, functions: &[Function<'_>], kernel: &Ident) -> String {
    let mut source = TokenStream::new();
    for item in &file.items {
        if let syn::Item::Fn(f) = item
            && f.sig.ident == *kernel
        {
            let attrs = f.attrs.iter().filter(|a| !a.path().is_ident("doc"));
            let (vis, sig, block) = (&f.vis, &f.sig, &f.block);
            source.extend(quote!(#(#attrs)* #vis #sig #block));
        }
    }
    let (mut known, mut open) = (BTreeSet::new(), calls(source.clone()));
    while let Some(called) = open.pop_first() {
        if let Some(f) =
            functions.iter().find(|f| f.value.sig.ident == called && known.insert(called.clone()))
        {
            source.extend(f.source());
            open.extend(calls(f.source()));
        }
    }
    source.to_string()
}

/// Macros that export the non-private functions of a block.
pub(crate) fn exports(functions: &[Function<'_>]) -> TokenStream {
    let mut items = TokenStream::new();
    for f in functions.iter().filter(|f| !matches!(f.value.vis, Visibility::Inherited)) {
        let name = &f.value.sig.ident;
        let mut names = BTreeSet::from([name.to_string()]);
        let mut todo = vec![f];
        let mut source = TokenStream::new();
        let renamed = |called: &str| {
            functions.iter().any(|g| g.value.sig.ident == called).then(|| carried(name, called))
        };
        while let Some(f) = todo.pop() {
            let text = f.source();
            for called in calls(text.clone()) {
                let known = functions.iter().find(|g| g.value.sig.ident == called);
                if let Some(g) = known.filter(|_| names.insert(called)) {
                    todo.push(g);
                }
            }
            source.extend(rename(text, &renamed, None));
        }
        items.extend(export(f, &source));
    }
    items
}

fn export(f: &Function<'_>, source: &TokenStream) -> TokenStream {
    let (name, visibility) = (&f.value.sig.ident, &f.value.vis);
    // Macros of a crate share one namespace; the place tells functions of one name apart.
    let mut hasher = DefaultHasher::new();
    let place = name.span().unwrap();
    (place.file(), place.line(), place.column(), source.to_string()).hash(&mut hasher);
    let hidden = format_ident!("__madelung_{}_{:016x}", name, hasher.finish());
    let exported = matches!(visibility, Visibility::Public(_)).then(|| quote!(#[macro_export]));
    let wrong = format!("`{name}` is a function of the kernel language: import it in a `kernels!` block");
    let docs = f.value.attrs.iter().filter(|a| a.path().is_ident("doc"));
    // For kernels that are made at run time.
    let text = source.to_string();
    quote! {
        #[doc(hidden)]
        #[allow(unused_macros, reason = "for the blocks that import it")]
        #exported
        macro_rules! #hidden {
            ({ $($kernels:tt)* } { $($block:tt)* }) => { $($kernels)*! { $($block)* #name { #source } } };
            (@source) => { #text };
            ($($other:tt)*) => { ::core::compile_error!(#wrong); };
        }
        #(#docs)*
        #[allow(unused_imports, reason = "for the blocks that import it")]
        #visibility use #hidden as #name;
    }
}
