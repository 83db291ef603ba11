//! One kernel as Rust items.

use madelung_kernel::describe::{ClusterForm, Code, Form, Part, Width, describe};
use madelung_kernel::forms::Member;
use madelung_kernel::ir::{Kernel, Param};
use madelung_kernel::lower::{Options, Source};
use madelung_kernel::print::program::{self, Lanes};
use proc_macro2::TokenStream;
use quote::quote;
use std::fmt::Write;

/// `text`: the source of the kernel alone.
pub(crate) fn kernel(source: &Source, text: &str, runtime: &TokenStream) -> syn::Result<TokenStream> {
    let small = source.options.small;
    let mut functions = Functions::default();
    let forms = describe(source)?;
    let forms: String = forms.iter().map(|form| form_text(form, &source.options, &mut functions)).collect();
    let descriptor = descriptor(&source.kernel, &forms);
    let parse = |text: &str| {
        text.parse::<TokenStream>()
            .map_err(|e| syn::Error::new(source.ident.span(), format!("generated code: {e}\n{text}")))
    };
    let (functions, descriptor) = (parse(&functions.text)?, parse(&descriptor)?);
    // Every function of its own name: a module's, or the trait's own, which are inlined.
    let special = if small { quote!(outlined) } else { quote!(Lane) };
    let name = syn::Ident::new(&source.ident.to_string().to_uppercase(), source.ident.span());
    let docs = &source.docs;
    let visibility = &source.visibility;
    Ok(quote! {
        #(#[doc = #docs])*
        #visibility static #name: #runtime::runtime::Kernel = {
            mod generated {
                #![allow(unused, unreachable_pub, clippy::all, reason = "generated from the kernel's source")]
                use #runtime::runtime::{self as rt, Packed, Query, Reduction, Role, Slot, SlotArray::*};
                use #runtime::runtime::lanes::#special as special;
                const SOURCE: &str = #text;
                #functions
                pub(super) const KERNEL: rt::Kernel = #descriptor;
            }
            generated::KERNEL
        };
    })
}

/// Whether the kernel is one of an integration test or a benchmark. Where a library is compiled once more for its unit tests,
/// its kernels are interpreted: their machine code is that of the library, and most of the time that it takes to compile.
fn is_integration_test() -> bool {
    // Cargo sets it for these alone.
    std::env::var_os("CARGO_TARGET_TMPDIR").is_some()
}

/// The functions of a kernel, one for each program.
#[derive(Default)]
struct Functions {
    interpreted: bool,
    text: String,
    count: usize,
}

impl Functions {
    /// The entry points of a program. `compact`: as in [`Lanes::Any`].
    fn entry_points(&mut self, code: &Code, compact: bool) -> String {
        let (n, Code { name, program, width }) = (self.count, code);
        self.count += 1;
        let interpreted = format!("rt::Interpreted {{ source: SOURCE, program: {n} }}");
        let made = format!("rt::EntryPoints::Made(&{interpreted})");
        if self.interpreted {
            return made;
        }
        let lanes = if *width == Width::None { Lanes::None } else { Lanes::Any { compact } };
        let function = program::function(program, name, lanes);
        let compiled = match width {
            Width::All => format!("rt::entry_points!({name}, {interpreted})"),
            Width::Few => format!("rt::small_entry_points!({name}, {interpreted})"),
            Width::One | Width::None => {
                format!("rt::EntryPoints::Compiled {{ f32: [{name}::<f32>; 3], f64: [{name}::<f64>; 3] }}")
            }
        };
        if is_integration_test() {
            self.text += &function;
            return compiled;
        }
        self.text += &format!("#[cfg(not(test))] {function}");
        format!(
            "{{ #[cfg(test)] const RUN: rt::EntryPoints = {made}; \
             #[cfg(not(test))] const RUN: rt::EntryPoints = {compiled}; RUN }}"
        )
    }
}

fn form_text(form: &Form, options: &Options, functions: &mut Functions) -> String {
    // Derivatives in one direction and then in another are rarely asked for.
    functions.interpreted =
        form.member == Member::SecondTangent || options.interpreted || cfg!(feature = "interpreted");
    let parts: String = form.parts.iter().map(|part| part_text(form, part, functions)).collect();
    let gradients = form.gradients.as_ref().map_or("None".into(), |params| format!("Some(&{params:?})"));
    format!(
        "rt::Form {{ member: rt::Member::{:?}, lists: rt::Lists::{:?}, uniform: {}, gradients: {gradients}, \
         parts: &[{parts}] }},",
        form.member, form.lists, form.uniform
    )
}

fn part_text(form: &Form, p: &Part, functions: &mut Functions) -> String {
    // The second order is most of the code, and lane types without SIMD registers take longest to compile.
    let compact = matches!(form.member, Member::GradientTangent);
    let run = functions.entry_points(&p.code, compact);
    let clusters = p.clusters.as_ref().map(|of| cluster_text(of, functions));
    let clusters = clusters.map_or("None".into(), |text| format!("Some({text})"));
    let records = p.records.map(|(dim, width)| {
        format!("Some(rt::Records {{ name: \"{}_records\", dim: {dim}, width: {width} }})", p.code.name)
    });
    format!(
        "rt::Part {{ index: {}, batch: {:?}, slots: &{:?}, reductions: &{:?}, scattered: &{:?}, nodes: &{:?}, \
         maps: &{:?}, added: &{:?}, written: &{:?}, loops: {}, planes: {:?}, places: {}, uniform: {}, run: {run}, \
         clusters: {clusters}, cuda: rt::Cuda {{ name: {:?}, text: {:?}, lanes: rt::Division::{:?}, \
         records: {} }} }},",
        p.index,
        p.batch,
        p.slots,
        p.reductions,
        p.scattered,
        p.nodes,
        p.maps,
        p.added,
        p.written,
        p.loops,
        p.planes,
        p.places,
        form.uniform,
        p.code.name,
        p.cuda,
        p.division,
        records.unwrap_or("None".into())
    )
}

fn cluster_text(c: &ClusterForm, functions: &mut Functions) -> String {
    let [pairs, rows] = [&c.pairs, &c.rows].map(|code| functions.entry_points(code, false));
    format!(
        "rt::ClusterForm {{ list: {}, positions: {}, cell: {:?}, packed: &{:?}, without: &{:?}, sums: {}, \
         pairs: {pairs}, rows: {rows} }}",
        c.list, c.positions, c.cell, c.packed, c.without, c.sums
    )
}

fn descriptor(kernel: &Kernel, forms: &str) -> String {
    let params = kernel.params.iter().fold(String::new(), |mut s, p| {
        let Param { name, kind, element, channels, in_out } = p;
        let axes = element.axes();
        write!(
            s,
            "rt::Param {{ name: {name:?}, kind: rt::ParamKind::{kind:?}, axes: &{axes:?}, channels: {channels}, in_out: {in_out} }},"
        )
        .expect("a string");
        s
    });
    format!(
        "// SAFETY: parts and declaration come from one source.\nunsafe {{ rt::Kernel::new({:?}, &{:?}, {}, &[{params}], \
         &{:?}, &[{forms}], SOURCE) }}",
        kernel.name, kernel.dims, kernel.index, kernel.queries
    )
}
