//! The potentials, their formulas again, and systems for them.

use crate::common;
use crate::common::numeric::{assert_close_rms, rms};
use crate::common::systems::{SplitMix64, System, random_system, triclinic_cell};
use madelung_core::Error;
use madelung_core::array::{Array, DType};
use madelung_core::backend::pool::Serial;
use madelung_core::backend::{Context, PairLoops};
use madelung_core::op::{Arg, Cotangent, Op, Request};
use madelung_core::structure::{Batch, Map, Structure};
use madelung_neighbors::{Form, Neighbors, Options, find_neighbors};
use madelung_potentials::{
    BORN_MAYER, BUCKINGHAM, LENNARD_JONES, MIE, MORSE, PairPotential, SOFT_CORE, TANG_TOENNIES, YUKAWA, ZBL,
    pair_potential,
};
use std::sync::Arc;

/// A potential of another crate than the library's own.
pub(crate) mod formula {
    madelung_core::kernels! {
        #[func]
        pub(crate) fn gaussian(r: Real, height: Real, width: Real) -> Real {
            height * exp(-r * r / (width * width))
        }
    }
}

pair_potential! {
    /// A Gaussian.
    static GAUSSIAN: gaussian = crate::cases::formula::gaussian[height, width];
}

/// A potential, its formula again, and the range of its parameters.
pub(crate) struct Case {
    pub(crate) potential: PairPotential,
    pub(crate) plain: fn(f64, &[f64]) -> f64,
    pub(crate) ranges: &'static [(f64, f64)],
    pub(crate) amplitudes: &'static [usize],
}

/// A case; `amplitudes` are the parameters without which two atoms have no energy.
pub(crate) const fn case(
    potential: PairPotential,
    plain: fn(f64, &[f64]) -> f64,
    ranges: &'static [(f64, f64)],
    amplitudes: &'static [usize],
) -> Case {
    Case { potential, plain, ranges, amplitudes }
}

pub(crate) const CASES: [Case; 10] = [
    case(
        BORN_MAYER,
        |r, p| p[0] * (p[1] * (p[2] - r)).exp() - p[3] / r.powi(6) - p[4] / r.powi(8),
        &[(0.5, 2.0), (1.5, 2.5), (1.5, 2.0), (0.5, 3.0), (0.5, 3.0)],
        &[0, 3, 4],
    ),
    case(
        BUCKINGHAM,
        |r, p| p[0] * (-r / p[1]).exp() - p[2] / r.powi(6),
        &[(50.0, 90.0), (0.4, 0.6), (0.5, 5.0)],
        &[0, 2],
    ),
    case(
        LENNARD_JONES,
        |r, p| 4.0 * p[0] * ((p[1] / r).powi(12) - (p[1] / r).powi(6)),
        &[(0.2, 1.5), (1.2, 1.8)],
        &[0],
    ),
    case(
        MIE,
        |r, p| {
            let [n, m] = [p[2], p[3]];
            n / (n - m) * (n / m).powf(m / (n - m)) * p[0] * ((p[1] / r).powf(n) - (p[1] / r).powf(m))
        },
        &[(0.2, 1.5), (1.2, 1.8), (9.0, 14.0), (5.0, 7.0)],
        &[0],
    ),
    case(
        MORSE,
        |r, p| p[0] * ((1.0 - (-p[1] * (r - p[2])).exp()).powi(2) - 1.0),
        &[(0.5, 1.5), (1.0, 2.0), (1.5, 2.5)],
        &[0],
    ),
    case(
        SOFT_CORE,
        |r, p| {
            let u = p[3] * (1.0 - p[2]).powi(2) + (r / p[1]).powi(6);
            4.0 * p[0] * p[2] * (u.powi(-2) - u.powi(-1))
        },
        &[(0.2, 1.5), (1.2, 1.8), (0.2, 0.9), (0.4, 0.6)],
        &[0],
    ),
    case(
        TANG_TOENNIES,
        |r, p| {
            let damped = |n: i32| {
                // The rest of the series of the exponential function, of positive terms.
                let x = p[1] * r;
                let first = (1..=n + 1).fold((-x).exp(), |term, k| term * x / f64::from(k));
                let terms = (n + 2..n + 60).scan(first, |term, k| {
                    let now = *term;
                    *term *= x / f64::from(k);
                    Some(now)
                });
                terms.sum::<f64>()
            };
            let powers = [(6, p[2]), (8, p[3]), (10, p[4])];
            p[0] * (-p[1] * r).exp() - powers.iter().map(|(n, c)| damped(*n) * c / r.powi(*n)).sum::<f64>()
        },
        &[(20.0, 40.0), (2.0, 3.0), (0.5, 3.0), (0.5, 3.0), (0.5, 3.0)],
        &[0, 2, 3, 4],
    ),
    case(YUKAWA, |r, p| p[0] * (-p[1] * r).exp() / r, &[(0.5, 1.5), (0.5, 1.5)], &[0]),
    case(
        ZBL,
        |r, p| {
            let terms = [(0.18175, 3.19980), (0.50986, 0.94229), (0.28022, 0.40290), (0.02817, 0.20162)];
            p[0] / r * terms.iter().map(|(c, b)| c * f64::exp(-b * r / p[1])).sum::<f64>()
        },
        &[(0.5, 1.5), (0.5, 1.0)],
        &[0],
    ),
    case(GAUSSIAN, |r, p| p[0] * (-(r / p[1]).powi(2)).exp(), &[(0.5, 1.5), (1.0, 2.0)], &[]),
];

