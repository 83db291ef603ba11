//! The kernels and the data of the tests of clusters.

use madelung_core::array::{Array, DType, View};
use madelung_core::backend::Context;
use madelung_core::backend::pool::Serial;
use madelung_core::op::{Arg, Cotangent, Op, OpBuilder, Request};
use madelung_core::structure::Batch;
use madelung_core::structure::pairs::order::SpatialOrder;
use madelung_core::structure::pairs::{Clusters, Kind, Neighbors, PairList};
use std::sync::Arc;

madelung_core::kernels! {
    /// Screened charges: the same from both sides of a pair.
    #[kernel(fast(positions), fast(positions, charges, strain))]
    pub(super) fn yukawa(
        i: Atom,
        positions: &[Vec3; Atom],
        charges: &[Real; Atom],
        kappa: &[Real; System],
        cell: &[Mat3; System],
        strain: &[Zero<Mat3>; System],
        cutoff: Real,
        atoms: &Batch<Atom, System>,
        pairs: &Pairs<Atom>,
        energy: &mut [Real; Atom],
    ) {
        let b = atoms.of(i);
        let mut e = 0.0;
        for (j, shift) in pairs.row(i) {
            let d = positions[j] - positions[i] + shift * cell[b];
            let d = d + d * strain[b];
            let r = length(d);
            if r < cutoff { e += charges[j] * exp(-kappa[b] * r) / r; }
        }
        energy[i] = 0.5 * charges[i] * e;
    }

    /// Density around an atom, which differs between the two of a pair, with two sums, integers, and a sum over the system.
    #[kernel(fast(positions))]
    pub(super) fn density(
        i: Atom,
        positions: &[Vec3; Atom],
        reach: &[Real; Atom],
        species: &[i32; Atom],
        cell: &[Mat3; System],
        cutoff: Real,
        atoms: &Batch<Atom, System>,
        pairs: &Pairs<Atom>,
        energy: &mut [Real; Atom],
        total: &mut [Real; System],
    ) {
        let b = atoms.of(i);
        let mut near = 1.0;
        let mut far = 0.0;
        for (j, shift) in pairs.row(i) {
            let d = positions[j] - positions[i] + shift * cell[b];
            let r = length(d);
            if r < cutoff {
                near += exp(-r / reach[j]) * (1.0 + species[j]);
                far += species[i] * d.x / (r + reach[i]);
            }
        }
        energy[i] = near + 0.3 * far;
        total[b] += far;
    }
}

pub(super) const CUTOFF: f64 = 4.0;
pub(super) const TRICLINIC: [[f64; 3]; 3] = [[1.0, 0.1, -0.2], [0.3, 1.1, 0.15], [-0.1, 0.25, 0.95]];

/// An op of the arguments of `YUKAWA`.
pub(super) fn of_yukawa(name: &str) -> OpBuilder {
    Op::new("test", name, 1)
        .real("positions", &["Atom", "3"])
        .real("charges", &["Atom"])
        .real("kappa", &["System"])
        .real("cell", &["System", "3", "3"])
        .zero("strain", &["System", "3", "3"])
        .scalar("cutoff")
        .batch("atoms", "Atom", "System")
        .pairs("pairs", "Atom")
}

pub(super) fn yukawa_op() -> Arc<Op> {
    of_yukawa("yukawa").output("energy", &["Atom"]).step(&YUKAWA).build().unwrap()
}

pub(super) fn density_op() -> Arc<Op> {
    Op::new("test", "density", 1)
        .real("positions", &["Atom", "3"])
        .real("reach", &["Atom"])
        .ints("species", &["Atom"])
        .real("cell", &["System", "3", "3"])
        .scalar("cutoff")
        .batch("atoms", "Atom", "System")
        .pairs("pairs", "Atom")
        .output("energy", &["Atom"])
        .output("total", &["System"])
        .step(&DENSITY)
        .build()
        .unwrap()
}

