//! Spreading to and gathering from a mesh through an op: values against sums over all nodes, adjointness, and
//! derivatives against finite differences.

use crate::support::{array, dot, wiggles};
use madelung_core::array::{Array, DType, Place};
use madelung_core::backend::pool::{Serial, Threads};
use madelung_core::backend::status::Word;
use madelung_core::backend::{Bound, Context, Launch, LaunchArgs};
use madelung_core::op::{Arg, Linear, Op};
use madelung_core::runtime::Role;
use madelung_core::structure::{Batch, Mesh, Window};
use madelung_core::tape::{Tape, Value, Var};
use std::sync::Arc;

madelung_core::kernels! {
    /// Charges to the nodes around their atoms.
    #[kernel]
    fn spread(
        i: Atom,
        u: &[Vec3; Atom],
        charges: &[Real; Atom],
        atoms: &Batch<Atom, System>,
        mesh: &Mesh<System, Node>,
        density: &mut [Real; Node],
    ) {
        for (node, weight) in mesh.around(atoms.of(i), u[i]) {
            density[node] += weight * charges[i];
        }
    }

    /// The potential of the nodes around an atom.
    #[kernel]
    fn gather(
        i: Atom,
        u: &[Vec3; Atom],
        charges: &[Real; Atom],
        potential: &[Real; Node],
        atoms: &Batch<Atom, System>,
        mesh: &Mesh<System, Node>,
        energy: &mut [Real; Atom],
    ) {
        let mut phi = 0.0;
        for (node, weight) in mesh.around(atoms.of(i), u[i]) {
            phi += weight * potential[node];
        }
        energy[i] = charges[i] * phi;
    }

    /// A factor per wave.
    #[kernel]
    fn convolve(
        w: Wave,
        re: &[Real; Wave],
        im: &[Real; Wave],
        influence: &[Real; Wave],
        product_re: &mut [Real; Wave],
        product_im: &mut [Real; Wave],
    ) {
        product_re[w] = influence[w] * re[w];
        product_im[w] = influence[w] * im[w];
    }
}

fn spread_op() -> Arc<Op> {
    Op::new("test", "spread", 1)
        .real("u", &["Atom", "3"])
        .real("charges", &["Atom"])
        .batch("atoms", "Atom", "System")
        .mesh("mesh", "System", "Node", "Wave")
        .output("density", &["Node"])
        .step(&SPREAD)
        .build()
        .unwrap()
}

fn gather_op() -> Arc<Op> {
    Op::new("test", "gather", 1)
        .real("u", &["Atom", "3"])
        .real("charges", &["Atom"])
        .real("potential", &["Node"])
        .batch("atoms", "Atom", "System")
        .mesh("mesh", "System", "Node", "Wave")
        .output("energy", &["Atom"])
        .step(&GATHER)
        .build()
        .unwrap()
}

/// Smooth particle-mesh in small: spread, convolve, gather.
fn mesh_energy_op() -> Arc<Op> {
    Op::new("test", "mesh_energy", 1)
        .real("u", &["Atom", "3"])
        .real("charges", &["Atom"])
        .real("influence", &["Wave"])
        .batch("atoms", "Atom", "System")
        .mesh("mesh", "System", "Node", "Wave")
        .output("energy", &["Atom"])
        .scratch("density", &["Node"])
        .scratch("re", &["Wave"])
        .scratch("im", &["Wave"])
        .scratch("product_re", &["Wave"])
        .scratch("product_im", &["Wave"])
        .scratch("potential", &["Node"])
        .step(&SPREAD)
        .linear(Linear::RealFft, &["mesh", "density", "re", "im"])
        .step(&CONVOLVE)
        .linear(Linear::InverseRealFft, &["mesh", "product_re", "product_im", "potential"])
        .step(&GATHER)
        .build()
        .unwrap()
}

const SIZES: [usize; 3] = [6, 7, 9];
const NODES: usize = 378;
const PTR: [i32; 4] = [0, 9, 9, 16];
const ATOMS: usize = 16;
const SYSTEMS: usize = 3;

/// Fractional coordinates, some far outside.
fn coordinates() -> Vec<f64> {
    wiggles(3 * ATOMS, 0.4).iter().enumerate().map(|(n, x)| 0.9 * x + ((n * 7) % 11) as f64 - 5.0).collect()
}

