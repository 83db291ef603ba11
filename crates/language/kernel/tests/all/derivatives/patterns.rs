//! The access patterns: lists between two sets of points, half lists, arrays with an element per pair, maps, extrema,
//! normalised sums.

use super::harness::{Check, report};
use super::{kernel, pairs, run};
use crate::by_chance::{source, world::world};
use madelung_kernel::forms::{Lists, Member};
use madelung_kernel::ir::{Stmt, walk};

/// A kernel over atoms and the points near them; `d`, `r`, the pair `p` and the row's system `s` are there.
fn near(more: &str, before: &str, inside: &str, after: &str) -> Check {
    let parameters = format!(
        "i: Atom, positions: &[Vec3; Atom], points: &[Vec3; Point], x: &[Real; Point], a: &[Real; Atom], cell: &[Mat3; \
         System], strain: &[Zero<Mat3>; System], sigma: &Real, cutoff: Real, atoms: &Batch<Atom, System>, those: \
         &Batch<Point, System>, near: &Pairs<Atom, Point, Edge>, {more} out: &mut [Real; Atom]"
    );
    let body = format!(
        "let s = atoms.of(i); {before} for (j, shift, p) in near.row(i) {{ let d = points[j] - positions[i] + shift * \
         cell[s]; let d = d + d * strain[s]; let r = length(d); {inside} }} {after}"
    );
    Check::new(&kernel(&parameters, &body))
}

#[test]
fn two_sets_of_points() {
    let check = near(
        "",
        "let mut e = 0.0;",
        "if r < cutoff { e += x[j] * x[j] * exp(-r * sigma) * a[i]; }",
        "out[i] = e * a[i];",
    );
    assert_eq!(check.lists(), [Lists::Any, Lists::Scatter]);
    run("two_sets_of_points", &check);
}

#[test]
fn the_system_of_a_point() {
    let check = near(
        "",
        "let mut e = 0.0;",
        "let m = cell[those.of(j)]; e += x[j] * dot(row(m, 0), d);",
        "out[i] = e;",
    );
    run("the_system_of_a_point", &check);
}

#[test]
fn distances_and_vectors_of_pairs() {
    let check = near(
        "distance: &mut [Real; Edge], vector: &mut [Vec3; Edge],",
        "let mut e = 0.0;",
        "distance[p] = r; if r < cutoff { vector[p] = d * x[j]; } e += r;",
        "out[i] = e;",
    );
    run("distances_and_vectors_of_pairs", &check);
}

/// Parameters of pairs of types, of which both sides of a pair may have another one.
#[test]
fn tables_of_types() {
    let check = pairs(
        "depth: &[[Real; Element]; Element], kind: &Map<Atom, Element>,",
        "let mut e = 0.0;",
        "if r < cutoff { let w = depth[kind.of(i)][kind.of(j)]; e += charges[j] * exp(-r * w * w) * (1.0 + w); }",
        "energy[i] = charges[i] * e;",
    );
    assert_eq!(check.lists(), [Lists::Full, Lists::Any, Lists::Scatter]);
    run("tables_of_types", &check);
    let check = near(
        "depth: &[[Real; Basis]; Element], more: &[[Real; Element]; Element], own: &Map<Atom, Element>, kind: &Map<Point, \
         Basis>, of: &Map<Edge, Element>,",
        "let mut e = more[own.of(i)][own.of(i)];",
        "e += depth[own.of(i)][kind.of(j)] * exp(-r) * depth[of.of(p)][kind.of(j)] + more[of.of(p)][of.of(p)] * x[j];",
        "out[i] = e;",
    );
    run("tables_of_types of two sets", &check);
}

#[test]
fn factors_of_pairs() {
    let check = near(
        "factor: &[Real; Edge], direction: &[Vec3; Edge], charge: &[i32; Edge], weight: &mut [Real; Edge],",
        "let mut e = 0.0;",
        "let t = factor[p] * x[j] * r + dot(direction[p], d) * (charge[p] + 0.5); weight[p] = t * a[i]; e += t * factor[p];",
        "out[i] = e * e;",
    );
    run("factors_of_pairs", &check);
}

