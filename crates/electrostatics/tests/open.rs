//! Sums over all pairs of open systems against plain double loops, in batches with systems that are not open.

#[path = "../../../tests/common/mod.rs"]
mod common;

use common::numeric::{assert_close_rms, finite_difference, fourth_order_difference, rms};
use common::systems::SplitMix64;
use madelung_core::Error;
use madelung_core::array::{Array, DType, View};
use madelung_core::op::{Arg, Cotangent, Evaluated, Op, Request};
use madelung_core::structure::pairs::Kind;
use madelung_core::structure::{Batch, Map, PairList};
use madelung_electrostatics::registry;
use std::sync::Arc;

const PREFACTOR: f64 = 1.3;

/// Systems with atoms ptr[b]..ptr[b + 1].
#[derive(Clone)]
struct Systems {
    positions: Vec<[f64; 3]>,
    charges: Vec<f64>,
    ptr: Vec<i32>,
    is_open: Vec<i32>,
    /// Pairs of an open system with their factors.
    excluded: Vec<(usize, usize, f64)>,
    /// How far the list reaches.
    cutoff: f64,
}

impl Systems {
    /// Six systems: two molecules, one of them 8 long, one that is not open between them, one without atoms, one of a
    /// single atom, and a last one that is not open.
    fn mixed(cutoff: f64) -> Self {
        let mut rng = SplitMix64(11);
        let sizes = [23, 12, 9, 0, 1, 5];
        let mut ptr = vec![0];
        sizes.iter().for_each(|m| ptr.push(ptr[ptr.len() - 1] + m));
        let n = ptr[sizes.len()] as usize;
        let positions = (0..n).map(|_| [8.0, 3.0, 3.0].map(|l| rng.uniform(0.0, l))).collect();
        let charges = (0..n).map(|i| rng.uniform(0.3, 1.0) * if i % 2 == 0 { 1.0 } else { -0.8 }).collect();
        let excluded = vec![(0, 1, 0.0), (2, 9, 0.5), (3, 4, 1.0), (5, 6, 0.3), (36, 38, 0.0)];
        Self { positions, charges, ptr, is_open: vec![1, 0, 1, 1, 1, 0], excluded, cutoff }
    }

    fn factor(&self, i: usize, j: usize) -> f64 {
        let of = self.excluded.iter().find(|(a, b, _)| (*a, *b) == (i, j) || (*a, *b) == (j, i));
        of.map_or(1.0, |of| of.2)
    }

    /// Energies of atoms by definition: ½ qᵢ Σⱼ f qⱼ/r.
    fn energies(&self, without: bool) -> Vec<f64> {
        let mut energies = vec![0.0; self.charges.len()];
        for b in (0..self.is_open.len()).filter(|b| self.is_open[*b] > 0) {
            let atoms = self.ptr[b] as usize..self.ptr[b + 1] as usize;
            for i in atoms.clone() {
                for j in atoms.clone().filter(|j| *j != i) {
                    let f = if without { self.factor(i, j) } else { 1.0 };
                    if f != 0.0 {
                        let d: [f64; 3] =
                            std::array::from_fn(|c| self.positions[j][c] - self.positions[i][c]);
                        let r = (d[0] * d[0] + d[1] * d[1] + d[2] * d[2]).sqrt();
                        energies[i] += 0.5 * PREFACTOR * self.charges[i] * self.charges[j] * f / r;
                    }
                }
            }
        }
        energies
    }

    /// A list of the pairs that are not excluded, of all systems, a little beyond the cutoff; and one of those that are.
    fn lists(&self) -> [PairList<'static>; 2] {
        let n = self.charges.len();
        let systems = Batch::from_ptr(self.ptr.clone()).expect("a batch");
        let is_excluded =
            |i, j| self.excluded.iter().any(|(a, b, _)| (*a, *b) == (i, j) || (*a, *b) == (j, i));
        [false, true].map(|excluded| {
            let near = |i: usize, j: usize| {
                let d: f64 = (0..3).map(|c| (self.positions[j][c] - self.positions[i][c]).powi(2)).sum();
                excluded || d < (1.1 * self.cutoff).powi(2)
            };
            let pairs: Vec<_> = (0..n)
                .flat_map(|i| systems.members(systems.of(i)).map(move |j| (i, j)))
                .filter(|(i, j)| i != j && is_excluded(*i, *j) == excluded && near(*i, *j))
                .collect();
            let rows: Vec<i32> = pairs.iter().map(|p| p.0 as i32).collect();
            let columns: Vec<i32> = pairs.iter().map(|p| p.1 as i32).collect();
            let shifts = vec![[0; 3]; pairs.len()];
            PairList::from_coo(&rows, columns, shifts, n, n, Kind::Full).expect("a list").into_owned()
        })
    }

