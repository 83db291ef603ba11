//! The one error of Madelung: which argument, what was expected, what came.

use std::fmt;

/// What went wrong in a call, said in terms of the caller's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An argument does not fit: its name, what it must be, and what it was.
    Argument {
        /// Name of the argument as the caller knows it.
        argument: String,
        /// What the call needs.
        expected: String,
        /// What it was given.
        got: String,
    },
    /// The call is fine but this build, machine or order of derivative cannot do it.
    Unsupported(String),
    /// A GPU's driver, compiler or libraries failed: what was being done, and what they say.
    Driver(String),
}

/// Result with Madelung's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An argument that does not fit.
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
            Self::Unsupported(what) | Self::Driver(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}
