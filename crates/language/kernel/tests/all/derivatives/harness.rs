//! Comparison of every form of a kernel with finite differences of the source.

use crate::by_chance::geometry::{ATOMS, STEP, cells, members};
use crate::by_chance::interpreter::{Arrays, World, components, run, run_body, run_in_clusters};
use crate::by_chance::world::{
    difference, directed, get, inputs, moved, of_outputs, outputs, param, rms, size, world,
};
use crate::by_chance::{ByChance, source};
use madelung_kernel::cluster::clusters;
use madelung_kernel::derivative::tangent;
use madelung_kernel::forms::{Form, Lists, Member, forms};
use madelung_kernel::ir::{Kernel, Role};
use madelung_kernel::lower::{Options, Source};
use madelung_kernel::reverse::{adjoint, separate};
use std::cell::RefCell;

thread_local! {
    /// The largest error of each comparison, and the number of arrays in which it met a number other than 0.
    static WORST: RefCell<Vec<(&'static str, f64, usize)>> = const { RefCell::new(vec![]) };
}

/// Compares arrays relative to the root mean square of the expected one (and to 0.1, where all is near zero).
pub(crate) fn close(what: &'static str, detail: &str, got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len(), "{what} of {detail}");
    let (scale, mut worst) = (rms(expected).max(0.1), 0.0_f64);
    for (n, (x, y)) in got.iter().zip(expected).enumerate() {
        let error = (x - y).abs() / scale;
        assert!(
            error <= tolerance,
            "{what} of {detail}: element {n} is {x:e}, expected {y:e} (error {error:.1e})"
        );
        worst = worst.max(error);
    }
    let nonzero = usize::from(expected.iter().any(|y| y.abs() > tolerance));
    WORST.with_borrow_mut(|w| match w.iter_mut().find(|(name, ..)| *name == what) {
        Some((_, before, count)) => (*before, *count) = (before.max(worst), *count + nonzero),
        None => w.push((what, worst, nonzero)),
    });
}

/// The number of arrays with a number other than 0 that a comparison of this thread's test has met.
pub(crate) fn compared(what: &str) -> usize {
    WORST.with_borrow(|w| w.iter().find(|(name, ..)| *name == what).map_or(0, |(.., count)| *count))
}

/// The bounds for first and second derivatives by finite differences, and for two ways to compute the same.
const FIRST: f64 = 1e-8;
const SECOND: f64 = 1e-7;
const SAME: f64 = 1e-13;

/// A kernel under test, and its data.
pub(crate) struct Check {
    pub(crate) source: Source,
    pub(crate) world: World,
    /// Whether its pair lists are full.
    full: bool,
}

impl Check {
    pub(crate) fn new(text: &str) -> Self {
        let source = source(text);
        let world = world(&source.kernel, 7);
        Self { source, world, full: true }
    }

    /// A random kernel.
    pub(crate) fn by_chance(kernel: ByChance) -> Self {
        let ByChance { source, world, .. } = kernel;
        let full = source.kernel.params.iter().all(|p| p.name != "half");
        Self { source, world, full }
    }

    pub(super) fn forms(&self) -> Vec<Form> {
        let kernel = &self.source.kernel;
        let mut options = Options { scatter: true, clusters: true, ..self.source.options.clone() };
        if options.fast.is_empty() {
            options.fast.extend(inputs(kernel).first().map(|p| vec![*p]));
        }
        let made = forms(kernel, &options).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        made.into_iter().filter(|f| self.full || f.lists != Lists::Full).collect()
    }

    /// Every form, in every direction.
    pub(crate) fn run(&self) {
        let kernel = &self.source.kernel;
        let (ins, outs) = (inputs(kernel), outputs(kernel));
        let name = |p: usize| format!("{} by {}", kernel.name, kernel.params[p].name);
        let w = directed(kernel, &self.world);
        let value = |w: &World| run_body(kernel, w, &kernel.body);
        let of_outputs = |a: &Arrays, role: Role| of_outputs(kernel, &w, a, role);
        let moved = |t: f64, along: Role| moved(&w, t, along);
        let difference = |f: &dyn Fn(f64) -> Vec<f64>| difference(STEP, f);
        let plain = value(&w);
        let first = difference(&|t| of_outputs(&value(&moved(t, Role::FIRST)), Role::VALUE));
        let gradient: Vec<Vec<f64>> = ins
            .iter()
            .map(|p| {
                (0..size(kernel, &w, *p))
                    .map(|n| {
                        difference(&|t| {
                            let mut w = w.clone();
                            w.arrays.get_mut(&(*p, Role::VALUE)).expect("an input has a value")[n] += t;
                            let out = value(&w);
                            let sum = outs.iter().flat_map(|o| {
                                let x = get(&out, *o, Role::VALUE, size(kernel, &w, *o));
                                x.into_iter().zip(w.arrays[&(*o, Role::COTANGENT)].clone())
                            });
                            vec![sum.map(|(x, c)| x * c).sum()]
                        })[0]
                    })
                    .collect()
            })
            .collect();
        // The derived bodies as they are, before anything is specialised, straightened or transposed.
        let tangents = tangent(kernel, &kernel.body, Role::FIRST);
        let got = of_outputs(&run_body(kernel, &w, &tangents), Role::FIRST);
        close("tangent", &kernel.name, &got, &first, FIRST);
        let (both, apart) = (adjoint(kernel, &kernel.body), separate(kernel, &kernel.body));
        let (fused, separate) = (run_body(kernel, &w, &both), run_body(kernel, &w, &apart));
        close(
            "values, apart",
            &kernel.name,
            &of_outputs(&separate, Role::VALUE),
            &of_outputs(&plain, Role::VALUE),
            SAME,
        );
        close(
            "values, in one pass",
            &kernel.name,
            &of_outputs(&fused, Role::VALUE),
            &of_outputs(&plain, Role::VALUE),
            SAME,
        );
        for (p, expected) in ins.iter().zip(&gradient) {
            let [x, y] = [&separate, &fused].map(|a| get(a, *p, Role::COTANGENT, expected.len()));
            close("gradient, apart", &name(*p), &x, expected, FIRST);
            close("gradient, in one pass", &name(*p), &y, expected, FIRST);
            close("one pass against apart", &name(*p), &y, &x, SAME);
        }
        let second =
            difference(&|t| of_outputs(&run_body(kernel, &moved(t, Role::SECOND), &tangents), Role::FIRST));
        let hessian = |p: usize, n: usize| {
            difference(&|t| get(&run_body(kernel, &moved(t, Role::FIRST), &apart), p, Role::COTANGENT, n))
        };
        let hessian: Vec<Vec<f64>> = ins.iter().map(|p| hessian(*p, size(kernel, &w, *p))).collect();
        // Every form.
        let mixed = Role::FIRST.with(Role::SECOND);
        let along = Role::COTANGENT.with(Role::FIRST);
        let mut seen: Vec<(Member, Arrays)> = vec![];
        for form in self.forms() {
            self.shape(&form);
            if form.uniform {
                self.uniform(&form);
                continue;
            }
            let got = run(kernel, &w, &form.parts);
            self.in_clusters(&form, &w, &got);
            let label = format!("{} ({})", kernel.name, form.name);
            if form.member != Member::SecondTangent && form.member != Member::GradientTangent {
                close(
                    "values",
                    &label,
                    &of_outputs(&got, Role::VALUE),
                    &of_outputs(&plain, Role::VALUE),
                    SAME,
                );
            }
            match form.member {
                Member::Value => {}
                Member::Tangent => close("tangent", &label, &of_outputs(&got, Role::FIRST), &first, FIRST),
                Member::SecondTangent => {
                    close("second tangent", &label, &of_outputs(&got, mixed), &second, SECOND)
                }
                Member::Gradient | Member::GradientTangent => {
                    for ((p, g), h) in ins.iter().zip(&gradient).zip(&hessian) {
                        close("gradient", &name(*p), &get(&got, *p, Role::COTANGENT, g.len()), g, FIRST);
                        if form.member == Member::GradientTangent {
                            close(
                                "Hessian-vector product",
                                &name(*p),
                                &get(&got, *p, along, g.len()),
                                h,
                                SECOND,
                            );
                        }
                        if let Some((_, before)) = seen.iter().find(|(m, _)| *m == form.member) {
                            for role in [Role::COTANGENT, along] {
                                let [x, y] = [before, &got].map(|a| get(a, *p, role, g.len()));
                                close("gather against scatter", &name(*p), &x, &y, SAME);
                            }
                        }
                    }
                }
            }
            seen.push((form.member, got));
        }
    }

    /// Access patterns: forms for full lists write to their own row alone; no part reads a pair's or member's side that
    /// it does not visit.
    fn shape(&self, form: &Form) {
        use madelung_kernel::ir::{Op, Stmt};
        if form.lists == Lists::Full {
            for part in &form.parts {
                for s in part.body.walk() {
                    if let Stmt::Contribute { row: Some(row), .. } = s {
                        // Every row has every channel.
                        let own = matches!(
                            part.body.op(*row),
                            Op::IndexOf { .. } | Op::PairEntry(_) | Op::LoopVar(_)
                        );
                        assert!(own, "a gathering form scatters");
                    }
                }
            }
        }
    }

    /// Parts that have a cluster form, each pair of a full list visited once, against the rows: as the form has them, and
    /// all that could have one.
    fn in_clusters(&self, form: &Form, world: &World, rows: &Arrays) {
        let kernel = &self.source.kernel;
        let every: Vec<_> = form.parts.iter().map(|part| clusters(kernel, part)).collect();
        for found in [&form.clusters, &every] {
            if !self.full || found.iter().all(Option::is_none) {
                continue;
            }
            let parts = form.parts.iter().zip(found);
            let parts: Vec<_> =
                parts.map(|(part, c)| (c.as_ref().map_or(part, |c| &c.part), c.as_ref())).collect();
            let got = run_in_clusters(kernel, world, &parts);
            let left_out = |key: &(usize, Role)| found.iter().flatten().any(|c| c.without.contains(key));
            for (key, y) in rows.iter().filter(|(key, _)| !left_out(key)) {
                let label = format!("{} ({}), {key:?}", kernel.name, form.name);
                close("clusters against rows", &label, &got[key], y, SAME);
            }
        }
    }

    /// A cotangent that all rows share, and only some gradients.
    fn uniform(&self, form: &Form) {
        let kernel = &self.source.kernel;
        let (mut one, mut every) = (self.world.clone(), self.world.clone());
        for p in outputs(kernel) {
            one.arrays.insert(
                (p, Role::COTANGENT),
                vec![0.7; components(kernel, &self.world.dims, p, Role::VALUE)],
            );
            every.arrays.insert((p, Role::COTANGENT), vec![0.7; size(kernel, &self.world, p)]);
        }
        let got = run(kernel, &one, &form.parts);
        let expected = run_body(kernel, &every, &separate(kernel, &kernel.body));
        for p in form.gradients.iter().flatten() {
            let n = size(kernel, &self.world, *p);
            let [x, y] = [&got, &expected].map(|a| get(a, *p, Role::COTANGENT, n));
            close("gradient, uniform", &kernel.name, &x, &y, SAME);
        }
    }

    /// The value against an independent formula: `f(world, row)` is the row's element of the only output.
    pub(crate) fn value(self, f: impl Fn(&Data<'_>, usize) -> Vec<f64>) -> Self {
        let kernel = &self.source.kernel;
        let data = Data { kernel, world: &self.world };
        let expected: Vec<f64> = (0..self.world.dims[kernel.index]).flat_map(|i| f(&data, i)).collect();
        let got = run_body(kernel, &self.world, &kernel.body);
        let got = get(&got, outputs(kernel)[0], Role::VALUE, expected.len());
        close("value against plain Rust", &kernel.name, &got, &expected, 1e-12);
        self
    }

    /// The value of an output that rows share, against an independent formula.
    pub(crate) fn total(self, f: impl Fn(&Data<'_>) -> Vec<f64>) -> Self {
        let kernel = &self.source.kernel;
        let expected = f(&Data { kernel, world: &self.world });
        let got = run_body(kernel, &self.world, &kernel.body);
        let got = get(&got, outputs(kernel)[0], Role::VALUE, expected.len());
        close("value against plain Rust", &kernel.name, &got, &expected, 1e-12);
        self
    }

    /// A check with a list that is not full, regardless of the forms.
    pub(crate) fn without_full_lists(mut self) -> Self {
        self.full = false;
        self
    }

    /// The lists that gradients have forms for.
    pub(crate) fn lists(&self) -> Vec<Lists> {
        self.forms().iter().filter(|f| f.member == Member::Gradient && !f.uniform).map(|f| f.lists).collect()
    }
}

/// The numbers of a world, by name.
pub(crate) struct Data<'a> {
    kernel: &'a Kernel,
    world: &'a World,
}

impl Data<'_> {
    pub(crate) fn real(&self, name: &str, row: usize) -> f64 {
        self.world.arrays[&(param(self.kernel, name), Role::VALUE)][row]
    }

    pub(crate) fn vec3(&self, name: &str, row: usize) -> [f64; 3] {
        std::array::from_fn(|c| self.real(name, 3 * row + c))
    }

    pub(crate) fn int(&self, name: &str, row: usize) -> i32 {
        self.world.ints[&param(self.kernel, name)][row]
    }

    pub(crate) fn scalar(&self, name: &str) -> f64 {
        self.world.reals[&param(self.kernel, name)]
    }

    pub(crate) fn system(&self, i: usize) -> usize {
        members(&ATOMS)[i]
    }

    pub(crate) fn atoms(&self) -> usize {
        ATOMS.iter().sum()
    }

    /// Rows of a system among the atoms.
    pub(crate) fn members(&self, system: usize) -> Vec<usize> {
        (0..self.atoms()).filter(|i| self.system(*i) == system).collect()
    }

    /// (partner, shift, distance) of each pair of a row.
    pub(crate) fn pairs(&self, i: usize) -> Vec<(usize, [i32; 3], f64)> {
        self.row("pairs", "positions", i)
    }

    /// The points near an atom.
    pub(crate) fn near(&self, i: usize) -> Vec<(usize, [i32; 3], f64)> {
        self.row("near", "points", i)
    }

    fn row(&self, list: &str, columns: &str, i: usize) -> Vec<(usize, [i32; 3], f64)> {
        let cell = &cells()[self.system(i)];
        let row = &self.world.pairs[&param(self.kernel, list)][i];
        let from = self.vec3("positions", i);
        row.iter()
            .map(|(j, s)| {
                let to = self.vec3(columns, *j);
                let d = (0..3).map(|c| {
                    let image: f64 = (0..3).map(|k| f64::from(s[k]) * cell[k][c]).sum();
                    to[c] - from[c] + image
                });
                (*j, *s, d.map(|x| x * x).sum::<f64>().sqrt())
            })
            .collect()
    }
}

/// Prints the largest error of each comparison of this thread's test.
pub(crate) fn report(test: &str) {
    WORST.with_borrow(|w| {
        for (what, error, count) in w {
            println!("{test}: {what}: {error:.1e} ({count} arrays)");
        }
    });
}
