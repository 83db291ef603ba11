//! `kernels! { … }`: the shell that turns `madelung-kernel`'s forms into items of the caller's crate. Use it through
//! `madelung::kernels!` (or `madelung_core::kernels!`), which say where the runtime is.

mod emit;
mod functions;
mod unused;

use functions::Expanded;
use madelung_kernel::lower::imports::{self, Import};
use madelung_kernel::lower::{lower_block, lower_functions};
use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use syn::parse::{Parse, ParseStream};

/// `(path of madelung-core) items…`; the output of an import's macro has `@` after the path.
struct Input {
    runtime: Tokens,
    imports: Vec<Import>,
    file: syn::File,
}

impl Parse for Input {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let content;
        syn::parenthesized!(content in input);
        let runtime = content.parse()?;
        let Expanded { mut imports, mut file } = if input.parse::<Option<syn::Token![@]>>()?.is_some() {
            input.parse()?
        } else {
            Expanded { imports: vec![], file: input.parse()? }
        };
        imports.extend(imports::imports(&mut file)?);
        Ok(Self { runtime, imports, file })
    }
}

/// Declares kernels: each `#[kernel] fn name` becomes `static NAME: Kernel`, with every form derived from it, and each
/// `#[func]` that is not private can be imported by other blocks.
#[proc_macro]
pub fn kernels(input: TokenStream) -> TokenStream {
    let Input { runtime, imports, file } = syn::parse_macro_input!(input as Input);
    if !imports.is_empty() {
        return functions::expand(&runtime, imports, &file).into();
    }
    let items = || {
        let functions = lower_functions(&file)?;
        let mut items = functions::exports(&functions);
        items.extend(unused::parameters(&file));
        for source in lower_block(&file)? {
            let text = functions::kernel_source(&file, &functions, &source.ident);
            items.extend(emit::kernel(&source, &text, &runtime)?);
        }
        Ok(items)
    };
    items().unwrap_or_else(|e: syn::Error| e.to_compile_error()).into()
}
