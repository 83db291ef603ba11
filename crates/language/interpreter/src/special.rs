//! The special functions, by name.

/// The value of a special function: `$on` makes an expression of its name.
#[doc(hidden)]
#[macro_export]
macro_rules! by_name {
    ($f:expr, $on:ident) => {
        match $f {
            $crate::Function::Exp => $on!(exp),
            $crate::Function::Ln => $on!(ln),
            $crate::Function::Erf => $on!(erf),
            $crate::Function::Erfc => $on!(erfc),
            $crate::Function::ExpNegSq => $on!(exp_neg_sq),
            $crate::Function::Sin => $on!(sin),
            $crate::Function::Cos => $on!(cos),
            $crate::Function::Asin => $on!(asin),
            $crate::Function::Acos => $on!(acos),
            $crate::Function::Tanh => $on!(tanh),
            $crate::Function::Floor => $on!(floor),
        }
    };
}
