//! The library's calls in the terms of the tests' systems.

use crate::common::systems::{SplitMix64, System};
use madelung::array::{Array, DType};
use madelung::backend::Context;
use madelung::backend::pool::Serial;
use madelung::batch::Batch;
use madelung::electrostatics::kvectors::miller_indices_batch;
use madelung::map::Map;
use madelung::mesh::Mesh;
use madelung::op::{Arg, Cotangent, Op, Request};
use madelung::pairs::{Kind, PairList};
use std::borrow::Borrow;
use std::sync::Arc;

/// Positions, charges and cells of a batch as arrays of a dtype.
pub(crate) struct Arrays {
    pub(crate) positions: Array,
    pub(crate) charges: Array,
    pub(crate) cell: Array,
    sizes: Vec<usize>,
}

impl Arrays {
    pub(crate) fn new(systems: &[impl Borrow<System>], dtype: DType) -> Self {
        let systems: Vec<&System> = systems.iter().map(Borrow::borrow).collect();
        let flat: Vec<f64> = systems.iter().flat_map(|s| s.positions.as_flattened().to_vec()).collect();
        let charges: Vec<f64> = systems.iter().flat_map(|s| s.charges.clone()).collect();
        let cells: Vec<f64> = systems.iter().flat_map(|s| s.cell.as_flattened().to_vec()).collect();
        let make = |shape: &[usize], data: &[f64]| Array::from_f64(dtype, shape, data).expect("shapes fit");
        Self {
            positions: make(&[charges.len(), 3], &flat),
            charges: make(&[charges.len()], &charges),
            cell: make(&[systems.len(), 3, 3], &cells),
            sizes: systems.iter().map(|s| s.charges.len()).collect(),
        }
    }

    pub(crate) fn batch(&self) -> Batch<'static> {
        let mut ptr = vec![0i32];
        for n in &self.sizes {
            ptr.push(ptr[ptr.len() - 1] + *n as i32);
        }
        Batch::from_ptr(ptr).expect("a batch")
    }

    pub(crate) fn system(&self) -> madelung::System<'_> {
        madelung::System::new(self.positions.view(), self.charges.view(), self.cell.view(), self.batch())
            .expect("a system")
    }

    /// The first system, with the numbers that the dtype has.
    pub(crate) fn rounded(&self) -> System {
        let rows = |v: Vec<f64>| v.chunks_exact(3).map(|r| [r[0], r[1], r[2]]).collect::<Vec<_>>();
        let cell = rows(self.cell.to_f64().unwrap());
        System {
            positions: rows(self.positions.to_f64().unwrap()),
            charges: self.charges.to_f64().unwrap(),
            cell: [cell[0], cell[1], cell[2]],
        }
    }
}

/// A call of an op of the registry, with its lists and wave vectors kept as they are while its arrays change.
pub(crate) struct Call {
    pub(crate) op: Arc<Op>,
    pub(crate) arrays: Vec<Option<Array>>,
    atoms: Batch<'static>,
    waves: Batch<'static>,
    pub(crate) pairs: PairList<'static>,
    exclusion_of: Map<'static>,
    cutoff: f64,
    mesh: Mesh,
}

/// Splitting parameter and cutoffs at which truncation is below rounding: αr_c = k_c/2α = 6.2.
pub(crate) const ALPHA: f64 = 0.8;
const CUTOFF: f64 = 6.2 / ALPHA;
/// Within the smallest height of every cell.
const NEAR_CUTOFF: f64 = 3.0;
/// Meshes are coarse: derivatives are those of the energy that there is. Systems have one after the other.
const MESHES: [([usize; 3], usize); 3] = [([12, 9, 10], 6), ([10, 12, 9], 6), ([9, 11, 12], 7)];

/// Factors of excluded pairs.
const EXCLUSIONS: usize = 5;

/// A copy of an array of the host, if there is one.
pub(crate) fn copied(array: &Option<Array>) -> Option<Array> {
    array.as_ref().map(|a| a.try_clone().unwrap())
}

