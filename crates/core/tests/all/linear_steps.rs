//! An op with linear maps among its steps: values against their definition, derivatives against finite differences.

use crate::support::{array, dot, wiggles};
use approx::{assert_abs_diff_eq, assert_relative_eq};
use madelung_core::Result;
use madelung_core::array::{Array, DType, View};
use madelung_core::op::{Arg, Linear, Op, Request};
use madelung_core::structure::Batch;
use madelung_core::structure::Mesh;
use madelung_core::tape::{Tape, Value, Var};
use std::sync::Arc;

madelung_core::kernels! {
    /// A density that is not linear in its field.
    #[kernel]
    fn density_of(n: Node, field: &[Real; Node], density: &mut [Real; Node]) {
        density[n] = sin(field[n]) + 0.5 * field[n] * field[n];
    }

    /// Without the mean of its system.
    #[kernel]
    fn without_background(
        n: Node,
        density: &[Real; Node],
        background: &[Real; Node],
        count: Real,
        neutral: &mut [Real; Node],
    ) {
        neutral[n] = density[n] - background[n] / count;
    }

    /// Scaled wave by wave, and not linear in the waves.
    #[kernel]
    fn screened(
        w: Wave,
        re: &[Real; Wave],
        im: &[Real; Wave],
        influence: &[Real; Wave],
        screened_re: &mut [Real; Wave],
        screened_im: &mut [Real; Wave],
    ) {
        screened_re[w] = influence[w] * (re[w] + 0.1 * re[w] * im[w]);
        screened_im[w] = influence[w] * im[w];
    }

    /// Per node.
    #[kernel]
    fn energy_of(
        n: Node,
        density: &[Real; Node],
        potential: &[Real; Node],
        everywhere: &[Real; Node],
        node_energy: &mut [Real; Node],
    ) {
        node_energy[n] = 0.5 * density[n] * potential[n] + everywhere[n] * everywhere[n];
    }
}

fn convolution() -> Arc<Op> {
    Op::new("test", "convolution", 1)
        .real("field", &["Node"])
        .real("influence", &["Wave"])
        .scalar("count")
        .mesh("mesh", "System", "Node", "Wave")
        .batch("nodes", "Node", "System")
        .output("energy", &["System"])
        .output("total", &[])
        .scratch("density", &["Node"])
        .scratch("charge", &["System"])
        .scratch("background", &["Node"])
        .scratch("neutral", &["Node"])
        .scratch("re", &["Wave"])
        .scratch("im", &["Wave"])
        .scratch("screened_re", &["Wave"])
        .scratch("screened_im", &["Wave"])
        .scratch("potential", &["Node"])
        .scratch("sum", &[])
        .scratch("everywhere", &["Node"])
        .scratch("node_energy", &["Node"])
        .step(&DENSITY_OF)
        .linear(Linear::SegmentedSum, &["nodes", "density", "charge"])
        .linear(Linear::SegmentedBroadcast, &["nodes", "charge", "background"])
        .step(&WITHOUT_BACKGROUND)
        .linear(Linear::RealFft, &["mesh", "neutral", "re", "im"])
        .step(&SCREENED)
        .linear(Linear::InverseRealFft, &["mesh", "screened_re", "screened_im", "potential"])
        .linear(Linear::Sum, &["potential", "sum"])
        .linear(Linear::Broadcast, &["sum", "everywhere"])
        .step(&ENERGY_OF)
        .linear(Linear::SegmentedSum, &["nodes", "node_energy", "energy"])
        .linear(Linear::Sum, &["node_energy", "total"])
        .build()
        .unwrap()
}

const MESH: [usize; 3] = [3, 4, 5];
const NODES: usize = 60;
const WAVES: usize = 36;
const SYSTEMS: usize = 2;

fn mesh() -> Mesh {
    Mesh::new(MESH, 3, SYSTEMS).unwrap()
}

fn nodes() -> Batch<'static> {
    Batch::from_ptr(vec![0, NODES as i32, 2 * NODES as i32]).unwrap()
}

/// A flat array.
fn flat(data: &[f64]) -> Array {
    array(&[data.len()], data)
}

