//! Kernels from source: their descriptions, as `kernels!` writes them, and the table of those that there are. Sound because
//! slots, declarations and programs are made of one form here, as the macro makes them.
#![expect(unsafe_code, reason = "descriptions promise what backends rely on")]

use crate::source::lowered;
use crate::{Function, PartCode, SourceError};
use madelung_core::runtime as rt;
use madelung_kernel::describe::{Form, Part, describe};
use madelung_kernel::lower::Source;
use rustc_hash::FxHashMap as HashMap;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

/// A kernel that was made at run time.
#[derive(Debug)]
pub struct Made {
    kernel: &'static rt::Kernel,
    listed: &'static rt::Kernel,
    parts: Vec<&'static PartCode>,
}

impl Made {
    /// The kernel, for steps of ops.
    pub fn kernel(&self) -> &'static rt::Kernel {
        self.kernel
    }

    /// The kernel with pair lists in the place of its grids, for ops whose callers search.
    pub fn listed(&self) -> &'static rt::Kernel {
        self.listed
    }

    /// The code of its parts, form by form.
    pub fn parts(&self) -> &[&'static PartCode] {
        &self.parts
    }
}

impl Deref for Made {
    type Target = rt::Kernel;

    fn deref(&self) -> &rt::Kernel {
        self.kernel
    }
}

/// Source text, and that of the functions that it may import.
type Text = (String, Vec<&'static str>);

/// The kernels that there are.
static ALL: Mutex<Option<HashMap<Text, &'static [Made]>>> = Mutex::new(None);

/// The kernels of a block of source text, in its order. Equal text gives the same ones.
///
/// # Errors
/// What the compiler of the kernel language refuses.
pub fn kernels(source: &str) -> Result<&'static [Made], SourceError> {
    kernels_with(source, &[])
}

/// The kernels of a block of source text that may import some functions.
///
/// # Errors
/// As [`kernels`].
pub fn kernels_with(source: &str, functions: &[Function]) -> Result<&'static [Made], SourceError> {
    let text = (source.to_string(), functions.iter().flat_map(|f| [f.path, f.source]).collect());
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    if let Some(made) = all.get(&text) {
        return Ok(made);
    }
    let made = leak(lowered(source, functions, |of| made(of, source))?);
    all.insert(text, made);
    Ok(made)
}

/// Kernels live as long as the process, as compiled ones do.
fn leak<T>(of: Vec<T>) -> &'static [T] {
    Box::leak(of.into_boxed_slice())
}

fn leaked(text: &str) -> &'static str {
    Box::leak(text.to_string().into_boxed_str())
}

fn made(source: &Source, text: &str) -> syn::Result<Made> {
    let (kernel, small, text) = (&source.kernel, source.options.small, leaked(text));
    let mut codes = vec![];
    let forms = describe(source)?.into_iter().enumerate();
    let forms = leak(forms.map(|(n, of)| form(text, n, of, small, &mut codes)).collect());
    let params =
        leak(kernel.params.iter().map(|p| rt::Param { name: leaked(&p.name), kind: p.kind }).collect());
    let dims = leak(kernel.dims.iter().map(|dim| leaked(dim)).collect());
    let name = leaked(&kernel.name);
    let with = |queries| {
        // SAFETY: parts and declaration come from one source, and programs do what the code that `kernels!` writes does. They
        // read what a query has found as a list, whoever made it.
        let made = unsafe { rt::Kernel::new(name, dims, kernel.index, params, queries, forms, text) };
        &*Box::leak(Box::new(made))
    };
    let found = with(leak(kernel.queries.clone()));
    let listed = if kernel.queries.is_empty() { found } else { with(&[]) };
    Ok(Made { kernel: found, listed, parts: codes })
}

fn form(text: &'static str, n: usize, of: Form, small: bool, codes: &mut Vec<&'static PartCode>) -> rt::Form {
    let Form { member, lists, uniform, gradients, parts } = of;
    let parts = parts.into_iter().enumerate();
    let parts = parts.map(|(p, of)| part(text, (n, p), of, (uniform, small), codes)).collect();
    rt::Form { member, lists, uniform, gradients: gradients.map(leak), parts: leak(parts) }
}

fn part(
    text: &'static str,
    place: (usize, usize),
    of: Part,
    (uniform, small): (bool, bool),
    codes: &mut Vec<&'static PartCode>,
) -> rt::Part {
    let name = leaked(&of.name);
    let mut run = |name: String, program, small| {
        let code: &PartCode = Box::leak(Box::new(PartCode::new((text, name), place, program, small)));
        codes.push(code);
        rt::EntryPoints::Made(code)
    };
    rt::Part {
        index: of.index,
        batch: of.batch,
        slots: leak(of.slots),
        reductions: leak(of.reductions),
        scattered: leak(of.scattered),
        nodes: leak(of.nodes),
        added: leak(of.added),
        written: leak(of.written),
        loops: of.loops,
        places: of.places,
        planes: of.planes,
        uniform,
        run: run(of.name, of.program, small && !of.is_scalar),
        clusters: of.clusters.map(|c| rt::ClusterForm {
            list: c.list,
            positions: c.positions,
            cell: c.cell,
            packed: leak(c.packed),
            without: leak(c.without),
            sums: c.sums,
            pairs: run(format!("{name}_clusters"), c.pairs, false),
            rows: run(format!("{name}_rows"), c.rows, false),
        }),
        cuda: rt::Cuda {
            name,
            text: leaked(&of.cuda),
            lanes: of.division,
            records: of.records.map(|(dim, width)| rt::Records {
                name: leaked(&format!("{name}_records")),
                dim,
                width,
            }),
        },
    }
}