    /// A call of an op, and what it gives.
    fn evaluate(&self, op: &Op, dtype: DType, request: &Request<'_, '_>) -> Result<Evaluated, Error> {
        let (n, systems) = (self.charges.len(), self.is_open.len());
        let array = |shape: &[usize], data: &[f64]| Array::from_f64(dtype, shape, data).expect("shapes fit");
        let positions = array(&[n, 3], self.positions.as_flattened());
        let charges = array(&[n], &self.charges);
        // Of no volume: nobody looks at it.
        let cell = Array::zeros(dtype, &[systems, 3, 3]);
        let factors: Vec<f64> = self.excluded.iter().map(|(.., f)| *f).collect();
        let factors = array(&[factors.len()], &factors);
        let atoms = Batch::from_ptr(self.ptr.clone()).expect("a batch");
        let [pairs, excluded] = self.lists();
        let of = |(i, j, _): (usize, usize, [i32; 3])| {
            let is = |(a, b, _): &(usize, usize, f64)| (*a, *b) == (i, j) || (*a, *b) == (j, i);
            self.excluded.iter().position(is).expect("an excluded pair") as i32
        };
        let of: Vec<i32> = excluded.iter().map(of).collect();
        let exclusion_of = Map::new(of, self.excluded.len()).expect("a map");
        let args: Vec<Arg<'_>> = op
            .args
            .iter()
            .map(|arg| match arg.name.as_str() {
                "positions" => Arg::Array(positions.view()),
                "charges" => Arg::Array(charges.view()),
                "cell" => Arg::Array(cell.view()),
                "strain" => Arg::Zero,
                "is_open" => Arg::Array(View::from(&self.is_open)),
                "atoms" => Arg::Structure(&atoms),
                "prefactor" => Arg::Real(PREFACTOR),
                "pairs" => Arg::Structure(&pairs),
                "excluded" => Arg::Structure(&excluded),
                "exclusion_of" => Arg::Structure(&exclusion_of),
                "factors" => Arg::Array(factors.view()),
                "cutoff" => Arg::Real(self.cutoff),
                "real" | "reciprocal" => Arg::Real(1.0),
                name => panic!("what is `{name}`?"),
            })
            .collect();
        op.evaluate(&madelung_cpu::context(), &args, request)
    }

    fn value(&self, op: &Op, dtype: DType) -> Result<Vec<f64>, Error> {
        let request = Request { values: true, ..Request::default() };
        Ok(self.evaluate(op, dtype, &request)?.values[0].to_f64().expect("reals"))
    }

    /// Gradients of the sum of the energies by some arguments.
    fn gradients(&self, op: &Op, by: &[&str]) -> Vec<Vec<f64>> {
        let by: Vec<usize> = by.iter().map(|name| op.arg(name).expect("an argument")).collect();
        let cotangents = &[Some(Cotangent::Uniform(1.0))];
        let request = Request { cotangents, gradients: &by, ..Request::default() };
        let found = self.evaluate(op, DType::F64, &request).expect("gradients");
        found.gradients.iter().map(|g| g.to_f64().expect("reals")).collect()
    }
}

fn op(name: &str) -> Arc<Op> {
    registry().get(name).expect("an op").clone()
}

/// Without a list, and over lists shorter than the molecules, of all pairs, and without an end.
fn cases() -> Vec<(&'static str, bool, Systems)> {
    let of = |cutoff| Systems::mixed(cutoff);
    let mut all = vec![("open_summation", false, of(3.0))];
    all.extend([1.1, 3.0, 40.0, 1e30].map(|cutoff| ("open_summation_without", true, of(cutoff))));
    all
}