/// The energies by the definition of each step.
fn by_definition(field: &[f64], influence: &[f64]) -> Vec<f64> {
    let [k1, k2, k3] = MESH;
    let half = k3 / 2 + 1;
    let density: Vec<f64> = field.iter().map(|f| f.sin() + 0.5 * f * f).collect();
    let mut potential = vec![];
    for s in 0..SYSTEMS {
        let density = &density[s * NODES..(s + 1) * NODES];
        let mean = density.iter().sum::<f64>() / NODES as f64;
        let phase = |w: usize, n: usize| {
            let turns = (w / (k2 * half) * (n / (k2 * k3))) as f64 / k1 as f64
                + (w / half % k2 * (n / k3 % k2)) as f64 / k2 as f64
                + (w % half * (n % k3)) as f64 / k3 as f64;
            (std::f64::consts::TAU * turns).sin_cos()
        };
        let spectrum: Vec<(f64, f64)> = (0..WAVES)
            .map(|w| {
                let re: f64 = (0..NODES).map(|n| (density[n] - mean) * phase(w, n).1).sum();
                let im: f64 = (0..NODES).map(|n| -(density[n] - mean) * phase(w, n).0).sum();
                let g = influence[s * WAVES + w];
                (g * (re + 0.1 * re * im), g * im)
            })
            .collect();
        potential.extend((0..NODES).map(|n| {
            let of = |w: usize| {
                let (sin, cos) = phase(w, n);
                let twice = if w.is_multiple_of(half) { 1.0 } else { 2.0 };
                twice * (spectrum[w].0 * cos - spectrum[w].1 * sin)
            };
            (0..WAVES).map(of).sum::<f64>()
        }));
    }
    let sum: f64 = potential.iter().sum();
    let energy = |n: usize| 0.5 * density[n] * potential[n] + sum * sum;
    (0..SYSTEMS).map(|s| (s * NODES..(s + 1) * NODES).map(energy).sum()).collect()
}

fn input() -> (Vec<f64>, Vec<f64>) {
    let influence = wiggles(SYSTEMS * WAVES, 0.2).iter().map(|x| 0.02 * (1.2 + x)).collect();
    (wiggles(SYSTEMS * NODES, 0.9), influence)
}

fn args<'a>(field: &'a Array, influence: &'a Array, mesh: &'a Mesh, nodes: &'a Batch<'a>) -> [Arg<'a>; 5] {
    [
        Arg::Array(field.view()),
        Arg::Array(influence.view()),
        Arg::Real(NODES as f64),
        Arg::Structure(mesh),
        Arg::Structure(nodes),
    ]
}

#[test]
fn values_are_the_definition() {
    let (field, influence) = input();
    let exact = by_definition(&field, &influence);
    let (field, influence, mesh, nodes) = (flat(&field), flat(&influence), mesh(), nodes());
    let args = args(&field, &influence, &mesh, &nodes);
    let values = convolution().value(&madelung_cpu::context(), &args).unwrap();
    let energy = values[0].to_f64().unwrap();
    // Sums of 60 terms through two transforms.
    for (a, b) in energy.iter().zip(&exact) {
        assert_abs_diff_eq!(*a, *b, epsilon = 1e-12 * exact[0].abs());
    }
    assert_relative_eq!(values[1].to_f64().unwrap()[0], exact.iter().sum::<f64>(), max_relative = 1e-12);
    // f32: the error of each step is that of its type.
    let (field, influence) = (field.cast(DType::F32).unwrap(), influence.cast(DType::F32).unwrap());
    let args = self::args(&field, &influence, &mesh, &nodes);
    let narrow = convolution().value(&madelung_cpu::context(), &args).unwrap();
    for (a, b) in narrow[0].to_f64().unwrap().iter().zip(&exact) {
        assert_abs_diff_eq!(*a, *b, epsilon = 1e-5 * exact[0].abs());
    }
}

/// A weighted sum of outputs, its gradient, and a gradient of that.
type Derivatives = (f64, [Vec<f64>; 2], Option<[Vec<f64>; 2]>);

/// A tape with the op, and its inputs.
struct Taped<'c> {
    tape: Tape<'c>,
    inputs: [Var; 2],
    outputs: Vec<Var>,
}

