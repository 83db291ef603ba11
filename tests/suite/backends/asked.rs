//! The same questions to several backends, and how far their answers may be apart.

use super::calls::{Input, Question};
use super::is_in_turn;
use super::noise::{Noise, SIZE};
use crate::common::numeric::{rms, rms_difference};
use crate::every_form::has_pairs;
use madelung::array::{Array, DType};
use madelung::backend::Context;
use madelung::op::{ArgKind, Evaluated, Op, Size};
use madelung::{electrostatics, potentials};
use std::collections::{BTreeMap, BTreeSet};

/// 45 rounding units of the result, or of what goes into it. Special functions take a dozen of them: those of Rust
/// and those of C++ differ.
pub(crate) const F64_BOUND: f64 = 1e-14;

/// As many rounding units as in f64, rounded up.
pub(crate) const F32_BOUND: f64 = 1e-5;

/// Ops whose kernels one macro makes, and which differ in a formula: where questions take long, the first stands for the
/// others.
const OF_ONE_MACRO: [&[&str]; 5] = [
    &[
        "lennard_jones",
        "born_mayer",
        "buckingham",
        "mie",
        "morse",
        "soft_core",
        "tang_toennies",
        "yukawa",
        "zbl",
    ],
    &["lennard_jones_of_atoms", "dispersion_of_atoms"],
    &["harmonic_bonds", "lennard_jones_pairs", "morse_bonds"],
    &["harmonic_angles", "cosine_angles"],
    &["periodic_dihedrals", "harmonic_impropers", "ryckaert_bellemans"],
];

/// Every question to every op about every input.
pub(crate) fn each(inputs: &[Input], mut ask: impl FnMut(&Asked<'_>)) {
    let registries = [electrostatics::registry(), potentials::registry()];
    for op in registries.into_iter().flat_map(|registry| registry.iter()) {
        let mut seen = BTreeSet::new();
        for input in inputs {
            // An op without pairs does not care which list there is.
            let systems = input.name.split(',').next().expect("a name").to_string();
            if !has_pairs(op) && !seen.insert(systems) {
                continue;
            }
            let outputs = &op.value(&madelung::cpu::context(), &input.args(op)).expect("a value");
            for question in &input.questions(op) {
                ask(&Asked { op, input, question, outputs });
            }
        }
    }
}

pub(crate) fn arrays(e: &Evaluated) -> impl Iterator<Item = Vec<f64>> {
    e.values.iter().chain(&e.gradients).map(|a| a.to_f64().unwrap())
}

/// A question, asked of one backend after the other.
pub(crate) struct Asked<'a> {
    pub(crate) op: &'a Op,
    pub(crate) input: &'a Input,
    pub(crate) question: &'a Question,
    pub(crate) outputs: &'a [Array],
}

