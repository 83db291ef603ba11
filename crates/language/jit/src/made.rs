//! Kernels from source: their descriptions, as `kernels!` writes them, and the table of those that there are. Sound because
//! slots, declarations and programs are made of one form here, as the macro makes them.
#![expect(unsafe_code, reason = "descriptions promise what backends rely on")]

use crate::source::lowered;
use crate::{Function, PartCode, SourceError};
use madelung_core::runtime as rt;
use madelung_kernel::describe::{Form, Part};
use madelung_kernel::ir::Kernel;
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
/// Refusals of the compiler of the kernel language.
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
    let made = leak(lowered(source, functions, |of, forms| made(&of.kernel, forms, source))?);
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

fn made(kernel: &Kernel, forms: Vec<Form>, text: &str) -> Made {
    let (text, mut codes) = (leaked(text), vec![]);
    let forms = forms.into_iter().enumerate().map(|(n, of)| form(text, n, of, &mut codes)).collect();
    let forms = leak(forms);
    let params = leak(
        kernel
            .params
            .iter()
            .map(|p| rt::Param {
                name: leaked(&p.name),
                kind: p.kind,
                axes: p.element.axes(),
                channels: p.channels,
                in_out: p.in_out,
            })
            .collect(),
    );
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
    Made { kernel: found, listed, parts: codes }
}

fn form(text: &'static str, n: usize, of: Form, codes: &mut Vec<&'static PartCode>) -> rt::Form {
    let Form { member, lists, uniform, gradients, parts } = of;
    let parts = parts.into_iter().enumerate();
    let parts = parts.map(|(p, of)| part(text, (n, p), of, uniform, codes)).collect();
    rt::Form { member, lists, uniform, gradients: gradients.map(leak), parts: leak(parts) }
}

fn part(
    text: &'static str,
    place: (usize, usize),
    of: Part,
    uniform: bool,
    codes: &mut Vec<&'static PartCode>,
) -> rt::Part {
    let name = leaked(&of.code.name);
    let mut run = |code| {
        let code: &PartCode = Box::leak(Box::new(PartCode::new(text, place, code)));
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
        maps: leak(of.maps),
        added: leak(of.added),
        written: leak(of.written),
        loops: of.loops,
        places: of.places,
        planes: of.planes,
        uniform,
        run: run(of.code),
        clusters: of.clusters.map(|c| rt::ClusterForm {
            list: c.list,
            positions: c.positions,
            cell: c.cell,
            packed: leak(c.packed),
            without: leak(c.without),
            sums: c.sums,
            pairs: run(c.pairs),
            rows: run(c.rows),
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
