//! Imports of a block: functions of other blocks, by their paths. Whoever expands a block finds the sources.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::quote;
use std::collections::BTreeSet;
use syn::{Item, Result, UseTree, Visibility};

/// The separator between the name of an imported function and that of a function it calls.
const CALLED: &str = "__calls__";

/// An import: the path, and the name that the function has in the block.
#[derive(Clone, Debug)]
pub struct Import {
    /// The path.
    pub path: TokenStream,
    /// The name in the block.
    pub name: Ident,
}

/// Takes the imports out of a block.
pub fn imports(file: &mut syn::File) -> Result<Vec<Import>> {
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

fn flatten(tree: &UseTree, path: &TokenStream, found: &mut Vec<Import>) -> Result<()> {
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

/// The name under which a function goes along with one that calls it.
pub fn carried(name: &Ident, called: &str) -> String {
    if name == called { called.to_string() } else { format!("{name}{CALLED}{called}") }
}

/// The items of an imported function, given its own name, the one that it has in the block, and its source. Errors in them
/// are shown at the import.
pub fn imported(original: &Ident, name: &Ident, source: TokenStream) -> Result<syn::File> {
    let renamed = |called: &str| {
        let rest = called.strip_prefix(&original.to_string())?;
        (rest.is_empty() || rest.starts_with(CALLED)).then(|| format!("{name}{rest}"))
    };
    syn::parse2(rename(source, &renamed, Some(name.span())))
}

/// The names in the places where functions are called.
pub fn calls(source: TokenStream) -> BTreeSet<String> {
    let found = std::cell::RefCell::new(BTreeSet::new());
    let note = |called: &str| {
        found.borrow_mut().insert(called.to_string());
        None
    };
    rename(source, &note, None);
    found.into_inner()
}

/// Gives functions other names where they are defined, called or meant by `derivative`, and everything a span.
pub fn rename(source: TokenStream, to: &dyn Fn(&str) -> Option<String>, span: Option<Span>) -> TokenStream {
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