/// Pairs of the atoms themselves: only the transpose knows the pair's factor from the other side.
#[test]
fn factors_of_a_full_list() {
    let parameters = "i: Atom, positions: &[Vec3; Atom], charges: &[Real; Atom], cell: &[Mat3; System], factor: &[Real; \
                      Bond], atoms: &Batch<Atom, System>, pairs: &Pairs<Atom, Atom, Bond>, energy: &mut [Real; Atom]";
    let body = "let s = atoms.of(i); let mut e = 0.0; for (j, shift, p) in pairs.row(i) { let r = length(positions[j] - \
                positions[i] + shift * cell[s]); e += factor[p] * charges[j] / r; } energy[i] = e * charges[i];";
    let check = Check::new(&kernel(parameters, body));
    assert_eq!(check.lists(), [Lists::Any, Lists::Scatter]);
    run("factors_of_a_full_list", &check);
}

#[test]
fn half_lists() {
    let parameters = "i: Atom, positions: &[Vec3; Atom], charges: &[Real; Atom], cell: &[Mat3; System], atoms: &Batch<Atom, \
                      System>, half: &Pairs<Atom>, energy: &mut [Real; Atom]";
    let body = "let s = atoms.of(i); let mut e = 0.0; for (j, shift) in half.row(i) { let r = length(positions[j] - \
                positions[i] + shift * cell[s]); e += charges[j] * exp(-r); } energy[i] = e * charges[i];";
    let check = Check::new(&kernel(parameters, body)).without_full_lists();
    run("half_lists", &check);
}

#[test]
fn types_of_atoms() {
    let check = pairs(
        "epsilon: &[Real; Element], radius: &[Real; Element], kind: &Map<Atom, Element>,",
        "let mut e = 0.0;",
        "let t = epsilon[kind.of(i)] * epsilon[kind.of(j)]; let u = radius[kind.of(i)] + radius[kind.of(j)]; if r < cutoff \
         { e += t * exp(-u * u * r) * charges[j]; }",
        "energy[i] = e + epsilon[kind.of(i)] * charges[i];",
    );
    run("types_of_atoms", &check);
}

#[test]
fn types_of_pairs() {
    let check = near(
        "stiffness: &[Real; Element], kind: &Map<Edge, Element>, of: &Map<Point, Element>,",
        "let mut e = 0.0;",
        "e += stiffness[kind.of(p)] * r * r * stiffness[of.of(j)] * x[j];",
        "out[i] = e;",
    );
    run("types_of_pairs", &check);
}

/// Σ w f / (Σ w + ε): a row's contribution to a point depends on the row's own sum.
#[test]
fn normalised_sums() {
    let check = near(
        "",
        "let mut f = 0.0; let mut w = 0.0;",
        "if r < cutoff { let t = exp(-r / (1.5 + sigma * sigma)); w += t; f += t * x[j]; }",
        "out[i] = f / (w + 0.01);",
    );
    run("normalised_sums", &check);
    let check = pairs(
        "",
        "let mut f = 0.0; let mut w = 0.0;",
        "if r < cutoff { let t = exp(-r * alpha[s]); w += t; f += t * charges[j]; }",
        "energy[i] = f / (w + 0.01) * charges[i];",
    );
    assert_eq!(check.lists(), [Lists::Full, Lists::Any, Lists::Scatter]);
    run("normalised_sums", &check);
}

#[test]
fn softmax_over_pairs() {
    let check = near(
        "",
        "let mut m = -1.0e30; for (j, shift, p) in near.row(i) { let d = points[j] - positions[i] + shift * cell[s]; m = \
         max(m, x[j] * a[i] - length(d)); } let top = stop_gradient(m); let mut f = 0.0; let mut w = 0.0;",
        "let t = exp(x[j] * a[i] - r - top); w += t; f += t * x[j] * x[j];",
        "out[i] = f / (w + 1.0e-30);",
    )
    .value(|d, i| {
        let found = d.near(i);
        let score = |p: &(usize, [i32; 3], f64)| d.real("x", p.0) * d.real("a", i) - p.2;
        let top = found.iter().map(score).fold(f64::MIN, f64::max);
        let w: f64 = found.iter().map(|p| (score(p) - top).exp()).sum();
        let f: f64 = found.iter().map(|p| (score(p) - top).exp() * d.real("x", p.0).powi(2)).sum();
        vec![if w > 0.0 { f / w } else { 0.0 }]
    });
    run("softmax_over_pairs", &check);
}

