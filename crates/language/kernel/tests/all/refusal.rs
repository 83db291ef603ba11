//! The compiler's refusal of a program.

use madelung_kernel::forms::forms;
use madelung_kernel::lower::lower_block;

pub(crate) struct Refusal {
    pub(crate) text: String,
    /// Line and column.
    pub(crate) start: (usize, usize),
    pub(crate) end: (usize, usize),
    /// Whether only the derivatives found it.
    pub(crate) is_late: bool,
}

/// The refusal of a program, or none.
pub(crate) fn refusal(source: &str) -> Option<Refusal> {
    let file = syn::parse_str(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let (error, is_late) = match lower_block(&file) {
        Err(e) => (e, false),
        Ok(sources) => {
            let all = sources.iter().map(|s| forms(&s.kernel, &s.options));
            let text = all.filter_map(Result::err).next()?;
            (syn::Error::new(sources[0].ident.span(), text), true)
        }
    };
    let place = |at: proc_macro2::LineColumn| (at.line, at.column);
    let (start, end) = (place(error.span().start()), place(error.span().end()));
    Some(Refusal { text: error.to_string(), start, end, is_late })
}
