//! Outputs that rows share, several loops, and functions with derivatives of their own.

use super::harness::Check;
use super::{kernel, pairs, run};
use crate::by_chance::{source, world::world};

#[test]
fn pairs_and_members() {
    let check = pairs(
        "z: &[Real; Wave], waves: &Batch<Wave, System>,",
        "let mut e = 0.0;",
        "if r < cutoff { e += charges[j] / r; }",
        "let mut f = 0.0; for k in waves.members(s) { f += z[k] * charges[i] * sin(z[k] + dot(positions[i], \
         positions[i])); } for j in atoms.members(s) { f += charges[j] * charges[j] * alpha[s]; } energy[i] = e * \
         charges[i] + f;",
    );
    run("pairs_and_members", &check);
}

#[test]
fn members_in_a_range_loop() {
    let parameters = "i: Atom, x: &[Real; Atom], u: &[Real; Wave], n: i32, atoms: &Batch<Atom, System>, waves: &Batch<Wave, \
                      System>, out: &mut [Real; Atom]";
    let body = "let mut p = 0.0; for m in 0..n { for k in waves.members(atoms.of(i)) { p += sin(u[k] * x[i] * (m as \
                Real)); } } out[i] = p;";
    let source = source(&kernel(parameters, body));
    let error =
        madelung_kernel::forms::forms(&source.kernel, &Default::default()).expect_err("it has no transpose");
    assert!(error.contains("inside another loop"), "{error}");
}

#[test]
fn one_number_for_all() {
    let parameters = "i: Atom, x: &[Vec3; Atom], g: &Real, m: &Mat3, v: &Vec3, c: Real, total: &mut Real, field: &mut Vec3, \
                      tensor: &mut Mat3";
    let body = "let y = x[i] * m + v; let e = dot(y, y) * g * c; *total += e; if y.x > 0.0 { *total += g * y.z; *field += \
                y * g; } else { *field -= x[i]; } *tensor += mat3(y, y * y.x, x[i] * g) * m;";
    let check = Check::new(&kernel(parameters, body)).total(|d| {
        let g = d.real("g", 0);
        let row = |i: usize| {
            let (x, v) = (d.vec3("x", i), d.vec3("v", 0));
            let y: [f64; 3] =
                std::array::from_fn(|c| (0..3).map(|k| x[k] * d.real("m", 3 * k + c)).sum::<f64>() + v[c]);
            let e = y.iter().map(|y| y * y).sum::<f64>() * g * d.scalar("c");
            e + if y[0] > 0.0 { g * y[2] } else { 0.0 }
        };
        vec![(0..d.atoms()).map(row).sum()]
    });
    run("one_number_for_all", &check);
}

#[test]
fn sums_per_system() {
    let check = pairs(
        "total: &mut [Real; System], moment: &mut [Vec3; System], spread: &mut [Mat3; System],",
        "let mut e = 0.0;",
        "if r < cutoff { e += charges[j] * r; }",
        "let p = positions[i] * charges[i]; total[s] += e * charges[i]; if charges[i] > 0.0 { total[s] += charges[i] * \
         alpha[s]; moment[s] += p * alpha[s]; } else { let mut t = charges[i]; t += t * t; moment[s] -= p * t; } \
         spread[s] += mat3(p, p * charges[i], positions[i]); energy[i] = e;",
    )
    .total(|d| {
        let mut total = vec![0.0; 2];
        for i in 0..d.atoms() {
            let q = d.real("charges", i);
            let near = d.pairs(i).into_iter().filter(|p| p.2 < d.scalar("cutoff"));
            total[d.system(i)] += q * near.map(|p| d.real("charges", p.0) * p.2).sum::<f64>();
            if q > 0.0 {
                total[d.system(i)] += q * d.real("alpha", d.system(i));
            }
        }
        total
    });
    run("sums_per_system", &check);
}

#[test]
fn several_outputs_of_several_sums() {
    let check = pairs(
        "flux: &mut [Vec3; Atom],",
        "let mut e = 0.0; let mut f = 1.0; let mut v = vec3(charges[i], 0.0, 0.0);",
        "if r < cutoff { e += charges[j] * r; f += charges[i] * charges[j] / r; v += d * charges[j]; }",
        "let g = e + 3.0 * f; flux[i] = v * alpha[s] + vec3(e, g, f - e) - positions[i] * g; energy[i] = g * alpha[s] + \
         v.y - v.z;",
    );
    run("several_outputs_of_several_sums", &check);
}

