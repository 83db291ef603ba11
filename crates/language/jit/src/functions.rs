//! Functions of the kernel language that blocks of source import.

/// A `#[func]` of a `kernels!` block that is not private, for blocks that are made at run time: [`crate::function!`] makes
/// it.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// The path by which blocks import it.
    pub path: &'static str,
    /// Its source, and that of what it calls.
    pub source: &'static str,
}

impl Function {
    /// The name.
    pub fn name(&self) -> &'static str {
        self.path.rsplit("::").next().unwrap_or(self.path)
    }

    /// Whether a block means this function by a path: all of it, or its end. The facade's modules stand for their crates.
    pub(crate) fn is_meant_by(&self, path: &str) -> bool {
        let path = path.replacen("madelung::", "madelung_", 1);
        self.path.strip_suffix(&*path).is_some_and(|rest| rest.is_empty() || rest.ends_with("::"))
    }
}

/// The [`Function`] at a path: `function!(madelung_potentials::formula::lennard_jones)`. Blocks import it by this path.
#[macro_export]
macro_rules! function {
    ($first:ident $(:: $rest:ident)*) => {
        $crate::Function {
            path: concat!(stringify!($first) $(, "::", stringify!($rest))*),
            source: $first $(:: $rest)*!(@source),
        }
    };
}
