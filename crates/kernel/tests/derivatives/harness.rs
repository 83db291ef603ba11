//! Holds every form of a kernel against finite differences of what its source says.

use crate::interpreter::{Arrays, World, components, run, run_body};
use madelung_kernel::derivative::tangent;
use madelung_kernel::flatten::flatten;
use madelung_kernel::forms::{Form, Lists, Member, forms};
use madelung_kernel::ir::{Kernel, Kind, Role};
use madelung_kernel::lower::{Source, lower_block};
use madelung_kernel::mirror::parts;
use madelung_kernel::reverse::{adjoint, separate};
use madelung_kernel::rewrite::specialise;
use std::cell::RefCell;

/// Atoms of each system.
const ATOMS: [usize; 2] = [6, 4];
/// Waves of each system.
const WAVES: [usize; 2] = [3, 5];
const CUTOFF: f64 = 2.2;
const STEP: f64 = 5e-4;

pub(crate) fn source(text: &str) -> Source {
    let file = syn::parse_str(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut sources = lower_block(&file).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(sources.len(), 1);
    sources.remove(0)
}

/// Numbers in 0..1, the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, lo: f64, hi: f64) -> f64 {
        lo + (hi - lo) * self.next()
    }
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
    dim.map_or(1, |d| world.dims[d]) * components(kernel, p)
}

fn cells() -> Vec<[[f64; 3]; 3]> {
    vec![
        [[2.9, 0.1, -0.2], [0.3, 2.7, 0.2], [-0.1, 0.2, 3.1]],
        [[2.6, 0.0, 0.3], [-0.2, 3.0, 0.1], [0.2, -0.3, 2.5]],
    ]
}

/// Two systems with random numbers in everything, and their full list of pairs with every image that counts.
pub(crate) fn world(kernel: &Kernel, seed: u64) -> World {
    let mut r = Random(seed);
    let mut w = World { dims: kernel.dims.iter().map(|d| rows(d)).collect(), ..World::default() };
    let system_of = |d: &str| match d {
        "Atom" => members(&ATOMS),
        "Wave" => members(&WAVES),
        d => panic!("no batch of {d}"),
    };
    let of_atom = members(&ATOMS);
    let (positions, list) = std::iter::repeat_with(|| {
        let mut positions = vec![];
        for system in &of_atom {
            let s: [f64; 3] = std::array::from_fn(|_| r.next());
            positions.extend((0..3).map(|c| (0..3).map(|k| s[k] * cells()[*system][k][c]).sum::<f64>()));
        }
        let list = pairs(&positions, &of_atom)?;
        Some((positions, list))
    })
    .find_map(|found| found)
    .expect("some are good");
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
            Kind::Scalar => {
                w.reals.insert(p, if name == "cutoff" { CUTOFF } else { r.between(0.5, 1.5) });
            }
            Kind::IntScalar => {
                w.integers.insert(p, 3);
            }
            Kind::Batch { rows, .. } => {
                w.batches.insert(p, system_of(&kernel.dims[rows]));
            }
            Kind::Pairs(_) => w.pairs = list.clone(),
            Kind::Output { .. } => {}
        }
    }
    w
}

fn rows(dim: &str) -> usize {
    match dim {
        "Atom" => ATOMS.iter().sum(),
        "Wave" => WAVES.iter().sum(),
        "System" => 2,
        d => panic!("no dimension {d}"),
    }
}

fn members(sizes: &[usize]) -> Vec<usize> {
    sizes.iter().enumerate().flat_map(|(s, n)| std::iter::repeat_n(s, *n)).collect()
}

type Pairs = Vec<Vec<(usize, [i32; 3])>>;

/// A bit more than the cutoff, as with a skin. The last atom has no pairs: rows may be empty. None where a distance is
/// near one at which the tests' kernels have no derivative.
fn pairs(positions: &[f64], of_atom: &[usize]) -> Option<Pairs> {
    let n = of_atom.len();
    let mut rows = vec![vec![]; n];
    for i in 0..n - 1 {
        for j in 0..n - 1 {
            if of_atom[i] != of_atom[j] {
                continue;
            }
            for code in 0..27 {
                let s = [code / 9 - 1, code / 3 % 3 - 1, code % 3 - 1];
                let cell = &cells()[of_atom[i]];
                let square: f64 = (0..3)
                    .map(|c| {
                        let image: f64 = (0..3).map(|k| f64::from(s[k]) * cell[k][c]).sum();
                        (positions[3 * j + c] - positions[3 * i + c] + image).powi(2)
                    })
                    .sum();
                let r = square.sqrt();
                if [1.5, 2.1, CUTOFF].iter().any(|edge| (r - edge).abs() < 4.0 * STEP) {
                    return None;
                }
                if (i != j || s != [0; 3]) && r < CUTOFF + 0.4 {
                    rows[i].push((j, s));
                }
            }
        }
    }
    Some(rows)
}

fn rms(x: &[f64]) -> f64 {
    (x.iter().map(|x| x * x).sum::<f64>() / x.len().max(1) as f64).sqrt()
}

