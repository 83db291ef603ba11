//! Kernels from source: their descriptions, as `kernels!` writes them, and the table of those that there are. Sound because
//! slots, declarations and programs are made of one form here, as the macro makes them.
#![expect(unsafe_code, reason = "descriptions promise what backends rely on")]

use crate::source::{Lowered, lowered};
use crate::{Function, PartCode, SourceError};
use madelung_core::runtime as rt;
use madelung_kernel::cluster::Clusters;
use madelung_kernel::forms::Form;
use madelung_kernel::imperative;
use madelung_kernel::ir::Kernel;
use madelung_kernel::layout::{Layout, Slot};
use madelung_kernel::mirror;
use madelung_kernel::print::cuda;
use madelung_kernel::print::divide::Divided;
use madelung_kernel::print::records::Records;
use madelung_kernel::program::{lower, lower_clusters, lower_imperative, lower_rows};
use rustc_hash::FxHashMap as HashMap;
use std::collections::BTreeSet;
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

fn made(of: &Lowered, text: &str) -> Made {
    let (kernel, small, text) = (&of.source.kernel, of.source.options.small, leaked(text));
    let mut codes = vec![];
    let forms: Vec<rt::Form> = match &of.source.imperative {
        Some(body) => vec![imperative_form(kernel, text, body, &mut codes)],
        None => {
            of.forms.iter().enumerate().map(|(n, f)| form(kernel, text, (n, f), small, &mut codes)).collect()
        }
    };
    let params =
        leak(kernel.params.iter().map(|p| rt::Param { name: leaked(&p.name), kind: p.kind }).collect());
    let dims = leak(kernel.dims.iter().map(|dim| leaked(dim)).collect());
    let (name, forms) = (leaked(&kernel.name), leak(forms));
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

fn run(code: PartCode, codes: &mut Vec<&'static PartCode>) -> rt::EntryPoints {
    let code: &'static PartCode = Box::leak(Box::new(code));
    codes.push(code);
    rt::EntryPoints::Made(code)
}

fn form(
    kernel: &Kernel,
    text: &'static str,
    (n, form): (usize, &Form),
    small: bool,
    codes: &mut Vec<&'static PartCode>,
) -> rt::Form {
    let parts = form.parts.iter().enumerate();
    rt::Form {
        member: form.member,
        lists: form.lists,
        uniform: form.uniform,
        gradients: form.gradients.clone().map(leak),
        parts: leak(
            parts.map(|(p, part)| self::part(kernel, text, (n, form), (p, part), small, codes)).collect(),
        ),
    }
}

fn part(
    kernel: &Kernel,
    source: &'static str,
    (n, form): (usize, &Form),
    (p, part): (usize, &mirror::Part),
    small: bool,
    codes: &mut Vec<&'static PartCode>,
) -> rt::Part {
    let layout = Layout::new(kernel, part);
    let name = format!("{}_{}_{p}", kernel.name, form.name);
    let divided = Divided::new(&part.body, &layout);
    let records = Records::new(kernel, &part.body, &layout);
    let text = cuda::function(kernel, part, &layout, &divided, records.as_ref(), &name);
    let positions = |of: &BTreeSet<Slot>| leak(of.iter().map(|s| layout.slot(s.param, s.array)).collect());
    let records = records.map(|r| rt::Records {
        name: leaked(&format!("{name}_records")),
        dim: r.dim,
        width: r.width(),
    });
    let (scattered, written) = (positions(&layout.scattered), positions(&layout.written));
    let (added, nodes) = (positions(&layout.added), leak(layout.node_slots()));
    let program = lower(kernel, part, &layout);
    let clusters = form.clusters[p].as_ref();
    let code = PartCode::new((source, name.clone()), (n, p), program, small);
    let (run, place) = (run(code, codes), (n, p));
    let clusters = clusters.map(|c| cluster_form(kernel, c, &layout, (source, &name), place, codes));
    rt::Part {
        index: part.index,
        batch: layout.batch,
        slots: leak(layout.slots.clone()),
        reductions: leak(layout.reductions.clone()),
        scattered,
        nodes,
        added,
        written,
        loops: layout.loops,
        places: layout.places,
        planes: layout.planes,
        uniform: form.uniform,
        cuda: rt::Cuda { name: leaked(&name), text: leaked(&text), lanes: divided.lanes, records },
        run,
        clusters,
    }
}

fn cluster_form(
    kernel: &Kernel,
    c: &Clusters,
    of_part: &Layout,
    (source, name): (&'static str, &str),
    place: (usize, usize),
    codes: &mut Vec<&'static PartCode>,
) -> rt::ClusterForm {
    let mut code = |kind: &str, program| {
        run(PartCode::new((source, format!("{name}_{kind}")), place, program, false), codes)
    };
    let packed = c.packed.iter().map(|p| rt::Packed { param: p.param, role: p.role, component: p.component });
    rt::ClusterForm {
        list: c.list,
        positions: c.positions,
        cell: c.cell,
        packed: leak(packed.collect()),
        without: leak(c.without.iter().copied().collect()),
        sums: c.sums.len(),
        pairs: code("clusters", lower_clusters(kernel, c, of_part)),
        rows: code("rows", lower_rows(kernel, c, of_part)),
    }
}

fn imperative_form(
    kernel: &Kernel,
    source: &'static str,
    body: &imperative::Body,
    codes: &mut Vec<&'static PartCode>,
) -> rt::Form {
    let layout = imperative::Layout::new(kernel, body);
    let name = format!("{}_value_0", kernel.name);
    let text = cuda::imperative::function(kernel, body, &layout, &name);
    let program = lower_imperative(kernel, body, &layout);
    let part = rt::Part {
        index: kernel.index,
        batch: None,
        slots: leak(layout.slots.clone()),
        reductions: &[],
        scattered: &[],
        nodes: &[],
        added: &[],
        written: leak(layout.written.clone()),
        loops: layout.loops,
        places: false,
        planes: None,
        uniform: false,
        cuda: rt::Cuda { name: leaked(&name), text: leaked(&text), lanes: rt::Division::None, records: None },
        run: run(PartCode::new((source, name), (0, 0), program, false), codes),
        clusters: None,
    };
    rt::Form {
        member: rt::Member::Value,
        lists: rt::Lists::Any,
        uniform: false,
        gradients: None,
        parts: leak(vec![part]),
    }
}