#[test]
fn energies_are_those_of_all_pairs() {
    for (name, without, systems) in cases() {
        let want = systems.energies(without);
        let by_system: Vec<f64> = systems
            .ptr
            .windows(2)
            .map(|atoms| common::oracle::sum(want[atoms[0] as usize..atoms[1] as usize].iter().copied()))
            .collect();
        for (dtype, bound) in [(DType::F64, 2e-15), (DType::F32, 1e-6)] {
            let got = systems.value(&op(name), dtype).expect("energies");
            assert_close_rms(&got, &want, bound, rms(&want));
            // Systems that take no part have no energy at all.
            for (x, y) in got.iter().zip(&want).filter(|(_, y)| **y == 0.0) {
                assert_eq!(x, y, "{name}");
            }
            let total = systems.value(&op(&format!("{name}_total")), dtype).expect("energies");
            assert_close_rms(&total, &by_system, bound, rms(&by_system));
        }
    }
}

#[test]
fn gradients_are_those_of_all_pairs() {
    for (name, without, systems) in cases() {
        let energy = |s: &Systems| common::oracle::sum(s.energies(without));
        let strained = |e: &[f64]| {
            let apply = |r: &[f64; 3]| {
                std::array::from_fn(|c| r[c] + (0..3).map(|k| r[k] * e[3 * k + c]).sum::<f64>())
            };
            energy(&Systems { positions: systems.positions.iter().map(apply).collect(), ..systems.clone() })
        };
        let moved = |x: &[f64]| energy(&Systems { positions: x.as_chunks().0.to_vec(), ..systems.clone() });
        let charged = |x: &[f64]| energy(&Systems { charges: x.to_vec(), ..systems.clone() });
        let scaled = |x: &[f64]| {
            let excluded = systems.excluded.iter().zip(x).map(|((i, j, _), f)| (*i, *j, *f)).collect();
            energy(&Systems { excluded, ..systems.clone() })
        };
        let factors: Vec<f64> = systems.excluded.iter().map(|(.., f)| *f).collect();
        let mut want = vec![
            ("positions", finite_difference(moved, systems.positions.as_flattened(), 1e-4)),
            ("charges", finite_difference(charged, &systems.charges, 1e-2)),
            ("strain", finite_difference(strained, &[0.0; 9], 1e-4)),
        ];
        if without {
            want.push(("factors", finite_difference(scaled, &factors, 1e-2)));
        }
        let by: Vec<&str> = want.iter().map(|w| w.0).chain(["cell"]).collect();
        for name in [name.to_string(), format!("{name}_total")] {
            let mut got = systems.gradients(&op(&name), &by);
            assert!(got.pop().expect("that by the cell").iter().all(|x| *x == 0.0), "{name}: a cell");
            for ((by, want), mut got) in want.iter().zip(got) {
                if *by == "strain" {
                    got = (0..9).map(|n| got.iter().skip(n).step_by(9).sum()).collect();
                }
                println!("{name} by {by}");
                assert_close_rms(&got, want, 1e-9, rms(want));
            }
        }
    }
}

/// Hessian-vector products along positions and charges against differences of gradients.
#[test]
fn second_derivatives() {
    for (name, _, systems) in cases() {
        let op = op(&format!("{name}_total"));
        let mut rng = SplitMix64(5);
        let n = systems.charges.len();
        let mut random = |n: usize| (0..n).map(|_| rng.uniform(-1.0, 1.0)).collect::<Vec<f64>>();
        let (u, v) = (random(3 * n), random(n));
        let (by_position, by_charge) = (op.arg("positions").expect("one"), op.arg("charges").expect("one"));
        let arrays = [
            Array::from_f64(DType::F64, &[n, 3], &u).expect("shapes fit"),
            Array::from_f64(DType::F64, &[n], &v).expect("shapes fit"),
        ];
        let mut direction: Vec<Option<View<'_>>> = vec![None; op.args.len()];
        direction[by_position] = Some(arrays[0].view());
        direction[by_charge] = Some(arrays[1].view());
        let request = Request {
            cotangents: &[Some(Cotangent::Uniform(1.0))],
            directions: &[&direction],
            gradients: &[by_position, by_charge],
            ..Request::default()
        };
        let found = systems.evaluate(&op, DType::F64, &request).expect("products");
        let moved = |h: f64| {
            let mut s = systems.clone();
            s.positions.as_flattened_mut().iter_mut().zip(&u).for_each(|(x, u)| *x += h * u);
            s.charges.iter_mut().zip(&v).for_each(|(x, v)| *x += h * v);
            s.gradients(&op, &["positions", "charges"])
        };
        for (k, found) in found.gradients.iter().enumerate() {
            let found = found.to_f64().expect("reals");
            let want: Vec<f64> =
                (0..found.len()).map(|at| fourth_order_difference(|h| moved(h)[k][at], 0.0, 1e-4)).collect();
            assert_close_rms(&found, &want, 1e-8, rms(&want));
        }
    }
}

