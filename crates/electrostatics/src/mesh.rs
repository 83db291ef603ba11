//! Particle mesh Ewald: the mesh that an accuracy needs.
//!
//! The error of a mesh is that of its forces, −∂E/∂r of the mesh's own energy, for charges at random places. Two terms
//! lead, both by the nearest aliases of a wave along each axis, with f = k·a/(2πK) for the lattice vector a with K nodes:
//!
//! - between charges: the force has waves k + 2πK a*, which it should not have. By Parseval's theorem, with
//!   û(k + 2πK a*)/û(k) = ± (f/(1 + f))ᵖ for splines of order p,
//!
//!   ```text
//!   δF² = q² Σq² Σ_k (4π/V k²)² exp(−k²/2α²) 2ζ(2p − 2) (2πK|a*|)² f²ᵖ
//!   ```
//! - of a charge with itself: the energy of a charge changes with its place between nodes, by a wave of the mesh:
//!
//!   ```text
//!   F = 2q² 2πK|a*| Σ_k (4π/V k²) exp(−k²/4α²) (f/(1 + f))ᵖ sin(2πK a*·r)
//!   ```
//!
//! The first, and the error of pairs beyond the cutoff, go with the density around atoms, which is that of the cell unless
//! they are a droplet or a layer: see [`crowding`](crate::plan::crowding()).
//!
//! These are the leading terms. The estimate has all aliases up to the third in either direction, an integral in place of
//! the sum over k, and waves that are beyond those of the mesh as a loss.

use crate::tuning::{real_space_cost, real_space_force_error};
use madelung_core::cell::Cell;
use madelung_core::{Error, Result};
use std::f64::consts::PI;
use std::sync::OnceLock;

/// The nodes of a mesh whose nodes are no farther apart than `spacing` (L) along the lattice vectors of a cell: products of
/// 2, 3, 5 and 7, no fewer than the order of the splines.
///
/// # Errors
/// `mesh_spacing`, where it is not finite and > 0 or asks for more nodes than there can be.
pub fn mesh_dimensions(cell: &[[f64; 3]; 3], spacing: f64, spline_order: usize) -> Result<[usize; 3]> {
    let nodes = cell.map(|a| (length(a) / spacing).ceil());
    if !(spacing.is_finite() && spacing > 0.0 && nodes.iter().all(|k| *k <= MOST_NODES as f64)) {
        let expected = "a finite number above zero, with no more than 2^20 nodes along an axis";
        return Err(Error::argument("mesh_spacing", expected, spacing.to_string()));
    }
    Ok(nodes.map(|k| good_size((k as usize).max(spline_order))))
}

/// Order of the splines on a mesh that is given without one.
pub const SPLINE_ORDER: usize = 5;

/// Orders of splines whose error is known.
const ORDERS: std::ops::RangeInclusive<usize> = 4..=8;

/// Nodes along an axis, at most: beyond, a mesh of as many along all axes could not be numbered. A product of 2, 3, 5, 7.
const MOST_NODES: usize = 1 << 20;

/// Cost of one node of a mesh: its share of the Fourier transforms and two passes over waves, in the unit of
/// [`PAIR_COST`](crate::tuning::PAIR_COST).
pub const NODE_COST: f64 = 8.0;

/// Cost of one node around an atom, in that unit: what it gets of the charge, and what it gives of the force.
pub const AROUND_COST: f64 = 0.8;

/// Margin of chosen parameters for errors of either sum above their estimate: images of a small
/// cell and uneven densities add up.
/// A mesh has no waves that are left out first.
const MARGIN: f64 = 1.6;

/// Parameters of a particle mesh Ewald sum, and their expected error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PmeParameters {
    /// Splitting parameter, in 1/L.
    pub alpha: f64,
    /// Radius of the real-space sum, in L.
    pub cutoff: f64,
    /// Nodes along each lattice vector.
    pub mesh_dimensions: [usize; 3],
    /// Order of the splines.
    pub spline_order: usize,
    /// Expected RMS force error of both sums together, in units of q²_rms/(V/N)^{2/3}.
    pub predicted_force_error: f64,
}

impl PmeParameters {
    /// Cost of both sums for so many atoms in a volume (L³), in the unit of [`PAIR_COST`](crate::tuning::PAIR_COST).
    pub fn cost(&self, natoms: usize, volume: f64) -> f64 {
        let nodes = self.mesh_dimensions.iter().map(|k| *k as f64).product::<f64>();
        let around = natoms as f64 * (self.spline_order as f64).powi(3);
        real_space_cost(natoms, volume, self.cutoff) + AROUND_COST * around + NODE_COST * nodes
    }
}

