//! Comparison of every form of a kernel with finite differences of the source.

use crate::generator::Random;
use crate::geometry::List;
use crate::geometry::{
    ATOMS, CUTOFF, Geometry, MESH, POINTS, SPLINE_ORDER, STEP, WAVES, cells, half, members, rows,
};
use crate::interpreter::{Arrays, World, components, run, run_body};
use madelung_kernel::derivative::tangent;
use madelung_kernel::forms::{Form, Lists, Member, forms};
use madelung_kernel::ir::{Kernel, Kind, Role};
use madelung_kernel::lower::{Source, lower_block};
use madelung_kernel::reverse::{adjoint, separate};
use std::cell::RefCell;

pub(crate) fn source(text: &str) -> Source {
    let file = syn::parse_str(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut sources = lower_block(&file).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(sources.len(), 1);
    sources.remove(0)
}

pub(crate) fn param(kernel: &Kernel, name: &str) -> usize {
    kernel.params.iter().position(|p| p.name == name).unwrap_or_else(|| panic!("no parameter {name}"))
}

fn inputs(kernel: &Kernel) -> Vec<usize> {
    (0..kernel.params.len()).filter(|p| matches!(kernel.params[*p].kind, Kind::Real { .. })).collect()
}

pub(crate) fn outputs(kernel: &Kernel) -> Vec<usize> {
    (0..kernel.params.len()).filter(|p| matches!(kernel.params[*p].kind, Kind::Output { .. })).collect()
}

fn size(kernel: &Kernel, world: &World, p: usize) -> usize {
    let (Kind::Real { dim, .. } | Kind::Output { dim, .. }) = kernel.params[p].kind else {
        panic!("not an array")
    };
    dim.map_or(1, |d| world.dims[d]) * components(kernel, &world.dims, p, Role::VALUE)
}

/// Two systems with random numbers in everything, and their full list of pairs with every image that counts.
pub(crate) fn world(kernel: &Kernel, seed: u64) -> World {
    let mut r = Random::new(seed);
    let mut w = World::default();
    let system_of = |d: &str| match d {
        "Atom" => members(&ATOMS),
        "Wave" => members(&WAVES),
        "Point" => members(&POINTS),
        d => panic!("no batch of {d}"),
    };
    let Geometry { positions, list, points, near } = Geometry::new(&mut r);
    let count = |list: &List| list.iter().map(Vec::len).sum::<usize>();
    w.dims = kernel
        .dims
        .iter()
        .map(|d| match d.as_str() {
            "Bond" => count(&list),
            "Edge" => count(&near),
            d => rows(d),
        })
        .collect();
    for (p, one) in kernel.params.iter().enumerate() {
        let name = one.name.as_str();
        match one.kind {
            Kind::Real { zero: true, .. } => {
                w.arrays.insert((p, Role::VALUE), vec![0.0; size(kernel, &w, p)]);
            }
            Kind::Real { .. } => {
                let n = size(kernel, &w, p);
                let data = match name {
                    "positions" => positions.clone(),
                    "points" => points.clone(),
                    "cell" => cells().into_iter().flatten().flatten().collect(),
                    "a" | "b" | "alpha" => (0..n).map(|_| r.between(0.6, 1.7)).collect(),
                    _ => (0..n).map(|_| r.between(-1.2, 1.4)).collect(),
                };
                w.arrays.insert((p, Role::VALUE), data);
            }
            Kind::Ints { dim, components } => {
                let range = if name == "kinds" { (0.0, 2.99) } else { (-2.0, 2.99) };
                let n = w.dims[dim] * components;
                w.ints.insert(p, (0..n).map(|_| r.between(range.0, range.1).floor() as i32).collect());
            }
            Kind::Integers { .. } => unreachable!("kernels with derivatives have none"),
            Kind::Scalar => {
                w.reals.insert(p, if name == "cutoff" { CUTOFF } else { r.between(0.5, 1.5) });
            }
            Kind::IntScalar => {
                w.integers.insert(p, 3);
            }
            Kind::Batch { rows, .. } => {
                w.batches.insert(p, system_of(&kernel.dims[rows]));
            }
            Kind::Pairs { .. } => {
                let list = match name {
                    "near" => near.clone(),
                    // Each pair from one side only.
                    "half" => half(&list),
                    _ => list.clone(),
                };
                w.pairs.insert(p, list);
            }
            Kind::Map { rows, into } => {
                let range = w.dims[into] as f64 - 0.01;
                let of = (0..w.dims[rows]).map(|_| r.between(0.0, range) as usize).collect();
                w.maps.insert(p, of);
            }
            Kind::Mesh { .. } => {
                w.meshes.insert(p, (MESH, SPLINE_ORDER));
            }
            Kind::Output { .. } => {}
        }
    }
    w
}

fn rms(x: &[f64]) -> f64 {
    (x.iter().map(|x| x * x).sum::<f64>() / x.len().max(1) as f64).sqrt()
}

thread_local! {
    static WORST: RefCell<Vec<(&'static str, f64)>> = const { RefCell::new(vec![]) };
}

/// Compares arrays relative to the root mean square of the expected one (and to 0.1, where all is near zero).
pub(crate) fn close(what: &'static str, detail: &str, got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len(), "{what} of {detail}");
    let scale = rms(expected).max(0.1);
    for (n, (x, y)) in got.iter().zip(expected).enumerate() {
        let error = (x - y).abs() / scale;
        assert!(
            error <= tolerance,
            "{what} of {detail}: element {n} is {x:e}, expected {y:e} (error {error:.1e})"
        );
        WORST.with_borrow_mut(|w| match w.iter_mut().find(|(name, _)| *name == what) {
            Some((_, worst)) => *worst = worst.max(error),
            None => w.push((what, error)),
        });
    }
}

fn get(arrays: &Arrays, p: usize, role: Role, n: usize) -> Vec<f64> {
    arrays.get(&(p, role)).cloned().unwrap_or_else(|| vec![0.0; n])
}

/// The derivative of `f` at 0, from four points.
fn difference(f: &dyn Fn(f64) -> Vec<f64>) -> Vec<f64> {
    difference_of(STEP, f)
}

fn difference_of(step: f64, f: &dyn Fn(f64) -> Vec<f64>) -> Vec<f64> {
    let [a, b, c, d] = [-2.0, -1.0, 1.0, 2.0].map(|k| f(k * step));
    (0..a.len()).map(|n| (a[n] - 8.0 * b[n] + 8.0 * c[n] - d[n]) / (12.0 * step)).collect()
}

/// A kernel under test, and its data.
pub(crate) struct Check {
    pub(crate) source: Source,
    pub(crate) world: World,
    /// For derivatives by finite differences.
    tolerance: f64,
    by_chance: bool,
    /// Whether its pair lists are full.
    full: bool,
}

impl Check {
    pub(crate) fn new(text: &str) -> Self {
        let source = source(text);
        let world = world(&source.kernel, 7);
        Self { source, world, tolerance: 1e-8, by_chance: false, full: true }
    }

    /// A random kernel. None where its numbers are too large for finite differences, or its arrays too many for a
    /// launch.
    pub(crate) fn by_chance(text: &str) -> Option<Self> {
        let mut check = Self::new(text);
        (check.tolerance, check.by_chance) = (1e-6, true);
        let kernel = &check.source.kernel;
        let values = run_body(kernel, &check.world, &kernel.body);
        let wild = values.values().flatten().any(|x| x.is_nan() || x.abs() > 1e4);
        let small = match forms(kernel, &check.source.fast, true) {
            Err(e) if e.contains("a launch has room for 64") => false,
            made => made.map(|_| true).unwrap_or_else(|e| panic!("{}: {e}", kernel.name)),
        };
        (small && !wild).then_some(check)
    }

    fn forms(&self) -> Vec<Form> {
        let kernel = &self.source.kernel;
        let made = forms(kernel, &self.source.fast, true).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        made.into_iter().filter(|f| self.full || f.lists != Lists::Full).collect()
    }

    /// Every form, in every direction.
    pub(crate) fn run(&self) {
        let kernel = &self.source.kernel;
        let (ins, outs) = (inputs(kernel), outputs(kernel));
        let name = |p: usize| format!("{} by {}", kernel.name, kernel.params[p].name);
        let mut r = Random::new(99);
        let mut random =
            |p: usize| (0..size(kernel, &self.world, p)).map(|_| r.between(-1.0, 1.0)).collect::<Vec<_>>();
        // The value, two directions, cotangents and their direction.
        let mut w = self.world.clone();
        for p in &ins {
            for role in [Role::FIRST, Role::SECOND] {
                w.arrays.insert((*p, role), random(*p));
            }
        }
        for p in &outs {
            w.arrays.insert((*p, Role::COTANGENT), random(*p));
            w.arrays.insert((*p, Role::COTANGENT.with(Role::FIRST)), random(*p));
        }
        let value = |w: &World| run_body(kernel, w, &kernel.body);
        let of_outputs = |a: &Arrays, role: Role| {
            outs.iter().flat_map(|p| get(a, *p, role, size(kernel, &w, *p))).collect::<Vec<_>>()
        };
        // Moves the inputs (and cotangents) along a direction.
        let moved = |t: f64, along: Role| {
            let mut moved = w.clone();
            for ((p, role), x) in &w.arrays {
                if role.has(along) {
                    let base = Role(role.0 & !along.0);
                    let to = moved.arrays.get_mut(&(*p, base)).expect("a direction has a base");
                    to.iter_mut().zip(x).for_each(|(y, x)| *y += t * x);
                }
            }
            moved
        };
        let plain = value(&w);
        let first = difference(&|t| of_outputs(&value(&moved(t, Role::FIRST)), Role::VALUE));
        if self.by_chance {
            // Some kernels curve too much for finite differences.
            let half =
                difference_of(0.5 * STEP, &|t| of_outputs(&value(&moved(t, Role::FIRST)), Role::VALUE));
            let errors = first.iter().zip(&half).map(|(x, y)| (x - y).abs());
            if errors.fold(0.0, f64::max) > 0.01 * self.tolerance * rms(&first).max(0.1) {
                return;
            }
        }
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
        close("tangent", &kernel.name, &got, &first, self.tolerance);
        let (both, apart) = (adjoint(kernel, &kernel.body), separate(kernel, &kernel.body));
        let (fused, separate) = (run_body(kernel, &w, &both), run_body(kernel, &w, &apart));
        close(
            "values, apart",
            &kernel.name,
            &of_outputs(&separate, Role::VALUE),
            &of_outputs(&plain, Role::VALUE),
            1e-5 * self.tolerance,
        );
        close(
            "values, in one pass",
            &kernel.name,
            &of_outputs(&fused, Role::VALUE),
            &of_outputs(&plain, Role::VALUE),
            1e-5 * self.tolerance,
        );
        for (p, expected) in ins.iter().zip(&gradient) {
            let [x, y] = [&separate, &fused].map(|a| get(a, *p, Role::COTANGENT, expected.len()));
            close("gradient, apart", &name(*p), &x, expected, self.tolerance);
            close("gradient, in one pass", &name(*p), &y, expected, self.tolerance);
            close("one pass against apart", &name(*p), &y, &x, 1e-5 * self.tolerance);
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
            let label = format!("{} ({})", kernel.name, form.name);
            if form.member != Member::SecondTangent && form.member != Member::GradientTangent {
                close(
                    "values",
                    &label,
                    &of_outputs(&got, Role::VALUE),
                    &of_outputs(&plain, Role::VALUE),
                    1e-5 * self.tolerance,
                );
            }
            match form.member {
                Member::Value => {}
                Member::Tangent => {
                    close("tangent", &label, &of_outputs(&got, Role::FIRST), &first, self.tolerance)
                }
                Member::SecondTangent => {
                    close("second tangent", &label, &of_outputs(&got, mixed), &second, 10.0 * self.tolerance)
                }
                Member::Gradient | Member::GradientTangent => {
                    for ((p, g), h) in ins.iter().zip(&gradient).zip(&hessian) {
                        close(
                            "gradient",
                            &name(*p),
                            &get(&got, *p, Role::COTANGENT, g.len()),
                            g,
                            self.tolerance,
                        );
                        if form.member == Member::GradientTangent {
                            close(
                                "Hessian-vector product",
                                &name(*p),
                                &get(&got, *p, along, g.len()),
                                h,
                                10.0 * self.tolerance,
                            );
                        }
                        if let Some((_, before)) = seen.iter().find(|(m, _)| *m == form.member) {
                            for role in [Role::COTANGENT, along] {
                                let [x, y] = [before, &got].map(|a| get(a, *p, role, g.len()));
                                close("gather against scatter", &name(*p), &x, &y, 1e-5 * self.tolerance);
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
                part.body.for_each_stmt(&mut |s| {
                    if let Stmt::Contribute { row: Some(row), .. } = s {
                        // Every row has every channel.
                        let own = matches!(
                            part.body.op(*row),
                            Op::SystemOf { .. } | Op::PairEntry(_) | Op::MapOf { .. } | Op::LoopVar(_)
                        );
                        assert!(own, "a gathering form scatters");
                    }
                });
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
            close("gradient, uniform", &kernel.name, &x, &y, 1e-5 * self.tolerance);
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
        for (what, error) in w {
            println!("{test}: {what}: {error:.1e}");
        }
    });
}