/// M_p by its recursion in p (Essmann et al. 1995, eq. 4.1), from M_2.
fn spline(p: usize, x: f64) -> f64 {
    if p == 2 {
        return (1.0 - (x - 1.0).abs()).max(0.0);
    }
    let n = p as f64;
    (x * spline(p - 1, x) + (n - x) * spline(p - 1, x - 1.0)) / (n - 1.0)
}

/// Every node's weight: all images of the node, summed.
fn weights(sizes: [usize; 3], p: usize, u: &[f64]) -> Vec<f64> {
    let axis = |a: usize, k: usize| -> f64 {
        let size = sizes[a] as f64;
        (-8..=8).map(|n| spline(p, size * (u[a] + f64::from(n)) - k as f64)).sum()
    };
    (0..sizes.iter().product())
        .map(|n| {
            axis(0, n / (sizes[1] * sizes[2])) * axis(1, n / sizes[2] % sizes[1]) * axis(2, n % sizes[2])
        })
        .collect()
}

struct Setting {
    u: Array,
    charges: Array,
    atoms: Batch<'static>,
    mesh: Mesh,
}

impl Setting {
    fn new(order: usize) -> Self {
        Self {
            u: array(&[ATOMS, 3], &coordinates()),
            charges: array(&[ATOMS], &wiggles(ATOMS, 0.8)),
            atoms: Batch::from_ptr(&PTR[..]).unwrap(),
            mesh: Mesh::new(SIZES, order, SYSTEMS).unwrap(),
        }
    }

    fn spread(&self, context: &Context<'_>) -> Vec<f64> {
        let (u, q) = (Arg::Array(self.u.view()), Arg::Array(self.charges.view()));
        let args = [u, q, Arg::Structure(&self.atoms), Arg::Structure(&self.mesh)];
        spread_op().value(context, &args).unwrap()[0].to_f64().unwrap()
    }

    fn gather(&self, potential: &Array) -> Vec<f64> {
        let (u, q) = (Arg::Array(self.u.view()), Arg::Array(self.charges.view()));
        let args =
            [u, q, Arg::Array(potential.view()), Arg::Structure(&self.atoms), Arg::Structure(&self.mesh)];
        gather_op().value(&madelung_cpu::context(), &args).unwrap()[0].to_f64().unwrap()
    }
}

#[test]
fn spreading_and_gathering_are_sums_over_all_nodes() {
    for order in 2..=6 {
        let s = Setting::new(order);
        let (u, q) = (s.u.to_f64().unwrap(), s.charges.to_f64().unwrap());
        let potential = wiggles(SYSTEMS * NODES, 1.9);
        let (mut density, mut energy) = (vec![0.0; SYSTEMS * NODES], vec![0.0; ATOMS]);
        for i in 0..ATOMS {
            let first = s.atoms.of(i) * NODES;
            for (n, w) in weights(SIZES, order, &u[3 * i..3 * i + 3]).into_iter().enumerate() {
                density[first + n] += w * q[i];
                energy[i] += w * q[i] * potential[first + n];
            }
        }
        // Coordinates up to 6 cells away, in units of 9 nodes: the fraction loses the digits of 54.
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
        let found = s.spread(&madelung_cpu::context());
        assert!(close(&found, &density), "order {order}");
        assert!(close(&s.gather(&array(&[SYSTEMS * NODES], &potential)), &energy), "order {order}");
        // Nothing is lost, and ⟨spread q, V⟩ = ⟨q, gather V⟩.
        for b in 0..SYSTEMS {
            let (atoms, nodes) = (s.atoms.members(b), b * NODES..(b + 1) * NODES);
            assert!((found[nodes].iter().sum::<f64>() - q[atoms].iter().sum::<f64>()).abs() < 1e-13);
        }
        let left: f64 = found.iter().zip(&potential).map(|(d, v)| d * v).sum();
        assert!((left - energy.iter().sum::<f64>()).abs() < 1e-12);
    }
}

/// Sizes and spline orders of the meshes of systems, of which one has no atoms.
const MESHES: [([usize; 3], usize); SYSTEMS] = [([6, 7, 9], 5), ([4, 4, 5], 3), ([5, 9, 6], 4)];

