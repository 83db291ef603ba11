//! Kernels over every pattern of access, with formulas by chance.

use super::Random;

const FUNCTIONS: &str = "#[func] fn bell(u: Real, v: Real) -> Real { exp(-0.2 * u * u) * v }
    #[derivative(bell)] fn dbell(u: Real, v: Real) -> (Real, Real) { (-0.4 * u * bell(u, v), bell(u, 1.0)) }";

struct Writer(Random);

impl Writer {
    fn pick(&mut self, n: usize) -> usize {
        (self.0.next() * n as f64) as usize
    }

    fn one_of(&mut self, of: &[&str]) -> String {
        of[self.pick(of.len())].to_string()
    }

    /// A smooth formula of what there is, of moderate size.
    fn formula(&mut self, depth: usize, leaves: &[&str]) -> String {
        if depth == 0 {
            return self.one_of(leaves);
        }
        let (u, below) = (self.formula(depth - 1, leaves), self.pick(depth));
        let v = self.formula(below, leaves);
        match self.pick(14) {
            0 => format!("sin({u})"),
            1 => format!("cos(0.5 * ({u}) + {v})"),
            2 => format!("bell({u}, {v})"),
            3 => format!("sqrt(1.5 + ({u}) * ({u}))"),
            4 => format!("(({u}) / (1.5 + ({v}) * ({v})))"),
            5 => format!("erfc(0.3 * ({u}))"),
            6 => format!("log(2.0 + pow({u}, 2))"),
            7 => format!("({u} - 0.8 * ({v}))"),
            8 => format!("tanh({u})"),
            9 => format!("erf(0.7 * ({u}))"),
            10 => format!("atan2({u}, 1.5 + ({v}) * ({v}))"),
            11 => format!("acos(0.6 * sin({u}))"),
            12 => format!("asin(0.5 * tanh({u}))"),
            _ => format!("(0.5 * ({u}) * ({v}))"),
        }
    }

    /// A smooth formula of vectors of two, by a matrix and real numbers.
    fn vector(&mut self, depth: usize, leaves: &[&str], matrix: &str, reals: &[&str]) -> String {
        if depth == 0 {
            return self.one_of(leaves);
        }
        let (u, v) = (self.vector(depth - 1, leaves, matrix, reals), self.one_of(leaves));
        let (x, y) = (self.formula(1, reals), self.one_of(reals));
        match self.pick(6) {
            0 => format!("({u} - {v} * 0.7)"),
            1 => format!("({u} * {matrix})"),
            2 => format!("(0.4 * ({x}) * {u})"),
            3 => format!("vec2({x}, ({u})[1])"),
            4 => format!("(-{u} / (1.5 + ({y}) * ({y})))"),
            _ => format!("({u} * ({matrix} + mat2({v}, vec2({y}, 0.3)) * 0.5))"),
        }
    }
}

/// The kernel of this number.
pub(crate) fn kernel(seed: u64) -> String {
    let mut w = Writer(Random::new(seed));
    w.0.next();
    let text = match seed % 5 {
        0 => near(&mut w),
        1 => bonds(&mut w),
        2 => segments(&mut w),
        3 => members(&mut w),
        _ => normalised(&mut w),
    };
    format!("{FUNCTIONS} {text}")
}