impl Taped<'_> {
    fn new(inputs: [&[f64]; 2]) -> Self {
        let mut tape = Tape::new(madelung_cpu::context());
        let inputs = inputs.map(|x| tape.input(flat(x)));
        let args = vec![
            inputs[0].into(),
            inputs[1].into(),
            Value::Real(NODES as f64),
            Value::Structure(Arc::new(mesh())),
            Value::Structure(Arc::new(nodes())),
        ];
        let outputs = tape.call(&convolution(), args).unwrap();
        Self { tape, inputs, outputs }
    }

    /// ⟨w, outputs⟩, its gradient, and where `v` is given the gradient of ⟨v, gradient⟩.
    fn run(inputs: [&[f64]; 2], v: Option<[&[f64]; 2]>) -> Derivatives {
        let mut t = Self::new(inputs);
        let weights = [flat(&[0.7, -1.3]), Array::filled(DType::F64, &[], 0.4)];
        let value = (0..2)
            .map(|n| {
                let y = t.tape.value(t.outputs[n]).unwrap().to_f64().unwrap();
                y.iter().zip(weights[n].to_f64().unwrap()).map(|(y, w)| y * w).sum::<f64>()
            })
            .sum();
        let seeds: Vec<(Var, Var)> =
            t.outputs.iter().zip(weights).map(|(y, w)| (*y, t.tape.constant(w))).collect();
        let first = t.tape.differentiate(&seeds, &t.inputs).unwrap();
        let first: Vec<Var> = first.into_iter().map(Option::unwrap).collect();
        let of = |tape: &Tape<'_>, v: Var| tape.value(v).unwrap().to_f64().unwrap();
        let gradient = [of(&t.tape, first[0]), of(&t.tape, first[1])];
        let second = v.map(|v| {
            let seeds: Vec<(Var, Var)> =
                first.iter().zip(v).map(|(g, v)| (*g, t.tape.constant(flat(v)))).collect();
            let second = t.tape.differentiate(&seeds, &t.inputs).unwrap();
            [of(&t.tape, second[0].unwrap()), of(&t.tape, second[1].unwrap())]
        });
        (value, gradient, second)
    }
}

fn moved(x: &[f64], u: &[f64], h: f64) -> Vec<f64> {
    x.iter().zip(u).map(|(x, u)| x + h * u).collect()
}

fn views(direction: &[Option<Array>]) -> Vec<Option<View<'_>>> {
    direction.iter().map(|a| a.as_ref().map(Array::view)).collect()
}

#[test]
fn derivatives_are_finite_differences_to_second_order() {
    let (field, influence) = input();
    let u = [wiggles(field.len(), 2.0), wiggles(influence.len(), 3.0).iter().map(|x| 0.01 * x).collect()];
    let v = [wiggles(field.len(), 4.0), wiggles(influence.len(), 5.0)];
    let (value, gradient, second) = Taped::run([&field, &influence], Some([&v[0], &v[1]]));
    let second = second.unwrap();
    let h = 1e-4;
    for by in 0..2 {
        // Fourth-order differences: errors of h⁴ and ε/h.
        let at = |x: f64| {
            let (f, i) = (moved(&field, &u[0], x), moved(&influence, &u[1], x));
            let inputs: [&[f64]; 2] = if by == 0 { [&f, &influence] } else { [&field, &i] };
            let (value, gradient, _) = Taped::run(inputs, None);
            (value, dot(&gradient[0], &v[0]) + dot(&gradient[1], &v[1]))
        };
        let points = [-2.0, -1.0, 1.0, 2.0].map(|x| at(x * h));
        let difference = |of: &dyn Fn(&(f64, f64)) -> f64| {
            let p = points.each_ref().map(of);
            (p[0] - 8.0 * p[1] + 8.0 * p[2] - p[3]) / (12.0 * h)
        };
        let (first, expected) = (dot(&gradient[by], &u[by]), difference(&|p| p.0));
        let scale = value.abs().max(expected.abs());
        assert!((first - expected).abs() < 1e-9 * scale, "by {by}: {first} {expected}");
        let (found, expected) = (dot(&second[by], &u[by]), difference(&|p| p.1));
        let scale = dot(&gradient[0], &v[0]).abs().max(expected.abs());
        assert!((found - expected).abs() < 1e-8 * scale, "by {by}: {found} {expected}");
    }
}

