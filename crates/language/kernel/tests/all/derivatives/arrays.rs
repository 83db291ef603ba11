//! Local arrays, arrays with channels, and sums over channels.

use super::harness::Check;
use super::{kernel, run};

fn check(parameters: &str, body: &str) -> Check {
    Check::new(&kernel(parameters, body))
}

const FEATURES: usize = 5;

#[test]
fn local_arrays() {
    let parameters =
        "i: Atom, a: &[Real; Atom], b: &[Real; Atom], v: &[Vec3; Atom], n: i32, out: &mut [Real; Atom]";
    let body = "let w = [a[i], b[i], a[i] * b[i], 0.5]; let mut s = [0.0; 4]; let mut u = [v[i]; 2]; \
                let m = [[1.0, a[i]], [b[i], 2.0]]; \
                for k in 0..4 { if a[i] > 1.0 { s[k] += w[k] * w[3 - k]; } else { s[k] -= sin(w[k]); } } \
                for k in 0..3 { s[k + 1] += w[k] * s[k]; } \
                for n in 0..n { for k in 0..2 { u[k] += v[i] * (n as Real * w[k]); if a[i] < b[i] { continue; } s[0] += w[k]; } } \
                let mut t = 0.0; for j in 0..2 { for k in 0..2 { t += m[j][k] * m[k][j]; } } \
                let c = s; out[i] = c[0] * s[1] + s[2] / (2.0 + s[3] * s[3]) + dot(u[0], u[1]) * t;";
    let check = check(parameters, body).value(|d, i| {
        let (a, b, v) = (d.real("a", i), d.real("b", i), d.vec3("v", i));
        let w = [a, b, a * b, 0.5];
        let mut s: [f64; 4] = std::array::from_fn(|k| if a > 1.0 { w[k] * w[3 - k] } else { -w[k].sin() });
        for k in 0..3 {
            s[k + 1] += w[k] * s[k];
        }
        if a >= b {
            s[0] += 3.0 * (w[0] + w[1]);
        }
        let square: f64 = v.iter().map(|x| x * x).sum();
        // n runs over 0, 1, 2.
        let u = |k: usize| 1.0 + 3.0 * w[k];
        let t = 1.0 + 2.0 * a * b + 4.0;
        vec![s[0] * s[1] + s[2] / (2.0 + s[3] * s[3]) + square * u(0) * u(1) * t]
    });
    run("local_arrays", &check);
}

#[test]
fn local_arrays_in_loops_over_pairs() {
    let check = super::pairs(
        "",
        "let widths = [0.5, 1.0, 2.0]; let mut e = [0.0; 3];",
        "if r < cutoff { for k in 0..3 { e[k] += charges[j] * exp(-widths[k] * r); } }",
        "let mut t = 0.0; for k in 0..3 { t += e[k] * widths[k]; } energy[i] = charges[i] * t;",
    )
    .value(|d, i| {
        let near = d.pairs(i).into_iter().filter(|p| p.2 < d.scalar("cutoff"));
        let sum: f64 = near
            .map(|(j, _, r)| {
                d.real("charges", j) * [0.5, 1.0, 2.0f64].iter().map(|w| w * (-w * r).exp()).sum::<f64>()
            })
            .sum();
        vec![d.real("charges", i) * sum]
    });
    run("local_arrays_in_loops_over_pairs", &check);
}

const ROWS: &str = "i: Atom, f: &[[Real; Feature]; Atom], g: &[[Real; Feature]; System], w: &[Real; Feature], m: &[Vec3; \
                    Feature], kinds: &[i32; Feature], a: &[Real; Atom], alpha: &Real, n: i32, atoms: &Batch<Atom, System>,";

fn feature(d: &super::harness::Data<'_>, name: &str, row: usize, c: usize) -> f64 {
    d.real(name, FEATURES * row + c)
}

#[test]
fn channels_of_the_rows_own() {
    let body = "let s = atoms.of(i); for c in Feature { let x = f[i][c]; let mut t = 0.0; for k in 0..n { t += sin(x * (k as \
                Real)); } out[i][c] = if x > 0.1 { x * x * g[s][c] + t } else { a[i] * w[c] + dot(m[c], m[c]) } + alpha * \
                kinds[c]; }";
    let check = check(&format!("{ROWS} out: &mut [[Real; Feature]; Atom]"), body).value(|d, i| {
        let one = |c: usize| {
            let x = feature(d, "f", i, c);
            let t: f64 = (0..3).map(|k| (x * f64::from(k)).sin()).sum();
            let m: f64 = d.vec3("m", c).iter().map(|m| m * m).sum();
            let value = if x > 0.1 {
                x * x * feature(d, "g", d.system(i), c) + t
            } else {
                d.real("a", i) * d.real("w", c) + m
            };
            value + d.real("alpha", 0) * f64::from(d.int("kinds", c))
        };
        (0..FEATURES).map(one).collect()
    });
    run("channels_of_the_rows_own", &check);
}