pub(crate) const CUTOFF: f64 = 4.7;
pub(crate) const TAPER: f64 = 3.1;

pub(crate) fn taper(r: f64, from: f64, to: f64) -> f64 {
    let x = ((r - from) / (to - from)).max(0.0);
    if r >= to { 0.0 } else { 1.0 - 10.0 * x.powi(3) + 15.0 * x.powi(4) - 6.0 * x.powi(5) }
}

/// Distances from which energies end; at the cutoff: they are cut off.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) taper: f64,
    pub(crate) switch: f64,
    /// In place of the taper, of what ends take off.
    pub(crate) bend: Option<f64>,
}

pub(crate) const CUT: Ends = Ends { taper: CUTOFF, switch: CUTOFF, bend: None };
pub(crate) const TAPERED: Ends = Ends { taper: TAPER, ..CUT };
pub(crate) const SWITCHED: Ends = Ends { switch: TAPER, ..CUT };

impl Ends {
    pub(crate) const fn cut_at(cutoff: f64) -> Self {
        Self { taper: cutoff, switch: cutoff, bend: None }
    }

    /// The factor of an energy at distance r.
    pub(crate) fn kept(&self, r: f64, to: f64) -> f64 {
        if r > self.switch && r < to {
            let [r2, from, to] = [r, self.switch, to].map(|x| x * x);
            (to - r2).powi(2) * (to + 2.0 * r2 - 3.0 * from) / (to - from).powi(3)
        } else {
            taper(r, self.taper, to)
        }
    }

    /// The scalars of a call.
    pub(crate) fn args(&self, cutoff: f64) -> [Arg<'static>; 3] {
        [cutoff, self.bend.unwrap_or(self.taper), self.switch].map(Arg::Real)
    }
}

/// Terms that an end takes off: a straight line, or for `bend` > 0 a force switch.
pub(crate) fn end_terms(r: f64, to: f64, bend: f64, [value, slope, curvature]: [f64; 3]) -> f64 {
    if bend == 0.0 {
        return value + slope * (r - to);
    }
    // The force −V′ and what is added to it, A x² + B x³, are 0 at the end with their slopes.
    let (x, w) = ((r - bend).max(0.0), to - bend);
    let a = (3.0 * slope - w * curvature) / w.powi(2);
    let b = (w * curvature - 2.0 * slope) / w.powi(3);
    let added = |x: f64| a / 3.0 * x.powi(3) + b / 4.0 * x.powi(4);
    value + added(x) - added(w)
}