/// F₁ and F₂ are G₀ and G₁ seen from the other side.
#[test]
fn tangents_agree_with_gradients() {
    let (field, influence) = input();
    let u = [flat(&wiggles(field.len(), 2.0)), flat(&wiggles(influence.len(), 3.0))];
    let v = [wiggles(field.len(), 4.0), wiggles(influence.len(), 5.0)];
    let (_, gradient, second) = Taped::run([&field, &influence], Some([&v[0], &v[1]]));
    let (field, influence, mesh, nodes) = (flat(&field), flat(&influence), mesh(), nodes());
    let (op, args) = (convolution(), args(&field, &influence, &mesh, &nodes));
    let v = [flat(&v[0]), flat(&v[1])];
    let direction = |u: &[Array; 2]| -> Vec<Option<Array>> {
        vec![Some(u[0].try_clone().unwrap()), Some(u[1].try_clone().unwrap()), None, None, None]
    };
    let (du, dv) = (direction(&u), direction(&v));
    let (du, dv) = (views(&du), views(&dv));
    let weigh = |y: &[Array]| dot(&y[0].to_f64().unwrap(), &[0.7, -1.3]) + 0.4 * y[1].to_f64().unwrap()[0];
    let evaluate = |directions: &[&[Option<_>]]| {
        let request = Request { values: true, directions, ..Request::default() };
        weigh(&op.evaluate(&madelung_cpu::context(), &args, &request).unwrap().values)
    };
    let along = |g: &[Vec<f64>; 2]| dot(&g[0], &u[0].to_f64().unwrap()) + dot(&g[1], &u[1].to_f64().unwrap());
    let (first, expected) = (evaluate(&[&du]), along(&gradient));
    assert_relative_eq!(first, expected, max_relative = 1e-11);
    let (mixed, expected) = (evaluate(&[&du, &dv]), along(&second.unwrap()));
    assert_relative_eq!(mixed, expected, max_relative = 1e-11);
}

#[test]
fn buffers_that_do_not_fit_are_refused() {
    let op = || {
        Op::new("test", "t", 1)
            .real("x", &["Node"])
            .real("y", &["Wave"])
            .real("rows", &["Node", "3"])
            .mesh("mesh", "System", "Node", "Wave")
            .batch("nodes", "Node", "System")
            .output("re", &["Wave"])
            .output("im", &["Wave"])
    };
    let refused = |built: Result<Arc<Op>>, what: &str| {
        let text = built.unwrap_err().to_string();
        assert!(text.contains(what), "{text}");
    };
    let fft = |buffers: &[&str]| op().linear(Linear::RealFft, buffers).build();
    fft(&["mesh", "x", "re", "im"]).unwrap();
    refused(fft(&["mesh", "y", "re", "im"]), "real_fft::values");
    refused(fft(&["nodes", "x", "re", "im"]), "a mesh");
    refused(fft(&["mesh", "x", "re", "y"]), "real_fft::im");
    refused(fft(&["mesh", "x", "re", "re"]), "several");
    refused(fft(&["mesh", "x", "re", "im", "y"]), "beyond the last (y)");
    refused(fft(&["mesh", "x", "re", "stray"]), "`stray`");
    let sum = |to: &[&str], from: &str| {
        op().output("sums", to)
            .linear(Linear::RealFft, &["mesh", "x", "re", "im"])
            .linear(Linear::SegmentedSum, &["nodes", from, "sums"])
            .build()
    };
    sum(&["System", "3"], "rows").unwrap();
    refused(sum(&["System"], "rows"), "segmented_sum::sums");
    refused(sum(&["Node", "3"], "rows"), "segmented_sum::sums");
    refused(sum(&["System"], "y"), "segmented_sum::values");
    let total = |to: &[&str], map: Linear| {
        op().output("sums", to)
            .linear(Linear::RealFft, &["mesh", "x", "re", "im"])
            .linear(map, &["rows", "sums"])
            .build()
    };
    total(&["3"], Linear::Sum).unwrap();
    refused(total(&["4"], Linear::Sum), "sum::sum");
    total(&["System", "Node", "3"], Linear::Broadcast).unwrap();
    refused(total(&[], Linear::Broadcast), "broadcast::rows");
}
