//! Kernels that use every construct of the language, each form of each against finite differences of an independent
//! evaluation of its source.

mod arrays;
mod by_chance;
mod harness;
mod mesh;
mod patterns;
mod shapes;
mod shared;

use crate::by_chance::world::param;
use harness::{Check, report};

pub(crate) fn kernel(parameters: &str, body: &str) -> String {
    format!("#[kernel] fn k({parameters}) {{ {body} }}")
}

/// A kernel over atoms and their pairs; `d`, `r` and the row's system `s` are there.
pub(crate) fn pairs(more: &str, before: &str, inside: &str, after: &str) -> Check {
    let parameters = format!(
        "i: Atom, positions: &[Vec3; Atom], charges: &[Real; Atom], cell: &[Mat3; System], alpha: &[Real; System], \
         strain: &[Zero<Mat3>; System], cutoff: Real, atoms: &Batch<Atom, System>, pairs: &Pairs<Atom>, {more} \
         energy: &mut [Real; Atom]"
    );
    let body = format!(
        "let s = atoms.of(i); {before} for (j, shift) in pairs.row(i) {{ let d = positions[j] - positions[i] + shift \
         * cell[s]; let d = d + d * strain[s]; let r = length(d); {inside} }} {after}"
    );
    Check::new(&kernel(&parameters, &body))
}

/// A kernel over atoms without loops over data.
pub(crate) fn map(before: &str, output: &str) -> Check {
    let parameters =
        "i: Atom, a: &[Real; Atom], b: &[Real; Atom], x: &[Real; Atom], n: i32, out: &mut [Real; Atom]";
    Check::new(&kernel(parameters, &format!("{before} out[i] = {output};")))
}

pub(crate) fn run(test: &str, check: &Check) {
    check.run();
    report(test);
}

#[test]
fn functions_of_reals() {
    let check = map(
        "let p = a[i]; let q = b[i];",
        "sqrt(p) + exp(-p * q) + log(p + q) + pow(p, q) + pow(p, 3) * pow(q, 0) - pow(q, 1) + erfc(p) * erfc(-q) \
         + sin(p * q) * cos(q) + abs(p - q) + min(p, q) * max(p, 2.0 * q) + q / p - nearest(3.0 * p) * q + PI",
    )
    .value(|d, i| {
        let (p, q) = (d.real("a", i), d.real("b", i));
        let erfc = crate::by_chance::interpreter::erfc;
        vec![
            p.sqrt() + (-p * q).exp() + (p + q).ln() + p.powf(q) + p.powi(3) - q + erfc(p) * erfc(-q)
                + (p * q).sin() * q.cos()
                + (p - q).abs()
                + p.min(q) * p.max(2.0 * q)
                + q / p
                - (3.0 * p).round() * q
                + std::f64::consts::PI,
        ]
    });
    run("functions_of_reals", &check);
}

#[test]
fn angles_and_steps() {
    let check = map(
        "let p = a[i]; let q = b[i];",
        "tanh(p - q) * erf(q) + atan2(p - 1.0, q - 1.0) * atan(p * q) + acos(0.5 * p) * asin(0.4 * q - 0.2) \
         - floor(3.0 * p) * q + tanh(0.0) + erf(0.0) - asin(0.0)",
    )
    .value(|d, i| {
        let (p, q) = (d.real("a", i), d.real("b", i));
        let erf = |x| 1.0 - crate::by_chance::interpreter::erfc(x);
        vec![
            (p - q).tanh() * erf(q)
                + (p - 1.0).atan2(q - 1.0) * (p * q).atan()
                + (0.5 * p).acos() * (0.4 * q - 0.2).asin()
                - (3.0 * p).floor() * q,
        ]
    });
    run("angles_and_steps", &check);
}