/// Cores and shells on one point: their pair is left out, and all derivatives stay finite.
#[test]
fn excluded_pairs_may_lie_on_one_point() {
    let mut systems = Systems::mixed(2.0);
    systems.positions[1] = systems.positions[0];
    systems.positions[38] = systems.positions[36];
    let op = op("open_summation_without");
    let want = systems.energies(true);
    assert_close_rms(&systems.value(&op, DType::F64).expect("energies"), &want, 2e-15, rms(&want));
    let moved = |x: &[f64]| {
        let s = Systems { positions: x.as_chunks().0.to_vec(), ..systems.clone() };
        common::oracle::sum(s.energies(true))
    };
    let want = finite_difference(moved, systems.positions.as_flattened(), 1e-4);
    assert_close_rms(&systems.gradients(&op, &["positions"])[0], &want, 1e-9, rms(&want));
}

/// Pairs have no period: f32 is as good at any distance as at the next one.
#[test]
fn far_pairs_are_exact_in_f32() {
    for exponent in 0..=12 {
        let r = 10_f64.powf(0.5 * f64::from(exponent));
        for cutoff in [0.5, 3.0, 1e30] {
            let systems = Systems {
                positions: vec![[0.0; 3], [r, 0.0, 0.0]],
                charges: vec![1.0, -0.7],
                ptr: vec![0, 2],
                is_open: vec![1],
                excluded: vec![],
                cutoff,
            };
            // Both ends of the pair as f32 has them.
            let want = -0.7 * PREFACTOR / f64::from(r as f32);
            for name in ["open_summation_total", "open_summation_without_total"] {
                let got = systems.value(&op(name), DType::F32).expect("energies")[0];
                assert!(
                    (got / want - 1.0).abs() < 4e-7,
                    "{name} at {r}, cutoff {cutoff}: {got} against {want}"
                );
            }
        }
    }
}

#[test]
fn two_charges_on_one_point_are_named() {
    for dtype in [DType::F64, DType::F32] {
        for name in ["open_summation", "open_summation_without"] {
            let mut systems = Systems::mixed(2.0);
            systems.positions[42] = systems.positions[37];
            for name in [name.to_string(), format!("{name}_total")] {
                let error = systems.value(&op(&name), dtype).expect_err("an infinite energy").to_string();
                assert!(error.contains("no two atoms on one point, got atoms 37 and 42"), "{name}: {error}");
            }
            // Systems that take no part may do as they like.
            let mut systems = Systems::mixed(2.0);
            systems.positions[24] = systems.positions[23];
            let energies = systems.value(&op(name), dtype).expect("energies");
            assert!(energies.iter().all(|e| e.is_finite()), "{name}");
        }
    }
}

#[test]
fn no_systems_and_no_atoms() {
    let nothing = Systems {
        positions: vec![],
        charges: vec![],
        ptr: vec![0],
        is_open: vec![],
        excluded: vec![],
        cutoff: 2.0,
    };
    for ptr in [vec![0], vec![0, 0, 0]] {
        let systems = Systems { is_open: vec![1; ptr.len() - 1], ptr, ..nothing.clone() };
        for name in ["open_summation", "open_summation_without"] {
            assert!(systems.value(&op(name), DType::F64).expect("energies").is_empty());
            let total = systems.value(&op(&format!("{name}_total")), DType::F64).expect("energies");
            assert_eq!(total, vec![0.0; systems.is_open.len()]);
        }
    }
}