/// The kernel of this number among those of vectors and matrices of two and four: of atoms and systems, of their partners
/// or the members of their systems, and of pairs.
pub(crate) fn flat(seed: u64) -> String {
    let mut w = Writer(Random::new(seed));
    w.0.next();
    let over_pairs = seed.is_multiple_of(2);
    let reals = ["q[j].w", "q[i][1]", "r", "dot(x[j], d)", "row(h[s], 1).x", "dot(q[j], c)"];
    let mut vectors = vec!["d", "x[j]", "x[i]", "row(h[s], 0)"];
    let (list, each, entry) = if over_pairs {
        vectors.push("f[p]");
        let list = w.one_of(&["half", "pairs"]);
        let parameters = format!(
            "f: &[Vec2; Bond], atoms: &Batch<Atom, System>, {list}: &Pairs<Atom, Atom, Bond>, weight: &mut [Vec2; Bond],"
        );
        let u = w.vector(1, &vectors, "h[s]", &reals);
        (parameters, format!("(j, _, p) in {list}.row(i)"), format!("weight[p] = {u};"))
    } else {
        ("atoms: &Batch<Atom, System>,".into(), "j in atoms.members(s)".into(), String::new())
    };
    let (e, t) = (w.formula(2, &reals), w.formula(1, &reals));
    let (u, v) = (w.vector(2, &vectors, "h[s]", &reals), w.vector(1, &vectors, "h[s]", &reals));
    let after = ["a.x", "b[3]", "m[0][1]", "dot(b, c)"];
    let (out, four) = (w.formula(1, &after), w.formula(1, &after));
    let skip = w.one_of(&["if r > 1.8 { continue; }", ""]);
    format!(
        "{FUNCTIONS} #[kernel] fn k(i: Atom, x: &[Vec2; Atom], q: &[Vec4; Atom], h: &[Mat2; System], g: &[Zero<Mat2>; \
         System], c: &Vec4, {list} out: &mut [Vec2; Atom], four: &mut [Vec4; Atom], total: &mut [Mat2; System]) {{ let s = \
         atoms.of(i); let mut a = vec2(0.1, 0.2); let mut b = q[i] * 0.5; let mut m = h[s]; for {each} {{ let d = x[j] - \
         x[i]; let d = d + d * g[s]; let r = sqrt(0.5 + dot(d, d)); {skip} a += {u} * (0.3 * {e}); b -= (q[j] + c) * (0.2 * \
         {t}); m += mat2({v}, d) * 0.1; {entry} }} let n = if q[i].x > 0.1 {{ m * m }} else {{ m }}; out[i] = a * n + x[i] * \
         (0.3 * {out}); four[i] = vec4(b.w, {four}, a.y, b.x); total[s] += n * 0.1; }}"
    )
}

/// Points near atoms: arrays of pairs in and out, sums that are used nonlinearly.
fn near(w: &mut Writer) -> String {
    let inside = ["x[j]", "a[i]", "r", "factor[p]", "d.y", "sigma", "dot(direction[p], d)", "0.7"];
    let (e, f, g) = (w.formula(2, &inside), w.formula(2, &inside), w.formula(1, &inside));
    let after = ["e", "f", "a[i]", "sigma"];
    let (out, total) = (w.formula(2, &after), w.formula(1, &after));
    let skip = w.one_of(&["if r > 2.2 { continue; }", "", "if kind[j] > 1.5 { continue; }"]);
    format!(
        "#[kernel] fn k(i: Atom, positions: &[Vec3; Atom], points: &[Vec3; Point], x: &[Real; Point], a: &[Real; Atom], \
         factor: &[Real; Edge], direction: &[Vec3; Edge], kind: &[i32; Point], cell: &[Mat3; System], strain: \
         &[Zero<Mat3>; System], sigma: &Real, atoms: &Batch<Atom, System>, those: &Batch<Point, System>, near: \
         &Pairs<Atom, Point, Edge>, out: &mut [Real; Atom], weight: &mut [Real; Edge], total: &mut [Real; System]) {{ \
         let s = atoms.of(i); let mut e = 0.1; let mut f = a[i]; for (j, shift, p) in near.row(i) {{ let d = points[j] - \
         positions[i] + shift * cell[s]; let d = d + d * strain[s]; let r = length(d); {skip} e += 0.3 * {e}; f += 0.2 * \
         {f}; weight[p] = {g}; }} out[i] = {out}; total[s] += 0.3 * {total}; }}"
    )
}

/// Pairs of a list that holds each once, with parameters by type of atom and factors by pair.
fn bonds(w: &mut Writer) -> String {
    let inside = [
        "x[j]",
        "x[i]",
        "r",
        "epsilon[element.of(i)]",
        "epsilon[element.of(j)]",
        "table[element.of(i)][element.of(j)]",
        "table[element.of(j)][element.of(i)]",
        "table[element.of(j)][element.of(j)]",
        "factor[p]",
        "d.z",
        "alpha[s]",
    ];
    let (e, f) = (w.formula(2, &inside), w.formula(2, &inside));
    let after = ["e", "epsilon[element.of(i)]", "x[i]", "table[element.of(i)][element.of(i)]"];
    let out = w.formula(2, &after);
    let list = w.one_of(&["half", "pairs"]);
    format!(
        "#[kernel] fn k(i: Atom, positions: &[Vec3; Atom], x: &[Real; Atom], epsilon: &[Real; Element], table: &[[Real; \
         Element]; Element], factor: &[Real; Bond], alpha: &[Real; System], cell: &[Mat3; System], element: &Map<Atom, Element>, atoms: &Batch<Atom, System>, \
         {list}: &Pairs<Atom, Atom, Bond>, out: &mut [Real; Atom], one: &mut Real) {{ let s = atoms.of(i); let mut e = \
         0.0; let mut f = 0.5; for (j, shift, p) in {list}.row(i) {{ let d = positions[j] - positions[i] + shift * \
         cell[s]; let r = length(d); if r < 2.1 {{ e += 0.3 * {e}; }} else {{ f += 0.2 * {f}; }} }} out[i] = {out} + f; \
         *one += 0.1 * e; }}"
    )
}