#[test]
fn vectors_and_matrices() {
    let parameters = "i: Atom, u: &[Vec3; Atom], v: &[Vec3; Atom], m: &[Mat3; System], g: &Mat3, h: &Vec3, s: &Real, \
                      atoms: &Batch<Atom, System>, w: &mut [Vec3; Atom], n: &mut [Mat3; Atom], e: &mut [Real; Atom]";
    let body = "let a = atoms.of(i); let t = cross(u[i], v[i]) * s + h / (2.0 + s * s) - (-v[i]); \
                let q = m[a] * g + m[a] - g * 0.5; let r = mat3(row(q, 1), t, row(q, 2) + vec3(t.y, t.z, t.x)); \
                w[i] = t * q + v[i] * dot(u[i], t); n[i] = r * q * s; e[i] = length(t) + dot(row(r, 0), h) + u[i].z;";
    let check = Check::new(&kernel(parameters, body)).value(|d, i| {
        let a = d.system(i);
        let (u, v, h, s) = (d.vec3("u", i), d.vec3("v", i), d.vec3("h", 0), d.real("s", 0));
        let c = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
        let t: [f64; 3] = std::array::from_fn(|k| c[k] * s + h[k] / (2.0 + s * s) + v[k]);
        let m = |r: usize, c: usize| d.real("m", 9 * a + 3 * r + c);
        let g = |r: usize, c: usize| d.real("g", 3 * r + c);
        let q = |r: usize, c: usize| (0..3).map(|k| m(r, k) * g(k, c)).sum::<f64>() + m(r, c) - 0.5 * g(r, c);
        let ut: f64 = (0..3).map(|k| u[k] * t[k]).sum();
        (0..3).map(|c| (0..3).map(|k| t[k] * q(k, c)).sum::<f64>() + v[c] * ut).collect()
    });
    run("vectors_and_matrices", &check);
}

#[test]
fn a_sum_over_pairs() {
    let mut check = pairs(
        "",
        "let mut e = 0.0;",
        "if r < cutoff { e += charges[j] * erfc(alpha[s] * r) / r; }",
        "energy[i] = 0.5 * charges[i] * e;",
    )
    .value(|d, i| {
        let alpha = d.real("alpha", d.system(i));
        let near = d.pairs(i).into_iter().filter(|p| p.2 < d.scalar("cutoff"));
        let e: f64 = near
            .map(|(j, _, r)| d.real("charges", j) * crate::by_chance::interpreter::erfc(alpha * r) / r)
            .sum();
        vec![0.5 * d.real("charges", i) * e]
    });
    check.source.options.fast = vec![vec![0], vec![0, 4], vec![0, 1, 4]];
    run("a_sum_over_pairs", &check);
}

#[test]
fn continue_and_branches_in_a_loop_over_pairs() {
    let check = pairs(
        "kinds: &[i32; Atom],",
        "let mut e = 0.0; let mut f = vec3(0.0, 0.0, 0.0);",
        "if r >= cutoff { continue; } let q = charges[j]; let t = q / r; if kinds[i] == kinds[j] && r > 0.1 { e += t \
         * t; } else if q * charges[i] > 0.0 { let u = exp(-r); e += u * q; f += d * u; } else { e -= t; if !(r < \
         1.5) { e += charges[i] * r; } } if r > 2.1 { continue; } f -= d * (q * (2.1 - r));",
        "energy[i] = e + dot(f, f * charges[i]) * 0.0 + f.x - f.y * charges[i];",
    )
    .value(|d, i| {
        let (mut e, mut fx, mut fy) = (0.0, 0.0, 0.0);
        let qi = d.real("charges", i);
        for (j, s, r) in d.pairs(i) {
            if r >= d.scalar("cutoff") {
                continue;
            }
            let cell = |k: usize, c: usize| d.real("cell", 9 * d.system(i) + 3 * k + c);
            let (p, o) = (d.vec3("positions", j), d.vec3("positions", i));
            let delta = |c: usize| p[c] - o[c] + (0..3).map(|k| f64::from(s[k]) * cell(k, c)).sum::<f64>();
            let q = d.real("charges", j);
            let t = q / r;
            if d.int("kinds", i) == d.int("kinds", j) {
                e += t * t;
            } else if q * qi > 0.0 {
                e += (-r).exp() * q;
                fx += delta(0) * (-r).exp();
                fy += delta(1) * (-r).exp();
            } else {
                e -= t;
                if r >= 1.5 {
                    e += qi * r;
                }
            }
            if r > 2.1 {
                continue;
            }
            fx -= delta(0) * q * (2.1 - r);
            fy -= delta(1) * q * (2.1 - r);
        }
        vec![e + fx - fy * qi]
    });
    run("continue_and_branches_in_a_loop_over_pairs", &check);
}

