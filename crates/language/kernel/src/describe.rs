//! Descriptions of kernels: what backends read of every form, with its programs and its CUDA text. `kernels!` prints them
//! as items of the caller's crate; kernels that are made at run time keep them.

use crate::cluster::{Clusters, Packed};
use crate::forms;
use crate::ir::{ParamId, Role};
use crate::layout::{Layout, Reduction, Slot};
use crate::lower::Source;
use crate::mirror;
use crate::print::cuda;
use crate::print::divide::Divided;
use crate::print::records::Records;
use crate::program::{Program, lower, lower_clusters, lower_rows};
use madelung_abi::{Division, Lists, Member};
use std::collections::BTreeSet;

/// One form of a kernel.
#[derive(Debug)]
pub struct Form {
    /// The output of the form: values, gradients or tangents.
    pub member: Member,
    /// The lists it is for.
    pub lists: Lists,
    /// Whether the cotangents of the outputs are one element for all rows.
    pub uniform: bool,
    /// The inputs whose gradients it gives; None for all.
    pub gradients: Option<Vec<ParamId>>,
    /// The launches, in order.
    pub parts: Vec<Part>,
}

/// The lanes of a program's machine code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Width {
    /// The lanes of every instruction set.
    All,
    /// One lane of f32, four of f64 at the most: the kernel is small rather than fast.
    Few,
    /// One, of the arrays' type.
    One,
    /// None: code of single numbers.
    #[default]
    None,
}

/// The code of a part, or of one phase of its cluster form.
#[derive(Debug, Default)]
pub struct Code {
    /// A name that no other code of the kernel has.
    pub name: String,
    /// The program.
    pub program: Program,
    /// Its lanes.
    pub width: Width,
}

/// One launch of a form: its arguments as in [`Layout`], slots by their positions, and its code.
#[derive(Debug, Default)]
pub struct Part {
    /// The dimension it runs over.
    pub index: usize,
    /// The batch of its rows, if there is one.
    pub batch: Option<ParamId>,
    /// The array behind each pointer of the launch.
    pub slots: Vec<Slot>,
    /// The sums over rows it leaves to the backend.
    pub reductions: Vec<Reduction>,
    /// Slots that rows add to at each other's elements.
    pub scattered: Vec<usize>,
    /// Slots in `scattered` whose elements are nodes of a mesh, each with the slot of the mesh's shape.
    pub nodes: Vec<(usize, usize)>,
    /// Slots in `scattered` that rows add to only at elements of maps, once for each map, with the slot of the map.
    pub maps: Vec<(usize, usize)>,
    /// Slots that rows add to at elements of their own.
    pub added: Vec<usize>,
    /// Slots that are written.
    pub written: Vec<usize>,
    /// Whether rows loop over data.
    pub loops: bool,
    /// Whether places in rows and systems are counted, in reals.
    pub places: bool,
    /// The mesh, where all that rows do is add to its nodes.
    pub planes: Option<ParamId>,
    /// The code.
    pub code: Code,
    /// The cluster form, where there is one.
    pub clusters: Option<ClusterForm>,
    /// The CUDA text, whose function has the name of the code.
    pub cuda: String,
    /// The division of work among several CUDA threads of a row.
    pub division: Division,
    /// The dimension whose rows have records in CUDA, and the numbers of one.
    pub records: Option<(usize, usize)>,
}

/// The cluster form of a part, as in [`Clusters`].
#[derive(Debug)]
pub struct ClusterForm {
    /// The pair list.
    pub list: ParamId,
    /// The positions.
    pub positions: ParamId,
    /// The cell; None where images play no part.
    pub cell: Option<ParamId>,
    /// The components of its two atoms that a pair reads, in order.
    pub packed: Vec<Packed>,
    /// Outputs of the part that it does not give.
    pub without: Vec<(ParamId, Role)>,
    /// Sums per atom.
    pub sums: usize,
    /// The first phase, over clusters.
    pub pairs: Code,
    /// The second phase, over rows.
    pub rows: Code,
}

impl Part {
    /// All code, in an order that numbers it among the code of its kernel.
    pub fn into_code(self) -> impl Iterator<Item = Code> {
        let of_clusters = self.clusters.into_iter().flat_map(|c| [c.pairs, c.rows]);
        std::iter::once(self.code).chain(of_clusters)
    }
}

/// The forms of a kernel.
///
/// # Errors
/// At the kernel's name, that a form cannot be derived.
pub fn describe(source: &Source) -> syn::Result<Vec<Form>> {
    let kernel = &source.kernel;
    if kernel.body.in_order {
        let whole = mirror::Part::whole(kernel);
        let parts = vec![part(source, format!("{}_value_0", kernel.name), &whole, None)];
        let (member, lists) = (Member::Value, Lists::Any);
        return Ok(vec![Form { member, lists, uniform: false, gradients: None, parts }]);
    }
    let forms = forms::forms(kernel, &source.options).map_err(|e| syn::Error::new(source.ident.span(), e))?;
    let described = |form: forms::Form| {
        let parts = form.parts.iter().zip(&form.clusters).enumerate();
        let parts = parts.map(|(n, (p, clusters))| {
            part(source, format!("{}_{}_{n}", kernel.name, form.name), p, clusters.as_ref())
        });
        let parts = parts.collect();
        let forms::Form { member, lists, uniform, gradients, .. } = form;
        Form { member, lists, uniform, gradients, parts }
    };
    Ok(forms.into_iter().map(described).collect())
}

fn part(source: &Source, name: String, part: &mirror::Part, clusters: Option<&Clusters>) -> Part {
    let kernel = &source.kernel;
    let layout = Layout::new(kernel, part);
    let divided = Divided::new(&part.body, &layout);
    let records = Records::new(kernel, &part.body, &layout).filter(|_| !part.body.in_order);
    let cuda = cuda::function(kernel, part, &layout, &divided, records.as_ref(), &name);
    let positions = |of: &BTreeSet<Slot>| of.iter().map(|s| layout.slot(s.param, s.array)).collect();
    let (scattered, written, added) =
        (positions(&layout.scattered), positions(&layout.written), positions(&layout.added));
    let cluster_form = |of: &Clusters| ClusterForm {
        list: of.list,
        positions: of.positions,
        cell: of.cell,
        packed: of.packed.clone(),
        without: of.without.iter().copied().collect(),
        sums: of.sums.len(),
        pairs: Code {
            name: format!("{name}_clusters"),
            program: lower_clusters(kernel, of, &layout),
            width: Width::All,
        },
        rows: Code {
            name: format!("{name}_rows"),
            program: lower_rows(kernel, of, &layout),
            width: Width::One,
        },
    };
    let width = match source {
        of if of.kernel.body.in_order => Width::None,
        of if of.options.small => Width::Few,
        _ => Width::All,
    };
    Part {
        index: part.index,
        batch: layout.batch,
        scattered,
        nodes: layout.node_slots(),
        maps: layout.map_slots(),
        added,
        written,
        loops: layout.loops,
        places: layout.places,
        planes: layout.planes,
        clusters: clusters.map(cluster_form),
        code: Code { name, program: lower(kernel, part, &layout), width },
        cuda,
        division: divided.lanes,
        records: records.map(|r| (r.dim, r.width())),
        slots: layout.slots,
        reductions: layout.reductions,
    }
}
