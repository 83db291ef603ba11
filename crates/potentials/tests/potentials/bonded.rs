//! Bonded terms against their formulas.

use crate::common::numeric::{assert_close_rms, finite_difference, rms};
use crate::common::systems::{SplitMix64, triclinic_cell};
use crate::derivatives;
use madelung_core::array::{Array, DType, Data, View};
use madelung_core::op::{Arg, Cotangent, Request};
use madelung_core::structure::{Batch, Map};
use madelung_core::{Error, Result};
use madelung_potentials::bonded::{BONDED, BondedTerm};
use madelung_potentials::registry;
use std::f64::consts::PI;

type V = [f64; 3];

fn minus(a: V, b: V) -> V {
    std::array::from_fn(|k| a[k] - b[k])
}

fn dot(a: V, b: V) -> f64 {
    (0..3).map(|k| a[k] * b[k]).sum()
}

fn cross(a: V, b: V) -> V {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn length(a: V) -> f64 {
    dot(a, a).sqrt()
}

fn distance(r: &[V]) -> f64 {
    length(minus(r[1], r[0]))
}

/// The angle at the middle atom from its cosine.
fn angle(r: &[V]) -> f64 {
    let (u, v) = (minus(r[0], r[1]), minus(r[2], r[1]));
    (dot(u, v) / (length(u) * length(v))).acos()
}

/// The angle between the planes of the first and the last three atoms, with the sign of the triple product.
fn dihedral(r: &[V]) -> f64 {
    let (u, v, w) = (minus(r[1], r[0]), minus(r[2], r[1]), minus(r[3], r[2]));
    let (m, n) = (cross(u, v), cross(v, w));
    (dot(m, n) / (length(m) * length(n))).acos() * dot(u, n).signum()
}

/// The energy of a term, and ranges of its parameters.
type Plain = (fn(&[V], &[f64]) -> f64, &'static [(f64, f64)]);

fn plain(term: &BondedTerm) -> Plain {
    match term.name {
        "harmonic_bonds" => (|r, p| 0.5 * p[0] * (distance(r) - p[1]).powi(2), &[(1.0, 3.0), (0.9, 1.4)]),
        "lennard_jones_pairs" => (
            |r, p| {
                let s = (p[1] / distance(r)).powi(6);
                4.0 * p[0] * (s * s - s)
            },
            &[(1.0, 3.0), (0.8, 1.2)],
        ),
        "morse_bonds" => (
            |r, p| p[0] * (1.0 - (-p[1] * (distance(r) - p[2])).exp()).powi(2),
            &[(1.0, 3.0), (0.8, 2.0), (0.9, 1.4)],
        ),
        "harmonic_angles" => (|r, p| 0.5 * p[0] * (angle(r) - p[1]).powi(2), &[(1.0, 3.0), (1.5, 2.2)]),
        "cosine_angles" => {
            (|r, p| 0.5 * p[0] * (angle(r).cos() - p[1].cos()).powi(2), &[(1.0, 3.0), (1.5, 2.2)])
        }
        "periodic_dihedrals" => {
            (|r, p| p[0] * (1.0 + (p[1] * dihedral(r) - p[2]).cos()), &[(1.0, 3.0), (1.0, 3.0), (-1.0, 3.0)])
        }
        "ryckaert_bellemans" => {
            (|r, p| (0..6).map(|n| p[n] * (dihedral(r) - PI).cos().powi(n as i32)).sum(), &[(-2.0, 2.0); 6])
        }
        "harmonic_impropers" => (
            |r, p| {
                let d = dihedral(r) - p[1];
                0.5 * p[0] * (d - 2.0 * PI * (d / (2.0 * PI)).round()).powi(2)
            },
            &[(1.0, 3.0), (-3.0, 3.0)],
        ),
        other => panic!("no formula of {other}"),
    }
}

/// Three systems: chains of atoms in a triclinic cell, in a slab whose third vector is none, and in the open.
#[derive(Clone)]
struct Given {
    positions: Vec<V>,
    cells: Vec<[V; 3]>,
    periodic: Vec<i32>,
    batch: Vec<i32>,
    /// The atoms of each term, with the images that the chain was wrapped by.
    terms: Vec<Vec<i32>>,
    images: Vec<[i32; 3]>,
    parameters: Vec<Vec<f64>>,
}

impl Given {
    fn new(term: &BondedTerm) -> Self {
        let mut r = SplitMix64(11);
        let cells = vec![
            triclinic_cell(700.0),
            [[8.0, 0.0, 0.0], [2.0, 9.0, 0.0], [0.0; 3]],
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        ];
        let periodic = vec![1, 1, 1, 1, 1, 0, 0, 0, 0];
        let (mut positions, mut batch, mut images) = (vec![], vec![], vec![]);
        let count = [14, 9, 7];
        for (s, n) in count.into_iter().enumerate() {
            let mut at: V = std::array::from_fn(|_| r.uniform(0.0, 4.0));
            for i in 0..n {
                // A zigzag of bonds of about one, never in a line.
                let step = [0.8, if i % 2 == 0 { 0.5 } else { -0.5 }, if i % 3 == 0 { 0.4 } else { -0.3 }];
                at = std::array::from_fn(|k| at[k] + step[k] + r.uniform(-0.1, 0.1));
                let image: [i32; 3] =
                    std::array::from_fn(|k| periodic[3 * s + k] * (r.uniform(-2.0, 2.0) as i32));
                positions.push(std::array::from_fn(|k| {
                    at[k] + (0..3).map(|a| f64::from(image[a]) * cells[s][a][k]).sum::<f64>()
                }));
                images.push(image);
                batch.push(s as i32);
            }
        }
        let width = term.atoms.len();
        let mut terms: Vec<Vec<i32>> = vec![];
        for first in [0, 14, 23, 30].windows(2) {
            terms.extend((first[0]..=first[1] - width as i32).map(|a| (a..a + width as i32).collect()));
        }
        // In any order, some from the other side.
        for p in 0..terms.len() {
            let other = (r.uniform(0.0, 1.0) * terms.len() as f64) as usize;
            terms.swap(p, other);
            if p % 3 == 0 {
                terms[p].reverse();
            }
        }
        let parameters =
            plain(term).1.iter().map(|(lo, hi)| terms.iter().map(|_| r.uniform(*lo, *hi)).collect());
        let parameters = parameters.collect();
        Self { positions, cells, periodic, batch, terms, images, parameters }
    }

    /// The energy of each atom by the chain as it was before it was wrapped.
    fn plain(&self, term: &BondedTerm) -> Vec<f64> {
        let mut energy = vec![0.0; self.positions.len()];
        for (p, atoms) in self.terms.iter().enumerate() {
            let place = |a: &i32| -> V {
                let (r, image) = (self.positions[*a as usize], self.images[*a as usize]);
                let h = self.cells[self.batch[*a as usize] as usize];
                std::array::from_fn(|k| r[k] - (0..3).map(|a| f64::from(image[a]) * h[a][k]).sum::<f64>())
            };
            let r: Vec<V> = atoms.iter().map(place).collect();
            let parameters: Vec<f64> = self.parameters.iter().map(|x| x[p]).collect();
            let e = plain(term).0(&r, &parameters) / atoms.len() as f64;
            atoms.iter().for_each(|a| energy[*a as usize] += e);
        }
        energy
    }

    fn arrays(&self, dtype: DType) -> Vec<Array> {
        let array = |shape: &[usize], x: &[f64]| Array::from_f64(dtype, shape, x).expect("shapes fit");
        let n = self.positions.len();
        let mut all = vec![
            array(&[n, 3], self.positions.as_flattened()),
            array(&[self.cells.len(), 3, 3], self.cells.as_flattened().as_flattened()),
        ];
        all.extend(self.parameters.iter().map(|x| array(&[x.len()], x)));
        all
    }

    /// Gives a function the arguments behind the arrays.
    fn with_rest<R>(&self, run: impl FnOnce(&[Arg<'_>]) -> R) -> R {
        let batch = Batch::from_idx(self.batch.clone(), Some(self.cells.len())).expect("a batch");
        let width = self.terms[0].len();
        let column = |k: usize| self.terms.iter().map(|t| t[k]).collect::<Vec<_>>();
        let maps: Vec<Map<'_>> =
            (0..width).map(|k| Map::new(column(k), self.positions.len()).expect("a map")).collect();
        let systems: Vec<i32> = column(0).iter().map(|a| self.batch[*a as usize]).collect();
        let systems = Map::new(systems, self.cells.len()).expect("a map");
        let periodic = View::new(Data::I32(&self.periodic), &[self.cells.len(), 3]).expect("shapes fit");
        let mut rest = vec![Arg::Zero, Arg::Structure(&batch), Arg::Real(1.0)];
        rest.extend(maps.iter().map(|m| Arg::Structure(m)));
        rest.extend([Arg::Structure(&systems), Arg::Array(periodic)]);
        run(&rest)
    }

    /// Energies, and gradients of their sum by all arrays and the strain.
    fn call(&self, op: &str, dtype: DType) -> Result<Vec<Vec<f64>>> {
        let arrays = self.arrays(dtype);
        self.with_rest(|rest| {
            let mut args: Vec<Arg<'_>> = arrays.iter().map(|a| Arg::Array(a.view())).collect();
            args.extend_from_slice(rest);
            let gradients: Vec<usize> = (0..=arrays.len()).collect();
            let request = Request {
                values: true,
                cotangents: &[Some(Cotangent::Uniform(1.0))],
                gradients: &gradients,
                ..Request::default()
            };
            let op = registry().get(op).expect("an op of the registry");
            let done = op.evaluate(&madelung_cpu::context(), &args, &request)?;
            Ok(done.values.iter().chain(&done.gradients).map(|a| a.to_f64().unwrap()).collect())
        })
    }
}

#[test]
fn energies_and_gradients_are_those_of_the_formulas() {
    for term in BONDED {
        let given = Given::new(term);
        let want = given.plain(term);
        let got = given.call(term.name, DType::F64).expect("a call");
        assert_close_rms(&got[0], &want, 1e-12, rms(&want));
        let totals: Vec<f64> = (0..3)
            .map(|s| want.iter().zip(&given.batch).filter(|(_, b)| **b == s).map(|(e, _)| e).sum())
            .collect();
        let total = given.call(&format!("{}_total", term.name), DType::F64).expect("a call");
        assert_close_rms(&total[0], &totals, 1e-12, rms(&totals));
        for (a, b) in got[1..].iter().zip(&total[1..]) {
            assert_close_rms(a, b, 1e-14, rms(b));
        }
        let single = given.call(term.name, DType::F32).expect("a call");
        // Positions up to 30 in f32 have vectors good to 4e-6.
        assert_close_rms(&single[0], &want, 1e-4, rms(&want));
        let energy = |given: &Given| given.plain(term).iter().sum::<f64>();
        let check = |what: &str, got: &[f64], f: &dyn Fn(&[f64]) -> f64, at: &[f64]| {
            let want = finite_difference(f, at, 1e-3);
            println!("{} by {what}", term.name);
            assert_close_rms(got, &want, 1e-8, rms(&want));
        };
        let moved = |x: &[f64]| energy(&Given { positions: x.as_chunks().0.to_vec(), ..given.clone() });
        check("positions", &got[1], &moved, given.positions.as_flattened());
        let in_cells = |x: &[f64]| {
            energy(&Given { cells: x.as_chunks::<3>().0.as_chunks::<3>().0.to_vec(), ..given.clone() })
        };
        // The open system's cell is no lattice: nothing depends on it.
        check("cell", &got[2], &in_cells, given.cells.as_flattened().as_flattened());
        for (n, name) in term.parameters.iter().enumerate() {
            let with = |x: &[f64]| {
                let mut given = given.clone();
                given.parameters[n] = x.to_vec();
                energy(&given)
            };
            check(name, &got[3 + n], &with, &given.parameters[n]);
        }
        let strained = |x: &[f64]| {
            let strain = |v: &V, s: usize| -> V {
                std::array::from_fn(|k| v[k] + (0..3).map(|a| v[a] * x[9 * s + 3 * a + k]).sum::<f64>())
            };
            let mut given = given.clone();
            for (r, s) in given.positions.iter_mut().zip(&given.batch) {
                *r = strain(r, *s as usize);
            }
            for (s, h) in given.cells.iter_mut().enumerate() {
                *h = h.map(|v| strain(&v, s));
            }
            energy(&given)
        };
        check("strain", got.last().unwrap(), &strained, &[0.0; 27]);
    }
}

#[test]
fn derivatives_of_both_orders() {
    for term in BONDED {
        let given = Given::new(term);
        for total in ["", "_total"] {
            let op = registry().get(&format!("{}{total}", term.name)).expect("an op of the registry");
            given.with_rest(|rest| derivatives::of_both_orders(op, &given.arrays(DType::F64), rest));
        }
    }
}

/// An angle of 180° has a cosine with derivatives, and no angle with any; what has none is named.
#[test]
fn atoms_on_one_point_or_in_a_line() {
    for term in BONDED {
        let mut given = Given::new(term);
        let atoms = given.terms[4].clone();
        let [a, b] = [atoms[0], atoms[1]].map(|a| a as usize);
        let place = |given: &Given, a: usize| -> V {
            let (image, h) = (given.images[a], given.cells[given.batch[a] as usize]);
            std::array::from_fn(|k| {
                given.positions[a][k] - (0..3).map(|x| f64::from(image[x]) * h[x][k]).sum::<f64>()
            })
        };
        let error = |given: &Given| given.call(term.name, DType::F64).expect_err("no derivative").to_string();
        let whole: Vec<V> = (0..given.positions.len()).map(|i| place(&given, i)).collect();
        (given.positions, given.images) = (whole, vec![[0; 3]; given.images.len()]);
        if atoms.len() > 2 {
            // Whole numbers, so that the line is exact.
            given.positions[a] = [1.0, 2.0, 0.0];
            given.positions[b] = [2.0, 2.0, 0.0];
            given.positions[atoms[2] as usize] = [3.0, 2.0, 0.0];
            if term.name == "cosine_angles" {
                assert!(
                    given
                        .call(term.name, DType::F64)
                        .expect("a call")
                        .iter()
                        .flatten()
                        .all(|x| x.is_finite())
                );
            } else {
                let error = error(&given);
                assert!(error.contains("`positions`") && error.contains(&format!("{atoms:?}")), "{error}");
                assert!(error.contains("180°") || error.contains("in a line"), "{error}");
            }
        }
        given.positions[a] = given.positions[b];
        let error = error(&given);
        assert!(error.contains("bonded atoms that are apart"), "{error}");
        assert!(error.contains(&format!("{atoms:?}")) || atoms.len() > 2, "{error}");
    }
}

#[test]
fn atoms_of_terms_are_checked() {
    let op = registry().get("bonded_atoms").expect("an op of the registry");
    let batch = Batch::from_idx(vec![0, 0, 0, 0, 1, 1], Some(2)).expect("a batch");
    let call = |terms: Vec<i32>, width: i64| -> Result<Vec<Vec<i32>>> {
        let terms = Array::I32(terms.into());
        let args = [Arg::Array(terms.view()), Arg::Int(width), Arg::Structure(&batch)];
        let request = Request { values: true, ..Request::default() };
        let found = op.evaluate(&madelung_cpu::context(), &args, &request)?;
        let integers = |a: &Array| a.view().to_i32("integers").unwrap().into_owned();
        Ok(found.values.iter().map(integers).collect())
    };
    let found = call(vec![0, 1, 2, 3, 5, 4], 2).expect("bonds");
    assert_eq!(found, [[0, 2, 5, 1, 3, 4], [0, 0, 1, 0, 0, 1]]);
    assert_eq!(call(vec![2, 0, 1], 3).expect("an angle")[0], [2, 0, 1]);
    assert_eq!(call(vec![], 4).expect("no dihedrals"), [[0; 0], [0; 0]]);
    let refused = |terms: Vec<i32>, width: i64, words: [&str; 2]| {
        let error: Error = call(terms, width).expect_err("not a term");
        let error = error.to_string();
        assert!(error.contains("`atoms`") && words.iter().all(|w| error.contains(w)), "{error}");
    };
    refused(vec![0, 1, 2, 6], 2, ["below 6", "6 (term 1: [2, 6])"]);
    refused(vec![0, 1, -1, 3], 2, ["below 6", "-1 (term 1: [-1, 3])"]);
    refused(vec![0, 1, 2, 2, 1, 2], 3, ["differ", "atom 2 twice (term 1: [2, 1, 2])"]);
    refused(vec![0, 1, 2, 3, 4, 3], 2, ["one system", "systems 1 and 0 (term 2: [4, 3])"]);
}
