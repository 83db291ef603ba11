//! From text to lowered kernels, with errors at their places in the text.

use crate::Function;
use madelung_kernel::describe::{Form, describe};
use madelung_kernel::ir::Kernel;
use madelung_kernel::lower::imports::{imported, imports};
use madelung_kernel::lower::{Source, lower_block};
use std::fmt;

/// A place in source text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The line, from 1.
    pub line: usize,
    /// The characters before it on its line.
    pub column: usize,
}

/// The error of source text: the first one that the compiler of the kernel language found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceError {
    /// Description of the error, and of the way to write it instead.
    pub message: String,
    /// The beginning of the expression that is wrong.
    pub start: Place,
    /// Its end.
    pub end: Place,
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.start.line, self.start.column + 1, self.message)
    }
}

impl std::error::Error for SourceError {}

impl From<SourceError> for madelung_core::Error {
    fn from(error: SourceError) -> Self {
        Self::argument("source", "kernels of the kernel language", error.to_string())
    }
}

impl From<syn::Error> for SourceError {
    fn from(error: syn::Error) -> Self {
        let place = |at: proc_macro2::LineColumn| Place { line: at.line, column: at.column };
        let (start, end) = (place(error.span().start()), place(error.span().end()));
        Self { message: error.to_string(), start, end }
    }
}

/// The kernels of a block of source, and what `f` makes of each.
///
/// Places are known to the thread that reads the text, for as long as it lives: a thread of its own lets go of them.
pub(crate) fn lowered<T: Send>(
    text: &str,
    functions: &[Function],
    f: impl Fn(&Source, Vec<Form>) -> T + Sync,
) -> Result<Vec<T>, SourceError> {
    let work = || -> syn::Result<Vec<T>> {
        let file = syn::parse_str::<syn::File>(text)?;
        let sources = block(file, functions)?;
        // All are derived before any is kept.
        let forms = sources.iter().map(describe).collect::<syn::Result<Vec<_>>>()?;
        Ok(sources.iter().zip(forms).map(|(source, forms)| f(source, forms)).collect())
    };
    std::thread::scope(|scope| {
        let done = scope.spawn(|| work().map_err(SourceError::from)).join();
        done.unwrap_or_else(|_| Err(SourceError::of_compiler()))
    })
}

/// The lowered kernels of a block of source, as text: their declarations, statements and values, and nothing of how they
/// were written. Sources with equal text mean the same, down to the order of every operation.
///
/// # Errors
/// As [`crate::kernels`].
pub fn lowered_text(source: &str) -> Result<Vec<String>, SourceError> {
    lowered(source, &[], |of, _| {
        let Source { kernel, options, docs: _, visibility: _, ident: _ } = of;
        let Kernel { name, dims, index, params, queries, body, rounded: _ } = kernel;
        let values: Vec<_> = (0..body.len()).map(|v| (body.op(v), body.ty(v))).collect();
        let declared = (name, dims, index, params, queries, options);
        format!("{:#?}", (declared, body.stmts(), values, &body.templates))
    })
}

impl SourceError {
    /// The error of source at which the compiler itself failed.
    fn of_compiler() -> Self {
        let place = Place { line: 1, column: 0 };
        let message = "the compiler of the kernel language failed on this source; please report it".into();
        Self { message, start: place, end: place }
    }
}

fn block(mut file: syn::File, functions: &[Function]) -> syn::Result<Vec<Source>> {
    let mut items = vec![];
    for import in imports(&mut file)? {
        let path = import.path.to_string().replace(' ', "");
        let path = path.trim_start_matches("::").trim_start_matches("crate::");
        let mut found = functions.iter().filter(|f| f.is_meant_by(path));
        let (Some(function), None) = (found.next(), found.next()) else {
            let known: Vec<&str> = functions.iter().map(|f| f.path).collect();
            let message = format!(
                "`{path}` names no function, or several: functions that can be imported are {}",
                if known.is_empty() { "none".into() } else { known.join(", ") }
            );
            return Err(syn::Error::new(import.name.span(), message));
        };
        let of = syn::Ident::new(function.name(), import.name.span());
        items.extend(imported(&of, &import.name, function.source.parse()?)?.items);
    }
    items.append(&mut file.items);
    let file = syn::File { items, ..file };
    let sources = lower_block(&file)?;
    if sources.is_empty() {
        let message = "there is no `#[kernel] fn` in this source";
        return Err(syn::Error::new(proc_macro2::Span::call_site(), message));
    }
    Ok(sources)
}
