//! `kernels! { … }`: the shell that turns `madelung-kernel`'s forms into items of the caller's crate. Use it through
//! `madelung::kernels!` (or `madelung_core::kernels!`), which say where the runtime is.

mod emit;

use proc_macro::TokenStream;
use syn::parse::{Parse, ParseStream};

/// `(path of madelung-core) items…`
struct Input {
    runtime: proc_macro2::TokenStream,
    file: syn::File,
}

impl Parse for Input {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let content;
        syn::parenthesized!(content in input);
        Ok(Self { runtime: content.parse()?, file: input.parse()? })
    }
}

/// Declares kernels: each `#[kernel] fn name` becomes `static NAME: Kernel`, with every form derived from it.
#[proc_macro]
pub fn kernels(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as Input);
    let items = madelung_kernel::lower::lower_block(&input.file).and_then(|sources| {
        sources.iter().map(|s| emit::kernel(s, &input.runtime)).collect::<syn::Result<Vec<_>>>()
    });
    match items {
        Ok(items) => items.into_iter().collect::<proc_macro2::TokenStream>().into(),
        Err(e) => e.to_compile_error().into(),
    }
}