#[test]
fn systems_have_meshes_of_their_own() {
    let s = Setting { mesh: Mesh::of_systems(&MESHES).unwrap(), ..Setting::new(5) };
    let (u, q) = (s.u.to_f64().unwrap(), s.charges.to_f64().unwrap());
    let potential = wiggles(s.mesh.nodes(), 1.9);
    let (mut density, mut energy) = (vec![], vec![]);
    for (b, (sizes, order)) in MESHES.into_iter().enumerate() {
        let first = density.len();
        density.resize(first + sizes.iter().product::<usize>(), 0.0);
        for i in s.atoms.members(b) {
            let of_nodes = weights(sizes, order, &u[3 * i..3 * i + 3]);
            energy.push(of_nodes.iter().zip(&potential[first..]).map(|(w, v)| w * q[i] * v).sum::<f64>());
            density[first..].iter_mut().zip(of_nodes).for_each(|(d, w)| *d += w * q[i]);
        }
        let atoms = s.atoms.members(b);
        let alone = Setting {
            u: array(&[atoms.len(), 3], &u[3 * atoms.start..3 * atoms.end]),
            charges: array(&[atoms.len()], &q[atoms.clone()]),
            atoms: Batch::single(atoms.len()).unwrap(),
            mesh: Mesh::new(sizes, order, 1).unwrap(),
        };
        for threads in [1, 2, 5] {
            let pool = Threads::new(threads);
            let together = s.spread(&madelung_cpu::context().with_pool(&pool));
            assert_eq!(alone.spread(&madelung_cpu::context()), together[first..density.len()]);
        }
    }
    let close =
        |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
    assert!(close(&s.spread(&madelung_cpu::context()), &density));
    assert!(close(&s.gather(&array(&[potential.len()], &potential)), &energy));
}

/// Meshes that can be divided in two along the first axis and in three along the last.
const DIVIDED: [([usize; 3], usize); SYSTEMS] = [([10, 7, 15], 5), ([6, 4, 9], 3), ([9, 9, 12], 4)];

/// Windows that divide them so, or less, around the end of the cell, and the nodes of the whole meshes that each has.
fn windows([along_x, along_z]: [usize; 2]) -> Vec<(Mesh, Vec<usize>)> {
    let part =
        |size: usize, parts: usize, n: usize| (n * size / parts, (n + 1) * size / parts - n * size / parts);
    let parts = (0..along_x).flat_map(|x| (0..along_z).map(move |z| (x, z)));
    let window = |(x, z): (usize, usize)| {
        let (mut of_systems, mut nodes, mut first) = (vec![], vec![], 0);
        for (sizes, order) in DIVIDED {
            let ((x, nx), (z, nz)) = (part(sizes[0], along_x, x), part(sizes[2], along_z, z));
            let origin = [(x + 2) % sizes[0], 1, (z + 1) % sizes[2]];
            let extent = [nx, sizes[1], nz];
            for n in 0..extent.iter().product() {
                let place = [n / (extent[1] * nz), n / nz % extent[1], n % nz];
                let [i, j, k] = [0, 1, 2].map(|a| (origin[a] + place[a]) % sizes[a]);
                nodes.push(first + (i * sizes[1] + j) * sizes[2] + k);
            }
            first += sizes.iter().product::<usize>();
            of_systems.push((sizes, order, Window { origin, extent }));
        }
        (Mesh::of_windows(&of_systems).unwrap(), nodes)
    };
    parts.map(window).collect()
}

#[test]
fn windows_have_the_bits_of_the_whole_mesh() {
    let whole = Setting { mesh: Mesh::of_systems(&DIVIDED).unwrap(), ..Setting::new(5) };
    let potential = wiggles(whole.mesh.nodes(), 1.9);
    let (density, energy) =
        (whole.spread(&madelung_cpu::context()), whole.gather(&array(&[potential.len()], &potential)));
    for division in [[2, 3], [2, 1], [1, 3], [1, 1]] {
        let (mut seen, mut sums) = (vec![0; potential.len()], vec![0.0; ATOMS]);
        for (mesh, nodes) in windows(division) {
            let s = Setting { mesh, ..Setting::new(5) };
            let expected: Vec<f64> = nodes.iter().map(|n| density[*n]).collect();
            for threads in [1, 2, 5] {
                let pool = Threads::new(threads);
                assert_eq!(s.spread(&madelung_cpu::context().with_pool(&pool)), expected);
            }
            // What the window gives is what the whole mesh gives where nothing is beyond it.
            let mut inside = vec![0.0; potential.len()];
            nodes.iter().for_each(|n| inside[*n] = potential[*n]);
            let own: Vec<f64> = nodes.iter().map(|n| potential[*n]).collect();
            let found = s.gather(&array(&[own.len()], &own));
            let expected = whole.gather(&array(&[inside.len()], &inside));
            assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-14));
            sums.iter_mut().zip(&found).for_each(|(sum, x)| *sum += x);
            nodes.iter().for_each(|n| seen[*n] += 1);
        }
        assert!(seen.iter().all(|n| *n == 1));
        assert!(sums.iter().zip(&energy).all(|(a, b)| (a - b).abs() < 1e-13));
    }
}

