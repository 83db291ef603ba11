//! One kernel as Rust items.

use madelung_kernel::cluster::Clusters;
use madelung_kernel::forms::{Form, Member, forms};
use madelung_kernel::imperative;
use madelung_kernel::ir::{Kernel, Kind};
use madelung_kernel::layout::{Array, Layout, Slot};
use madelung_kernel::lower::Source;
use madelung_kernel::print::divide::Divided;
use madelung_kernel::print::program::Lanes;
use madelung_kernel::print::records::Records;
use madelung_kernel::print::{cuda, program};
use madelung_kernel::program::{lower, lower_clusters, lower_imperative, lower_rows};
use proc_macro2::TokenStream;
use quote::quote;
use std::collections::BTreeSet;
use std::fmt::Write;

/// `text`: the source of the kernel alone.
pub(crate) fn kernel(source: &Source, text: &str, runtime: &TokenStream) -> syn::Result<TokenStream> {
    let kernel = &source.kernel;
    let (functions, descriptor) = match &source.imperative {
        Some(body) => imperative_items(kernel, text, body),
        None => {
            let forms =
                forms(kernel, &source.options).map_err(|e| syn::Error::new(source.ident.span(), e))?;
            items(kernel, text, &forms, source.options.small)
        }
    };
    let parse = |text: &str| {
        text.parse::<TokenStream>()
            .map_err(|e| syn::Error::new(source.ident.span(), format!("generated code: {e}\n{text}")))
    };
    let (functions, descriptor) = (parse(&functions)?, parse(&descriptor)?);
    // Every function of its own name: a module's, or the trait's own, which are inlined.
    let special = if source.options.small { quote!(outlined) } else { quote!(Lane) };
    let name = syn::Ident::new(&source.ident.to_string().to_uppercase(), source.ident.span());
    let docs = &source.docs;
    let visibility = &source.visibility;
    Ok(quote! {
        #(#[doc = #docs])*
        #visibility static #name: #runtime::runtime::Kernel = {
            mod generated {
                #![allow(unused, unreachable_pub, clippy::all, reason = "generated from the kernel's source")]
                use #runtime::runtime as rt;
                use #runtime::runtime::lanes::#special as special;
                #functions
                pub(super) const KERNEL: rt::Kernel = #descriptor;
            }
            generated::KERNEL
        };
    })
}

