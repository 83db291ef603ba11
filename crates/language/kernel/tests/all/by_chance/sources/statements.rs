//! Random kernels: blocks within blocks, sums read and added to wherever the language allows it.

use super::Random;
use std::collections::HashMap;
use std::fmt::Write;

/// Parameters of all kernels; `F` is the element of `f`.
const PARAMETERS: &str = "i: Atom, a: &[Real; Atom], b: &[Real; Atom], x: &[Real; Atom], f: &[[F; \
     Feature]; Atom], u: &[Real; Feature], y: &[Real; Wave], alpha: &[Real; \
     System], g: &Real, positions: &[Vec3; Atom], cell: &[Mat3; System], kinds: &[i32; Atom], n: i32, atoms: &Batch<Atom, \
     System>, waves: &Batch<Wave, System>, pairs: &Pairs<Atom>, out: &mut [Real; Atom], total: &mut [Real; System], one: \
     &mut Real";

const FUNCTIONS: &str = "#[func] fn bell(u: Real, v: Real) -> Real { exp(-0.2 * u * u) * v }
    #[derivative(bell)] fn dbell(u: Real, v: Real) -> (Real, Real) { (-0.4 * u * bell(u, v), bell(u, 1.0)) }
    #[func] fn root(u: Real) -> Real { sqrt(1.5 + u * u) }";

#[derive(Clone, Copy, PartialEq)]
enum Data {
    None,
    Pairs,
    Members,
}

#[derive(Clone, Copy, PartialEq)]
enum Use {
    Read,
    Changed,
}

struct Scope {
    reals: Vec<String>,
    ints: Vec<String>,
    is_loop: bool,
    branches: bool,
}

struct Writer {
    r: Random,
    text: String,
    scopes: Vec<Scope>,
    /// Name, loops open at its declaration, scope.
    sums: Vec<(String, usize, usize)>,
    /// The uses of outer sums in each open loop.
    loops: Vec<HashMap<String, Use>>,
    data: Data,
    names: usize,
    data_loops: usize,
    /// Whether a loop over channels is open, and whether their sums `h` are whole.
    channel: bool,
    whole: bool,
    /// Whether the channels `f` of rows are vectors.
    vectors: bool,
}

impl Writer {
    fn pick(&mut self, n: usize) -> usize {
        (self.r.next() * n as f64) as usize
    }

    fn one_of(&mut self, of: &[&str]) -> String {
        of[self.pick(of.len())].to_string()
    }

    fn name(&mut self) -> String {
        // Now and then a name again, to shadow.
        if self.names > 2 && self.pick(6) == 0 {
            return format!("v{}", self.pick(self.names));
        }
        self.names += 1;
        format!("v{}", self.names - 1)
    }

    fn may(&mut self, sum: &(String, usize, usize), how: Use) -> bool {
        self.loops[sum.1..].iter().all(|l| l.get(&sum.0).is_none_or(|u| *u == how))
    }

    fn leaf(&mut self) -> String {
        let sums: Vec<_> = self.sums.clone().into_iter().filter(|s| self.may(s, Use::Read)).collect();
        let reals: Vec<String> = self.scopes.iter().flat_map(|s| s.reals.clone()).collect();
        let ints: Vec<String> = self.scopes.iter().flat_map(|s| s.ints.clone()).collect();
        match self.pick(8) {
            0..3 if !sums.is_empty() => {
                let sum = &sums[self.pick(sums.len())];
                for l in &mut self.loops[sum.1..] {
                    l.insert(sum.0.clone(), Use::Read);
                }
                sum.0.clone()
            }
            0..5 if !reals.is_empty() => reals[self.pick(reals.len())].clone(),
            5 if !ints.is_empty() => format!("({} as Real)", ints[self.pick(ints.len())]),
            6 | 7 if self.channel => {
                let mut of = vec![if self.vectors { "f[i][c].y" } else { "f[i][c]" }, "u[c]"];
                if self.whole {
                    of.push("h[c]");
                }
                if self.data == Data::Pairs {
                    of.push(if self.vectors { "f[j][c].z" } else { "f[j][c]" });
                }
                self.one_of(&of)
            }
            6 if self.data == Data::Pairs => self.one_of(&[
                "a[j]",
                "x[j]",
                "r",
                "d.x",
                "dot(d, d)",
                if self.vectors { "f[j][2].x - x[i]" } else { "f[j][2] - x[i]" },
                "shift.x",
                "floor(x[j])",
            ]),
            6 if self.data == Data::Members => self.one_of(&["y[k]", "y[k]", "alpha[waves.of(k)]"]),
            _ => self.one_of(&[
                "a[i]",
                "b[i]",
                "x[i]",
                if self.vectors { "f[i][1].z" } else { "f[i][1]" },
                "alpha[s]",
                "g",
                "0.7",
                "kinds[i]",
                "floor(x[i])",
            ]),
        }
    }