#[test]
fn a_sum_used_nonlinearly_needs_a_second_loop() {
    let check = pairs(
        "",
        "let mut rho = 0.1;",
        "if r < cutoff { rho += charges[j] * charges[j] * pow(cutoff - r, 2); }",
        "energy[i] = -sqrt(rho) * (1.0 + charges[i]);",
    );
    run("a_sum_used_nonlinearly_needs_a_second_loop", &check);
}

#[test]
fn a_second_loop_reads_the_sum_of_the_first() {
    let check = pairs(
        "",
        "let mut rho = 0.1;",
        "if r < cutoff { rho += pow(cutoff - r, 2); }",
        "let mut e = 0.0; for (j, shift) in pairs.row(i) { let d = positions[j] - positions[i] + shift * cell[s]; let \
         d = d + d * strain[s]; let r = length(d); if r < cutoff { e += charges[j] * exp(-r / rho); } } energy[i] = e \
         * rho + charges[i];",
    )
    .value(|d, i| {
        let near: Vec<_> = d.pairs(i).into_iter().filter(|p| p.2 < d.scalar("cutoff")).collect();
        let rho: f64 = 0.1 + near.iter().map(|p| (d.scalar("cutoff") - p.2).powi(2)).sum::<f64>();
        let e: f64 = near.iter().map(|p| d.real("charges", p.0) * (-p.2 / rho).exp()).sum();
        vec![e * rho + d.real("charges", i)]
    });
    run("a_second_loop_reads_the_sum_of_the_first", &check);
}

/// A nonlinear sum of partners' values without derivative: gathering has nothing to do with the sum.
#[test]
fn a_nonlinear_sum_over_partners_without_derivative() {
    let parameters = "i: Atom, x: &[Real; Atom], a: &[Real; System], kinds: &[i32; Atom], atoms: &Batch<Atom, System>, \
                      pairs: &Pairs<Atom>, energy: &mut [Real; Atom]";
    let body = "let mut n = 0.5; let mut m = 0.0; for (j, shift) in pairs.row(i) { n += (kinds[j] + 1.0) * a[atoms.of(j)] \
                * exp(x[i]) + abs(shift.x); } for (j, _) in pairs.row(i) { m += sin(x[i] * kinds[j]) / n; } energy[i] = \
                log(n) * m + n;";
    let check = Check::new(&kernel(parameters, body));
    run("a_nonlinear_sum_over_partners_without_derivative", &check);
}

#[test]
fn two_loops_share_a_sum() {
    let check = pairs(
        "",
        "let mut e = charges[i] * charges[i]; let before = e;",
        "if r < cutoff { e += charges[j] * r; }",
        "let between = e; for (j, shift) in pairs.row(i) { e += charges[j] * charges[j] * alpha[s]; } e += charges[i]; \
         energy[i] = 2.0 * e + between - before * charges[i];",
    );
    run("two_loops_share_a_sum", &check);
}

#[test]
fn a_sum_is_read_before_and_after_it_changes() {
    // Linear in the loop's sum, so that one pass over the pairs is tried.
    let check = pairs(
        "",
        "let mut e = charges[i]; let first = e * e; e += 2.0 * first;",
        "e += charges[j] * r;",
        "let second = e; e += charges[i] * 3.0; let third = e; e -= second; energy[i] = first * charges[i] + second + \
         third * alpha[s] + e;",
    )
    .value(|d, i| {
        let q = d.real("charges", i);
        let pairs: f64 = d.pairs(i).iter().map(|p| d.real("charges", p.0) * p.2).sum();
        let second = q + 2.0 * q * q + pairs;
        vec![q * q * q + second + (second + 3.0 * q) * d.real("alpha", d.system(i)) + 3.0 * q]
    });
    run("a_sum_is_read_before_and_after_it_changes", &check);
}