/// Systems with a type for each atom, and (K, K) tables.
#[derive(Clone)]
pub(crate) struct Given {
    pub(crate) systems: Vec<System>,
    pub(crate) types: Vec<i32>,
    pub(crate) kinds: usize,
    pub(crate) tables: Vec<Vec<f64>>,
    pub(crate) ends: Ends,
    pub(crate) cutoff: f64,
}

impl Given {
    /// Two systems of unlike sizes and cells, and tables that are not symmetric.
    pub(crate) fn new(case: &Case, kinds: usize) -> Self {
        let mut r = SplitMix64(kinds as u64);
        let systems = vec![
            random_system(5, 7, triclinic_cell(160.0), 1.2, 1.2),
            random_system(6, 4, triclinic_cell(90.0), 1.2, 1.2),
        ];
        let atoms = systems.iter().map(|s| s.positions.len()).sum::<usize>();
        let types = (0..atoms).map(|_| r.uniform(0.0, kinds as f64) as i32).collect();
        let table = |(lo, hi): &(f64, f64)| (0..kinds * kinds).map(|_| r.uniform(*lo, *hi)).collect();
        let tables = case.ranges.iter().map(table).collect();
        Self { systems, types, kinds, tables, ends: TAPERED, cutoff: CUTOFF }
    }

    /// The energy of two types at a distance.
    pub(crate) fn pair(&self, case: &Case, [a, b]: [usize; 2], r: f64) -> f64 {
        let mean = |t: &Vec<f64>| 0.5 * (t[a * self.kinds + b] + t[b * self.kinds + a]);
        let p: Vec<f64> = self.tables.iter().map(mean).collect();
        if r < self.cutoff { (case.plain)(r, &p) * self.ends.kept(r, self.cutoff) } else { 0.0 }
    }

    /// Energies per atom by definition.
    pub(crate) fn plain(&self, case: &Case) -> Vec<f64> {
        let (mut energies, mut first) = (vec![], 0);
        for system in &self.systems {
            let images = common::oracle::dual_basis(&system.cell)
                .map(|b| (b.iter().map(|x| x * x).sum::<f64>().sqrt() * self.cutoff).ceil() as i32 + 2);
            let n = system.positions.len();
            for i in 0..n {
                let mut sum = common::oracle::Sum::default();
                for j in 0..n {
                    let types = [i, j].map(|k| self.types[first + k] as usize);
                    for x in -images[0]..=images[0] {
                        for y in -images[1]..=images[1] {
                            for z in -images[2]..=images[2] {
                                let shift = [x, y, z].map(f64::from);
                                let d: [f64; 3] = std::array::from_fn(|c| {
                                    let image: f64 = (0..3).map(|k| shift[k] * system.cell[k][c]).sum();
                                    system.positions[j][c] - system.positions[i][c] + image
                                });
                                let r = d.iter().map(|x| x * x).sum::<f64>().sqrt();
                                if r > 0.0 && r < self.cutoff {
                                    sum.add(self.pair(case, types, r));
                                }
                            }
                        }
                    }
                }
                energies.push(0.5 * sum.value());
            }
            first += n;
        }
        energies
    }

    pub(crate) fn total(&self, case: &Case) -> f64 {
        self.plain(case).iter().sum()
    }

    pub(crate) fn rows(&self) -> Vec<[f64; 3]> {
        self.systems.iter().flat_map(|s| s.positions.clone()).collect()
    }

    pub(crate) fn cells(&self) -> Vec<[[f64; 3]; 3]> {
        self.systems.iter().map(|s| s.cell).collect()
    }