/// Sorted segments: sums, the largest and the smallest of each, and what depends on them.
fn segments(w: &mut Writer) -> String {
    let rows = ["x[k]", "a[k]", "alpha[s]", "x[k] * a[k]", "a[k] - 0.4"];
    let (score, term, again) = (w.formula(2, &rows), w.formula(2, &rows), w.formula(1, &rows));
    let after = ["m", "e", "alpha[s]", "log(w)"];
    let out = w.formula(2, &after);
    let pick = w.one_of(&["max", "min"]);
    format!(
        "#[kernel] fn k(s: System, x: &[Real; Atom], a: &[Real; Atom], alpha: &[Real; System], atoms: &Batch<Atom, \
         System>, out: &mut [Real; System]) {{ let mut m = alpha[s]; let mut e = 0.0; for k in atoms.members(s) {{ m = \
         {pick}(m, {score}); e += 0.3 * {term}; }} let mut w = 1.0; for k in atoms.members(s) {{ w += exp(-0.1 * ({again} \
         - m) * ({again} - m)); }} out[s] = {out} + w; }}"
    )
}

/// Every row with every member of its system.
fn members(w: &mut Writer) -> String {
    let inside = ["x[k]", "y[i]", "u[k].x", "dot(u[k], u[k])", "alpha[s]", "y[i] * x[k]"];
    let (e, f) = (w.formula(2, &inside), w.formula(2, &inside));
    let after = ["e", "y[i]", "alpha[s]", "f"];
    let (out, total) = (w.formula(2, &after), w.formula(1, &after));
    format!(
        "#[kernel] fn k(i: Wave, y: &[Real; Wave], x: &[Real; Atom], u: &[Vec3; Atom], alpha: &[Real; System], n: i32, \
         atoms: &Batch<Atom, System>, waves: &Batch<Wave, System>, out: &mut [Real; Wave], total: &mut [Real; System]) {{ \
         let s = waves.of(i); let mut e = 0.0; let mut f = 0.2; for k in atoms.members(s) {{ let mut t = 0.0; for m in \
         1..n {{ t += sin(x[k] * (m as Real)); }} e += 0.2 * {e} + 0.1 * t; f += 0.1 * {f}; }} out[i] = {out}; total[s] \
         += 0.2 * {total}; }}"
    )
}

/// Softmax and normalised sums, of a full list or of points nearby.
fn normalised(w: &mut Writer) -> String {
    let (score, value) = (["x[j]", "x[i]", "r", "alpha[s]"], ["x[j]", "d.x", "r", "alpha[s]", "x[i]"]);
    let (score, value) = (w.formula(1, &score), w.formula(2, &value));
    let shifted = w.pick(2) == 0;
    let (find, top) = if shifted {
        let loop_ = format!(
            "let mut m = -1.0e30; for (j, shift) in pairs.row(i) {{ let d = positions[j] - positions[i] + shift * cell[s]; \
             let r = length(d); m = max(m, {score}); }} let top = stop_gradient(m);"
        );
        // What is subtracted cancels, but for a floor of the weights' sum.
        (loop_, " - top")
    } else {
        (String::new(), "")
    };
    let floor = if shifted { "1.0e-30" } else { "0.01" };
    format!(
        "#[kernel] fn k(i: Atom, positions: &[Vec3; Atom], x: &[Real; Atom], alpha: &[Real; System], cell: &[Mat3; \
         System], atoms: &Batch<Atom, System>, pairs: &Pairs<Atom>, out: &mut [Real; Atom]) {{ let s = atoms.of(i); \
         {find} let mut f = 0.0; let mut w = 0.0; for (j, shift) in pairs.row(i) {{ let d = positions[j] - positions[i] + \
         shift * cell[s]; let r = length(d); let t = exp({score}{top}); w += t; f += t * {value}; }} out[i] = f / (w + \
         {floor}) * x[i]; }}"
    )
}