/// Odd and even under the exchange of a pair, the shift as a number, the system of the partner.
#[test]
fn both_sides_of_a_pair() {
    let check = pairs(
        "v: &[Vec3; Atom], kinds: &[i32; Atom],",
        "let mut e = 0.0;",
        "let w = v[j] - v[i]; let t = dot(d, w) / r; let k = kinds[i] - 2.0 * kinds[j]; if r < cutoff && k > -3.0 { e += t \
         * (charges[i] - charges[j]) * alpha[atoms.of(j)] + k * shift.x * charges[j] + dot(shift, w) * sin(t) + cos(k * t) \
         * abs(charges[i] - charges[j]) - max(charges[j], charges[i] * charges[i]); }",
        "energy[i] = e;",
    );
    run("both_sides_of_a_pair", &check);
}

#[test]
fn functions_with_their_own_derivative() {
    let text = "#[func] fn f(x: Real, y: Real) -> Real { exp(-x * x) * y }
        #[derivative(f)] fn df(x: Real, y: Real) -> (Real, Real) { let e = f(x, y); (-2.0 * x * e, f(x, 1.0)) }
        #[func] fn g(x: Real) -> Real { log(x) + h(x, 2) }
        #[derivative(g)] fn dg(x: Real) -> Real { let i = inverse(x); i + 2.0 * x }
        #[func] fn h(x: Real, n: i32) -> Real { x * x * (n as Real) * 0.5 }
        #[func] fn inverse(x: Real) -> Real { 1.0 / x }
        #[derivative(inverse)] fn dinverse(x: Real) -> Real { let i = inverse(x); -i * i }
        #[func] fn norm(v: Vec3, m: Mat3) -> Real { length(v * m) }
        #[kernel] fn k(i: Atom, x: &[Real; Atom], a: &[Real; Atom], v: &[Vec3; Atom], m: &Mat3, pairs: &Pairs<Atom>, \
             out: &mut [Real; Atom]) {
            let mut t = 0.0;
            for (j, shift) in pairs.row(i) {
                if a[j] > 0.7 { t += f(x[i] - x[j], a[j]) * g(a[i]); } else { t += inverse(a[i] + a[j]); }
            }
            out[i] = t + f(x[i], x[i]) * f(a[i], g(a[i])) + norm(v[i], m) * inverse(inverse(a[i]));
        }";
    let text = text.replace(
        "x: &[Real; Atom], a:",
        "positions: &[Vec3; Atom], cell: &[Mat3; System], x: &[Real; Atom], a:",
    );
    run("functions_with_their_own_derivative", &Check::new(&text));
}

/// The derivative that is given counts, not that of the expression.
#[test]
fn a_derivative_is_taken_as_given() {
    let text = "#[func] fn f(x: Real) -> Real { nearest(x) }
        #[derivative(f)] fn df(x: Real) -> Real { 3.0 * x }
        #[kernel] fn k(i: Atom, x: &[Real; Atom], out: &mut [Real; Atom]) { out[i] = f(x[i] * 2.0); }";
    use madelung_kernel::ir::Role;
    let source = source(text);
    let kernel = &source.kernel;
    let mut world = world(kernel, 3);
    world.arrays.insert((1, Role::COTANGENT), vec![1.0; 10]);
    world.arrays.insert((0, Role::FIRST), vec![1.0; 10]);
    let x = world.arrays[&(0, Role::VALUE)].clone();
    let expected: Vec<f64> = x.iter().map(|x| 12.0 * x).collect();
    for (form, role, p) in [(3, Role::COTANGENT, 0), (1, Role::FIRST, 1)] {
        let forms = madelung_kernel::forms::forms(kernel, &Default::default()).unwrap();
        let got = crate::by_chance::interpreter::run(kernel, &world, &forms[form].parts);
        super::harness::close("own derivative", "f", &got[&(p, role)], &expected, 1e-15);
    }
    let forms = madelung_kernel::forms::forms(kernel, &Default::default()).unwrap();
    let got = crate::by_chance::interpreter::run(kernel, &world, &forms[4].parts);
    let along = Role::COTANGENT.with(Role::FIRST);
    super::harness::close("its own derivative", "f", &got[&(0, along)], &[12.0; 10], 1e-15);
}

/// Through a branch and through a selection.
#[test]
fn what_a_branch_adds_to_a_system() {
    let more = "total: &mut [Real; System],";
    let sum = ("let mut e = 0.0;", "if r < cutoff { e += charges[j] * r; }");
    let branch = "if charges[i] > 0.0 { total[s] += e * charges[i]; } energy[i] = e;";
    run("what_a_branch_adds_to_a_system", &pairs(more, sum.0, sum.1, branch));
    let selection = "total[s] += if charges[i] > 0.0 { e * charges[i] } else { 0.0 }; energy[i] = e;";
    run("what_a_branch_adds_to_a_system", &pairs(more, sum.0, sum.1, selection));
}
