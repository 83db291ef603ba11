//! Functions: inlined, for their value alone.

use super::{Functions, Lower, Name, Value, err, syntax, type_name};
use crate::imperative::{Expr as Computed, Type};
use rustc_hash::FxHashMap as HashMap;
use syn::{Expr, ItemFn, Pat, Result, ReturnType};

/// Lowers a function with arguments of which nothing is known but their types.
pub(in crate::lower) fn check_function(f: &ItemFn, funcs: &Functions<'_>) -> Result<()> {
    let mut l = Lower::new(funcs, "Row".into());
    for arg in &f.sig.inputs {
        let (name, ty) = syntax::argument(arg)?;
        let mut real = || l.emit(Type::Real, Computed::Real(0.0));
        let value = match type_name(ty).as_str() {
            "Real" => Value::Real(real()),
            "Vec3" => Value::Vec3(std::array::from_fn(|_| real())),
            "Mat3" => Value::Mat3(std::array::from_fn(|_| real())),
            "i32" | "i64" => Value::Int(l.emit(Type::Int, Computed::Int(0))),
            _ => return err(ty, "an argument is Real, i32, Vec3 or Mat3"),
        };
        l.bind(name.ident.to_string(), Name::Value(value));
    }
    l.inlining.push(f.sig.ident.to_string());
    l.function_value(f).map(|_| ())
}

impl Lower<'_> {
    pub(super) fn inline(&mut self, f: &ItemFn, args: &[&Expr], at: &syn::ExprCall) -> Result<Value> {
        syntax::check_call(f, &self.inlining, args.len(), at)?;
        let name = f.sig.ident.to_string();
        let mut names = HashMap::default();
        for (arg, e) in f.sig.inputs.iter().zip(args) {
            let (id, ty) = syntax::argument(arg)?;
            let want = match type_name(ty).as_str() {
                // Integers are 64-bit in kernels that compute with them.
                "i32" | "i64" => "i64".to_string(),
                "Real" | "Vec3" | "Mat3" => type_name(ty),
                _ => return err(ty, "an argument is Real, i32, Vec3 or Mat3"),
            };
            let value = self.expr(e)?;
            if self.type_of(&value) != want {
                return err(e, format!("`{name}` takes a {} here", type_name(ty)));
            }
            names.insert(id.ident.to_string(), Name::Value(value));
        }
        // A function sees its arguments only.
        let outer = std::mem::replace(&mut self.names, vec![names]);
        self.inlining.push(name);
        let result = self.function_value(f);
        self.inlining.pop();
        self.names = outer;
        result
    }

    /// The value of a function, which must have the declared type.
    fn function_value(&mut self, f: &ItemFn) -> Result<Value> {
        let value = self.function_body(f)?;
        if let ReturnType::Type(_, ty) = &f.sig.output
            && type_name(ty) != "i32"
        {
            self.fits(&value, ty)?;
        }
        Ok(value)
    }

    fn function_body(&mut self, f: &ItemFn) -> Result<Value> {
        let (lets, last) = syntax::function_body(f)?;
        for local in lets {
            if let Pat::Ident(name) = &local.pat
                && name.mutability.is_some()
            {
                return err(name, "a function has no variables: `let mut` belongs in the kernel");
            }
            self.local(local)?;
        }
        self.expr(last)
    }
}
