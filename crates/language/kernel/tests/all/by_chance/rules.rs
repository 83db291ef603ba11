//! The rules by which a kernel is printed, read off the text: a line with its numbers and operands taken out is what some
//! rule of a printer writes, and it is told apart by the block that the line stands in.

use super::ByChance;
use madelung_kernel::forms::Member;
use madelung_kernel::ir::Role;
use madelung_kernel::layout::{Array, Layout};
use madelung_kernel::print::cuda;
use madelung_kernel::print::divide::{Divided, Division};
use madelung_kernel::print::program::{Lanes, function};
use madelung_kernel::print::records::Records;
use madelung_kernel::program::{lower, lower_clusters, lower_rows};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The rules that a kernel takes, and how much Rust is printed.
pub(crate) struct Rules {
    pub(crate) seed: u64,
    pub(crate) taken: BTreeSet<String>,
    length: usize,
}

/// Some of the kernels that together take every rule: always the one that takes the most of the rest, and the shortest
/// of those that take as many.
pub(crate) fn cover(all: &[Rules]) -> Vec<u64> {
    let mut rest: BTreeSet<&String> = all.iter().flat_map(|k| &k.taken).collect();
    let mut chosen = vec![];
    while !rest.is_empty() {
        let takes = |k: &&Rules| (k.taken.iter().filter(|r| rest.contains(r)).count(), Reverse(k.length));
        let best = all.iter().max_by_key(takes).expect("kernels take rules");
        best.taken.iter().for_each(|r| {
            rest.remove(r);
        });
        chosen.push(best.seed);
    }
    chosen
}

/// The rules of the Rust and the CUDA printer that all forms of a kernel take, and what their launches are told.
pub(crate) fn rules(of: &ByChance) -> Rules {
    let kernel = &of.source.kernel;
    let (mut found, mut length) = (BTreeSet::new(), 0);
    for form in &of.forms {
        found.insert(format!("{:?} for lists {:?}", form.member, form.lists));
        for (n, part) in form.parts.iter().enumerate() {
            let layout = Layout::new(kernel, part);
            let divided = Divided::new(&part.body, &layout);
            let records = Records::new(kernel, &part.body, &layout);
            let mut note = |printer: &str, text: &str| {
                let mut blocks = vec![];
                for line in text.lines() {
                    if line.starts_with('}') {
                        blocks.pop();
                    }
                    let block: &str = blocks.last().map_or("", String::as_str);
                    // A record is what its fields are, however many.
                    let between = if line.starts_with("const Record") { ", " } else { "\n" };
                    found.extend(
                        line.split(between).map(|part| format!("{printer}: {block} {}", shape(part))),
                    );
                    if line.ends_with('{') {
                        blocks.push(shape(line));
                    }
                }
            };
            let compact = matches!(form.member, Member::SecondTangent | Member::GradientTangent);
            let text = function(&lower(kernel, part, &layout), "f", Lanes::Any { compact });
            length += text.len();
            note("Rust", &text);
            note("CUDA", &cuda::function(kernel, part, &layout, &divided, records.as_ref(), "f"));
            if let Some(c) = &form.clusters[n] {
                let lanes = Lanes::Any { compact: false };
                note("Rust", &function(&lower_clusters(kernel, c, &layout), "f", lanes));
                note("Rust", &function(&lower_rows(kernel, c, &layout), "f", lanes));
            }
            let lanes = match divided.lanes {
                Division::Channels(_) => "Channels".into(),
                lanes => format!("{lanes:?}"),
            };
            found.insert(format!("lanes: {lanes}"));
            found.insert(format!(
                "part {n} of another: {}, of a batch: {}",
                part.index != kernel.index,
                layout.batch.is_some()
            ));
            found.insert(format!("loops: {}, places: {}", layout.loops, layout.places));
            let kinds =
                [("scattered", &layout.scattered), ("added", &layout.added), ("written", &layout.written)];
            for (what, slots) in kinds {
                found.extend(slots.iter().map(|slot| format!("{what}: {}", name(slot.array))));
            }
            found.extend(layout.slots.iter().map(|slot| format!("given: {}", name(slot.array))));
            found.extend(
                layout.reductions.iter().map(|r| format!("reduction: {:?}, {:?}", r.role, r.batch.is_some())),
            );
        }
    }
    Rules { seed: of.seed, taken: found, length }
}

fn name(array: Array) -> String {
    match array {
        Array::Scratch(_) => "Scratch".into(),
        // Their numbers, and the dimension of their channels.
        Array::Values(role) if role.has(Role::HIDDEN) => format!("Hidden, channels: {}", role.0 >> 4 != 0),
        array => format!("{array:?}"),
    }
}

/// A line with `#` for numbers, and `x` for registers, values and constants, whichever they are.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let is_number = c.is_ascii_digit();
        let is_part = |(n, c): (usize, char)| {
            let exponent = c == '-' && rest[..n].ends_with('e');
            c.is_ascii_alphanumeric() || c == '_' || is_number && (c == '.' || exponent)
        };
        let end = rest.char_indices().find(|at| !is_part(*at)).map_or(rest.len(), |(n, _)| n);
        let (word, after) = rest.split_at(end.max(c.len_utf8()));
        rest = after;
        let is_value = word
            .trim_end_matches("_next")
            .strip_prefix(['v', 'm', 's', 'n', 'c', 'e', 'o', 'i', 'h', 't', 'r', 'l']);
        if is_number {
            shape.push('#');
        } else if is_value.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
            shape.push('x');
        } else if after.starts_with(['(', ':']) || shape.ends_with("::") {
            // A function, a module or a type: digits belong to the name.
            shape.push_str(word);
        } else {
            for c in word.chars() {
                match c.is_ascii_digit() {
                    true if shape.ends_with('#') => {}
                    true => shape.push('#'),
                    false => shape.push(c),
                }
            }
        }
    }
    // Arrays of which one is asked for, however many.
    shape = shape.replace(" || !a.pointers[#].is_null()", "");
    if !shape.contains("#)") {
        return shape;
    }
    for constant in ["L::splat(#)", "L::splat(-#)", "REAL(#)", "REAL(-#)", "(#)", "(-#)"] {
        shape = shape.replace(constant, "x");
    }
    shape
}
