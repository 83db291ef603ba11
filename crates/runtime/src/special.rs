//! The special functions, by name.

/// The value of a special function: `$on` makes an expression of its name.
macro_rules! by_name {
    ($f:expr, $on:ident) => {
        match $f {
            Function::Exp => $on!(exp),
            Function::Ln => $on!(ln),
            Function::Erf => $on!(erf),
            Function::Erfc => $on!(erfc),
            Function::ExpNegSq => $on!(exp_neg_sq),
            Function::Sin => $on!(sin),
            Function::Cos => $on!(cos),
            Function::Asin => $on!(asin),
            Function::Acos => $on!(acos),
            Function::Tanh => $on!(tanh),
            Function::Floor => $on!(floor),
        }
    };
}

pub(crate) use by_name;