    fn expr(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.leaf();
        }
        let (u, v) = (self.expr(depth - 1), self.pick(depth));
        let v = self.expr(v);
        match self.pick(17) {
            0 => format!("sin({u})"),
            1 => format!("cos(0.5 * ({u}))"),
            2 => format!("bell({u}, {v})"),
            3 => format!("root({u})"),
            4 => format!("(({u}) / (1.5 + ({v}) * ({v})))"),
            5 => format!("erfc(0.3 * ({u}))"),
            6 => format!("log(2.0 + pow({u}, 2))"),
            7 => format!("pow(1.1 + ({u}) * ({u}) / 9.0, 0.7)"),
            8 => {
                let c = self.condition();
                format!("(if {c} {{ {u} }} else {{ {v} }})")
            }
            9 | 10 => format!("({u} + {v})"),
            11 => format!("({u} - 0.8 * ({v}))"),
            12 => format!("tanh({u})"),
            13 => format!("erf(0.7 * ({u}))"),
            14 => format!("atan2(1.2 + ({v}) * ({v}), {u})"),
            15 => format!("(acos(0.6 * cos({u})) - asin(0.5 * sin({v})))"),
            _ => format!("(0.5 * ({u}) * ({v}))"),
        }
    }

    fn condition(&mut self) -> String {
        let ints: Vec<String> = self.scopes.iter().flat_map(|s| s.ints.clone()).collect();
        match self.pick(8) {
            0 | 1 if !ints.is_empty() => format!("{} < {}", ints[self.pick(ints.len())], self.pick(4)),
            2 | 3 if self.data == Data::Pairs => {
                self.one_of(&["r < 1.5", "kinds[j] == 1.0", "kinds[i] < kinds[j]", "r > 2.1"])
            }
            2 if self.data == Data::Members => "y[k] > 0.1".into(),
            4 => {
                let c = self.condition();
                format!("!({c})")
            }
            5 => {
                let (c, d) = (self.condition(), self.condition());
                format!("({c}) {} ({d})", if self.pick(2) == 0 { "&&" } else { "||" })
            }
            _ => self.one_of(&["x[i] > 0.2", "kinds[i] == 1.0", "kinds[i] > 0.5", "x[i] < -0.3"]),
        }
    }

    fn open(&mut self, is_loop: bool) {
        let branches = !is_loop;
        self.scopes.push(Scope { reals: vec![], ints: vec![], is_loop, branches });
        if is_loop {
            self.loops.push(HashMap::new());
        }
    }

    fn close(&mut self) {
        let scope = self.scopes.pop().expect("opened");
        if scope.is_loop {
            self.loops.pop();
        }
        let depth = self.scopes.len();
        self.sums.retain(|s| s.2 < depth);
        self.text.push_str("} ");
    }

    fn shadow(&mut self, name: &str) {
        self.sums.retain(|s| s.0 != name);
        for s in &mut self.scopes {
            s.reals.retain(|r| r != name);
        }
    }

    fn block(&mut self, statements: usize, depth: usize) {
        for _ in 0..statements {
            self.statement(depth);
        }
    }

    fn statement(&mut self, depth: usize) {
        let in_loop = !self.loops.is_empty();
        match self.pick(17) {
            0 | 1 => {
                let (e, name) = (self.expr(2), self.name());
                // A name may come back only in its own block: a shadowed variable would be visible again after it.
                if self.names > 0 && self.known_outside(&name) {
                    return;
                }
                write!(self.text, "let {name} = {e}; ").expect("a string");
                self.shadow(&name);
                self.scopes.last_mut().expect("one is open").reals.push(name);
            }
            2 | 3 => {
                let (e, name) = (self.expr(1), self.name());
                if self.known_outside(&name) {
                    return;
                }
                write!(self.text, "let mut {name} = {e}; ").expect("a string");
                self.shadow(&name);
                self.sums.push((name, self.loops.len(), self.scopes.len() - 1));
            }
            4..8 => {
                let e = self.expr(2);
                let sums: Vec<_> =
                    self.sums.clone().into_iter().filter(|s| self.may(s, Use::Changed)).collect();
                if sums.is_empty() {
                    return;
                }
                let sum = &sums[self.pick(sums.len())];
                for l in &mut self.loops[sum.1..] {
                    l.insert(sum.0.clone(), Use::Changed);
                }
                let sign = if self.pick(3) == 0 { "-=" } else { "+=" };
                write!(self.text, "{} {sign} 0.3 * {e}; ", sum.0).expect("a string");
            }
            8 | 9 if depth > 0 => {
                let c = self.condition();
                write!(self.text, "if {c} {{ ").expect("a string");
                self.open(false);
                self.block(3, depth - 1);
                self.close();
                if self.pick(2) == 0 {
                    self.text.push_str("else { ");
                    self.open(false);
                    self.block(2, depth - 1);
                    self.close();
                }
            }
            10 if depth > 0 => {
                let m = format!("m{}", self.scopes.len());
                let lo = self.pick(3);
                write!(self.text, "for {m} in {lo}..n {{ ").expect("a string");
                self.open(true);
                self.scopes.last_mut().expect("opened").ints.push(m);
                self.block(3, depth - 1);
                self.close();
            }
            11 | 12
                if depth > 0
                    && self.data == Data::None
                    && !self.channel
                    && !self.scopes.iter().any(|s| s.branches)
                    && self.data_loops < 2 =>
            {
                self.data_loops += 1;
                if self.pick(3) == 0 && !in_loop {
                    self.data = Data::Members;
                    self.text.push_str("for k in waves.members(s) { ");
                } else {
                    self.data = Data::Pairs;
                    self.text.push_str(
                        "for (j, shift) in pairs.row(i) { let d = positions[j] - positions[i] + shift * cell[s]; let r = \
                         length(d); if r > 2.2 { continue; } ",
                    );
                }
                self.open(true);
                self.block(4, depth - 1);
                self.close();
                self.data = Data::None;
            }
            13 if self.scopes.last().is_some_and(|s| s.is_loop) => {
                let c = self.condition();
                write!(self.text, "if {c} {{ continue; }} ").expect("a string");
                self.scopes.last_mut().expect("one is open").branches = true;
            }
            14 | 15 if depth > 0 && !self.channel => {
                self.channel = true;
                self.text.push_str("for c in Feature { ");
                self.open(true);
                self.block(3, depth - 1);
                if !self.whole {
                    let e = self.expr(2);
                    write!(self.text, "h[c] += 0.3 * {e}; ").expect("a string");
                }
                self.close();
                self.channel = false;
            }
            // An array of sums, its elements being sums of their own.
            16 => {
                let (e, name) = (self.expr(1), format!("q{}", self.names));
                self.names += 1;
                let u = self.leaf();
                write!(
                    self.text,
                    "let mut {name} = [{e}, {u}]; for k in 0..2 {{ {name}[k] += 0.1 * {name}[1 - k]; }} "
                )
                .expect("a string");
                let (loops, scope) = (self.loops.len(), self.scopes.len() - 1);
                self.sums.extend([0, 1].map(|k| (format!("{name}[{k}]"), loops, scope)));
            }
            _ if !in_loop => {
                let e = self.expr(2);
                let to = self.one_of(&["total[s]", "*one", "total[s]"]);
                write!(self.text, "{to} += 0.2 * {e}; ").expect("a string");
            }
            _ => {}
        }
    }

    fn known_outside(&self, name: &str) -> bool {
        let (_, outer) = self.scopes.split_last().expect("one is open");
        let sums = self.sums.iter().any(|s| s.0 == name && s.2 < outer.len());
        sums || outer.iter().any(|s| s.reals.iter().any(|r| r == name))
    }
}

