//! One kernel as Rust items.

use madelung_kernel::forms::{Form, forms};
use madelung_kernel::ir::{Kernel, Kind};
use madelung_kernel::lower::Source;
use madelung_kernel::print::layout::{Array, Layout, Slot};
use madelung_kernel::print::{cuda, rust};
use proc_macro2::TokenStream;
use quote::quote;
use std::collections::BTreeSet;
use std::fmt::Write;

pub(crate) fn kernel(source: &Source, runtime: &TokenStream) -> syn::Result<TokenStream> {
    let kernel = &source.kernel;
    let forms = forms(kernel, &source.fast).map_err(|e| syn::Error::new(source.span, e))?;
    let (functions, descriptor) = items(kernel, &forms);
    let parse = |text: &str| {
        text.parse::<TokenStream>()
            .map_err(|e| syn::Error::new(source.span, format!("generated code: {e}\n{text}")))
    };
    let (functions, descriptor) = (parse(&functions)?, parse(&descriptor)?);
    let name = syn::Ident::new(&kernel.name.to_uppercase(), source.span);
    let docs = &source.docs;
    let visibility = &source.visibility;
    Ok(quote! {
        #(#[doc = #docs])*
        #visibility static #name: #runtime::backend::kernel::Kernel = {
            mod generated {
                #![allow(unused, unreachable_pub, clippy::all, reason = "generated from the kernel's source")]
                use #runtime::backend::kernel as rt;
                #functions
                pub(super) const KERNEL: rt::Kernel = #descriptor;
            }
            generated::KERNEL
        };
    })
}

fn items(kernel: &Kernel, forms: &[Form]) -> (String, String) {
    let mut functions = String::new();
    let mut listed = String::new();
    for form in forms {
        let mut parts = String::new();
        for (n, part) in form.parts.iter().enumerate() {
            let layout = Layout::new(kernel, part);
            let name = format!("{}_{n}", form.name);
            functions += &rust::function(kernel, part, &layout, &name);
            let cuda_name = format!("{}_{name}", kernel.name);
            let text = cuda::function(kernel, part, &layout, &cuda_name);
            let positions =
                |of: &BTreeSet<Slot>| of.iter().map(|s| layout.slot(s.0, s.1)).collect::<Vec<_>>();
            let (scattered, written) = (positions(&layout.scattered), positions(&layout.written));
            let reductions: String = layout.reductions.iter().fold(String::new(), |mut s, r| {
                let (param, role, component, batch) = (r.param, r.role.0, r.component, r.batch);
                write!(s, "rt::Reduction {{ param: {param}, role: {role}, component: {component}, batch: {batch:?} }},")
                    .expect("a string");
                s
            });
            let slots: String = layout.slots.iter().fold(String::new(), |mut s, (param, array)| {
                write!(s, "rt::Slot {{ param: {param}, array: {} }},", array_text(*array)).expect("a string");
                s
            });
            write!(
                parts,
                "rt::Part {{ index: {}, batch: {:?}, slots: &[{slots}], reductions: &[{reductions}], scattered: \
                 &{scattered:?}, written: &{written:?}, loops: {}, uniform: {}, run: rt::entry_points!({name}), cuda: rt::Cuda {{ name: {cuda_name:?}, text: {text:?} }} }},",
                part.index, layout.batch, layout.loops, form.uniform
            )
            .expect("a string");
        }
        let gradients = match &form.gradients {
            Some(params) => format!("Some(&{params:?})"),
            None => "None".into(),
        };
        write!(
            listed,
            "rt::Form {{ member: rt::Member::{:?}, lists: rt::Lists::{:?}, uniform: {}, gradients: {gradients}, parts: \
             &[{parts}] }},",
            form.member, form.lists, form.uniform
        )
        .expect("a string");
    }
    let params: String = kernel.params.iter().fold(String::new(), |mut s, p| {
        write!(s, "rt::Param {{ name: {:?}, kind: rt::{} }},", p.name, kind_text(p.kind)).expect("a string");
        s
    });
    let descriptor = format!(
        "// SAFETY: parts and declaration come from one source.\nunsafe {{ rt::Kernel::new({:?}, &{:?}, {}, &[{params}], \
         &[{listed}]) }}",
        kernel.name, kernel.dims, kernel.index
    );
    (functions, descriptor)
}

fn array_text(array: Array) -> String {
    match array {
        Array::Values(role) => format!("rt::Array::Values({})", role.0),
        other => format!("rt::Array::{other:?}"),
    }
}

fn kind_text(kind: Kind) -> String {
    // The runtime's mirror of this enum has the same names; only the path of the variants differs.
    format!("ParamKind::{kind:?}")
}