#[test]
fn a_branch_after_the_loop_uses_its_sum() {
    let check = pairs(
        "",
        "let mut e = 0.0; let mut f = 0.0;",
        "if r < cutoff { e += charges[j] * r; f += charges[j] / r; }",
        "let mut total = charges[i]; if charges[i] > 0.0 { total += e * 2.0; let half = total * 0.5; total += half; } \
         else { total -= f; } if alpha[s] > 0.0 { total += f * alpha[s]; } energy[i] = total + e;",
    )
    .value(|d, i| {
        let near = || d.pairs(i).into_iter().filter(|p| p.2 < d.scalar("cutoff"));
        let e: f64 = near().map(|p| d.real("charges", p.0) * p.2).sum();
        let f: f64 = near().map(|p| d.real("charges", p.0) / p.2).sum();
        let q = d.real("charges", i);
        let total = if q > 0.0 { (q + 2.0 * e) * 1.5 } else { q - f };
        vec![total + f * d.real("alpha", d.system(i)) + e]
    });
    run("a_branch_after_the_loop_uses_its_sum", &check);
}

#[test]
fn a_selection_after_the_loop_uses_its_sum() {
    let check = pairs(
        "",
        "let mut e = 0.0; let mut f = 0.0;",
        "if r < cutoff { e += charges[j] * r; f += charges[j] / r; }",
        "let total = charges[i] + if charges[i] > 0.0 { e * 2.0 } else { -f }; energy[i] = total * alpha[s] + e;",
    );
    run("a_selection_after_the_loop_uses_its_sum", &check);
}

#[test]
fn a_sum_is_read_in_a_branch_and_changes_later() {
    let check = map(
        "let mut p = a[i]; let mut q = 0.0; if x[i] > 0.0 { q += p * p; } p += b[i] * x[i]; if x[i] < 0.5 { p += a[i] * \
         x[i]; q += p * p * p; p -= 2.0 * q; if b[i] > 1.0 { p += q * x[i]; q -= p * p; } q += p; } else { p += 1.0; q \
         -= p * p; } p += x[i] * x[i];",
        "p * q + sin(p)",
    )
    .value(|d, i| {
        let (a, b, x) = (d.real("a", i), d.real("b", i), d.real("x", i));
        let (mut p, mut q) = (a, 0.0);
        if x > 0.0 {
            q += p * p;
        }
        p += b * x;
        if x < 0.5 {
            p += a * x;
            q += p * p * p;
            p -= 2.0 * q;
            if b > 1.0 {
                p += q * x;
                q -= p * p;
            }
            q += p;
        } else {
            p += 1.0;
            q -= p * p;
        }
        p += x * x;
        vec![p * q + p.sin()]
    });
    run("a_sum_is_read_in_a_branch_and_changes_later", &check);
}

#[test]
fn a_sum_is_read_in_a_loop_and_changes_later() {
    let check = map(
        "let mut p = a[i]; let mut q = 0.0; for m in 0..n { q += p * p * b[i] * (m as Real); } p += b[i] * x[i]; for m \
         in 1..n { let mut t = p; for l in 0..m { t += x[i] * (l as Real) + p * p; } q += t * t; }  p -= q;",
        "p * q",
    )
    .value(|d, i| {
        let (a, b, x) = (d.real("a", i), d.real("b", i), d.real("x", i));
        let (mut p, mut q) = (a, 0.0);
        for m in 0..3 {
            q += p * p * b * f64::from(m);
        }
        p += b * x;
        for m in 1..3 {
            let mut t = p;
            for l in 0..m {
                t += x * f64::from(l) + p * p;
            }
            q += t * t;
        }
        p -= q;
        vec![p * q]
    });
    run("a_sum_is_read_in_a_loop_and_changes_later", &check);
}

