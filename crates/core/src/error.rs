//! The error type: the argument, the expected value, and the given one.

use std::fmt;

/// An error of a call, in terms of the caller's arguments.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An argument that does not fit.
    Argument {
        /// The caller's name of the argument.
        argument: String,
        /// The expected value.
        expected: String,
        /// The given value.
        got: String,
    },
    /// A valid call that this build or machine, or this order of derivative, does not support.
    Unsupported(String),
    /// An allocation that failed.
    Memory {
        /// The argument that made the size, by the caller's name; empty where it is not known.
        argument: String,
        /// The size of the allocation in bytes.
        bytes: usize,
        /// The bytes that are left, where the allocator says so.
        left: Option<usize>,
    },
    /// A call that the host program interrupted ([`crate::stop`]).
    Interrupted,
    /// A failure of a GPU's driver, compiler or libraries: the attempted operation and the reported error.
    Driver(String),
}

/// A result with Madelung's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The error of an allocation that failed, whose argument the call knows that wants it.
    pub fn memory(bytes: usize, left: Option<usize>) -> Self {
        Self::Memory { argument: String::new(), bytes, left }
    }

    /// The error of an argument that does not fit.
    pub fn argument(
        argument: impl Into<String>,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Self {
        Self::Argument { argument: argument.into(), expected: expected.into(), got: got.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument { argument, expected, got } => {
                write!(f, "`{argument}`: expected {expected}, got {got}")
            }
            Self::Memory { argument, bytes, left } => {
                let whose = if argument.is_empty() { String::new() } else { format!("`{argument}`: ") };
                let left = left.map(|left| format!(", {} are left", size(left)));
                write!(f, "{whose}out of memory: {} are needed{}", size(*bytes), left.unwrap_or_default())
            }
            Self::Interrupted => f.write_str("the call was interrupted"),
            Self::Unsupported(text) | Self::Driver(text) => f.write_str(text),
        }
    }
}

/// A number of bytes for people.
fn size(bytes: usize) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let x = bytes as f64;
    units
        .iter()
        .find(|(unit, _)| x >= *unit)
        .map_or(format!("{bytes} bytes"), |(unit, name)| format!("{:.1} {name}", x / unit))
}

/// The message, which `fn main() -> Result<()>` prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text that is printed where `main` returns an error.
    #[test]
    fn debug_is_the_message() {
        let error = Error::Memory { argument: "cutoff".into(), bytes: 23_000_000_000, left: Some(1500) };
        assert_eq!(format!("{error:?}"), "`cutoff`: out of memory: 23.0 GB are needed, 1.5 kB are left");
        let error: std::result::Result<(), _> = Err(Error::Interrupted);
        assert_eq!(format!("{error:?}"), "Err(the call was interrupted)");
    }
}