    pub(crate) fn batch(&self) -> Batch<'static> {
        let sizes = self.systems.iter().map(|s| s.positions.len() as i32);
        let ptr = std::iter::once(0).chain(sizes.scan(0, |n, m| {
            *n += m;
            Some(*n)
        }));
        Batch::from_ptr(ptr.collect::<Vec<i32>>()).expect("a batch")
    }

    /// A full list that reaches a little further than the cutoff.
    pub(crate) fn list(&self) -> Neighbors<'static> {
        let (rows, cells, batch) = (self.rows(), self.cells(), self.batch());
        let options = Options::full().with_form(Form::Clusters);
        let list = find_neighbors(&rows, self.cutoff + 0.1, Some(&cells), None, &batch, &options, &Serial);
        list.expect("a list")
    }

    /// Arrays of the call, in the order of the arguments: positions, cell, tables.
    pub(crate) fn arrays(&self, dtype: DType) -> Vec<Array> {
        let make = |shape: &[usize], data: &[f64]| Array::from_f64(dtype, shape, data).expect("shapes fit");
        let (rows, cells) = (self.rows(), self.cells());
        let mut arrays = vec![
            make(&[rows.len(), 3], rows.as_flattened()),
            make(&[cells.len(), 3, 3], cells.as_flattened().as_flattened()),
        ];
        arrays.extend(self.tables.iter().map(|t| make(&[self.kinds, self.kinds], t)));
        arrays
    }

    /// Energies, and gradients of ⟨weights, energies⟩ by positions, cell, tables and strain.
    pub(crate) fn call(&self, op: &Op, dtype: DType, loops: PairLoops) -> Result<Vec<Vec<f64>>, Error> {
        let (arrays, batch, list) = (self.arrays(dtype), self.batch(), self.list());
        self.call_with(op, &arrays, (&batch, &list), loops)
    }

    pub(crate) fn call_with(
        &self,
        op: &Op,
        arrays: &[Array],
        (batch, list): (&Batch<'_>, &dyn Structure),
        loops: PairLoops,
    ) -> Result<Vec<Vec<f64>>, Error> {
        let types = Map::new(self.types.clone(), self.kinds)?;
        let mut args: Vec<Arg<'_>> = arrays.iter().map(|a| Arg::Array(a.view())).collect();
        args.extend([
            Arg::Zero,
            Arg::Structure(batch),
            Arg::Real(1.0),
            Arg::Structure(&types),
            Arg::Structure(list),
        ]);
        args.extend(self.ends.args(self.cutoff));
        let gradients: Vec<usize> = (0..=arrays.len()).collect();
        let request = Request {
            values: true,
            cotangents: &[Some(Cotangent::Uniform(1.0))],
            gradients: &gradients,
            ..Request::default()
        };
        let context = Context { pair_loops: loops, ..madelung_cpu::context() };
        // Values and forces alone take other forms than all gradients together.
        let values = op.value(&context, &args)?[0].to_f64()?;
        let few = Request { gradients: &[0, arrays.len()], ..request };
        let few: Vec<_> = op.evaluate(&context, &args, &few)?.gradients;
        let all = op.evaluate(&context, &args, &request)?;
        let all: Vec<Vec<f64>> =
            all.values.iter().chain(&all.gradients).map(|a| a.to_f64().unwrap()).collect();
        let tolerance = if arrays[0].dtype() == DType::F64 { 1e-12 } else { 1e-5 };
        for (x, y) in
            [(&values, &all[0]), (&few[0].to_f64()?, &all[1]), (&few[1].to_f64()?, &all[arrays.len() + 1])]
        {
            // Terms of order one may cancel.
            assert_close_rms(x, y, tolerance, rms(y).max(1.0));
        }
        // One gradient alone: the other arrays are not there.
        for n in &gradients {
            let alone = op.evaluate(&context, &args, &Request { gradients: &[*n], ..request })?;
            assert_close_rms(
                &alone.gradients[0].to_f64()?,
                &all[n + 1],
                tolerance,
                rms(&all[n + 1]).max(1.0),
            );
        }
        Ok(all)
    }
}

pub(crate) fn ops(case: &Case) -> [Arc<Op>; 2] {
    let ops = case.potential.ops("test").expect("the declarations fit");
    [ops[0].clone(), ops[1].clone()]
}