#[test]
fn sums_over_channels_and_of_channels() {
    let body = "let s = atoms.of(i); let mut t = [0.0; Feature]; let mut norm = 0.0; \
                for c in Feature { t[c] += f[i][c] * w[c]; norm += f[i][c] * f[i][c]; if f[i][c] < 0.3 { continue; } t[c] -= a[i] * \
                g[s][c]; } \
                for k in 0..n { for c in Feature { t[c] += sin(f[i][c]) * (k as Real) * norm; } } \
                let mut u = [0.0; Feature]; if a[i] > 1.0 { for c in Feature { u[c] += t[c] * t[c] / (1.0 + norm); } } \
                let mut e = 0.0; for c in Feature { e += u[c] * w[c] + t[c]; } \
                for c in Feature { out[i][c] = t[c] / (2.0 + norm) + e * u[c]; }";
    let check = check(&format!("{ROWS} out: &mut [[Real; Feature]; Atom]"), body).value(|d, i| {
        let (f, a) = (|c| feature(d, "f", i, c), d.real("a", i));
        let norm: f64 = (0..FEATURES).map(|c| f(c) * f(c)).sum();
        let t: Vec<f64> = (0..FEATURES)
            .map(|c| {
                let less = if f(c) < 0.3 { 0.0 } else { a * feature(d, "g", d.system(i), c) };
                f(c) * d.real("w", c) - less + 3.0 * f(c).sin() * norm
            })
            .collect();
        let u = |c: usize| if a > 1.0 { t[c] * t[c] / (1.0 + norm) } else { 0.0 };
        let e: f64 = (0..FEATURES).map(|c| u(c) * d.real("w", c) + t[c]).sum();
        (0..FEATURES).map(|c| t[c] / (2.0 + norm) + e * u(c)).collect()
    });
    run("sums_over_channels_and_of_channels", &check);
}

#[test]
fn what_rows_add_to_channels() {
    let body = "let s = atoms.of(i); for c in Feature { total[s][c] += f[i][c] * f[i][c] * w[c] * a[i]; } \
                for c in Feature { if f[i][c] > 0.0 { norm[c] += sin(f[i][c]) * w[c]; } }";
    let outputs = "total: &mut [[Real; Feature]; System], norm: &mut [Real; Feature]";
    let check = check(&format!("{ROWS} {outputs}"), body).total(|d| {
        let mut total = vec![0.0; 2 * FEATURES];
        for i in 0..10 {
            for c in 0..FEATURES {
                total[FEATURES * d.system(i) + c] +=
                    feature(d, "f", i, c).powi(2) * d.real("w", c) * d.real("a", i);
            }
        }
        total
    });
    run("what_rows_add_to_channels", &check);
}

/// Radial functions of a pair, a weight for each: the channels are summed within a loop over pairs.
#[test]
fn channels_in_a_loop_over_pairs() {
    let check = super::pairs(
        "w: &[Real; Basis], centres: &[Real; Basis], f: &[[Real; Basis]; Atom],",
        "let mut q = [0.0; Basis]; let mut norm = 0.0;",
        "let mut t = 0.0; if r < cutoff { for c in Basis { let x = r - centres[c]; let b = exp(-x * x); t += w[c] * b * f[i][c]; \
         q[c] += b * charges[j]; } norm += t * t; }",
        "let mut e = 0.0; for c in Basis { e += q[c] * q[c] * f[i][c]; } energy[i] = norm + e;",
    )
    .value(|d, i| {
        let (mut s, mut norm) = ([0.0; 3], 0.0);
        for (j, _, r) in d.pairs(i) {
            if r < d.scalar("cutoff") {
                let mut t = 0.0;
                for (c, s) in s.iter_mut().enumerate() {
                    let b = (-(r - d.real("centres", c)).powi(2)).exp();
                    t += d.real("w", c) * b * d.real("f", 3 * i + c);
                    *s += b * d.real("charges", j);
                }
                norm += t * t;
            }
        }
        vec![norm + (0..3).map(|c| s[c] * s[c] * d.real("f", 3 * i + c)).sum::<f64>()]
    });
    run("channels_in_a_loop_over_pairs", &check);
}

