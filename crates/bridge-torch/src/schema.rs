//! The schemas of members in the dispatcher.

use madelung_bridge::layout::{Input, Type};
use madelung_bridge::{Counts, Member};
use madelung_core::op::{ArgKind, Op};

/// The schema `name(Tensor positions, …) -> (Tensor, …)` of a member.
pub(crate) fn schema(member: Member, op: &Op, inputs: &[Input], name: &str) -> String {
    let reals = || op.args.iter().filter(|a| matches!(a.kind, ArgKind::Real { .. })).map(|a| &*a.name);
    let mut parts: Vec<String> = inputs
        .iter()
        .map(|input| {
            let kind = match input.kind {
                Type::Tensor | Type::Integers => "Tensor",
                Type::Int => "int",
                Type::Float => "float",
            };
            format!("{kind} {}", input.name)
        })
        .collect();
    let mut add = |prefix: &str, names: &mut dyn Iterator<Item = String>| {
        parts.extend(names.map(|n| format!("Tensor {prefix}{n}")));
    };
    if matches!(member, Member::Gradient | Member::GradientTangent) {
        add("cotangent_", &mut op.outputs.iter().map(|o| o.name.clone()));
    }
    if member == Member::Gradient {
        add("saved_", &mut (0..op.saved().len()).map(|n| n.to_string()));
    }
    if matches!(member, Member::Tangent | Member::SecondTangent | Member::GradientTangent) {
        add("tangent_", &mut reals().map(String::from));
    }
    if member == Member::SecondTangent {
        add("second_", &mut reals().map(String::from));
    }
    if member.has_mask() {
        parts.push("int mask".into());
    }
    if member.has_want() {
        parts.push("int want".into());
    }
    let results = vec!["Tensor"; member.results(Counts::of(op))].join(", ");
    let results = if results.contains(',') { format!("({results})") } else { results };
    format!("{name}({}) -> {results}", parts.join(", "))
}
