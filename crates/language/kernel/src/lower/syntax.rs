//! Syntax that all kernels share: signatures, `let`, calls, and the patterns of loops.

use super::err;
use crate::ir::Function;
use syn::{BinOp, Expr, FnArg, ItemFn, Pat, PatIdent, Result, ReturnType, Type, UnOp};

/// The name of a kernel's index, its dimension, and the other parameters.
pub(super) fn signature(f: &ItemFn) -> Result<(String, String, impl Iterator<Item = &FnArg>)> {
    if let ReturnType::Type(_, t) = &f.sig.output {
        return err(t, "a kernel returns nothing: it writes to its `&mut` parameters");
    }
    let index = "the first parameter of a kernel is its index: `i: Atom`";
    let mut inputs = f.sig.inputs.iter();
    let Some(FnArg::Typed(first)) = inputs.next() else { return err(&f.sig, index) };
    let (Pat::Ident(name), Type::Path(ty)) = (&*first.pat, &*first.ty) else { return err(first, index) };
    Ok((name.ident.to_string(), ty.path.require_ident()?.to_string(), inputs))
}

/// A real number as written.
pub(super) fn number(x: &syn::LitFloat) -> Result<f64> {
    match x.base10_parse::<f64>()? {
        number if number.is_finite() => Ok(number),
        _ => err(x, "this number is beyond the range of f64"),
    }
}

/// The name and the type of a kernel's parameter.
pub(super) fn parameter(arg: &FnArg) -> Result<(&PatIdent, &Type)> {
    let FnArg::Typed(typed) = arg else { return err(arg, "a kernel has no `self`") };
    let Pat::Ident(name) = &*typed.pat else { return err(&typed.pat, "a parameter is a plain name") };
    Ok((name, &typed.ty))
}

/// The name and the type of a function's argument.
pub(super) fn argument(arg: &FnArg) -> Result<(&PatIdent, &Type)> {
    let FnArg::Typed(typed) = arg else { return err(arg, "a function has no `self`") };
    let Pat::Ident(name) = &*typed.pat else { return err(&typed.pat, "an argument is a plain name") };
    Ok((name, &typed.ty))
}

/// The `let`s of a function and the expression at its end.
pub(super) fn function_body(f: &ItemFn) -> Result<(Vec<&syn::Local>, &Expr)> {
    let form = "a function is `let`s and one expression at the end";
    let Some((syn::Stmt::Expr(last, None), lets)) = f.block.stmts.split_last() else {
        return err(&f.sig, form);
    };
    let lets = lets.iter().map(|s| match s {
        syn::Stmt::Local(local) => Ok(local),
        s => err(s, form),
    });
    Ok((lets.collect::<Result<_>>()?, last))
}

/// The pattern of a `let`, the type that it is declared to have, and the value.
pub(super) fn binding(local: &syn::Local) -> Result<(&Pat, Option<&Type>, &Expr)> {
    let (pat, ty) = match &local.pat {
        Pat::Type(t) => (&*t.pat, Some(&*t.ty)),
        pat => (pat, None),
    };
    let Some(init) = &local.init else {
        return err(local, "`let` needs a value: there are no uninitialised variables");
    };
    if let Some((token, _)) = &init.diverge {
        return err(token, "`let` binds one plain name: there is nothing that could fail");
    }
    Ok((pat, ty, &init.expr))
}

/// The name of the function that is called, and the arguments.
pub(super) fn call(c: &syn::ExprCall) -> Result<(String, Vec<&Expr>)> {
    let Expr::Path(path) = &*c.func else { return err(&c.func, "expected the name of a function") };
    Ok((path.path.require_ident()?.to_string(), c.args.iter().collect()))
}

/// Names of functions in other libraries, and how a kernel writes them.
const ELSEWHERE: [(&str, &str); 14] = [
    ("norm", "length(v)"),
    ("magnitude", "length(v)"),
    ("normalize", "v / length(v)"),
    ("ln", "log(x)"),
    ("powi", "pow(x, 6)"),
    ("powf", "pow(x, 0.5)"),
    ("fabs", "abs(x)"),
    ("round", "nearest(x)"),
    ("ceil", "-floor(-x)"),
    ("tan", "sin(x) / cos(x)"),
    ("sinh", "0.5 * (exp(x) - exp(-x))"),
    ("cosh", "0.5 * (exp(x) + exp(-x))"),
    ("arccos", "acos(x)"),
    ("arctan2", "atan2(y, x)"),
];

fn instead(name: &str) -> String {
    let known = ELSEWHERE.iter().find(|f| f.0 == name);
    known.map_or_else(String::new, |f| format!("write `{}`; ", f.1))
}

/// The error where a function is called that there is not; `own`: functions of one kind of kernels.
pub(super) fn no_function(name: &str, args: usize, own: &str) -> String {
    let named = Function::NAMED.map(|f| f.0).join(" ");
    format!(
        "there is no function `{name}` with {args} argument(s): {}builtins are sqrt {named} pow atan atan2 nearest abs min \
         max dot cross length vec2 vec3 vec4 mat2 mat3 row {own}; others are `#[func]`s of this block",
        instead(name)
    )
}

/// The error where a method is called that there is not, given the methods that there are.
pub(super) fn no_method(name: &syn::Ident, forms: &str) -> String {
    format!("{}{forms}", instead(&name.to_string()))
}

/// The error where a component is written.
pub(super) const WHOLE: &str = "components are not assigned one by one: `v = vec3(x, y, z)`";

/// Refuses `x ** 6`, which Rust reads as a product with `*6`.
pub(super) fn check_power(b: &syn::ExprBinary) -> Result<()> {
    match (&b.op, &*b.right) {
        (BinOp::Mul(_), Expr::Unary(u))
            if matches!((&u.op, &*u.expr), (UnOp::Deref(_), Expr::Lit(_) | Expr::Paren(_))) =>
        {
            err(b, "`**` is not an operator: a power is `pow(x, 6)`")
        }
        _ => Ok(()),
    }
}

/// Checks that a function says what it gives back.
pub(super) fn check_output(f: &ItemFn) -> Result<()> {
    match f.sig.output {
        ReturnType::Default => {
            let name = &f.sig.ident;
            err(
                &f.sig,
                format!("say what `{name}` gives back: `-> Real` behind its arguments, or the type it has"),
            )
        }
        ReturnType::Type(..) => Ok(()),
    }
}

/// Checks a call of a function, given the functions that it stands in and the number of arguments.
pub(super) fn check_call(f: &ItemFn, within: &[String], args: usize, at: &syn::ExprCall) -> Result<()> {
    let (name, expected) = (f.sig.ident.to_string(), f.sig.inputs.len());
    if within.contains(&name) {
        return err(at, format!("`{name}` calls itself: functions are inlined, so recursion has no end"));
    }
    if args != expected {
        return err(at, format!("`{name}` takes {expected} argument(s), not {args}"));
    }
    Ok(())
}

/// The variables of a loop; `forms` is the error where the pattern is no name and no tuple of names.
pub(super) fn loop_variables(pat: &Pat, forms: &str) -> Result<Vec<String>> {
    let pats = match pat {
        Pat::Tuple(t) => t.elems.iter().collect(),
        pat => vec![pat],
    };
    let name = |pat: &Pat| match pat {
        Pat::Ident(i) if i.mutability.is_none() => Ok(i.ident.to_string()),
        Pat::Wild(_) => Ok("_".into()),
        pat => err(pat, forms),
    };
    pats.into_iter().map(name).collect()
}

/// Whether an operator assigns.
pub(super) fn is_compound(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}
