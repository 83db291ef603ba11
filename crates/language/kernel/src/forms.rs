//! The forms of a kernel: which of them there are, and how each is derived.

pub use madelung_abi::{Lists, Member};

use crate::cluster::{Clusters, LeavesOut, clusters, joined_clusters};
use crate::derivative::tangent;
use crate::factor::factored;
use crate::flatten::flatten;
use crate::guard::guarded;
use crate::ir::{Body, Kernel, Kind, ParamId, Role};
use crate::join::joined;
use crate::layout::Layout;
use crate::lower::Options;
use crate::merge::merged;
use crate::mirror::{Part, Partners, has_partners, parts};
use crate::reverse::adjoint;
use crate::rewrite::specialise;
use crate::sums::arranged;
use madelung_abi::{ClusterArray, MAX_POINTERS};

/// A form of a kernel, ready to be printed.
#[derive(Clone, Debug)]
pub struct Form {
    /// The output of the form: values, gradients or tangents.
    pub member: Member,
    /// The lists it is for.
    pub lists: Lists,
    /// Whether the cotangents of the outputs are one element for all rows.
    pub uniform: bool,
    /// The inputs whose gradients it gives; None for all.
    pub gradients: Option<Vec<ParamId>>,
    /// A name that tells it from the kernel's other forms.
    pub name: String,
    /// The launches, in order.
    pub parts: Vec<Part>,
    /// The cluster form of each launch, where there is one and it pays.
    pub clusters: Vec<Option<Clusters>>,
}

/// All forms of a kernel, cheapest first among those of equal results.
pub fn forms(kernel: &Kernel, options: &Options) -> Result<Vec<Form>, String> {
    let &Options { ref fast, scatter, clusters, .. } = options;
    let gradient = adjoint(kernel, &kernel.body);
    let gradient_tangent = tangent(kernel, &gradient, Role::FIRST);
    let first = tangent(kernel, &kernel.body, Role::FIRST);
    let second = tangent(kernel, &first, Role::SECOND);
    let mut made = vec![
        form(kernel, &kernel.body, Member::Value, Lists::Any, None, None)?,
        form(kernel, &first, Member::Tangent, Lists::Any, None, None)?,
        form(kernel, &second, Member::SecondTangent, Lists::Any, None, None)?,
    ];
    // The gradient by the cell depends on the image alone, which pairs of clusters do not; gradients themselves are not
    // wanted beside their derivatives.
    let cell = made[0].clusters.iter().flatten().find_map(|c| c.cell);
    let by_cell = |param: ParamId, role: Role| is_gradient(role) && Some(param) == cell;
    let by_cell_or_direct = |p: ParamId, r: Role| is_gradient(r) && (Some(p) == cell || !r.has(Role::FIRST));
    let general: [(&Body, Member, LeavesOut<'_>); 2] = [
        (&gradient, Member::Gradient, &by_cell),
        (&gradient_tangent, Member::GradientTangent, &by_cell_or_direct),
    ];
    let mut lists = vec![Lists::Any];
    if has_partners(&gradient) {
        let gathers = |partners| parts(kernel, &straight(kernel, &gradient, None), partners);
        let full = gathers(Partners::Symmetric).is_ok();
        // Some can be had for full lists only, or only by scattering.
        if (full || scatter) && gathers(Partners::Transposed).is_err() {
            lists.clear();
        }
        if full {
            lists.insert(0, Lists::Full);
        }
        if scatter {
            lists.push(Lists::Scatter);
        }
    }
    for list in &lists {
        for set in fast.iter().filter(|_| *list == lists[0]) {
            made.push(form(kernel, &gradient, Member::Gradient, *list, Some(set.clone()), None)?);
        }
        for (body, member, leaves_out) in general {
            let leaves_out = (*list == Lists::Full && clusters).then_some(leaves_out);
            made.push(form(kernel, body, member, *list, None, leaves_out)?);
        }
    }
    Ok(made)
}

fn is_gradient(role: Role) -> bool {
    role.has(Role::COTANGENT) && !role.has(Role::HIDDEN)
}

/// The specialised body: known arguments put in, unwanted outputs cut away, the bodies of loops straightened.
fn straight(kernel: &Kernel, body: &Body, gradients: Option<&[ParamId]>) -> Body {
    let mut body = specialise(kernel, body, gradients.is_some());
    match gradients {
        Some(wanted) => body.retain(&|param, _| match kernel.params[param].kind {
            Kind::Output { .. } => true,
            _ => wanted.contains(&param),
        }),
        None => body.remove_unused(),
    }
    flatten(&body)
}

/// A form. `gradients`: the wanted ones, for a cotangent that all rows share; None: all, for any cotangent.
/// `leaves_out`: what the cluster form of all gradients leaves out, if there shall be one.
fn form(
    kernel: &Kernel,
    body: &Body,
    member: Member,
    lists: Lists,
    gradients: Option<Vec<ParamId>>,
    leaves_out: Option<LeavesOut<'_>>,
) -> Result<Form, String> {
    let body = straight(kernel, body, gradients.as_deref());
    let mut parts = match lists {
        Lists::Full => parts(kernel, &body, Partners::Symmetric)?,
        Lists::Scatter => parts(kernel, &body, Partners::Scattered)?,
        Lists::Any => parts(kernel, &body, Partners::Transposed)?,
    };
    let mut in_clusters = vec![];
    for part in &mut parts {
        let as_written = part.clone();
        part.body = factored(&arranged(&merged(&joined(&part.body))));
        let found = match (member, leaves_out) {
            (Member::Value, _) => clusters(kernel, part),
            _ if gradients.is_some() => clusters(kernel, part),
            (_, Some(leaves_out)) => joined_clusters(kernel, &as_written, leaves_out),
            _ => None,
        };
        let slots = Layout::new(kernel, part).slots.len();
        let found = found.filter(|_| slots + ClusterArray::COUNT <= MAX_POINTERS);
        if found.is_none() {
            part.body = guarded(&part.body);
        }
        in_clusters.push(found);
    }
    if let Some(n) = parts.iter().map(|p| Layout::new(kernel, p).slots.len()).find(|n| *n > MAX_POINTERS) {
        return Err(format!(
            "a form needs {n} arrays and a launch has room for {MAX_POINTERS}: split the kernel in two"
        ));
    }
    let mut name = match member {
        Member::Value => "value",
        Member::Tangent => "tangent",
        Member::SecondTangent => "second_tangent",
        Member::Gradient => "gradient",
        Member::GradientTangent => "gradient_tangent",
    }
    .to_string();
    match lists {
        Lists::Any if has_partners(&body) => name += "_transposed",
        Lists::Scatter => name += "_scatter",
        _ => {}
    }
    for p in gradients.iter().flatten() {
        name += "_";
        name += &kernel.params[*p].name;
    }
    Ok(Form { member, lists, uniform: gradients.is_some(), gradients, name, parts, clusters: in_clusters })
}