#[test]
fn a_sum_of_one_pair() {
    let check = pairs(
        "n: i32,",
        "let mut e = 0.0;",
        "let mut t = charges[j] * 0.3; let early = t; if r < cutoff { t += r * t * 0.1; e += t * t; t += early; for m in \
         0..n { t += sin(r * (m as Real)); } e += t * t * charges[i]; } t -= charges[i]; e += t * r + early;",
        "energy[i] = e;",
    )
    .value(|d, i| {
        let (mut e, q) = (0.0, d.real("charges", i));
        for (j, _, r) in d.pairs(i) {
            let mut t = d.real("charges", j) * 0.3;
            let early = t;
            if r < d.scalar("cutoff") {
                t += r * t * 0.1;
                e += t * t;
                t += early;
                for m in 0..3 {
                    t += (r * f64::from(m)).sin();
                }
                e += t * t * q;
            }
            t -= q;
            e += t * r + early;
        }
        vec![e]
    });
    run("a_sum_of_one_pair", &check);
}

#[test]
fn a_range_loop_in_a_loop_over_pairs() {
    let check = pairs(
        "n: i32,",
        "let mut e = 0.0; let mut v = vec3(0.0, charges[i], 0.0);",
        "let mut t = 0.0; if r > cutoff { continue; } for m in 1..n + 1 { let mut u = r; for l in m..n { u += r * r * (l \
         as Real); } if m == 2 { t += u * charges[j]; } else { t += pow(r, 2) / (m as Real); } v += d * u; } e += t * t;",
        "energy[i] = e + v.x + charges[i] * v.z - v.y;",
    )
    .value(|d, i| {
        let (mut e, q, mut v) = (0.0, d.real("charges", i), [0.0, d.real("charges", i), 0.0]);
        for (j, s, r) in d.pairs(i) {
            if r > d.scalar("cutoff") {
                continue;
            }
            let cell = |k: usize, c: usize| d.real("cell", 9 * d.system(i) + 3 * k + c);
            let (p, o) = (d.vec3("positions", j), d.vec3("positions", i));
            let mut t = 0.0;
            for m in 1..4 {
                let u = r + (m..3).map(|l| r * r * f64::from(l)).sum::<f64>();
                t += if m == 2 { u * d.real("charges", j) } else { r * r / f64::from(m) };
                for c in 0..3 {
                    v[c] += (p[c] - o[c] + (0..3).map(|k| f64::from(s[k]) * cell(k, c)).sum::<f64>()) * u;
                }
            }
            e += t * t;
        }
        vec![e + v[0] + q * v[2] - v[1]]
    });
    run("a_range_loop_in_a_loop_over_pairs", &check);
}

#[test]
fn a_loop_over_pairs_in_a_range_loop() {
    let parameters = "i: Atom, positions: &[Vec3; Atom], charges: &[Real; Atom], cell: &[Mat3; System], n: i32, atoms: \
                      &Batch<Atom, System>, pairs: &Pairs<Atom>, energy: &mut [Real; Atom]";
    let body = "let mut e = 0.0; for m in 0..n { let mut t = 0.1; for (j, shift) in pairs.row(i) { let d = positions[j] - \
                positions[i] + shift * cell[atoms.of(i)]; t += exp(-dot(d, d)) * charges[j] * (m as Real + 1.0); } e += t \
                * charges[i] / (m as Real + 2.0); } energy[i] = e;";
    let check = Check::new(&kernel(parameters, body)).value(|d, i| {
        let sum: f64 = d.pairs(i).iter().map(|p| (-p.2 * p.2).exp() * d.real("charges", p.0)).sum();
        let e = |m: i32| (0.1 + sum * f64::from(m + 1)) * d.real("charges", i) / f64::from(m + 2);
        vec![(0..3).map(e).sum()]
    });
    run("a_loop_over_pairs_in_a_range_loop", &check);
}