#[test]
fn the_largest_and_smallest_over_pairs() {
    let check = near(
        "",
        "let mut m = 0.3; let mut n = a[i];",
        "if r < cutoff { m = max(m, x[j] * a[i] - r); } n = min(x[j] * x[j] + r, n);",
        "out[i] = m * n + m;",
    )
    .value(|d, i| {
        let (mut m, mut n) = (0.3f64, d.real("a", i));
        for (j, _, r) in d.near(i) {
            if r < d.scalar("cutoff") {
                m = m.max(d.real("x", j) * d.real("a", i) - r);
            }
            n = n.min(d.real("x", j).powi(2) + r);
        }
        vec![m * n + m]
    });
    run("the_largest_and_smallest_over_pairs", &check);
}

/// Sorted segments: the largest of a system's rows, and of several systems' rows seen from each.
#[test]
fn the_largest_of_a_segment() {
    let parameters = "s: System, x: &[Real; Atom], a: &[Real; System], atoms: &Batch<Atom, System>, out: &mut [Real; System]";
    let body = "let mut m = -10.0; let mut e = 0.0; for k in atoms.members(s) { m = max(m, x[k] * a[s]); e += x[k]; } let mut \
                w = 0.0; for k in atoms.members(s) { w += exp(x[k] * a[s] - m); } out[s] = m * e + log(w);";
    let check = Check::new(&kernel(parameters, body)).value(|d, s| {
        let rows = d.members(s);
        let score = |k: &usize| d.real("x", *k) * d.real("a", s);
        let m = rows.iter().map(score).fold(f64::MIN, f64::max);
        let w: f64 = rows.iter().map(|k| (score(k) - m).exp()).sum();
        vec![m * rows.iter().map(|k| d.real("x", *k)).sum::<f64>() + w.ln()]
    });
    run("the_largest_of_a_segment", &check);
    let parameters = "i: Wave, y: &[Real; Wave], x: &[Real; Atom], atoms: &Batch<Atom, System>, waves: &Batch<Wave, System>, \
                      out: &mut [Real; Wave]";
    let body = "let mut m = y[i]; for k in atoms.members(waves.of(i)) { m = max(m, sin(x[k] * y[i])); } out[i] = m * y[i];";
    run("the_largest_of_a_segment", &Check::new(&kernel(parameters, body)));
}

#[test]
fn the_largest_of_a_range() {
    let parameters = "i: Atom, x: &[Real; Atom], positions: &[Vec3; Atom], cell: &[Mat3; System], n: i32, pairs: &Pairs<Atom>, \
                      out: &mut [Real; Atom]";
    let body = "let mut e = 0.0; for (j, _) in pairs.row(i) { let mut m = x[j]; for k in 0..n { m = max(m, sin(x[j] * (k as \
                Real) + x[i])); } e += m; } let mut t = -5.0; for k in 0..n { t = max(t, cos(x[i] + (k as Real))); } out[i] = \
                e * t;";
    run("the_largest_of_a_range", &Check::new(&kernel(parameters, body)));
}

#[test]
fn stopped_gradients_are_constants() {
    let text = "#[kernel] fn k(i: Atom, x: &[Real; Atom], out: &mut [Real; Atom]) { out[i] = stop_gradient(x[i] * x[i]) * x[i]; }";
    use madelung_kernel::ir::Role;
    let source = source(text);
    let kernel = &source.kernel;
    let mut world = world(kernel, 3);
    world.arrays.insert((1, Role::COTANGENT), vec![1.0; 10]);
    world.arrays.insert((0, Role::FIRST), vec![1.0; 10]);
    let square: Vec<f64> = world.arrays[&(0, Role::VALUE)].iter().map(|x| x * x).collect();
    let forms = madelung_kernel::forms::forms(kernel, &Default::default()).unwrap();
    for (form, role, p) in [(3, Role::COTANGENT, 0), (1, Role::FIRST, 1)] {
        let got = crate::by_chance::interpreter::run(kernel, &world, &forms[form].parts);
        super::harness::close("stopped", "k", &got[&(p, role)], &square, 1e-15);
    }
    report("stopped_gradients_are_constants");
}

