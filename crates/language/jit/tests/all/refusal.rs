//! The refusal of a program, as those get it who make kernels at run time.

use madelung_jit::{Place, kernels};

pub(crate) struct Refusal {
    pub(crate) text: String,
    /// Line and column.
    pub(crate) start: (usize, usize),
    pub(crate) end: (usize, usize),
    /// Whether only the derivatives found it, which is not told.
    pub(crate) is_late: bool,
}

/// The refusal of a program, or none.
pub(crate) fn refusal(source: &str) -> Option<Refusal> {
    let error = kernels(source).err()?;
    let place = |Place { line, column }: Place| (line, column);
    let (start, end) = (place(error.start), place(error.end));
    Some(Refusal { text: error.message, start, end, is_late: false })
}
