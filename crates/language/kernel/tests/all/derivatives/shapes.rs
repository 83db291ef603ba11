//! Vectors and matrices of two and four, and components by their numbers.

use super::harness::{Check, Data};
use super::{kernel, run};

fn vector<const N: usize>(d: &Data<'_>, name: &str, row: usize) -> [f64; N] {
    std::array::from_fn(|k| d.real(name, N * row + k))
}

#[test]
fn vectors_of_two_and_four() {
    let source = "
        #[func] fn turned(v: Vec2, angle: Real) -> Vec2 {
            v * mat2(vec2(cos(angle), sin(angle)), vec2(-sin(angle), cos(angle)))
        }
        #[func] fn square(m: Mat2) -> Mat2 { m * m + m * 0.5 - m / 3.0 }
        #[kernel] fn k(i: Atom, u: &[Vec2; Atom], q: &[Vec4; Atom], m: &[Mat2; System], g: &Mat2, h: &Vec4, e: \
                       &[Zero<Mat2>; System], s: &Real, a: &[Real; Atom], atoms: &Batch<Atom, System>, x: &mut [Vec2; Atom], \
                       y: &mut [Vec4; Atom], z: &mut [Mat2; Atom], t: &mut [Real; Atom]) {
            let b = atoms.of(i);
            let v = turned(u[i] + u[i] * e[b], a[i]) * s;
            let p = if a[i] < 1.1 { q[i] + h } else { -q[i] / (2.0 + dot(h, h)) };
            let n = if a[i] < 0.9 { square(m[b]) } else { m[b] * g };
            x[i] = v * n;
            y[i] = vec4(p.w, p.z, v.x, v.y) * length(q[i] - h * s);
            z[i] = mat2(row(n, 1), v) * g;
            t[i] = dot(p, q[i]) + n[0][1] * q[i][3] - g[1].x * length(v);
        }";
    let check = Check::new(source).value(|d, i| {
        let (b, a, s) = (d.system(i), d.real("a", i), d.real("s", 0));
        let [u0, u1]: [f64; 2] = vector(d, "u", i);
        let (m, g): ([f64; 4], [f64; 4]) = (vector(d, "m", b), vector(d, "g", 0));
        let v = [(u0 * a.cos() - u1 * a.sin()) * s, (u0 * a.sin() + u1 * a.cos()) * s];
        let product = |p: &[f64; 4], q: &[f64; 4]| -> [f64; 4] {
            std::array::from_fn(|k| p[k / 2 * 2] * q[k % 2] + p[k / 2 * 2 + 1] * q[k % 2 + 2])
        };
        let n = if a < 0.9 {
            let m2 = product(&m, &m);
            std::array::from_fn(|k| m2[k] + m[k] * 0.5 - m[k] / 3.0)
        } else {
            product(&m, &g)
        };
        vec![v[0] * n[0] + v[1] * n[2], v[0] * n[1] + v[1] * n[3]]
    });
    run("vectors_of_two_and_four", &check);
}

#[test]
fn sums_of_vectors_and_matrices_over_pairs() {
    let check = super::pairs(
        "w: &[Vec4; Atom], n: &[Mat2; Atom],",
        "let mut p = vec2(0.0, 0.0); let mut q = w[i]; let mut m = mat2(p, p); let mut c = cell[s] * 0.1;",
        "if r < cutoff { p += vec2(d.x, r) * n[j]; q -= w[j] * r; m += n[j] * charges[i]; c += mat3(d, d, d) * r; }",
        "let mut t = 0.0; for k in 0..4 { t += q[k] * w[i][k]; } let f = c[2]; for k in 0..3 { t += f[k] * positions[i][k]; } \
         energy[i] = dot(p * m, row(n[i], 0)) + t;",
    )
    .value(|d, i| {
        let (mut p, mut q, mut m) = ([0.0; 2], vector::<4>(d, "w", i), [0.0; 4]);
        let cell = |k: usize, c: usize| d.real("cell", 9 * d.system(i) + 3 * k + c);
        let mut f: [f64; 3] = std::array::from_fn(|c| 0.1 * cell(2, c));
        let (x, charge) = (d.vec3("positions", i), d.real("charges", i));
        for (j, s, r) in d.pairs(i) {
            if r >= d.scalar("cutoff") {
                continue;
            }
            let y = d.vec3("positions", j);
            let delta: [f64; 3] =
                std::array::from_fn(|c| y[c] - x[c] + (0..3).map(|k| f64::from(s[k]) * cell(k, c)).sum::<f64>());
            let (n, w): ([f64; 4], [f64; 4]) = (vector(d, "n", j), vector(d, "w", j));
            for c in 0..2 {
                p[c] += delta[0] * n[c] + r * n[2 + c];
            }
            for k in 0..4 {
                q[k] -= w[k] * r;
                m[k] += n[k] * charge;
            }
            for c in 0..3 {
                f[c] += delta[c] * r;
            }
        }
        let (n, w): ([f64; 4], [f64; 4]) = (vector(d, "n", i), vector(d, "w", i));
        let pm = [p[0] * m[0] + p[1] * m[2], p[0] * m[1] + p[1] * m[3]];
        let t: f64 = (0..4).map(|k| q[k] * w[k]).sum::<f64>() + (0..3).map(|c| f[c] * x[c]).sum::<f64>();
        vec![pm[0] * n[0] + pm[1] * n[1] + t]
    });
    run("sums_of_vectors_and_matrices_over_pairs", &check);
}

#[test]
fn components_by_their_numbers() {
    let parameters =
        "i: Atom, v: &[Vec3; Atom], m: &[Mat3; Atom], shift: &[IVec3; Atom], out: &mut [Real; Atom]";
    let body = "out[i] = v[i][0] * m[i][2][1] - sin(v[i][2]) * shift[i][1] + (v[i] * m[i])[1];";
    let check = Check::new(&kernel(parameters, body)).value(|d, i| {
        let (v, m) = (d.vec3("v", i), |r: usize, c: usize| d.real("m", 9 * i + 3 * r + c));
        let product: f64 = (0..3).map(|k| v[k] * m(k, 1)).sum();
        vec![v[0] * m(2, 1) - v[2].sin() * f64::from(d.int("shift", 3 * i + 1)) + product]
    });
    run("components_by_their_numbers", &check);
}