/// Derivatives of one value by another, of both orders, and theirs.
#[test]
fn derivatives_within_a_row() {
    let check = pairs(
        "",
        "let mut e = 0.0;",
        "let t = exp(-alpha[s] * r) / r; let v = if charges[j] > 0.0 { t * r * r } else { pow(r, charges[j] * charges[j]) }; let dv = \
         derivative(v, r); if r < cutoff { e += dv + 0.5 * derivative(dv, r) + derivative(v, alpha[s]) + \
         derivative(charges[j], r); }",
        "energy[i] = e;",
    )
    .value(|d, i| {
        let a = d.real("alpha", d.system(i));
        let near = d.pairs(i).into_iter().filter(|p| p.2 < d.scalar("cutoff"));
        let terms = near.map(|(j, _, r)| {
            if d.real("charges", j) > 0.0 {
                // r exp(−αr)
                let t = (-a * r).exp();
                (1.0 - a * r) * t + 0.5 * (a * a * r - 2.0 * a) * t - r * r * t
            } else {
                let p = d.real("charges", j).powi(2);
                p * r.powf(p - 1.0) + 0.5 * p * (p - 1.0) * r.powf(p - 2.0)
            }
        });
        vec![terms.sum()]
    });
    run("derivatives_within_a_row", &check);
}

/// Sums that do not start from 0, that add one term twice, that are equal, and that are only added up behind the loop: a
/// cluster form may join them.
#[test]
fn sums_that_clusters_join() {
    let check = pairs(
        "",
        "let mut e = 0.0; let mut f = 1.3; let mut g = 0.0; let mut h = 0.0; let mut k = 0.4;",
        "if r < cutoff { let t = charges[j] * exp(-alpha[s] * r); e += t / r; f += d.x * t; g += t; g += t; h += t; \
         k += t; }",
        "energy[i] = (e + f) + charges[i] * (g + h) + charges[i] * charges[i] * k;",
    );
    run("sums_that_clusters_join", &check);
}

/// A condition from outside that decides on all terms of a loop decides whether it runs, in every form.
#[test]
fn loops_under_a_condition_from_outside() {
    let parameters = "i: Atom, positions: &[Vec3; Atom], charges: &[Real; Atom], a: &[Real; System], is_open: &[i32; System], \
                      n: i32, atoms: &Batch<Atom, System>, energy: &mut [Real; Atom]";
    for (inside, is_guarded) in [
        ("if is_open[s] > 0.0 && j != i { e += charges[j] / (1.0 + w); }", true),
        ("if !(is_open[s] > 0.0) { continue; } e += charges[j] * w; f += exp(-w);", true),
        (
            "let mut t = 0.0; for m in 1..n { t += exp(-w * (m as Real)); } if a[s] > 1.0 { e += charges[j] * t; }",
            true,
        ),
        ("let q = if a[s] > 1.0 { charges[j] } else { 0.0 }; e += q * w; f -= q * q / (1.0 + w);", true),
        ("if is_open[s] > 0.0 { e += charges[j] * w; } else { f += charges[j] * w; }", false),
        ("if is_open[s] > 0.0 { e += charges[j] * w; } f += charges[j];", false),
        ("if charges[j] > 0.0 { e += charges[j] * w; }", false),
    ] {
        let body = format!(
            "let s = atoms.of(i); let mut e = 0.0; let mut f = 0.0; for j in atoms.members(s) {{ let d = positions[j] - \
             positions[i]; let w = dot(d, d); {inside} }} energy[i] = (e + f) * charges[i];"
        );
        let check = Check::new(&kernel(parameters, &body));
        let is_bare = |s: &Stmt| matches!(s, Stmt::For { range, .. } if range.is_data());
        // Gradients may leave out the terms that need no condition.
        for form in check.forms().iter().filter(|form| is_guarded || form.member == Member::Value) {
            for part in &form.parts {
                let loops = walk(part.body.stmts()).filter(|s| is_bare(s)).count();
                let bare = part.body.stmts().iter().filter(|s| is_bare(s)).count();
                assert_eq!(bare, if is_guarded { 0 } else { loops }, "{} of {inside}", form.name);
            }
        }
        run("loops_under_a_condition_from_outside", &check);
    }
}