/// A kernel over atoms and the points near them, with channels of both, of the pairs and of maps' elements.
fn aggregation(before: &str, inside: &str, after: &str) -> Check {
    let parameters = "i: Atom, positions: &[Vec3; Atom], points: &[Vec3; Point], f: &[[Real; Feature]; Point], g: &[[Real; \
                      Feature]; Atom], h: &[[Real; Feature]; Edge], t: &[[Real; Feature]; Element], w: &[Real; Feature], x: \
                      &[Real; Point], cell: &[Mat3; System], sigma: &Real, cutoff: Real, atoms: &Batch<Atom, System>, near: \
                      &Pairs<Atom, Point, Edge>, kind: &Map<Point, Element>, own: &Map<Atom, Element>, out: &mut [[Real; \
                      Feature]; Atom]";
    let body = format!(
        "let s = atoms.of(i); {before} for (j, shift, p) in near.row(i) {{ let d = points[j] - positions[i] + shift * \
         cell[s]; let r = length(d); {inside} }} {after}"
    );
    check(parameters, &body)
}

#[test]
fn normalised_aggregation() {
    let check = aggregation(
        "let mut e = [0.0; Feature]; let mut norm = 0.0;",
        "if r >= cutoff { continue; } let w = exp(-r * sigma * sigma); norm += w; for c in Feature { e[c] += w * f[j][c]; }",
        "for c in Feature { out[i][c] = e[c] / (norm + 0.1); }",
    );
    run("normalised_aggregation", &check);
}

/// Outputs of a row that depend on its sums, in each channel and in all together.
#[test]
fn aggregation_of_products() {
    let check = aggregation(
        "let mut e = [0.0; Feature]; let mut q = [0.0; Feature]; let mut m = 0.0;",
        "let mut dot = 0.0; for c in Feature { dot += f[j][c] * g[i][c]; } let u = x[j] / (1.0 + r * r); m += u * dot; for c in \
         Feature { e[c] += sin(dot) * f[j][c] * w[c]; q[c] += h[p][c] * u + t[kind.of(j)][c] * r; }",
        "for c in Feature { out[i][c] = e[c] * q[c] + m * g[i][c] * t[own.of(i)][c] * e[c]; }",
    );
    run("aggregation_of_products", &check);
}

/// A full list: both sides have the pair.
#[test]
fn features_of_partners() {
    let check = super::pairs(
        "f: &[[Real; Feature]; Atom], w: &[Real; Feature],",
        "let mut e = 0.0;",
        "if r < cutoff { let mut dot = 0.0; for c in Feature { dot += f[i][c] * f[j][c] * w[c]; } e += dot * exp(-r); }",
        "energy[i] = e * charges[i];",
    );
    run("features_of_partners", &check);
    let check = super::pairs(
        "f: &[[Real; Feature]; Atom],",
        "let mut q = [0.0; Feature];",
        "if r < cutoff { for c in Feature { q[c] += exp(-r) * f[j][c] * charges[j]; } }",
        "let mut e = 0.0; for c in Feature { e += q[c] * q[c] * f[i][c]; } energy[i] = e * charges[i];",
    );
    run("features_of_partners, whose sums go on", &check);
}

#[test]
fn features_of_half_lists_and_of_members() {
    let parameters = "i: Atom, f: &[[Real; Feature]; Atom], z: &[[Real; Feature]; Wave], y: &[Real; Wave], w: &[Real; \
                      Feature], x: &[Real; Atom], atoms: &Batch<Atom, System>, waves: &Batch<Wave, System>, half: \
                      &Pairs<Atom>, out: &mut [[Real; Feature]; Atom]";
    let half = "let mut e = [0.0; Feature]; for (j, shift) in half.row(i) { for c in Feature { e[c] += x[j] * f[j][c] * \
                f[i][c]; } } for c in Feature { out[i][c] = e[c] * w[c]; }";
    run("features_of_half_lists", &check(parameters, half).without_full_lists());
    let members = "let mut e = [0.0; Feature]; let mut n = 0.0; for k in waves.members(atoms.of(i)) { let mut t = 0.0; for c in \
                   Feature { t += z[k][c] * f[i][c]; } n += cos(t) * y[k]; for c in Feature { e[c] += z[k][c] * sin(t) * y[k]; } \
                   } for c in Feature { out[i][c] = e[c] * e[c] + n * w[c]; }";
    run("features_of_members", &check(parameters, members).without_full_lists());
}