impl Asked<'_> {
    pub(crate) fn ask(&self, context: &Context<'_>) -> Evaluated {
        let result = self.question.ask(self.op, context, &self.input.args(self.op), self.outputs);
        result.unwrap_or_else(|e| panic!("{} on {}: {e}", self.what(), context.backend.name()))
    }

    pub(crate) fn what(&self) -> String {
        format!("{}: {}: {}", self.op.name, self.input.name, self.question.title)
    }

    /// Whether an op of the same macro stands for this one, never with `MADELUNG_TEST_EVERY_OP`, or it has another turn.
    pub(crate) fn is_left_out(&self) -> bool {
        let name = self.op.name.trim_end_matches("_total").trim_end_matches("_exclusions");
        let has_another = std::env::var_os("MADELUNG_TEST_EVERY_OP").is_none()
            && OF_ONE_MACRO.iter().any(|names| names[1..].contains(&name));
        has_another || !is_in_turn(name.bytes().map(usize::from).sum(), 3)
    }

    /// Whether rows add to elements that they share: those of a map.
    pub(crate) fn shares_elements(&self) -> bool {
        if self.adds_to_nodes() || self.adds_to_atoms() {
            return true;
        }
        let args = &self.op.args;
        let maps = args.iter().filter_map(|a| match &a.kind {
            ArgKind::Map { into, .. } => Some(into.as_str()),
            _ => None,
        });
        self.has_gradients_by(&maps.collect::<Vec<_>>())
    }

    /// Whether rows add to elements that pairs share, or to channels of elements, with atomic operations in any order.
    pub(crate) fn shares_elements_of_pairs(&self) -> bool {
        if self.adds_to_atoms() {
            return true;
        }
        let args = &self.op.args;
        let entries = |dim: &String| {
            args.iter().any(|a| matches!(&a.kind, ArgKind::Pairs { entries: Some(e), .. } if e == dim))
        };
        // Without atoms rows are pairs: those of two types.
        let are_pairs = !args.iter().any(|a| matches!(a.kind, ArgKind::Batch { .. }));
        // Channels of a map's elements, which the integrals of tails are.
        let has_channels = |dim: &String| {
            args.iter().any(|a| match &a.kind {
                ArgKind::Real { shape, .. } => {
                    matches!(&shape[..], [Size::Dim(of), Size::Dim(channels)] if of == dim && channels != dim)
                }
                _ => false,
            })
        };
        let maps = args.iter().filter_map(|a| match &a.kind {
            ArgKind::Map { rows, into } if are_pairs || entries(rows) || has_channels(into) => {
                Some(into.as_str())
            }
            _ => None,
        });
        self.has_gradients_by(&maps.collect::<Vec<_>>())
    }

    /// Whether the n-th gradient sums one number over pairs: that by the value at the end of energies.
    fn adds_equal_terms(&self, n: usize) -> bool {
        let by = self.question.gradients.get(n).map(|at| self.op.args[*at].name.as_str());
        self.op.name.starts_with("end_terms") && by == Some("value")
    }

    /// Whether rows are bonded terms, which add to atoms that they share.
    fn adds_to_atoms(&self) -> bool {
        let args = &self.op.args;
        let are_atoms =
            |dim: &String| args.iter().any(|a| matches!(&a.kind, ArgKind::Batch { rows, .. } if rows == dim));
        args.iter().any(|a| matches!(&a.kind, ArgKind::Map { into, .. } if are_atoms(into)))
    }

    /// Whether the results are integers, which no dtype of reals concerns.
    pub(crate) fn gives_integers(&self) -> bool {
        self.op.outputs.iter().all(|output| output.dtype.is_some())
    }

    /// Whether the gradients have rows along one of some dimensions.
    fn has_gradients_by(&self, dims: &[&str]) -> bool {
        let is_one = |dim: &Size| matches!(dim, Size::Dim(name) if dims.contains(&name.as_str()));
        let mut by = self.question.gradients.iter().map(|n| &self.op.args[*n].kind);
        by.any(|kind| matches!(kind, ArgKind::Real { shape, .. } if shape.iter().any(is_one)))
    }

    /// Whether rows add to nodes of a mesh, with atomic operations in any order.
    pub(crate) fn adds_to_nodes(&self) -> bool {
        self.op.args.iter().any(|a| matches!(a.kind, ArgKind::Mesh { .. }))
    }

    /// The same numbers in f64.
    pub(crate) fn exactly(&self, ask: impl FnOnce(&Asked<'_>)) {
        let (input, question) = (self.input.cast(DType::F64), self.question.cast(DType::F64));
        let outputs: Vec<Array> = self.outputs.iter().map(|o| o.cast(DType::F64).unwrap()).collect();
        ask(&Asked { op: self.op, input: &input, question: &question, outputs: &outputs });
    }

    /// How much each array changes, in RMS, where all inputs of all kernels change, in units of their change.
    fn sensitivity(&self) -> Vec<f64> {
        let exact = self.ask(&madelung::cpu::context());
        let mut largest = vec![0.0; arrays(&exact).count()];
        for seed in 0..8 {
            let noise = Noise::new(seed);
            let moved = self.ask(&Context { backend: &noise, ..madelung::cpu::context() });
            for (s, (a, b)) in largest.iter_mut().zip(arrays(&moved).zip(arrays(&exact))) {
                *s = rms_difference(&a, &b).max(*s * SIZE) / SIZE;
            }
        }
        largest
    }
}

/// The worst of every op and member, and what it was.
#[derive(Default)]
pub(crate) struct Worst(BTreeMap<(String, &'static str), Entry>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    /// The largest error of an element, in units of the RMS of its array.
    of_rms: f64,
    /// The same, in units of what the array is sensitive to where that is larger.
    of_scale: f64,
    what: String,
}

impl Worst {
    /// Compares two results; `exact` is the question in f64, for where its own size is not the measure.
    pub(crate) fn note(&mut self, bound: f64, got: &Evaluated, want: &Evaluated, exact: &Asked<'_>) {
        assert_eq!(arrays(got).count(), arrays(want).count());
        let (mut sensitivity, of_values) = (None, got.values.len());
        let entry = self.0.entry((exact.op.name.clone(), exact.question.member)).or_default();
        for (n, (got, want)) in arrays(got).zip(arrays(want)).enumerate() {
            assert_eq!(got.len(), want.len());
            let error = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            // The sum of n equal terms, one after the other, is wrong by up to n/2 rounding units.
            let unit = if bound == F64_BOUND { f64::EPSILON } else { f64::from(f32::EPSILON) };
            let is_sum = n.checked_sub(of_values).is_some_and(|n| exact.adds_equal_terms(n));
            let terms = if is_sum { exact.input.entries() as f64 } else { 0.0 };
            let room = (0.5 * unit * terms / bound).max(1.0);
            let in_units = |scale: f64| if error == 0.0 { 0.0 } else { error / (room * scale) };
            let of_rms = in_units(rms(&want));
            let of_scale = if of_rms <= bound {
                of_rms
            } else {
                let sensitivity = sensitivity.get_or_insert_with(|| exact.sensitivity());
                in_units(rms(&want).max(sensitivity[n]))
            };
            entry.of_rms = entry.of_rms.max(of_rms);
            if of_scale >= entry.of_scale {
                entry.of_scale = of_scale;
                entry.what = format!("{}; {}", exact.input.name, exact.question.title);
            }
        }
    }

    #[track_caller]
    pub(crate) fn assert_below(&self, bound: f64) {
        for ((op, member), e) in &self.0 {
            println!("{op:32} {member}  {:7.1e}  {:7.1e}  {}", e.of_rms, e.of_scale, e.what);
        }
        let beyond: Vec<_> = self.0.iter().filter(|(_, e)| e.of_scale > bound).collect();
        assert!(beyond.is_empty(), "beyond {bound:e}: {beyond:#?}");
    }
}
