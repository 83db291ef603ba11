//! Functions across crates. A procedural macro sees the tokens of its own call and no others, so a function that is
//! not private leaves a `macro_rules!` of its name that holds its source (and that of its derivative and of whatever it
//! calls). A block that imports it, `use other_crate::potential::short_range;`, expands through that macro, which hands
//! the block back with the source added.

use madelung_kernel::lower::Function;
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{format_ident, quote};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use syn::{Item, UseTree, Visibility};

/// The separator between the name of an imported function and that of a function it calls.
const CALLED: &str = "__calls__";

/// An import: the path, and the name that the function has in the block.
pub(crate) struct Import {
    path: TokenStream,
    name: Ident,
}

/// Takes the imports out of a block.
pub(crate) fn imports(file: &mut syn::File) -> syn::Result<Vec<Import>> {
    let mut found = vec![];
    let (uses, items) =
        std::mem::take(&mut file.items).into_iter().partition(|item| matches!(item, Item::Use(_)));
    file.items = items;
    for item in uses {
        let Item::Use(item) = item else { continue };
        if !matches!(item.vis, Visibility::Inherited) {
            let message = "a block imports functions for itself: whoever else needs them imports them, too";
            return Err(syn::Error::new_spanned(&item.vis, message));
        }
        let start = item.leading_colon.map_or_else(TokenStream::new, |colon| quote!(#colon));
        flatten(&item.tree, &start, &mut found)?;
    }
    Ok(found)
}

fn flatten(tree: &UseTree, path: &TokenStream, found: &mut Vec<Import>) -> syn::Result<()> {
    match tree {
        UseTree::Path(p) => {
            let (ident, colon) = (&p.ident, &p.colon2_token);
            flatten(&p.tree, &quote!(#path #ident #colon), found)?;
        }
        UseTree::Name(n) => {
            let name = &n.ident;
            found.push(Import { path: quote!(#path #name), name: name.clone() });
        }
        UseTree::Rename(r) => {
            let name = &r.ident;
            found.push(Import { path: quote!(#path #name), name: r.rename.clone() });
        }
        UseTree::Group(g) => {
            for tree in &g.items {
                flatten(tree, path, found)?;
            }
        }
        UseTree::Glob(g) => {
            return Err(syn::Error::new_spanned(
                g,
                "name the functions: `use other_crate::functions::{f, g};`",
            ));
        }
    }
    Ok(())
}

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
        let renamed = |called: &str| {
            let rest = called.strip_prefix(&original.to_string())?;
            (rest.is_empty() || rest.starts_with(CALLED)).then(|| format!("{name}{rest}"))
        };
        // Errors of an imported function are shown at its import.
        let source = rename(source.parse()?, &renamed, Some(name.span()));
        let imported: syn::File = syn::parse2(source)?;
        let items = imported.items.into_iter().chain(file.items).collect();
        Ok(Self { imports, file: syn::File { items, ..imported } })
    }
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

/// The name under which a function goes along with one that calls it.
fn carried(name: &Ident, called: &str) -> String {
    if name == called { called.to_string() } else { format!("{name}{CALLED}{called}") }
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
    quote! {
        #[doc(hidden)]
        #[allow(unused_macros, reason = "for the blocks that import it")]
        #exported
        macro_rules! #hidden {
            ({ $($kernels:tt)* } { $($block:tt)* }) => { $($kernels)*! { $($block)* #name { #source } } };
            ($($other:tt)*) => { ::core::compile_error!(#wrong); };
        }
        #(#docs)*
        #[allow(unused_imports, reason = "for the blocks that import it")]
        #visibility use #hidden as #name;
    }
}

/// The names in the places where functions are called.
fn calls(source: TokenStream) -> BTreeSet<String> {
    let found = std::cell::RefCell::new(BTreeSet::new());
    let note = |called: &str| {
        found.borrow_mut().insert(called.to_string());
        None
    };
    rename(source, &note, None);
    found.into_inner()
}

/// Gives functions other names where they are defined, called or meant by `derivative`, and everything a span.
fn rename(source: TokenStream, to: &dyn Fn(&str) -> Option<String>, span: Option<Span>) -> TokenStream {
    let is_parenthesis =
        |t: &TokenTree| matches!(t, TokenTree::Group(g) if g.delimiter() == Delimiter::Parenthesis);
    let tokens: Vec<TokenTree> = source.into_iter().collect();
    let renamed = |n: usize| match &tokens[n] {
        TokenTree::Group(g) => {
            let of_derivative = n > 0 && matches!(&tokens[n - 1], TokenTree::Ident(i) if i == "derivative");
            let inner = match g.stream().into_iter().next() {
                Some(TokenTree::Ident(of)) if of_derivative => {
                    let name = to(&of.to_string()).unwrap_or_else(|| of.to_string());
                    TokenTree::from(Ident::new(&name, span.unwrap_or(of.span()))).into()
                }
                _ => rename(g.stream(), to, span),
            };
            let mut group = Group::new(g.delimiter(), inner);
            group.set_span(span.unwrap_or(g.span()));
            TokenTree::from(group)
        }
        TokenTree::Ident(i) if tokens.get(n + 1).is_some_and(is_parenthesis) => {
            let name = to(&i.to_string()).unwrap_or_else(|| i.to_string());
            Ident::new(&name, span.unwrap_or(i.span())).into()
        }
        token => {
            let mut token = token.clone();
            token.set_span(span.unwrap_or(token.span()));
            token
        }
    };
    (0..tokens.len()).map(renamed).collect()
}