/// The gradient of Σᵢ wᵢ energyᵢ by coordinates, charges and potential, and the gradient of its product with v.
fn of_gather(mesh: &Mesh, potential: &[f64], v: [&[f64]; 3]) -> [Vec<Vec<f64>>; 2] {
    let mut tape = Tape::new(madelung_cpu::context());
    let inputs = [&coordinates()[..], &wiggles(ATOMS, 0.8), potential];
    let shapes = [vec![ATOMS, 3], vec![ATOMS], vec![potential.len()]];
    let vars: Vec<Var> = inputs.iter().zip(&shapes).map(|(x, s)| tape.input(array(s, x))).collect();
    let mut args: Vec<Value> = vars.iter().map(|v| (*v).into()).collect();
    args.push(Value::Structure(Arc::new(Batch::from_ptr(&PTR[..]).unwrap())));
    args.push(Value::Structure(Arc::new(mesh.clone())));
    let energy = tape.call(&gather_op(), args).unwrap()[0];
    let w = tape.constant(array(&[ATOMS], &wiggles(ATOMS, 3.3)));
    let first: Vec<Var> =
        tape.differentiate(&[(energy, w)], &vars).unwrap().into_iter().map(Option::unwrap).collect();
    let seeds: Vec<(Var, Var)> = (0..3).map(|n| (first[n], tape.constant(array(&shapes[n], v[n])))).collect();
    let second = tape.differentiate(&seeds, &vars).unwrap();
    let of = |var: Var| tape.value(var).unwrap().to_f64().unwrap();
    [first.iter().map(|x| of(*x)).collect(), second.into_iter().map(|x| of(x.unwrap())).collect()]
}

#[test]
fn derivatives_of_windows_are_those_of_the_whole_mesh() {
    let whole = Mesh::of_systems(&DIVIDED).unwrap();
    let (potential, v) = (wiggles(whole.nodes(), 1.9), wiggles(whole.nodes(), 0.3));
    let (by_u, by_q) = (wiggles(3 * ATOMS, 1.1), wiggles(ATOMS, 2.2));
    for (mesh, nodes) in windows([2, 3]) {
        let own = |x: &[f64]| nodes.iter().map(|n| x[*n]).collect::<Vec<f64>>();
        let inside = |x: &[f64]| {
            let mut inside = vec![0.0; x.len()];
            nodes.iter().for_each(|n| inside[*n] = x[*n]);
            inside
        };
        let found = of_gather(&mesh, &own(&potential), [&by_u, &by_q, &own(&v)]);
        let mut expected = of_gather(&whole, &inside(&potential), [&by_u, &by_q, &inside(&v)]);
        for (found, expected) in found.iter().zip(&mut expected) {
            expected[2] = own(&expected[2]);
            for (found, expected) in found.iter().zip(&*expected) {
                let largest = expected.iter().fold(0.0f64, |m, x| m.max(x.abs()));
                assert!(largest > 0.0);
                assert_eq!(found.len(), expected.len());
                assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-13 * largest));
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let (atoms, mesh) = (Batch::single(20_000).unwrap(), Mesh::new([20, 24, 18], 5, 1).unwrap());
    let u = array(&[20_000, 3], &wiggles(60_000, 0.1));
    let charges = array(&[20_000], &wiggles(20_000, 0.2));
    let of = |dtype: DType, context: &Context<'_>| {
        let (u, charges) = (u.cast(dtype).unwrap(), charges.cast(dtype).unwrap());
        let args =
            [Arg::Array(u.view()), Arg::Array(charges.view()), Arg::Structure(&atoms), Arg::Structure(&mesh)];
        spread_op().value(context, &args).unwrap().remove(0)
    };
    let (two, five) = (Threads::new(2), Threads::new(5));
    let exact = of(DType::F64, &madelung_cpu::context()).to_f64().unwrap();
    for dtype in [DType::F64, DType::F32] {
        let serial = of(dtype, &madelung_cpu::context().with_pool(&Serial));
        for pool in [&two, &five] {
            assert!(of(dtype, &madelung_cpu::context().with_pool(pool)).equals(&serial).unwrap());
        }
        // A node has what about 300 charges below 1 add, and coordinates are rounded, in units of up to 24 nodes.
        let eps = if dtype == DType::F32 { 2f64.powi(-24) } else { 0.0 };
        assert!(
            serial.to_f64().unwrap().iter().zip(&exact).all(|(a, b)| (a - b).abs() <= 24.0 * 300.0 * eps)
        );
    }
}