#[test]
fn range_loops_in_branches() {
    let check = map(
        "let mut t = x[i]; let mut u = 1.0; if x[i] > 0.0 { for m in 0..n { t += sin(a[i] * (m as Real)); u += a[i] * (m \
         as Real); } t += u; } else { let w = b[i] * b[i]; for m in 1..n - 1 { u += w / (m as Real); } }",
        "t * u * u",
    )
    .value(|d, i| {
        let (a, b, x) = (d.real("a", i), d.real("b", i), d.real("x", i));
        let (mut t, mut u) = (x, 1.0);
        if x > 0.0 {
            for m in 0..3 {
                t += (a * f64::from(m)).sin();
                u += a * f64::from(m);
            }
            t += u;
        } else {
            u += b * b;
        }
        vec![t * u * u]
    });
    run("range_loops_in_branches", &check);
}

#[test]
fn loops_that_never_run() {
    let check = map(
        "let mut t = a[i]; for m in n..n { t += 1.0 / (a[i] - a[i]); } for m in 5..n { t += b[i]; }",
        "t * t",
    )
    .value(|d, i| vec![d.real("a", i).powi(2)]);
    run("loops_that_never_run", &check);
}

#[test]
fn names_are_shadowed() {
    let check = map(
        "let a = a[i]; let mut x = x[i] * a; if a > 1.0 { let a = 2.0 * a; let mut x = a; x += a * b[i]; let y = x * x; \
         } for a in 0..n { let b = b[i] * (a as Real); x += b * b; } let x = x * x; let i2 = x + a;",
        "i2 * a",
    )
    .value(|d, i| {
        let (a, b, x) = (d.real("a", i), d.real("b", i), d.real("x", i));
        let x = x * a + b * b * 5.0;
        vec![(x * x + a) * a]
    });
    run("names_are_shadowed", &check);
}

/// The branch that is not taken gives infinities and NaN, in value and derivative.
#[test]
fn what_is_not_selected_does_not_count() {
    let mut check = map(
        "let t = if x[i] > 0.0 { sqrt(x[i]) * a[i] } else { b[i] }; let mut u = 0.0; if x[i] > 0.0 { u += log(x[i]) / \
         x[i]; } let v = if x[i] > 0.0 { pow(x[i], 1.5) + 1.0 / x[i] } else if a[i] > 1.0 { 1.0 / (x[i] - 1.0) } else { \
         a[i] };",
        "t + u * b[i] + v * v",
    );
    let x = param(&check.source.kernel, "x");
    let x = check.world.arrays.get_mut(&(x, madelung_kernel::ir::Role::VALUE)).unwrap();
    for n in [1, 3, 5] {
        x[n] = -x[n].abs();
    }
    run("what_is_not_selected_does_not_count", &check);
}

/// All pairs of a system, oneself included: its distance, 0, has no derivative.
#[test]
fn members_without_oneself() {
    for guard in [
        "if r > 0.0 { e += charges[j] * charges[j] / (1.0 + r); }",
        "if r == 0.0 { continue; } e += charges[j] / (r + r * r);",
        "e += if r > 0.0 { charges[j] * exp(-r) } else { 0.0 };",
        "if j != i { e += charges[j] * charges[j] / (r + r * r); }",
        "if i == j { continue; } for m in 1..3 { let d = positions[j] - positions[i] + vec3(m as Real, 0.5, 0.0); e += \
         charges[j] * exp(-dot(d, d)); }",
        "e += if i == j { charges[i] * charges[j] } else { charges[j] * positions[i].x };",
    ] {
        let parameters = "i: Atom, positions: &[Vec3; Atom], charges: &[Real; Atom], atoms: &Batch<Atom, System>, energy: \
                          &mut [Real; Atom]";
        let body = format!(
            "let mut e = 0.0; for j in atoms.members(atoms.of(i)) {{ let r = length(positions[j] - positions[i]); {guard} \
             }} energy[i] = e * charges[i];"
        );
        let check = Check::new(&kernel(parameters, &body));
        run("members_without_oneself", &check);
    }
}