pub(super) fn random(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

pub(super) type Pair = (usize, usize, [i32; 3]);

#[derive(Clone)]
pub(super) struct System {
    pub(super) positions: Vec<[f64; 3]>,
    pub(super) cell: [[f64; 3]; 3],
    pub(super) pairs: Vec<Pair>,
}

/// All pairs within reach, image by image.
pub(super) fn all_pairs(positions: &[[f64; 3]], cell: &[[f64; 3]; 3], reach: f64, images: i32) -> Vec<Pair> {
    let mut found = vec![];
    let range = || -images..=images;
    for i in 0..positions.len() {
        for j in 0..positions.len() {
            for s in range().flat_map(|x| range().flat_map(move |y| range().map(move |z| [x, y, z]))) {
                let component = |c: usize| {
                    let image: f64 = (0..3).map(|k| f64::from(s[k]) * cell[k][c]).sum();
                    positions[j][c] - positions[i][c] + image
                };
                let r2: f64 = (0..3).map(|c| component(c).powi(2)).sum();
                if r2 < reach * reach && (i, s) != (j, [0; 3]) {
                    found.push((i, j, s));
                }
            }
        }
    }
    found
}

/// `n` atoms at about 0.1 for each unit of volume, no two closer than 0.7, pairs a little beyond the cutoff.
pub(super) fn system(n: usize, seed: u64) -> System {
    let mut next = random(seed);
    let edge = (10.0 * n as f64).cbrt();
    let cell = TRICLINIC.map(|row| row.map(|x| x * edge));
    let images = (CUTOFF / (0.8 * edge)).ceil() as i32;
    let mut positions: Vec<[f64; 3]> = vec![];
    while positions.len() < n {
        let s = [next(), next(), next()];
        let r: [f64; 3] = std::array::from_fn(|c| (0..3).map(|k| s[k] * cell[k][c]).sum());
        positions.push(r);
        let close = all_pairs(&positions[positions.len() - 1..], &cell, 0.7, 1).len()
            + positions[..positions.len() - 1]
                .iter()
                .map(|other| all_pairs(&[*other, r], &cell, 0.7, 1).len())
                .sum::<usize>();
        if close > 0 {
            positions.pop();
        }
    }
    let pairs = all_pairs(&positions, &cell, CUTOFF + 0.3, images + 1);
    System { positions, cell, pairs }
}

pub(super) fn open_system(n: usize, seed: u64) -> System {
    let mut system = system(n, seed);
    system.pairs = all_pairs(&system.positions, &system.cell, CUTOFF, 0);
    system
}

/// Systems in a batch, in one dtype.
pub(super) struct Given {
    pub(super) dtype: DType,
    pub(super) positions: Array,
    pub(super) cells: Vec<[[f64; 3]; 3]>,
    pub(super) cell: Array,
    pub(super) charges: Array,
    pub(super) kappa: Array,
    pub(super) reach: Array,
    pub(super) species: Vec<i32>,
    /// A cotangent for each atom.
    pub(super) weights: Array,
    /// Tangents of positions, charges, κ, the cell and the strain.
    pub(super) along: [Array; 5],
    pub(super) batch: Batch<'static>,
    pub(super) list: Neighbors<'static>,
}

impl Given {
    pub(super) fn new(systems: &[System], dtype: DType, kind: Kind) -> Self {
        let positions: Vec<f64> = systems.iter().flat_map(|s| s.positions.as_flattened()).copied().collect();
        let cells: Vec<_> = systems.iter().map(|s| s.cell).collect();
        let n = positions.len() / 3;
        let (mut idx, mut rows, mut columns, mut shifts) = (vec![], vec![], vec![], vec![]);
        let mut first = 0;
        for (b, s) in systems.iter().enumerate() {
            idx.resize(first + s.positions.len(), b as i32);
            for (i, j, shift) in &s.pairs {
                rows.push((first + i) as i32);
                columns.push((first + j) as i32);
                shifts.push(*shift);
            }
            first += s.positions.len();
        }
        // The same in each system, whatever the batch.
        let each = |salt: u64, count: usize| -> Vec<f64> {
            let of_system = |s: &System| {
                let mut next = random(s.positions.len() as u64 + salt);
                (0..s.positions.len() * count).map(|_| 2.0 * next() - 1.0).collect::<Vec<_>>()
            };
            systems.iter().flat_map(of_system).collect()
        };
        let charges = each(0, 1);
        let matrix = [0.3, -0.1, 0.2, 0.05, -0.2, 0.15, -0.25, 0.1, 0.4].repeat(cells.len());
        let of = |shape: &[usize], data: &[f64]| Array::from_f64(dtype, shape, data).unwrap();
        Self {
            dtype,
            positions: of(&[n, 3], &positions),
            cell: of(&[cells.len(), 3, 3], cells.as_flattened().as_flattened()),
            charges: of(&[n], &charges),
            kappa: of(&[cells.len()], &vec![0.4; cells.len()]),
            reach: of(&[n], &each(4000, 1).iter().map(|x| 1.5 + 0.5 * x).collect::<Vec<_>>()),
            species: systems.iter().flat_map(|s| (0..s.positions.len()).map(|i| (i % 3) as i32)).collect(),
            weights: of(&[n], &each(1000, 1)),
            along: [
                of(&[n, 3], &each(2000, 3)),
                of(&[n], &each(3000, 1)),
                of(&[cells.len()], &vec![0.7; cells.len()]),
                of(&[cells.len(), 3, 3], &matrix),
                of(&[cells.len(), 3, 3], &matrix),
            ],
            batch: Batch::from_idx(idx, Some(systems.len())).unwrap(),
            list: Neighbors::Rows(PairList::from_coo(&rows, columns, shifts, n, n, kind).unwrap()),
            cells,
        }
    }

    pub(super) fn order(&self) -> SpatialOrder {
        SpatialOrder::new(&self.positions.view(), &self.cells, &self.batch).unwrap()
    }

    pub(super) fn ordered(mut self) -> Self {
        let clusters = Clusters::from_list(&self.rows(), &self.order(), false, &Serial).unwrap();
        self.list = Neighbors::Clusters(clusters.into());
        self
    }

    pub(super) fn rows(&self) -> PairList<'_> {
        self.list.rows(&Serial)
    }

    pub(super) fn yukawa(&self) -> [Arg<'_>; 8] {
        [
            Arg::Array(self.positions.view()),
            Arg::Array(self.charges.view()),
            Arg::Array(self.kappa.view()),
            Arg::Array(self.cell.view()),
            Arg::Zero,
            Arg::Real(CUTOFF),
            Arg::Structure(&self.batch),
            Arg::Structure(&self.list),
        ]
    }

    pub(super) fn density(&self) -> [Arg<'_>; 7] {
        let species =
            View::new(madelung_core::array::Data::I32(&self.species), &[self.species.len()]).unwrap();
        [
            Arg::Array(self.positions.view()),
            Arg::Array(self.reach.view()),
            Arg::Array(species),
            Arg::Array(self.cell.view()),
            Arg::Real(CUTOFF),
            Arg::Structure(&self.batch),
            Arg::Structure(&self.list),
        ]
    }

    /// The tangents of some arguments of `YUKAWA`.
    pub(super) fn direction(&self, of: &[usize]) -> Vec<Option<View<'_>>> {
        (0..8).map(|n| of.contains(&n).then(|| self.along[n].view())).collect()
    }

    /// A member of the family of `YUKAWA` with a weight for each atom.
    pub(super) fn member(
        &self,
        context: &Context<'_>,
        directions: &[&[usize]],
        by: &[usize],
    ) -> Vec<Vec<f64>> {
        let directions: Vec<_> = directions.iter().map(|of| self.direction(of)).collect();
        let directions: Vec<_> = directions.iter().map(Vec::as_slice).collect();
        let weights = [Some(Cotangent::Array(self.weights.view()))];
        let cotangents = if by.is_empty() { &[][..] } else { &weights };
        let request = Request { directions: &directions, cotangents, gradients: by, ..Request::default() };
        let done = yukawa_op().evaluate(context, &self.yukawa(), &request).unwrap();
        done.values.iter().chain(&done.gradients).map(|a| a.to_f64().unwrap()).collect()
    }

    /// Hessian-vector products along some inputs, and second tangents.
    pub(super) fn second_order(&self, context: &Context<'_>) -> Vec<Vec<f64>> {
        let mut results = vec![];
        for along in [&[0][..], &[0, 4], &[1, 2, 3], &[0, 1, 2, 3, 4]] {
            for by in [&[0][..], &[0, 1], &[0, 1, 2, 4]] {
                results.extend(self.member(context, &[along], by));
            }
            results.extend(self.member(context, &[along, &[0]], &[]));
        }
        results
    }

    /// Energies, energies with every set of gradients, gradients with a weight for each atom, and tangents: one array
    /// after the other.
    pub(super) fn results(&self, context: &Context<'_>) -> Vec<Vec<f64>> {
        let density = self.density();
        let one = [Some(Cotangent::Uniform(1.0))];
        let two = [Some(Cotangent::Uniform(1.0)), Some(Cotangent::Uniform(0.5))];
        let mut results = vec![];
        let mut run =
            |op: &Op, args: &[Arg<'_>], cotangents: &[Option<Cotangent<'_>>], gradients: &[usize]| {
                let cotangents = if gradients.is_empty() { &[] } else { cotangents };
                let request = Request { values: true, cotangents, gradients, ..Request::default() };
                let done = op.evaluate(context, args, &request).unwrap();
                results.extend(done.values.iter().chain(&done.gradients).map(|a| a.to_f64().unwrap()));
            };
        for gradients in [&[][..], &[0], &[0, 4], &[0, 1, 4]] {
            run(&yukawa_op(), &self.yukawa(), &one, gradients);
        }
        for gradients in [&[][..], &[0]] {
            run(&density_op(), &density, &two, gradients);
        }
        let total = Array::filled(self.dtype, &[self.cells.len()], 0.3);
        let weights = [&self.weights, &total].map(|w| Some(Cotangent::Array(w.view())));
        run(&density_op(), &density, &weights, &[0, 1]);
        for by in [&[0][..], &[0, 1], &[0, 1, 4], &[0, 1, 2, 4]] {
            results.extend(self.member(context, &[], by));
        }
        results.extend(self.member(context, &[&[0, 1, 2, 3, 4]], &[]));
        results
    }
}