#[test]
fn a_system_has_the_same_bits_alone_and_in_a_batch() {
    let s = Setting::new(5);
    let together = s.spread(&madelung_cpu::context());
    for b in 0..SYSTEMS {
        let atoms = s.atoms.members(b);
        let (u, q) = (s.u.to_f64().unwrap(), s.charges.to_f64().unwrap());
        let alone = Setting {
            u: array(&[atoms.len(), 3], &u[3 * atoms.start..3 * atoms.end]),
            charges: array(&[atoms.len()], &q[atoms.clone()]),
            atoms: Batch::single(atoms.len()).unwrap(),
            mesh: Mesh::new(SIZES, 5, 1).unwrap(),
        };
        assert_eq!(alone.spread(&madelung_cpu::context()), together[b * NODES..(b + 1) * NODES]);
    }
}

/// ⟨w, energy⟩, its gradient by coordinates, charges and influence, and the gradient of ⟨v, gradient⟩.
type Derivatives = (f64, Vec<Vec<f64>>, Vec<Vec<f64>>);

/// Meshes of other sizes for each system.
fn meshes(order: usize) -> Mesh {
    Mesh::of_systems(&[(SIZES, order), ([6, 6, 6], order), ([8, 6, 7], order)]).unwrap()
}

fn derivatives(order: usize, inputs: &[Vec<f64>; 3], v: Option<&[Vec<f64>; 3]>) -> Derivatives {
    let mut tape = Tape::new(madelung_cpu::context());
    let shapes = [vec![ATOMS, 3], vec![ATOMS], vec![inputs[2].len()]];
    let vars: Vec<Var> = inputs.iter().zip(&shapes).map(|(x, s)| tape.input(array(s, x))).collect();
    let mut args: Vec<Value> = vars.iter().map(|v| (*v).into()).collect();
    args.push(Value::Structure(Arc::new(Batch::from_ptr(&PTR[..]).unwrap())));
    args.push(Value::Structure(Arc::new(meshes(order))));
    let energy = tape.call(&mesh_energy_op(), args).unwrap()[0];
    let weights = wiggles(ATOMS, 3.3);
    let value = dot(&tape.value(energy).unwrap().to_f64().unwrap(), &weights);
    let w = tape.constant(array(&[ATOMS], &weights));
    let first: Vec<Var> =
        tape.differentiate(&[(energy, w)], &vars).unwrap().into_iter().map(Option::unwrap).collect();
    let of = |tape: &Tape<'_>, v: &Var| tape.value(*v).unwrap().to_f64().unwrap();
    let gradient = first.iter().map(|g| of(&tape, g)).collect();
    let second = v.map_or(vec![], |v| {
        let seeds: Vec<(Var, Var)> =
            (0..3).map(|n| (first[n], tape.constant(array(&shapes[n], &v[n])))).collect();
        tape.differentiate(&seeds, &vars).unwrap().iter().map(|g| of(&tape, &g.unwrap())).collect()
    });
    (value, gradient, second)
}

