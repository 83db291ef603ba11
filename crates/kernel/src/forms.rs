//! The forms of a kernel: which of them there are, and how each is derived.

pub use madelung_kernel_abi::{Lists, Member};

use crate::derivative::tangent;
use crate::factor::factored;
use crate::flatten::flatten;
use crate::ir::{Body, Kernel, Kind, ParamId, Role};
use crate::mirror::{Part, Partners, has_partners, parts};
use crate::print::layout::Layout;
use crate::reverse::adjoint;
use crate::rewrite::specialise;

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
}

/// All forms of a kernel, cheapest first among those of equal results. `fast`: sets of inputs that get a gradient form
/// of their own, for direct outputs (uniform cotangent). `scatter`: gradients that add to partners' elements are wanted
/// as well.
pub fn forms(kernel: &Kernel, fast: &[Vec<ParamId>], scatter: bool) -> Result<Vec<Form>, String> {
    let gradient = adjoint(kernel, &kernel.body);
    let gradient_tangent = tangent(kernel, &gradient, Role::FIRST);
    let first = tangent(kernel, &kernel.body, Role::FIRST);
    let second = tangent(kernel, &first, Role::SECOND);
    let mut made = vec![
        form(kernel, &kernel.body, Member::Value, Lists::Any, None)?,
        form(kernel, &first, Member::Tangent, Lists::Any, None)?,
        form(kernel, &second, Member::SecondTangent, Lists::Any, None)?,
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
            made.push(form(kernel, &gradient, Member::Gradient, *list, Some(set.clone()))?);
        }
        made.push(form(kernel, &gradient, Member::Gradient, *list, None)?);
        made.push(form(kernel, &gradient_tangent, Member::GradientTangent, *list, None)?);
    }
    Ok(made)
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
fn form(
    kernel: &Kernel,
    body: &Body,
    member: Member,
    lists: Lists,
    gradients: Option<Vec<ParamId>>,
) -> Result<Form, String> {
    let body = straight(kernel, body, gradients.as_deref());
    let mut parts = match lists {
        Lists::Full => parts(kernel, &body, Partners::Symmetric)?,
        Lists::Scatter => parts(kernel, &body, Partners::Scattered)?,
        Lists::Any => parts(kernel, &body, Partners::Transposed)?,
    };
    for part in &mut parts {
        part.body = factored(&part.body);
    }
    if let Some(n) = parts.iter().map(|p| Layout::new(kernel, p).slots.len()).find(|n| *n > 64) {
        return Err(format!("a form needs {n} arrays and a launch has room for 64: split the kernel in two"));
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
    Ok(Form { member, lists, uniform: gradients.is_some(), gradients, name, parts })
}