/// A kernel whose statements are chosen by chance: its parameters are those that the tests' worlds have.
pub(crate) fn kernel(seed: u64) -> String {
    let mut r = Random::new(seed);
    r.next();
    let mut w = Writer {
        r,
        text: String::new(),
        scopes: vec![Scope { reals: vec![], ints: vec![], is_loop: false, branches: false }],
        sums: vec![],
        loops: vec![],
        data: Data::None,
        names: 0,
        data_loops: 0,
        channel: false,
        whole: false,
        vectors: seed.is_multiple_of(8),
    };
    w.text.push_str("let mut h = [0.0; Feature]; ");
    for _ in 0..2 {
        w.text.push_str("let mut w0 = 0.1 * x[i]; let mut w1 = a[i]; ");
        w.sums = vec![("w0".into(), 0, 0), ("w1".into(), 0, 0)];
        w.block(4, 4);
        w.block(4, 4);
        w.whole = true;
        let uses = [w.expr(2), w.expr(1), w.expr(1)];
        // Linear, mostly: nonlinear terms have no transpose.
        let sums: Vec<String> = w.sums.iter().map(|s| format!("0.4 * {}", s.0)).collect();
        let [u, v, t] = uses;
        let rest = if w.pick(4) == 0 { format!("({u}) * ({v}) * ({t})") } else { "b[i]".into() };
        write!(w.text, "total[s] += {rest} + {}; ", sums.join(" + ")).expect("a string");
    }
    let sums: Vec<String> = w.sums.iter().map(|s| format!("0.4 * {}", s.0)).collect();
    let e = sums.join(" + ");
    let parameters = PARAMETERS.replace("[F; ", if w.vectors { "[Vec3; " } else { "[Real; " });
    format!("{FUNCTIONS} #[kernel] fn k({parameters}) {{ let s = atoms.of(i); {} out[i] = {e}; }}", w.text)
}