/// Parameters of a particle mesh Ewald sum that are prescribed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PrescribedMesh {
    /// Splitting parameter, in 1/L.
    pub alpha: Option<f64>,
    /// Radius of the real-space sum, in L.
    pub cutoff: Option<f64>,
    /// Nodes along each lattice vector.
    pub mesh_dimensions: Option<[usize; 3]>,
    /// Order of the splines; None: that at which both sums cost the least, or 5 on a mesh that is given.
    pub spline_order: Option<usize>,
}

/// Parameters of a particle mesh Ewald sum whose RMS force error is below `accuracy`, shared by both sums.
///
/// - `natoms`: number of atoms N, at random places in the cell: of droplets, [`PmeSettings::parameters`](crate::PmeSettings::parameters) knows.
/// - `cell`: rows are the lattice vectors (L), of either handedness.
/// - `accuracy`: RMS over atoms of the force error |δF|, over q²_rms/(V/N)^{2/3}; from 1e-10 to below 1. None: what is
///   prescribed is taken as it is, and nothing but the order may be open.
/// - `given`: what is prescribed; the rest is chosen: the cutoff at which both sums cost the least together, and the
///   smallest mesh whose sizes are products of 2, 3, 5 and 7.
///
/// # Errors
/// `natoms` where it is zero, `cell` where it is singular, `accuracy` where it is out of range or cannot be had with what
/// is prescribed, `alpha` and `cutoff` where they are not finite numbers above zero, `spline_order` where it is not 4 to 8.
pub fn estimate_pme_parameters(
    natoms: usize,
    cell: &[[f64; 3]; 3],
    accuracy: Option<f64>,
    given: PrescribedMesh,
) -> Result<PmeParameters> {
    estimate(natoms, cell, 1.0, accuracy, given)
}

/// Parameters for atoms whose density is so many times that of the cell around them.
pub(crate) fn estimate(
    natoms: usize,
    cell: &[[f64; 3]; 3],
    crowding: f64,
    accuracy: Option<f64>,
    given: PrescribedMesh,
) -> Result<PmeParameters> {
    if natoms == 0 {
        return Err(Error::argument("natoms", "at least one atom", "0"));
    }
    if given.spline_order.is_none() && given.mesh_dimensions.is_none() && accuracy.is_some() {
        let cost = |p: &PmeParameters| p.cost(natoms, volume_of(cell));
        let of_order = |order| {
            let given = PrescribedMesh { spline_order: Some(order), ..given };
            estimate(natoms, cell, crowding, accuracy, given)
        };
        let all: Vec<_> = ORDERS.map(of_order).collect();
        let error = all.iter().find_map(|p| p.as_ref().err().cloned());
        let best = all.into_iter().flatten().min_by(|a, b| cost(a).total_cmp(&cost(b)));
        return best.ok_or_else(|| error.expect("an order has parameters, or a reason why not"));
    }
    for (name, x) in [("alpha", given.alpha), ("cutoff", given.cutoff)] {
        if let Some(bad) = x.filter(|x| !(x.is_finite() && *x > 0.0)) {
            return Err(Error::argument(name, "a finite number above zero", bad.to_string()));
        }
    }
    let spline_order = given.spline_order.unwrap_or(SPLINE_ORDER);
    if !ORDERS.contains(&spline_order) {
        return Err(Error::argument("spline_order", "4 to 8", spline_order.to_string()));
    }
    let lattice = Lattice::new(cell, natoms, crowding)?;
    let of = |alpha: f64, cutoff: f64, mesh_dimensions: [usize; 3]| {
        let real = crowding.sqrt() * real_space_force_error(lattice.spacing, alpha, cutoff);
        let predicted_force_error =
            real.hypot(lattice.mesh_force_error(alpha, mesh_dimensions, spline_order));
        PmeParameters { alpha, cutoff, mesh_dimensions, spline_order, predicted_force_error }
    };
    let Some(target) = accuracy else {
        return match (given.alpha, given.cutoff, given.mesh_dimensions) {
            (Some(alpha), Some(cutoff), Some(mesh)) => Ok(of(alpha, cutoff, mesh)),
            _ => Err(Error::argument("accuracy", "a number, or `alpha`, `cutoff` and a mesh", "None")),
        };
    };
    if !(1e-10..1.0).contains(&target) {
        let expected = "a relative force error from 1e-10 to below 1";
        return Err(Error::argument("accuracy", expected, target.to_string()));
    }
    let share = target / MARGIN / std::f64::consts::SQRT_2;
    let real_share = share / crowding.sqrt();
    let chosen = |cutoff: f64| {
        // αr_c at which the real-space sum leaves its share of the error.
        let reach = (2.0 * (lattice.spacing / cutoff).sqrt() / real_share).ln().max(1.0).sqrt();
        let alpha = given.alpha.unwrap_or(reach / cutoff);
        let mesh = given.mesh_dimensions.unwrap_or_else(|| lattice.mesh_for(alpha, share, spline_order));
        of(alpha, cutoff, mesh)
    };
    let parameters = match (given.cutoff, given.alpha) {
        (Some(cutoff), _) => chosen(cutoff),
        (None, Some(alpha)) => {
            let reach = (2.0 * (lattice.spacing * alpha).sqrt() / real_share).ln().max(1.0).sqrt();
            chosen(reach / alpha)
        }
        (None, None) => {
            let cost = |p: &PmeParameters| p.cost(natoms, lattice.spacing.powi(3) * natoms as f64);
            let cutoffs = (0..40).map(|n| lattice.spacing * 1.5 * 1.07f64.powi(n));
            let all = cutoffs.map(chosen).filter(|p| p.predicted_force_error <= target * (1.0 + 1e-9));
            let best = all.min_by(|a, b| cost(a).total_cmp(&cost(b)));
            best.unwrap_or_else(|| chosen(lattice.spacing * 4.0))
        }
    };
    // Of extreme numbers that are given, others leave the range of f64.
    if let Some(bad) = [parameters.alpha, parameters.cutoff].iter().find(|x| !(x.is_finite() && **x > 0.0)) {
        let name = if given.alpha.is_some() { "alpha" } else { "cutoff" };
        let got = format!("one that makes another parameter {bad}");
        return Err(Error::argument(name, "a number that leaves the others within the range of f64", got));
    }
    // Extreme parameters may have an error that is no number.
    if parameters.predicted_force_error.is_nan() || parameters.predicted_force_error > target * (1.0 + 1e-9) {
        let got = format!("{target:e}, where the others allow {:.1e}", parameters.predicted_force_error);
        return Err(Error::argument("accuracy", "one that the given parameters allow (or None)", got));
    }
    Ok(parameters)
}

