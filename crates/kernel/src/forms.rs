//! The forms of a kernel: which of them there are, and how each is derived.

use crate::derivative::tangent;
use crate::flatten::flatten;
use crate::ir::{Body, Kernel, Kind, ParamId, Role};
use crate::mirror::{Part, has_partners, parts};
use crate::print::layout::Layout;
use crate::reverse::adjoint;
use crate::rewrite::specialise;

/// A member of the closed set of derivatives that a form computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Member {
    /// The outputs.
    Value,
    /// The outputs and their derivative along one direction.
    Tangent,
    /// The same along two directions, and the mixed second derivative.
    SecondTangent,
    /// The outputs, and the gradient by every input of ⟨cotangent, outputs⟩.
    Gradient,
    /// The same, and its derivative along a direction: Hessian-vector products.
    GradientTangent,
}

/// What kind of pair list a form is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lists {
    /// Any: nothing is added to the partners of pairs.
    Any,
    /// Full lists: what partners get is gathered by symmetry.
    Full,
}

/// A form of a kernel, ready to be printed.
#[derive(Clone, Debug)]
pub struct Form {
    /// What it computes.
    pub member: Member,
    /// The lists it is for.
    pub lists: Lists,
    /// Whether the cotangents of the outputs are one element, the same for every row.
    pub uniform: bool,
    /// The inputs whose gradients it gives; None for all.
    pub gradients: Option<Vec<ParamId>>,
    /// A name that tells it from the kernel's other forms.
    pub name: String,
    /// Its launches, in order.
    pub parts: Vec<Part>,
}

/// All forms of a kernel, cheapest first among those that compute the same. `fast`: sets of inputs that get a
/// gradient form of their own, for direct outputs (uniform cotangent).
pub fn forms(kernel: &Kernel, fast: &[Vec<ParamId>]) -> Result<Vec<Form>, String> {
    let gradient = adjoint(kernel, &kernel.body);
    let gradient_tangent = tangent(kernel, &gradient, Role::FIRST);
    let first = tangent(kernel, &kernel.body, Role::FIRST);
    let second = tangent(kernel, &first, Role::SECOND);
    let mut made = vec![
        form(kernel, &kernel.body, Member::Value, Lists::Any, false, None)?,
        form(kernel, &first, Member::Tangent, Lists::Any, false, None)?,
        form(kernel, &second, Member::SecondTangent, Lists::Any, false, None)?,
    ];
    let partners = has_partners(&gradient);
    let lists: &[Lists] = if partners { &[Lists::Full, Lists::Any] } else { &[Lists::Any] };
    for list in lists {
        for set in fast.iter().filter(|_| *list == lists[0]) {
            made.push(form(kernel, &gradient, Member::Gradient, *list, true, Some(set.clone()))?);
        }
        made.push(form(kernel, &gradient, Member::Gradient, *list, false, None)?);
        made.push(form(kernel, &gradient_tangent, Member::GradientTangent, *list, false, None)?);
    }
    Ok(made)
}

fn form(
    kernel: &Kernel,
    body: &Body,
    member: Member,
    lists: Lists,
    uniform: bool,
    gradients: Option<Vec<ParamId>>,
) -> Result<Form, String> {
    let mut body = specialise(kernel, body, uniform);
    if let Some(wanted) = &gradients {
        body.retain(&|param, _| match kernel.params[param].kind {
            Kind::Output { .. } => true,
            _ => wanted.contains(&param),
        });
    } else {
        body.remove_unused();
    }
    let parts = parts(kernel, &flatten(&body), lists == Lists::Full)?;
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
    if lists == Lists::Any && has_partners(&body) {
        name += "_scatter";
    }
    for p in gradients.iter().flatten() {
        name += "_";
        name += &kernel.params[*p].name;
    }
    Ok(Form { member, lists, uniform, gradients, name, parts })
}