#[test]
fn rows_times_members() {
    let parameters = "k: Wave, fraction: &[Vec3; Atom], charges: &[Real; Atom], a: &[Real; System], miller: &[IVec3; \
                      Wave], z: &[Real; Wave], waves: &Batch<Wave, System>, atoms: &Batch<Atom, System>, n: i32, real: \
                      &mut [Real; Wave], imaginary: &mut [Real; Wave]";
    let body = "let s = waves.of(k); let mut re = 0.0; let mut im = z[k]; for j in atoms.members(s) { let phase = 0.5 * PI \
                * dot(miller[k], fraction[j]); if charges[j] > 0.0 { re += charges[j] * cos(phase) * a[atoms.of(j)]; } \
                else { re -= sin(phase) * z[k]; } let mut t = 0.0; for m in 0..n { t += charges[j] * sin(phase * (m as \
                Real)); } im += t * t * a[s]; } real[k] = re * a[s] + z[k]; imaginary[k] = im - re;";
    let check = Check::new(&kernel(parameters, body)).value(|d, k| {
        let s = usize::from(k >= 3);
        let mut re = 0.0;
        for j in d.members(s) {
            let (q, f) = (d.real("charges", j), d.vec3("fraction", j));
            let turns: f64 = (0..3).map(|c| f64::from(d.int("miller", 3 * k + c)) * f[c]).sum();
            let phase = 0.5 * std::f64::consts::PI * turns;
            re += if q > 0.0 { q * phase.cos() * d.real("a", s) } else { -phase.sin() * d.real("z", k) };
        }
        vec![re * d.real("a", s) + d.real("z", k)]
    });
    run("rows_times_members", &check);
}

#[test]
fn a_system_and_its_members() {
    let parameters = "b: System, charges: &[Real; Atom], positions: &[Vec3; Atom], a: &[Real; System], atoms: \
                      &Batch<Atom, System>, n: i32, dipole: &mut [Vec3; System], moment: &mut [Real; System]";
    let body = "let mut p = vec3(0.0, 0.0, a[b]); let mut m = 0.0; for j in atoms.members(b) { if charges[j] < 0.0 { \
                continue; } p += positions[j] * (charges[j] * a[b]); let mut t = 0.0; for l in 0..n { t += charges[j] * \
                dot(positions[j], positions[j]) * (l as Real); } m += t * t; } dipole[b] = p * a[b]; moment[b] = m + p.x;";
    let check = Check::new(&kernel(parameters, body)).value(|d, b| {
        let a = d.real("a", b);
        let positive = d.members(b).into_iter().filter(|j| d.real("charges", *j) >= 0.0).collect::<Vec<_>>();
        (0..3)
            .map(|c| {
                let sum: f64 =
                    positive.iter().map(|j| d.vec3("positions", *j)[c] * d.real("charges", *j) * a).sum();
                (sum + if c == 2 { a } else { 0.0 }) * a
            })
            .collect()
    });
    run("a_system_and_its_members", &check);
}

#[test]
fn two_loops_over_members() {
    let parameters = "i: Atom, x: &[Real; Atom], u: &[Real; Wave], v: &[Real; Wave], a: &[Real; System], atoms: \
                      &Batch<Atom, System>, waves: &Batch<Wave, System>, out: &mut [Real; Atom]";
    let body = "let s = atoms.of(i); let mut p = 0.0; let mut q = a[s]; for k in waves.members(s) { p += u[k] * x[i]; q += \
                sin(u[k]) * v[k]; } let mut t = 0.0; for k in waves.members(s) { t += v[k] * exp(u[k] * x[i]); } for j in \
                atoms.members(s) { t += x[j] * x[j] * x[i]; } out[i] = p * 2.0 + q * a[s] + t * x[i];";
    let check = Check::new(&kernel(parameters, body));
    run("two_loops_over_members", &check);
}