/// An exclusion for each entry of a list, the same from both sides of a pair.
pub(crate) fn exclusions_of(pairs: &PairList<'_>, exclusions: usize) -> Map<'static> {
    let mut of = vec![0; pairs.others().len()];
    for (row, (start, end)) in pairs.starts().iter().zip(pairs.ends()).enumerate() {
        let entries = *start as usize..*end as usize;
        for (of, other) in of[entries.clone()].iter_mut().zip(&pairs.others()[entries]) {
            *of = (row as i32 + other) % exclusions as i32;
        }
    }
    Map::new(of, exclusions).expect("a map")
}

/// Widths of Gaussian charges.
pub(crate) fn widths_of(atoms: usize, dtype: DType) -> Array {
    let widths: Vec<f64> = (0..atoms).map(|i| 0.5 + 0.05 * (i % 7) as f64).collect();
    Array::from_f64(dtype, &[atoms], &widths).expect("shapes fit")
}

impl Call {
    pub(crate) fn new(op: &Arc<Op>, systems: &[&System]) -> Self {
        let given = Arrays::new(systems, DType::F64);
        // The list reaches further than the cutoff, so that no pair is missing when atoms move a little.
        let found = given.system().neighbor_list(CUTOFF + 0.5, &Serial).expect("a list");
        let pairs = found.rows(&Serial).into_owned();
        let cells: Vec<_> = systems.iter().map(|s| s.cell).collect();
        let (miller, ptr) = miller_indices_batch(&cells, &[2.0 * ALPHA * 6.2]).expect("wave vectors");
        let miller = Array::from(miller.as_slice());
        let alpha: Vec<f64> = (0..systems.len()).map(|b| ALPHA + 0.01 * b as f64).collect();
        let alpha = Array::from_f64(DType::F64, &[systems.len()], &alpha).expect("shapes fit");
        // A charge's interaction with itself: left out, and added.
        let own: Vec<f64> = (0..systems.len()).map(|b| if b % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let own = Array::from_f64(DType::F64, &[systems.len()], &own).expect("shapes fit");
        // Of the pairs of the list as exclusions, and the open axis of each system.
        let factors =
            Array::from_f64(DType::F64, &[EXCLUSIONS], &[0.0, 0.3, 1.0, 0.7, 0.5]).expect("shapes fit");
        let exclusion_of = exclusions_of(&pairs, EXCLUSIONS);
        let widths = widths_of(given.charges.shape()[0], DType::F64);
        let background = Array::filled(DType::F64, &[systems.len()], 1.0);
        let axes: Vec<[i32; 3]> =
            (0..systems.len()).map(|b| [0, 1, 2].map(|k| i32::from(k == b % 3))).collect();
        let open_axis = Array::from(axes.as_slice());
        let is_open = Array::from(vec![1; systems.len()]);
        let field: Vec<f64> = (0..3 * systems.len()).map(|k| 0.3 - 0.2 * k as f64).collect();
        let field = Array::from_f64(DType::F64, &[systems.len(), 3], &field).expect("shapes fit");
        // Orbitals that hardly overlap at the cutoff.
        let exponents: Vec<f64> = (0..given.charges.shape()[0]).map(|i| 1.3 + 0.1 * (i % 4) as f64).collect();
        let exponents = Array::from_f64(DType::F64, &[exponents.len()], &exponents).expect("shapes fit");
        // Sums of small systems at once: two images along each axis, each wave a line of its own.
        let reach = Array::filled(DType::F64, &[systems.len()], NEAR_CUTOFF);
        let beside = Array::zeros(DType::I32, &[miller.shape()[0]]);
        // Inverse powers.
        let exponent: Vec<f64> = (0..systems.len()).map(|b| [6.0, 1.0, 5.0][b % 3]).collect();
        let exponent = Array::from_f64(DType::F64, &[systems.len()], &exponent).expect("shapes fit");
        let (atoms, waves) = (given.batch(), Batch::from_ptr(ptr).expect("a batch"));
        let arrays: Vec<_> = op
            .args
            .iter()
            .map(|a| match a.name.as_str() {
                "positions" => Some(given.positions.try_clone().unwrap()),
                "charges" => Some(given.charges.try_clone().unwrap()),
                "cell" => Some(given.cell.try_clone().unwrap()),
                "alpha" => Some(alpha.try_clone().unwrap()),
                "own" => Some(own.try_clone().unwrap()),
                "factors" => Some(factors.try_clone().unwrap()),
                "widths" => Some(widths.try_clone().unwrap()),
                "background" => Some(background.try_clone().unwrap()),
                "field" => Some(field.try_clone().unwrap()),
                "electronegativity" => Some(widths.try_clone().unwrap()),
                "exponents" => Some(exponents.try_clone().unwrap()),
                "open_axis" | "wire_axis" => Some(open_axis.try_clone().unwrap()),
                "is_open" => Some(is_open.try_clone().unwrap()),
                "cutoff" if op.arg("lines").is_some() => Some(reach.try_clone().unwrap()),
                "beside" => Some(beside.try_clone().unwrap()),
                "exponent" => Some(exponent.try_clone().unwrap()),
                "miller" | "lines" => Some(miller.try_clone().unwrap()),
                _ => None,
            })
            .collect();
        let meshes: Vec<_> = MESHES.into_iter().cycle().take(systems.len()).collect();
        let mesh = Mesh::of_systems(&meshes).expect("meshes");
        // Pairs of latent charges do not end at a cutoff: all of the list count, wherever atoms move.
        let cutoff = if op.arg("own").is_some() { 1e30 } else { CUTOFF };
        Self { op: op.clone(), arrays, atoms, waves, pairs, exclusion_of, cutoff, mesh }
    }

    /// The same list, with nothing promised about the way back: contributions to partners are scattered.
    pub(crate) fn scattering(mut self) -> Self {
        let csr = self.pairs.to_csr();
        let (ptr, others, shifts) = (csr.neighbor_ptr.to_vec(), csr.others.to_vec(), csr.shifts.to_vec());
        self.pairs =
            PairList::from_csr(ptr, others, shifts, self.pairs.columns(), Kind::Directed).expect("a list");
        self
    }

    /// The arguments with some arrays in the place of the call's own.
    pub(crate) fn args<'a>(&'a self, arrays: &'a [Option<Array>]) -> Vec<Arg<'a>> {
        let names = self.op.args.iter().map(|a| a.name.as_str());
        names
            .zip(arrays)
            .map(|(name, array)| match (name, array) {
                (_, Some(array)) => Arg::Array(array.view()),
                ("atoms", _) => Arg::Structure(&self.atoms),
                ("waves" | "line_systems", _) => Arg::Structure(&self.waves),
                ("images_1" | "images_2" | "images_3", _) => Arg::Int(2),
                ("pairs" | "excluded", _) => Arg::Structure(&self.pairs),
                ("exclusion_of", _) => Arg::Structure(&self.exclusion_of),
                ("real", _) => Arg::Real(1.0),
                ("reciprocal", _) => Arg::Real(0.5),
                ("mesh", _) => Arg::Structure(&self.mesh),
                ("cutoff", _) => Arg::Real(self.cutoff),
                ("prefactor", _) => Arg::Real(1.3),
                ("strain", _) => Arg::Zero,
                (name, _) => panic!("what is `{name}`?"),
            })
            .collect()
    }

    pub(crate) fn value(&self, arrays: &[Option<Array>]) -> Vec<f64> {
        self.op.value(&madelung::cpu::context(), &self.args(arrays)).expect("a value")[0].to_f64().unwrap()
    }

    /// F_k along directions.
    pub(crate) fn tangent(&self, arrays: &[Option<Array>], directions: &[&[Option<Array>]]) -> Vec<f64> {
        self.tangent_on(&madelung::cpu::context(), arrays, directions)
    }

    pub(crate) fn tangent_on(
        &self,
        context: &Context<'_>,
        arrays: &[Option<Array>],
        directions: &[&[Option<Array>]],
    ) -> Vec<f64> {
        let views = views(directions);
        let directions: Vec<&[_]> = views.iter().map(Vec::as_slice).collect();
        let request = Request { directions: &directions, ..Request::default() };
        self.op.evaluate(context, &self.args(arrays), &request).expect("a tangent").values[0]
            .to_f64()
            .unwrap()
    }

    /// G_k by every differentiable argument.
    pub(crate) fn gradient(
        &self,
        context: &Context<'_>,
        arrays: &[Option<Array>],
        w: Cotangent<'_>,
        directions: &[&[Option<Array>]],
    ) -> Vec<Vec<f64>> {
        let gradients = self.differentiable();
        let views = views(directions);
        let directions: Vec<&[_]> = views.iter().map(Vec::as_slice).collect();
        let cotangents = [Some(w)];
        let request = Request {
            cotangents: &cotangents,
            directions: &directions,
            gradients: &gradients,
            values: false,
            ..Request::default()
        };
        let done = self.op.evaluate(context, &self.args(arrays), &request).expect("a gradient");
        done.gradients.iter().map(|a| a.to_f64().unwrap()).collect()
    }

    pub(crate) fn differentiable(&self) -> Vec<usize> {
        (0..self.op.args.len()).filter(|n| self.op.is_differentiable(*n)).collect()
    }

    pub(crate) fn position(&self, name: &str) -> usize {
        self.op.arg(name).expect("an argument")
    }

    /// Random tangents of every differentiable argument but the strain, which has no value to move.
    pub(crate) fn direction(&self, seed: u64) -> Vec<Option<Array>> {
        let mut rng = SplitMix64(seed);
        let strain = self.position("strain");
        (0..self.arrays.len())
            .map(|n| {
                let array =
                    self.arrays[n].as_ref().filter(|_| self.op.is_differentiable(n) && n != strain)?;
                let data: Vec<f64> = array.to_f64().unwrap().iter().map(|_| rng.uniform(-1.0, 1.0)).collect();
                Some(Array::from_f64(DType::F64, array.shape(), &data).expect("shapes fit"))
            })
            .collect()
    }

    /// One argument's part of a direction.
    pub(crate) fn only(&self, direction: &[Option<Array>], name: &str) -> Vec<Option<Array>> {
        let keep = self.position(name);
        direction.iter().enumerate().map(|(n, u)| copied(u).filter(|_| n == keep)).collect()
    }

    /// x + h u
    pub(crate) fn moved(&self, direction: &[Option<Array>], h: f64) -> Vec<Option<Array>> {
        let moved = |(x, u): (&Option<Array>, &Option<Array>)| match (x, u) {
            (Some(x), Some(u)) => {
                let data: Vec<f64> =
                    x.to_f64().unwrap().iter().zip(u.to_f64().unwrap()).map(|(x, u)| x + h * u).collect();
                Some(Array::from_f64(DType::F64, x.shape(), &data).expect("shapes fit"))
            }
            (x, _) => copied(x),
        };
        self.arrays.iter().zip(direction).map(moved).collect()
    }

    /// The arrays under r → r(1 + hη), cell → cell(1 + hη), the same η in every system.
    pub(crate) fn strained(&self, eta: &[f64; 9], h: f64) -> Vec<Option<Array>> {
        let mut arrays: Vec<_> = self.arrays.iter().map(copied).collect();
        for name in ["positions", "cell"] {
            let n = self.position(name);
            if let Some(array) = &self.arrays[n] {
                let rows = array.to_f64().unwrap();
                let data: Vec<f64> = (0..rows.len())
                    .map(|k| {
                        let (row, c) = (&rows[k / 3 * 3..k / 3 * 3 + 3], k % 3);
                        row[c] + h * (0..3).map(|m| row[m] * eta[3 * m + c]).sum::<f64>()
                    })
                    .collect();
                arrays[n] = Some(Array::from_f64(DType::F64, array.shape(), &data).expect("shapes fit"));
            }
        }
        arrays
    }
}

fn views<'a>(directions: &[&'a [Option<Array>]]) -> Vec<Vec<Option<madelung::array::View<'a>>>> {
    directions.iter().map(|d| d.iter().map(|u| u.as_ref().map(Array::view)).collect()).collect()
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(crate) fn random(seed: u64, n: usize) -> Vec<f64> {
    let mut rng = SplitMix64(seed);
    (0..n).map(|_| rng.uniform(-1.0, 1.0)).collect()
}