#[test]
fn a_particle_mesh_energy_has_two_derivatives() {
    // Five continuous derivatives: as many as finite differences of fourth order of a gradient need.
    let order = 6;
    let influence = wiggles(meshes(order).waves(), 0.2).iter().map(|x| 0.01 * (1.2 + x)).collect();
    let inputs = [coordinates(), wiggles(ATOMS, 0.8), influence];
    let (scale, along) = ([0.02, 0.5, 0.01], |phase: f64| {
        let of = |n: usize| wiggles(inputs[n].len(), phase + n as f64);
        [of(0), of(1), of(2)]
    });
    let (u, v) = (along(2.0), along(5.0));
    let (value, gradient, second) = derivatives(order, &inputs, Some(&v));
    let h = 1e-3;
    for by in 0..3 {
        let at = |t: f64| {
            let mut moved = inputs.clone();
            moved[by].iter_mut().zip(&u[by]).for_each(|(x, u)| *x += t * scale[by] * u);
            let (value, gradient, _) = derivatives(order, &moved, None);
            (value, (0..3).map(|n| dot(&gradient[n], &v[n])).sum::<f64>())
        };
        let p = [-2.0, -1.0, 1.0, 2.0].map(|t| at(t * h));
        let difference = |f: &dyn Fn(&(f64, f64)) -> f64| {
            (f(&p[0]) - 8.0 * f(&p[1]) + 8.0 * f(&p[2]) - f(&p[3])) / (12.0 * h)
        };
        let (found, expected) = (scale[by] * dot(&gradient[by], &u[by]), difference(&|p| p.0));
        let size = expected.abs().max(0.01 * value.abs());
        assert!((found - expected).abs() < 1e-8 * size, "gradient {by}: {found} {expected}");
        let (found, expected) = (scale[by] * dot(&second[by], &u[by]), difference(&|p| p.1));
        let size = expected.abs().max(0.01 * (0..3).map(|n| dot(&gradient[n], &v[n])).sum::<f64>().abs());
        assert!((found - expected).abs() < 1e-6 * size, "second {by}: {found} {expected}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let s = Setting::new(4);
    let call = |mesh: &Mesh| {
        let args = [
            Arg::Array(s.u.view()),
            Arg::Array(s.charges.view()),
            Arg::Structure(&s.atoms),
            Arg::Structure(mesh),
        ];
        spread_op().value(&madelung_cpu::context(), &args).unwrap_err().to_string()
    };
    let error = call(&Mesh::new(SIZES, 4, 2).unwrap());
    assert!(error.contains("`mesh`") && error.contains("System"), "{error}");
    let error = Mesh::new([6, 3, 9], 4, 1).unwrap_err().to_string();
    assert!(error.starts_with("`mesh`: expected three sizes ≥ the spline order, 4"), "{error}");
    let window = |origin, extent| Mesh::of_windows(&[(SIZES, 4, Window { origin, extent })]);
    for (origin, extent) in [([0, 0, 9], [6, 7, 4]), ([0; 3], [6, 7, 10]), ([0; 3], [6, 3, 9])] {
        let error = window(origin, extent).unwrap_err().to_string();
        let expected = format!(
            "`mesh`: expected a window of [6, 7, 9], no extent below the spline order, 4, got {extent:?} nodes from \
             {origin:?} on"
        );
        assert_eq!(error, expected);
    }
    // A wave is a sum over all nodes.
    let (influence, mesh) = (array(&[315], &[0.0; 315]), window([0; 3], [6, 7, 8]).unwrap());
    let args = [
        Arg::Array(s.u.view()),
        Arg::Array(s.charges.view()),
        Arg::Array(influence.view()),
        Arg::Structure(&s.atoms),
        Arg::Structure(&mesh),
    ];
    let error = mesh_energy_op().value(&madelung_cpu::context(), &args).unwrap_err().to_string();
    assert!(
        error.contains("`mesh`: expected whole meshes, as waves are those of all nodes, got windows"),
        "{error}"
    );
    let waves = Mesh::of_waves(SIZES, 4, 2..5).unwrap();
    assert_eq!((waves.waves(), waves.waves_of(0)), (3 * 7 * 5, 0..105));
    assert!(call(&waves).contains("got waves of planes"), "{}", call(&waves));
    let error = Mesh::of_waves(SIZES, 4, 2..7).unwrap_err().to_string();
    assert_eq!(error, "`mesh`: expected planes of the 6 along its first axis, got 2..7");
}

#[test]
fn nodes_that_a_mesh_lacks_are_not_added_to() {
    let (atoms, waves) = (Batch::single(1).unwrap(), Mesh::of_waves(SIZES, 4, 0..2).unwrap());
    let (u, q) = (array(&[1, 3], &[0.5; 3]), array(&[1], &[1.0]));
    let (mut density, word) = (Array::zeros(DType::F64, &[0]), Word::default());
    let size_of = |dim: &&str| usize::from(*dim != "Node");
    let dims: Vec<usize> = SPREAD.dims.iter().map(size_of).collect();
    let args = LaunchArgs {
        kernel: &SPREAD,
        part: &SPREAD.forms[0].parts[0],
        dtype: DType::F64,
        dims: &dims,
        arrays: vec![
            ((0, Role::VALUE), Bound::Input(u.view())),
            ((1, Role::VALUE), Bound::Input(q.view())),
            ((4, Role::VALUE), Bound::Output { array: &mut density, adds: true }),
        ],
        structures: vec![(2, &atoms), (3, &waves)],
        reals: vec![],
        ints: vec![],
        status: &word,
        word: None,
    };
    let error = Launch::new(args, Place::Host).expect_err("no nodes").to_string();
    assert_eq!(error, "`mesh`: expected 0 for Node, got none");
}