fn items(kernel: &Kernel, source: &str, forms: &[Form], small: bool) -> (String, String) {
    let entry_points = if small { "small_entry_points" } else { "entry_points" };
    let mut functions = String::new();
    let mut listed = String::new();
    for form in forms {
        let mut parts = String::new();
        for (n, part) in form.parts.iter().enumerate() {
            let layout = Layout::new(kernel, part);
            let name = format!("{}_{n}", form.name);
            // The second order is most of the code, and lane types without SIMD registers take longest to compile.
            let compact = matches!(form.member, Member::SecondTangent | Member::GradientTangent);
            let lanes = Lanes::Any { compact };
            functions += &program::function(&lower(kernel, part, &layout), &name, lanes);
            let clusters = form.clusters[n].as_ref();
            let clusters =
                clusters.map_or("None".into(), |c| cluster_form(kernel, c, &layout, &name, &mut functions));
            let cuda_name = format!("{}_{name}", kernel.name);
            let divided = Divided::new(&part.body, &layout);
            let records = Records::new(kernel, &part.body, &layout);
            let text = cuda::function(kernel, part, &layout, &divided, records.as_ref(), &cuda_name);
            let records = records_text(records.as_ref(), &cuda_name);
            let positions =
                |of: &BTreeSet<Slot>| of.iter().map(|s| layout.slot(s.param, s.array)).collect::<Vec<_>>();
            let (scattered, written) = (positions(&layout.scattered), positions(&layout.written));
            let (added, nodes) = (positions(&layout.added), layout.node_slots());
            let reductions: String = layout.reductions.iter().fold(String::new(), |mut s, r| {
                let (param, role, component, batch) = (r.param, r.role.0, r.component, r.batch);
                write!(s, "rt::Reduction {{ param: {param}, role: rt::Role({role}), component: {component}, batch: {batch:?} }},")
                    .expect("a string");
                s
            });
            let slots = slots_text(&layout.slots);
            write!(
                parts,
                "rt::Part {{ index: {}, batch: {:?}, slots: &[{slots}], reductions: &[{reductions}], scattered: \
                 &{scattered:?}, nodes: &{nodes:?}, added: &{added:?}, written: &{written:?}, loops: {}, planes: {:?}, places: {}, uniform: {}, run: rt::{entry_points}!({name}), clusters: {clusters}, cuda: rt::Cuda {{ name: {cuda_name:?}, text: {text:?}, lanes: rt::Division::{:?}, records: {records} }} }},",
                part.index, layout.batch, layout.loops, layout.planes, layout.places, form.uniform, divided.lanes
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
    (functions, descriptor(kernel, source, &listed))
}

/// A kernel that is not differentiated: one function, for either element type.
fn imperative_items(kernel: &Kernel, source: &str, body: &imperative::Body) -> (String, String) {
    let layout = imperative::Layout::new(kernel, body);
    let functions = program::function(&lower_imperative(kernel, body, &layout), "value_0", Lanes::None);
    let name = format!("{}_value_0", kernel.name);
    let text = cuda::imperative::function(kernel, body, &layout, &name);
    let (slots, written, loops) = (slots_text(&layout.slots), &layout.written, layout.loops);
    let listed = format!(
        "rt::Form {{ member: rt::Member::Value, lists: rt::Lists::Any, uniform: false, gradients: None, parts: &[rt::Part \
         {{ index: {}, batch: None, slots: &[{slots}], reductions: &[], scattered: &[], nodes: &[], added: &[], written: &{written:?}, planes: None, places: false, clusters: None, loops: \
         {loops}, uniform: false, run: rt::EntryPoints::Compiled {{ f32: [value_0::<f32>; 3], f64: [value_0::<f64>; 3] }}, cuda: \
         rt::Cuda {{ name: {name:?}, text: {text:?}, lanes: rt::Division::None, records: None }} }}] }},",
        kernel.index
    );
    (functions, descriptor(kernel, source, &listed))
}

fn records_text(records: Option<&Records>, of: &str) -> String {
    let text = |r: &Records| {
        format!("Some(rt::Records {{ name: \"{of}_records\", dim: {}, width: {} }})", r.dim, r.width())
    };
    records.map_or("None".into(), text)
}

fn slots_text(slots: &[Slot]) -> String {
    slots.iter().fold(String::new(), |mut s, slot| {
        write!(s, "rt::Slot {{ param: {}, array: {} }},", slot.param, array_text(slot.array))
            .expect("a string");
        s
    })
}

fn descriptor(kernel: &Kernel, source: &str, forms: &str) -> String {
    let params: String = kernel.params.iter().fold(String::new(), |mut s, p| {
        write!(s, "rt::Param {{ name: {:?}, kind: rt::{} }},", p.name, kind_text(p.kind)).expect("a string");
        s
    });
    let queries: String = kernel.queries.iter().fold(String::new(), |mut s, q| {
        write!(s, "rt::{q:?},").expect("a string");
        s
    });
    format!(
        "// SAFETY: parts and declaration come from one source.\nunsafe {{ rt::Kernel::new({:?}, &{:?}, {}, &[{params}], \
         &[{queries}], &[{forms}], {source:?}) }}",
        kernel.name, kernel.dims, kernel.index
    )
}

/// A cluster form, whose functions are added to `functions`.
fn cluster_form(
    kernel: &Kernel,
    c: &Clusters,
    layout: &Layout,
    name: &str,
    functions: &mut String,
) -> String {
    let lanes = Lanes::Any { compact: false };
    *functions += &program::function(&lower_clusters(kernel, c, layout), &format!("{name}_clusters"), lanes);
    *functions += &program::function(&lower_rows(kernel, c, layout), &format!("{name}_rows"), lanes);
    let without = c.without.iter().fold(String::new(), |mut s, (param, role)| {
        write!(s, "({param}, rt::Role({})),", role.0).expect("a string");
        s
    });
    let packed: String = c.packed.iter().fold(String::new(), |mut s, p| {
        let (param, role, component) = (p.param, p.role.0, p.component);
        write!(s, "rt::Packed {{ param: {param}, role: rt::Role({role}), component: {component} }},")
            .expect("a string");
        s
    });
    format!(
        "Some(rt::ClusterForm {{ list: {}, positions: {}, cell: {:?}, packed: &[{packed}], without: &[{without}], sums: {}, pairs: \
         rt::entry_points!({name}_clusters), rows: rt::EntryPoints::Compiled {{ f32: [{name}_rows::<f32>; 3], f64: \
         [{name}_rows::<f64>; 3] }} }})",
        c.list,
        c.positions,
        c.cell,
        c.sums.len()
    )
}

fn array_text(array: Array) -> String {
    match array {
        Array::Values(role) => format!("rt::SlotArray::Values(rt::Role({}))", role.0),
        other => format!("rt::SlotArray::{other:?}"),
    }
}

fn kind_text(kind: Kind) -> String {
    format!("ParamKind::{kind:?}")
}