/// Properties of a cell on which the error of its mesh depends.
struct Lattice {
    /// (V/N)^{1/3}
    spacing: f64,
    /// Length of each lattice vector, and over the height of the cell along it.
    lengths: [f64; 3],
    slants: [f64; 3],
    /// Density around atoms over that of the cell.
    crowding: f64,
}

impl Lattice {
    fn new(cell: &[[f64; 3]; 3], natoms: usize, crowding: f64) -> Result<Self> {
        let volume = Cell::from_rows(*cell)?.volume();
        if !volume.is_normal() {
            return Err(Error::argument("cell", "a volume that f64 can hold", format!("{volume:e}")));
        }
        let lengths = cell.map(length);
        let cross = |a: [f64; 3], b: [f64; 3]| {
            [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
        };
        let slants = [0, 1, 2].map(|k| {
            let base = length(cross(cell[(k + 1) % 3], cell[(k + 2) % 3]));
            lengths[k] * base / volume
        });
        Ok(Self { spacing: (volume / natoms as f64).cbrt(), lengths, slants, crowding })
    }

    /// Expected RMS force error of a mesh, in units of q²_rms/(V/N)^{2/3}.
    fn mesh_force_error(&self, alpha: f64, mesh: [usize; 3], order: usize) -> f64 {
        let square = |axis: usize| {
            let apart = alpha * self.lengths[axis] / mesh[axis] as f64;
            self.square(alpha, apart, self.slants[axis], order)
        };
        (0..3).map(square).sum::<f64>().sqrt()
    }

    /// The smallest mesh with no more than an error, whose nodes are about as far apart along all axes.
    fn mesh_for(&self, alpha: f64, error: f64, order: usize) -> [usize; 3] {
        let sizes = |apart: f64| {
            let nodes = |a: f64| (alpha * a / apart).ceil().clamp(order as f64, MOST_NODES as f64);
            self.lengths.map(|a| good_size(nodes(a) as usize))
        };
        // The error falls with the distance of nodes.
        let (mut low, mut high) = (FINEST.ln(), COARSEST.ln());
        for _ in 0..30 {
            let middle = 0.5 * (low + high);
            let square: f64 =
                self.slants.iter().map(|slant| self.square(alpha, middle.exp(), *slant, order)).sum();
            if square > error * error { high = middle } else { low = middle }
        }
        sizes(low.exp())
    }

    /// Square of the error by aliases along one axis.
    fn square(&self, alpha: f64, apart: f64, slant: f64, order: usize) -> f64 {
        let (unit, [pairs, own]) = (alpha * self.spacing, tabulated(apart, order));
        slant * slant * (self.crowding * unit * pairs + 0.5 * (unit * unit * own).powi(2))
    }
}

fn volume_of(cell: &[[f64; 3]; 3]) -> f64 {
    Cell::from_rows(*cell).map_or(f64::NAN, |cell| cell.volume())
}

fn length(v: [f64; 3]) -> f64 {
    v.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The smallest product of 2, 3, 5 and 7 from a number on.
fn good_size(from: usize) -> usize {
    let is_good = |n: &usize| {
        let rest = [2, 3, 5, 7].iter().fold(*n, |mut n, prime| {
            while n.is_multiple_of(*prime) {
                n /= prime;
            }
            n
        });
        rest == 1
    };
    (from.max(1)..).find(is_good).unwrap_or(from)
}

/// Distances of nodes times α for which errors are tabulated.
const FINEST: f64 = 0.002;
const COARSEST: f64 = 3.0;

/// Steps of the table, and their logarithm: 8 %, along which logarithms of errors are straight to a percent.
const STEPS: usize = 96;

/// [`aliases`] by a table, made once for each order.
fn tabulated(apart: f64, order: usize) -> [f64; 2] {
    type Table = [[f64; 2]; STEPS + 1];
    static TABLES: [OnceLock<Box<Table>>; 9] = [const { OnceLock::new() }; 9];
    let step = (COARSEST / FINEST).ln() / STEPS as f64;
    let table = TABLES[order].get_or_init(|| {
        let at = |n: usize| aliases(FINEST * (step * n as f64).exp(), order);
        Box::new(std::array::from_fn(|n| at(n).map(|x| x.abs().max(f64::MIN_POSITIVE).ln())))
    });
    let place = (apart / FINEST).ln() / step;
    let n = (place.max(0.0) as usize).min(STEPS - 1);
    let t = place - n as f64;
    [0, 1].map(|k| ((1.0 - t) * table[n][k] + t * table[n + 1][k]).exp())
}

/// Errors by the aliases along one axis, for nodes `apart` (times α): the square between charges over αd, and that of a
/// charge with itself over (αd)². Integrals over the length κ = k/α and the direction of waves, by midpoints.
fn aliases(apart: f64, order: usize) -> [f64; 2] {
    const LENGTHS: usize = 40;
    const DIRECTIONS: usize = 24;
    let longest = 2.0 * (order as f64).sqrt() + 7.0;
    let (step, turn) = (longest / LENGTHS as f64, 1.0 / DIRECTIONS as f64);
    let (alias, power) = (2.0 * PI / apart, order as i32);
    let (mut pairs, mut own) = (0.0, 0.0);
    for n in 0..LENGTHS {
        let k = (n as f64 + 0.5) * step;
        for m in 0..DIRECTIONS {
            let along = k * (m as f64 + 0.5) * turn;
            let f = along / alias;
            let (across, square) = (k * k - along * along, k * k);
            // A wave that the mesh does not have is lost.
            let mut error = square;
            if f < 0.5 {
                // û(f + m)/û(f)
                let sign = |m: i32| if m % 2 == 0 { 1.0 } else { -1.0 };
                let ratio = |m: i32| (sign(m) * f / (f + f64::from(m))).powi(power);
                let others = [-3, -2, -1, 1, 2, 3];
                let e: f64 = others.iter().map(|m| ratio(*m).powi(2)).sum();
                let moved = |m: i32| (alias * (f + f64::from(m)) * ratio(m)).powi(2);
                let e2: f64 = others.iter().map(|m| moved(*m)).sum();
                let d = 1.0 + e;
                error = (e2 + (across + square) * e + square * e * e * (3.0 + e)) / d.powi(3);
                let both = ratio(1) + ratio(-1) + ratio(1) * ratio(2) + ratio(-1) * ratio(-2);
                own += 2.0 * (-0.25 * square).exp() * both / (d * d) * step * turn;
            }
            pairs += 2.0 * (-0.5 * square).exp() * error / square * step * turn;
        }
    }
    [4.0 * pairs, 2.0 / apart * own]
}
