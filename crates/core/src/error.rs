//! The error type: the argument, the expected value, and the given one.

use std::fmt;

/// An error of a call, in terms of the caller's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// A failure of a GPU's driver, compiler or libraries: the attempted operation and the reported error.
    Driver(String),
}

/// A result with Madelung's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
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
            Self::Unsupported(text) | Self::Driver(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}