/// Softmax over the channels, for whose sake their largest value is looked for.
#[test]
fn the_largest_channel() {
    let body = "let mut m = 0.1; for c in Feature { m = max(m, f[i][c]); } let mut norm = 0.0; for c in Feature { norm += \
                exp(f[i][c] - m); } for c in Feature { out[i][c] = exp(f[i][c] - m) / norm + m * w[c]; }";
    run("the_largest_channel", &check(&format!("{ROWS} out: &mut [[Real; Feature]; Atom]"), body));
}

/// Vectors and matrices in channels: of the row's own, of its system, in sums that are read again, and in what rows add up.
#[test]
fn channels_of_vectors() {
    let parameters = "i: Atom, v: &[[Vec3; Feature]; Atom], u: &[[Vec2; Feature]; Atom], g: &[[Mat3; Feature]; System], f: \
                      &[[Real; Feature]; Atom], x: &[Vec3; Atom], w: &[Vec3; Feature], atoms: &Batch<Atom, System>,";
    let body = "let s = atoms.of(i); let mut t = [vec3(0.0, 0.0, 0.0); Feature]; let mut norm = 0.0; \
                for c in Feature { t[c] += cross(v[i][c], x[i]) * f[i][c]; let m = g[s][c]; t[c] -= w[c] * m + m * v[i][c]; \
                for k in 0..3 { norm += v[i][c][k] * m[k][2 - k]; } } \
                for c in Feature { out[i][c] = t[c] * (f[i][c] + u[i][c].y) - v[i][c] * sin(norm); \
                total[s][c] += v[i][c] * t[c][1]; }";
    let outputs = "out: &mut [[Vec3; Feature]; Atom], total: &mut [[Vec3; Feature]; System]";
    let cross = |a: [f64; 3], b: [f64; 3]| {
        [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    };
    let check = check(&format!("{parameters} {outputs}"), body).value(|d, i| {
        let x = d.vec3("x", i);
        let v = |c: usize| d.vec3("v", FEATURES * i + c);
        let g = |c: usize, k: usize, l: usize| d.real("g", 9 * (FEATURES * d.system(i) + c) + 3 * k + l);
        let norm: f64 = (0..FEATURES).flat_map(|c| (0..3).map(move |k| v(c)[k] * g(c, k, 2 - k))).sum();
        let one = |c: usize| {
            let (turned, w) = (cross(v(c), x), d.vec3("w", c));
            let factor = feature(d, "f", i, c) + d.real("u", 2 * (FEATURES * i + c) + 1);
            (0..3).map(move |k| {
                let wg: f64 = (0..3).map(|l| w[l] * g(c, l, k) + g(c, k, l) * v(c)[l]).sum();
                (turned[k] * feature(d, "f", i, c) - wg) * factor - v(c)[k] * norm.sin()
            })
        };
        (0..FEATURES).flat_map(one).collect()
    });
    run("channels_of_vectors", &check);
}

/// An aggregation of vectors: of the points, of the pairs, of maps' elements; outputs depend on the sums of a row.
#[test]
fn aggregation_of_vectors() {
    let parameters = "i: Atom, positions: &[Vec3; Atom], points: &[Vec3; Point], f: &[[Real; Feature]; Point], v: &[[Vec3; \
                      Feature]; Point], h: &[[Vec2; Feature]; Edge], t: &[[Vec3; Feature]; Element], g: &[[Vec3; Feature]; \
                      Atom], cell: &[Mat3; System], cutoff: Real, atoms: &Batch<Atom, System>, near: &Pairs<Atom, Point, \
                      Edge>, kind: &Map<Point, Element>, out: &mut [[Vec3; Feature]; Atom]";
    let body = "let s = atoms.of(i); let mut e = [vec3(0.0, 0.0, 0.0); Feature]; let mut q = [0.0; Feature]; \
                for (j, shift, p) in near.row(i) { let d = points[j] - positions[i] + shift * cell[s]; let r = length(d); if r >= \
                cutoff { continue; } let w = exp(-r); for c in Feature { e[c] += d * (w * f[j][c]) + v[j][c] * h[p][c].x; q[c] += \
                dot(t[kind.of(j)][c], d) * v[j][c].z; } } \
                for c in Feature { out[i][c] = e[c] * q[c] + g[i][c] * dot(e[c], g[i][c]); }";
    run("aggregation_of_vectors", &check(parameters, body));
}

/// Equivariant messages over a full list and over half of it: both sides have the pair.
#[test]
fn vectors_of_partners() {
    let features = "f: &[[Real; Feature]; Atom], v: &[[Vec3; Feature]; Atom],";
    let check = super::pairs(
        features,
        "let mut q = [vec3(0.0, 0.0, 0.0); Feature];",
        "if r < cutoff { for c in Feature { q[c] += (v[j][c] - v[i][c]) * (exp(-r) * f[j][c]); } }",
        "let mut e = 0.0; for c in Feature { e += dot(q[c], q[c]) * f[i][c]; } energy[i] = e * charges[i];",
    );
    run("vectors_of_partners", &check);
    let parameters = "i: Atom, v: &[[Vec3; Feature]; Atom], x: &[Real; Atom], half: &Pairs<Atom>, out: &mut [[Vec3; Feature]; \
                      Atom]";
    let half = "let mut e = [vec3(0.0, 0.0, 0.0); Feature]; for (j, shift) in half.row(i) { for c in Feature { e[c] += \
                cross(v[j][c], v[i][c]) * x[j]; } } for c in Feature { out[i][c] = e[c] * e[c][0]; }";
    let check = self::check(parameters, half).without_full_lists();
    run("vectors_of_half_lists", &check);
}

/// Channels by their numbers: of the row's own, of its system, of maps' elements, beside a loop over all channels, and in
/// what rows add up.
#[test]
fn channels_by_their_numbers() {
    let body = "let s = atoms.of(i); let x = f[i][0] * f[i][4] + sin(g[s][2]) * a[i]; let mut t = 0.0; for c in Feature { t += \
                f[i][c] * f[i][1] * w[c]; } if x > 0.3 { total[s][3] += x * f[i][2]; } total[s][0] += t; \
                for c in Feature { out[i][c] = f[i][c] * (x + t) + f[i][2]; }";
    let outputs = "out: &mut [[Real; Feature]; Atom], total: &mut [[Real; Feature]; System]";
    let check = check(&format!("{ROWS} {outputs}"), body).value(|d, i| {
        let f = |c: usize| feature(d, "f", i, c);
        let x = f(0) * f(4) + feature(d, "g", d.system(i), 2).sin() * d.real("a", i);
        let t: f64 = (0..FEATURES).map(|c| f(c) * f(1) * d.real("w", c)).sum();
        (0..FEATURES).map(|c| f(c) * (x + t) + f(2)).collect()
    });
    run("channels_by_their_numbers", &check);
}

#[test]
fn channels_of_partners_by_their_numbers() {
    let check = super::pairs(
        "f: &[[Real; Feature]; Atom], v: &[[Vec3; Feature]; Atom],",
        "let mut e = 0.0;",
        "if r < cutoff { let d = v[j][2] - v[i][2]; e += f[j][1] * f[i][3] * exp(-dot(d, d) * r) + f[j][4] * v[j][0].y; }",
        "energy[i] = e * charges[i] + e * e * f[i][3];",
    )
    .value(|d, i| {
        let f = |i: usize, c: usize| feature(d, "f", i, c);
        let v = |i: usize, c: usize| d.vec3("v", FEATURES * i + c);
        let near = d.pairs(i).into_iter().filter(|p| p.2 < d.scalar("cutoff"));
        let e: f64 = near
            .map(|(j, _, r)| {
                let square: f64 = (0..3).map(|k| (v(j, 2)[k] - v(i, 2)[k]).powi(2)).sum();
                f(j, 1) * f(i, 3) * (-square * r).exp() + f(j, 4) * v(j, 0)[1]
            })
            .sum();
        vec![e * d.real("charges", i) + e * e * f(i, 3)]
    });
    run("channels_of_partners_by_their_numbers", &check);
    let check = aggregation(
        "let mut e = [0.0; Feature]; let mut q = 0.0;",
        "let u = h[p][2] * f[j][0] + t[kind.of(j)][1] * g[i][4]; q += u * h[p][2]; for c in Feature { e[c] += u * f[j][c] + \
         h[p][c]; }",
        "for c in Feature { out[i][c] = e[c] * q + t[own.of(i)][3] * w[c]; }",
    );
    run("channels_of_pairs_by_their_numbers", &check);
    let parameters = "i: Atom, f: &[[Real; Feature]; Atom], z: &[[Real; Feature]; Wave], x: &[Real; Atom], atoms: &Batch<Atom, \
                      System>, waves: &Batch<Wave, System>, half: &Pairs<Atom>, out: &mut [Real; Atom]";
    let body = "let mut e = 0.0; for (j, shift) in half.row(i) { e += f[j][1] * f[i][0] * x[j]; } let mut n = 0.0; for k in \
                waves.members(atoms.of(i)) { n += sin(z[k][3] * f[i][2]); } out[i] = e * e + n;";
    run("channels_of_members_by_their_numbers", &self::check(parameters, body).without_full_lists());
}
