//! Kernels by chance, numbers for them, an interpreter that they run in, and the rules by which they are printed: for
//! the tests of this crate, and for the crate that compiles some of these kernels (`tests/random_kernels`).

pub(crate) mod geometry;
pub(crate) mod interpreter;
pub(crate) mod rules;
pub(crate) mod sources;
pub(crate) mod world;

use geometry::STEP;
use interpreter::{World, run_body};
use madelung_kernel::forms::{Form, forms};
use madelung_kernel::ir::{Kernel, Role};
use madelung_kernel::lower::{Options, Source, lower_block};
use world::{difference, directed, moved, of_outputs, rms, world};

/// The number of kernels.
const KERNELS: u64 = 252;

/// The number of worlds that are tried for a kernel. (The first one is tame for more than nine kernels of ten.)
const WORLDS: u64 = 8;

/// A kernel by chance, with its forms, inputs, directions and cotangents.
pub(crate) struct ByChance {
    pub(crate) seed: u64,
    pub(crate) source: Source,
    pub(crate) forms: Vec<Form>,
    pub(crate) world: World,
}

impl ByChance {
    /// The kernel of a text, with numbers by a seed: the first world in which the value is neither too large nor curves
    /// too much for finite differences.
    ///
    /// # Panics
    /// If there is no such world, or a form has more arrays than a launch has room for: no kernel is left out.
    pub(crate) fn new(seed: u64, text: &str) -> Self {
        let source = source(text);
        let kernel = &source.kernel;
        let mut worlds = (0..WORLDS).map(|n| directed(kernel, &world(kernel, seed + 7 + 1000 * n)));
        let world = worlds.find(|w| is_tame(kernel, w));
        let world = world.unwrap_or_else(|| panic!("kernel {seed}: no tame world\n{text}"));
        let forms = forms(kernel, &Options { scatter: true, ..source.options.clone() })
            .unwrap_or_else(|e| panic!("kernel {seed}: {e}"));
        Self { seed, source, forms, world }
    }
}

/// All kernels.
pub(crate) fn kernels() -> impl Iterator<Item = ByChance> {
    (0..KERNELS).map(|seed| ByChance::new(seed, &sources::text(seed)))
}

/// The only kernel of a text.
pub(crate) fn source(text: &str) -> Source {
    let file = syn::parse_str(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut sources = lower_block(&file).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(sources.len(), 1);
    sources.remove(0)
}

fn is_tame(kernel: &Kernel, w: &World) -> bool {
    let value = |w: &World| of_outputs(kernel, w, &run_body(kernel, w, &kernel.body), Role::VALUE);
    if !value(w).iter().all(|x| x.abs() < 1e3) {
        return false;
    }
    let slope = |step: f64| difference(step, &|t| value(&moved(w, t, Role::FIRST)));
    let (whole, half) = (slope(STEP), slope(0.5 * STEP));
    let scale = rms(&whole).max(0.1);
    scale < 1e3 && whole.iter().zip(&half).all(|(x, y)| (x - y).abs() < 1e-10 * scale)
}