thread_local! {
    static WORST: RefCell<Vec<(&'static str, f64)>> = const { RefCell::new(vec![]) };
}

/// Compares arrays relative to the root mean square of what is expected (and to 0.1, where all is near zero).
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

/// What a kernel is checked for.
pub(crate) struct Check {
    pub(crate) source: Source,
    pub(crate) world: World,
    /// Whether partners can gather: a kernel of which that is not so has no forms, and its parts are made here.
    pub(crate) gathers: bool,
    /// For derivatives by finite differences.
    tolerance: f64,
    by_chance: bool,
}

impl Check {
    pub(crate) fn new(text: &str) -> Self {
        let source = source(text);
        let world = world(&source.kernel, 7);
        Self { source, world, gathers: true, tolerance: 1e-8, by_chance: false }
    }

    /// A kernel that nobody looked at, and whether it gathers (0), scatters (1) or has no transpose (2). None where its
    /// numbers are too large for finite differences.
    pub(crate) fn by_chance(text: &str) -> Option<(Self, usize)> {
        let mut check = Self::new(text);
        (check.tolerance, check.by_chance) = (1e-6, true);
        let kernel = &check.source.kernel;
        let values = run_body(kernel, &check.world, &kernel.body);
        if values.values().flatten().any(|x| x.is_nan() || x.abs() > 1e4) {
            return None;
        }
        let kind = match forms(kernel, &[]) {
            Ok(_) => 0,
            Err(e) => {
                assert!(e.contains("depends on a sum"), "{e}");
                check.gathers = false;
                if check.scatter_forms().is_empty() { 2 } else { 1 }
            }
        };
        Some((check, kind))
    }

    fn forms(&self) -> Vec<Form> {
        let kernel = &self.source.kernel;
        if self.gathers {
            return forms(kernel, &self.source.fast).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        }
        self.scatter_forms()
    }

    /// What can be had without a transpose of pairs; none where members need one.
    fn scatter_forms(&self) -> Vec<Form> {
        let kernel = &self.source.kernel;
        let gradient = adjoint(kernel, &kernel.body);
        let hessian = tangent(kernel, &gradient, Role::FIRST);
        let first = tangent(kernel, &kernel.body, Role::FIRST);
        let second = tangent(kernel, &first, Role::SECOND);
        let form = |member, body| {
            let parts = parts(kernel, &flatten(&specialise(kernel, body, false)), false).ok()?;
            Some(Form {
                member,
                lists: Lists::Any,
                uniform: false,
                gradients: None,
                name: String::new(),
                parts,
            })
        };
        let forms = [
            form(Member::Value, &kernel.body),
            form(Member::Tangent, &first),
            form(Member::SecondTangent, &second),
            form(Member::Gradient, &gradient),
            form(Member::GradientTangent, &hessian),
        ];
        forms.into_iter().collect::<Option<_>>().unwrap_or_default()
    }

    /// Every form, in every direction.
    pub(crate) fn run(&self) {
        let kernel = &self.source.kernel;
        let (ins, outs) = (inputs(kernel), outputs(kernel));
        let name = |p: usize| format!("{} by {}", kernel.name, kernel.params[p].name);
        let mut r = Random(99);
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

    /// Forms for full lists write to nobody else; no part reads a pair's or member's side that it does not visit.
    fn shape(&self, form: &Form) {
        use madelung_kernel::ir::{Op, Stmt};
        if form.lists == Lists::Full {
            for part in &form.parts {
                part.body.for_each_stmt(&mut |s| {
                    if let Stmt::Contribute { row: Some(row), .. } = s {
                        assert!(
                            matches!(part.body.op(*row), Op::SystemOf { .. }),
                            "a gathering form scatters"
                        );
                    }
                });
            }
        }
    }

    /// The same cotangent for every row, and only some gradients.
    fn uniform(&self, form: &Form) {
        let kernel = &self.source.kernel;
        let (mut one, mut every) = (self.world.clone(), self.world.clone());
        for p in outputs(kernel) {
            one.arrays.insert((p, Role::COTANGENT), vec![0.7; components(kernel, p)]);
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

    /// The value against another way to write it: `f(world, row)` gives what the row writes to its own element of
    /// the only output.
    pub(crate) fn value(self, f: impl Fn(&Data<'_>, usize) -> Vec<f64>) -> Self {
        let kernel = &self.source.kernel;
        let data = Data { kernel, world: &self.world };
        let expected: Vec<f64> = (0..self.world.dims[kernel.index]).flat_map(|i| f(&data, i)).collect();
        let got = run_body(kernel, &self.world, &kernel.body);
        let got = get(&got, outputs(kernel)[0], Role::VALUE, expected.len());
        close("value against plain Rust", &kernel.name, &got, &expected, 1e-12);
        self
    }

    /// The same for outputs that rows share.
    pub(crate) fn total(self, f: impl Fn(&Data<'_>) -> Vec<f64>) -> Self {
        let kernel = &self.source.kernel;
        let expected = f(&Data { kernel, world: &self.world });
        let got = run_body(kernel, &self.world, &kernel.body);
        let got = get(&got, outputs(kernel)[0], Role::VALUE, expected.len());
        close("value against plain Rust", &kernel.name, &got, &expected, 1e-12);
        self
    }

    /// Only forms that scatter.
    pub(crate) fn scatter_only(mut self) -> Self {
        let kernel = &self.source.kernel;
        let error = forms(kernel, &[]).expect_err("what others get depends on this row's sum");
        assert!(error.contains("depends on a sum"), "{error}");
        self.gathers = false;
        self
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
        let cell = &cells()[self.system(i)];
        let (positions, row) = (|j| self.vec3("positions", j), &self.world.pairs[i]);
        row.iter()
            .map(|(j, s)| {
                let d = (0..3).map(|c| {
                    let image: f64 = (0..3).map(|k| f64::from(s[k]) * cell[k][c]).sum();
                    positions(*j)[c] - positions(i)[c] + image
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
