//! Sums of small systems: all pairs and all waves in one pass, without a list or a mesh.
//!
//! - **Pairs** are those of each atom with every atom of its system, in the nearest image or, along each axis, the nearest
//!   two, which are all that are closer than half the height of the cell along that axis, or the height.
//! - **Waves** go by lines along the third reciprocal vector b₃, seven side by side:
//!   exp(i(k ± m b₃)·r) = exp(ik·r) exp(±im b₃·r), m = 1, 2, 3, so that one sine and one cosine serve seven waves. With the
//!   phases φ = k·r and mθ = m b₃·r, the structure factors are S(k ± m b₃) = CC ∓ SS + i(SC ± CS), where CC = Σ q cos φ cos mθ,
//!   and so on.

use crate::declare::{charged, energies, summed};
use crate::kernels as k;
use crate::tuning::{self, EwaldParameters, Prescribed, estimate_ewald_parameters};
use madelung_core::cell::Cell;
use madelung_core::op::{Arg, Constraint, Op, OpBuilder};
use madelung_core::runtime::Kernel;
use madelung_core::{Error, Result};
use std::f64::consts::PI;
use std::sync::Arc;

madelung_core::kernels! {
    use crate::potential::coulomb::{long_range_k2, self_term, short_range};

    /// Real-space part of the sum over all pairs: Eᵢ = ½ qᵢ Σⱼ qⱼ `short_range`(r), r < cutoff. Infinite where the images
    /// do not reach as far as the cutoff. Particles without charge may lie on others, as in sums over a list.
    #[kernel(fast(positions, charges))]
    pub(crate) fn direct_space(
        i: Atom,
        positions: &[Vec3; Atom],
        charges: &[Real; Atom],
        cell: &[Mat3; System],
        dual: &[Mat3; System],
        alpha: &[Real; System],
        cutoff: &[Real; System],
        strain: &[Zero<Mat3>; System],
        images_1: i32,
        images_2: i32,
        images_3: i32,
        prefactor: Real,
        atoms: &Batch<Atom, System>,
        energy: &mut [Real; Atom],
    ) {
        let b = atoms.of(i);
        let h = cell[b];
        let inverse = dual[b];
        let n1 = images_1 as Real;
        let n2 = images_2 as Real;
        let n3 = images_3 as Real;
        let at_zero = self_term(alpha[b]);
        let mut e = 0.0;
        for j in atoms.members(b) {
            let d = positions[j] - positions[i];
            let u = vec3(dot(d, row(inverse, 0)), dot(d, row(inverse, 1)), dot(d, row(inverse, 2)));
            let whole = vec3(nearest(u.x), nearest(u.y), nearest(u.z));
            let w = u - whole;
            let first = d - whole * h;
            // The second image along an axis is on the other side.
            let x = if w.x > 0.0 { 1.0 } else { -1.0 };
            let y = if w.y > 0.0 { 1.0 } else { -1.0 };
            let z = if w.z > 0.0 { 1.0 } else { -1.0 };
            // One loop over all images: nested ones would hold sums of their own for every derivative.
            for m in 0..images_1 * images_2 * images_3 {
                let rest = floor(m as Real / n3);
                let m1 = floor(rest / n2);
                let image = vec3(m1 * x, (rest - n2 * m1) * y, (m as Real - n3 * rest) * z);
                let d = first - image * h;
                let d = d + d * strain[b];
                let r = length(d);
                let is_apart = r > -abs(charges[i] * charges[j]);
                if r < cutoff[b] && (j != i || m > 0) {
                    if is_apart {
                        e += charges[j] * short_range(r, alpha[b]);
                    } else {
                        e -= 2.0 * (charges[j] - stop_gradient(charges[j])) * at_zero;
                    }
                }
            }
        }
        // The distance that images reach along each axis, twice; a sum that ends beyond it is infinite.
        let reach = min(
            n1 / length(row(inverse, 0)),
            min(n2 / length(row(inverse, 1)), n3 / length(row(inverse, 2))),
        );
        let is_whole = if 2.0 * cutoff[b] > 1.00001 * reach { 0.0 } else { 1.0 };
        energy[i] = 0.5 * prefactor * charges[i] * e / is_whole;
    }

    /// Cosines and sines of b₃·r, 2 b₃·r and 3 b₃·r.
    #[kernel]
    pub(crate) fn axis_phases(
        i: Atom,
        fraction: &[Vec3; Atom],
        cosines: &mut [Vec3; Atom],
        sines: &mut [Vec3; Atom],
    ) {
        let angle = 2.0 * PI * fraction[i].z;
        let c = cos(angle);
        let s = sin(angle);
        let c2 = c * c - s * s;
        let s2 = 2.0 * s * c;
        cosines[i] = vec3(c, c2, c2 * c - s2 * s);
        sines[i] = vec3(s, s2, s2 * c + c2 * s);
    }

    /// Structure factor of the wave in the middle of a line, and the sums of products that give those of its neighbours.
    #[kernel]
    pub(crate) fn structure_lines(
        w: Line,
        fraction: &[Vec3; Atom],
        cosines: &[Vec3; Atom],
        sines: &[Vec3; Atom],
        charges: &[Real; Atom],
        lines: &[IVec3; Line],
        line_systems: &Batch<Line, System>,
        atoms: &Batch<Atom, System>,
        real: &mut [Real; Line],
        imaginary: &mut [Real; Line],
        cos_cos: &mut [Vec3; Line],
        sin_sin: &mut [Vec3; Line],
        sin_cos: &mut [Vec3; Line],
        cos_sin: &mut [Vec3; Line],
    ) {
        let mut re = 0.0;
        let mut im = 0.0;
        let mut cc = vec3(0.0, 0.0, 0.0);
        let mut ss = vec3(0.0, 0.0, 0.0);
        let mut sc = vec3(0.0, 0.0, 0.0);
        let mut cs = vec3(0.0, 0.0, 0.0);
        for j in atoms.members(line_systems.of(w)) {
            let turns = dot(lines[w], fraction[j]);
            let phase = 2.0 * PI * (turns - nearest(turns));
            let c = charges[j] * cos(phase);
            let s = charges[j] * sin(phase);
            re += c;
            im += s;
            cc += cosines[j] * c;
            ss += sines[j] * s;
            sc += cosines[j] * s;
            cs += sines[j] * c;
        }
        real[w] = re;
        imaginary[w] = im;
        cos_cos[w] = cc;
        sin_sin[w] = ss;
        sin_cos[w] = sc;
        cos_sin[w] = cs;
    }

    /// Green function of a wave vector and its opposite: 2 · `long_range_k2`(k²); 0 for waves that do not count.
    #[func]
    fn green(wave: Vec3, counted: Real, volume: Real, alpha: Real) -> Real {
        if counted > 0.0 { 2.0 * long_range_k2(dot(wave, wave), volume, alpha) } else { 0.0 }
    }

    /// Green functions of the waves n = 1 to 3 times `axis` away from the middle wave of a line; those with 2n < `counted` count.
    #[func]
    fn greens(middle: Vec3, axis: Vec3, counted: Real, volume: Real, alpha: Real) -> Vec3 {
        vec3(
            green(middle + axis, counted - 2.0, volume, alpha),
            green(middle + axis * 2.0, counted - 4.0, volume, alpha),
            green(middle + axis * 3.0, counted - 6.0, volume, alpha),
        )
    }

    /// Products of components.
    #[func]
    fn times(a: Vec3, b: Vec3) -> Vec3 {
        vec3(a.x * b.x, a.y * b.y, a.z * b.z)
    }

    /// Energy of the waves: ½ Σ_k `green`(k) |S(k)|². A line of an even number of waves has one more above its middle wave
    /// than below.
    #[kernel(fast(real, imaginary, cos_cos, sin_sin, sin_cos, cos_sin))]
    pub(crate) fn line_energy(
        w: Line,
        real: &[Real; Line],
        imaginary: &[Real; Line],
        cos_cos: &[Vec3; Line],
        sin_sin: &[Vec3; Line],
        sin_cos: &[Vec3; Line],
        cos_sin: &[Vec3; Line],
        wave_basis: &[Mat3; System],
        volume: &[Real; System],
        alpha: &[Real; System],
        prefactor: Real,
        lines: &[IVec3; Line],
        beside: &[i32; Line],
        line_systems: &Batch<Line, System>,
        energy: &mut [Real; System],
    ) {
        let b = line_systems.of(w);
        let middle = lines[w] * wave_basis[b];
        let axis = row(wave_basis[b], 2);
        let n = beside[w];
        let above = greens(middle, axis, n + 1.5, volume[b], alpha[b]);
        let below = greens(middle, -axis, n + 0.5, volume[b], alpha[b]);
        let cosine = cos_cos[w] - sin_sin[w];
        let sine = sin_cos[w] + cos_sin[w];
        let upper = times(cosine, cosine) + times(sine, sine);
        let cosine = cos_cos[w] + sin_sin[w];
        let sine = sin_cos[w] - cos_sin[w];
        let lower = times(cosine, cosine) + times(sine, sine);
        let own = real[w] * real[w] + imaginary[w] * imaginary[w];
        let sum = green(middle, 1.0, volume[b], alpha[b]) * own + dot(above, upper) + dot(below, lower);
        energy[b] += 0.5 * prefactor * sum;
    }

    /// Waves of the potential: derivatives of the energy by the sums over a line, less the factor.
    #[kernel]
    pub(crate) fn line_potential(
        w: Line,
        real: &[Real; Line],
        imaginary: &[Real; Line],
        cos_cos: &[Vec3; Line],
        sin_sin: &[Vec3; Line],
        sin_cos: &[Vec3; Line],
        cos_sin: &[Vec3; Line],
        wave_basis: &[Mat3; System],
        volume: &[Real; System],
        alpha: &[Real; System],
        lines: &[IVec3; Line],
        beside: &[i32; Line],
        line_systems: &Batch<Line, System>,
        by_real: &mut [Real; Line],
        by_imaginary: &mut [Real; Line],
        by_cos_cos: &mut [Vec3; Line],
        by_sin_sin: &mut [Vec3; Line],
        by_sin_cos: &mut [Vec3; Line],
        by_cos_sin: &mut [Vec3; Line],
    ) {
        let b = line_systems.of(w);
        let middle = lines[w] * wave_basis[b];
        let axis = row(wave_basis[b], 2);
        let n = beside[w];
        let above = greens(middle, axis, n + 1.5, volume[b], alpha[b]);
        let below = greens(middle, -axis, n + 0.5, volume[b], alpha[b]);
        let upper_cosine = times(above, cos_cos[w] - sin_sin[w]);
        let lower_cosine = times(below, cos_cos[w] + sin_sin[w]);
        let upper_sine = times(above, sin_cos[w] + cos_sin[w]);
        let lower_sine = times(below, sin_cos[w] - cos_sin[w]);
        let own = green(middle, 1.0, volume[b], alpha[b]);
        by_real[w] = own * real[w];
        by_imaginary[w] = own * imaginary[w];
        by_cos_cos[w] = upper_cosine + lower_cosine;
        by_sin_sin[w] = lower_cosine - upper_cosine;
        by_sin_cos[w] = upper_sine + lower_sine;
        by_cos_sin[w] = upper_sine - lower_sine;
    }

    /// Half the potential of the waves at the atoms, times their charges.
    #[kernel]
    pub(crate) fn gather_lines(
        i: Atom,
        fraction: &[Vec3; Atom],
        cosines: &[Vec3; Atom],
        sines: &[Vec3; Atom],
        charges: &[Real; Atom],
        by_real: &[Real; Line],
        by_imaginary: &[Real; Line],
        by_cos_cos: &[Vec3; Line],
        by_sin_sin: &[Vec3; Line],
        by_sin_cos: &[Vec3; Line],
        by_cos_sin: &[Vec3; Line],
        prefactor: Real,
        lines: &[IVec3; Line],
        line_systems: &Batch<Line, System>,
        atoms: &Batch<Atom, System>,
        energy: &mut [Real; Atom],
    ) {
        let mut potential = 0.0;
        for w in line_systems.members(atoms.of(i)) {
            let turns = dot(lines[w], fraction[i]);
            let phase = 2.0 * PI * (turns - nearest(turns));
            let by_cos = by_real[w] + dot(by_cos_cos[w], cosines[i]) + dot(by_cos_sin[w], sines[i]);
            let by_sin = by_imaginary[w] + dot(by_sin_sin[w], sines[i]) + dot(by_sin_cos[w], cosines[i]);
            potential += cos(phase) * by_cos + sin(phase) * by_sin;
        }
        energy[i] = 0.5 * prefactor * charges[i] * potential;
    }
}

pub(crate) static KERNELS: [&Kernel; 6] =
    [&DIRECT_SPACE, &AXIS_PHASES, &STRUCTURE_LINES, &LINE_ENERGY, &LINE_POTENTIAL, &GATHER_LINES];

/// The sums over a line.
const SUMS: [(&str, bool); 6] = [
    ("real", false),
    ("imaginary", false),
    ("cos_cos", true),
    ("sin_sin", true),
    ("sin_cos", true),
    ("cos_sin", true),
];

/// The ops `ewald_direct`, of energies per atom, and `ewald_direct_total`, per system. `own_energy` is that of the self term
/// and the background.
pub(crate) fn ops(own_energy: &'static Kernel) -> Result<Vec<Arc<Op>>> {
    let op = steps(true, own_energy);
    let total = summed(op, true, &["positions", "charges", "cell", "alpha", "strain"])?;
    Ok(vec![steps(false, own_energy).rows_of("charges", &total).build()?, total])
}

fn steps(per_system: bool, own_energy: &'static Kernel) -> OpBuilder {
    let op = charged("ewald_direct", per_system, &["alpha", "cutoff"])
        .int_scalar("images_1")
        .must_be(Constraint::Between(1, 2))
        .int_scalar("images_2")
        .must_be(Constraint::Between(1, 2))
        .int_scalar("images_3")
        .must_be(Constraint::Between(1, 2))
        .ints("lines", &["Line", "3"])
        .ints("beside", &["Line"])
        .batch("line_systems", "Line", "System")
        .explain(explain)
        .lattice("positions", "cell", "atoms")
        .scratch("dual", &["System", "3", "3"])
        .scratch("wave_basis", &["System", "3", "3"])
        .scratch("volume", &["System"])
        .scratch("fraction", &["Atom", "3"])
        .scratch("cosines", &["Atom", "3"])
        .scratch("sines", &["Atom", "3"])
        .scratch("total_charge", &["System"]);
    let sums = |op: OpBuilder, prefix: &str| {
        SUMS.iter().fold(op, |op, (name, is_vector)| {
            op.scratch(&format!("{prefix}{name}"), if *is_vector { &["Line", "3"] } else { &["Line"] })
        })
    };
    let (op, into) = energies(sums(op, ""), per_system);
    let op = op
        .step(&k::LATTICE)
        .step_as(&DIRECT_SPACE, &[("energy", into)])
        .step(&k::FRACTIONAL)
        .step(&AXIS_PHASES)
        .step(&STRUCTURE_LINES)
        .step(&k::SUM_CHARGES)
        .step_as(own_energy, &[("energy", into)]);
    if per_system { op.step(&LINE_ENERGY) } else { sums(op, "by_").step(&LINE_POTENTIAL).step(&GATHER_LINES) }
}

/// Why a sum is infinite: images that do not reach as far as the cutoff, or two charges on one point.
fn explain(_: &Op, args: &[Arg<'_>]) -> Option<Error> {
    let mut arrays = args.iter().filter_map(|arg| if let Arg::Array(view) = arg { Some(view) } else { None });
    let (positions, q) = (arrays.next()?.to_f64().ok()?, arrays.next()?.to_f64().ok()?);
    let cells = arrays.find(|view| view.shape().len() == 3)?.to_f64().ok()?;
    let cutoffs = arrays.nth(1)?.to_f64().ok()?;
    let is_zero = |row: &[i32; 3]| *row == [0; 3];
    let lines =
        args.iter().find_map(|arg| if let Arg::Array(view) = arg { view.to_i32("lines").ok() } else { None });
    if let Some(row) = lines.iter().flat_map(|rows| rows.as_chunks().0.iter().position(is_zero)).next() {
        let expected = "wave vectors other than (0, 0, 0)";
        return Some(Error::argument("miller", expected, format!("it in row {row}")));
    }
    let images: Vec<i64> =
        args.iter().filter_map(|arg| if let Arg::Int(n) = arg { Some(*n) } else { None }).collect();
    let batch = args.iter().filter_map(Arg::structure).find_map(|structure| structure.as_batch())?;
    let (cells, points) = (cells.as_chunks::<9>().0, positions.as_chunks::<3>().0);
    for (b, (rows, cutoff)) in cells.iter().zip(&cutoffs).enumerate() {
        let cell = Cell::from_rows(std::array::from_fn(|n| std::array::from_fn(|c| rows[3 * n + c]))).ok()?;
        let reach = largest_cutoff(&cell, std::array::from_fn(|n| images[n]));
        if *cutoff > 1.00001 * reach {
            let expected = format!("at most {reach} for so many images (system {b})");
            return Some(Error::argument("cutoff", expected, cutoff.to_string()));
        }
        let atoms = batch.members(b);
        let pairs = atoms.clone().flat_map(|i| (i + 1..atoms.end).map(move |j| (i, j)));
        for (i, j) in pairs.filter(|(i, j)| q[*i] * q[*j] != 0.0) {
            let d: [f64; 3] = std::array::from_fn(|c| points[j][c] - points[i][c]);
            let u = cell.fractional(d);
            if u.iter().all(|u| (u - u.round()).abs() < 1e-14) {
                let got = format!("atoms {i} and {j}");
                return Some(Error::argument("positions", "no two atoms on one point", got));
            }
        }
    }
    None
}

/// Waves of a line that one row takes.
const WAVES_OF_LINE: usize = 7;

/// Costs of a pair in one image, of an atom and a line of waves, and of a line, in units of the first (13 ns with gradients by
/// positions and charges in f64, one thread, AVX-512).
const COSTS: [f64; 3] = [1.0, 0.46, 3.8];

/// Cost of a pair with second derivatives, as in training on forces, in units of [`COSTS`].
const PAIR_IN_TRAINING: f64 = 2.5;

/// Cost of an atom in a sum over a list besides its pairs and waves: the search, and short rows; in units of [`COSTS`].
const LISTED_ATOM: f64 = 150.0;

/// Parameters of a direct sum, and the images along each axis, 1 or 2, that its cutoff reaches.
///
/// As [`estimate_ewald_parameters`], but no cutoff exceeds the smallest height of the cell; where none is prescribed it is
/// half of that height or all of it, whichever costs less.
///
/// # Errors
/// Those of [`estimate_ewald_parameters`]; `cutoff` where it is, or follows to be, larger than the smallest height.
pub fn direct_parameters(
    natoms: usize,
    cell: &[[f64; 3]; 3],
    accuracy: Option<f64>,
    given: Prescribed,
) -> Result<(EwaldParameters, [i64; 3])> {
    crowded_parameters(natoms, cell, 1.0, accuracy, given)
}

/// Parameters for atoms whose density is so many times that of the cell around them, and the images of each axis.
pub(crate) fn crowded_parameters(
    natoms: usize,
    cell: &[[f64; 3]; 3],
    crowding: f64,
    accuracy: Option<f64>,
    mut given: Prescribed,
) -> Result<(EwaldParameters, [i64; 3])> {
    let lattice = Cell::from_rows(*cell)?;
    let heights = lattice.heights();
    let largest = heights.iter().fold(f64::INFINITY, |a, b| a.min(*b));
    let estimated = |given| tuning::estimate(natoms, cell, crowding, accuracy, given);
    let is_given = |p: &Prescribed| p.alpha.is_some() || p.cutoff.is_some() || p.k_cutoff.is_some();
    if crowding != 1.0 && !is_given(&given) {
        given.cutoff = Some(direct_parameters(natoms, cell, accuracy, given)?.0.cutoff);
    }
    if is_given(&given) {
        let found = estimated(given)?;
        if found.cutoff > largest * (1.0 + 1e-9) {
            let expected =
                format!("at most {largest}, the smallest height of the cell, with method=\"direct\"");
            return Err(Error::argument("cutoff", expected, found.cutoff.to_string()));
        }
        return Ok((found, images(&heights, found.cutoff)));
    }
    let mut best = None;
    // Cutoffs between these would save little, and part batches of like systems into many kinds.
    for cutoff in [0.5 * largest, largest] {
        let found = estimated(Prescribed { cutoff: Some(cutoff), ..given })?;
        let images = images(&heights, cutoff);
        let cost = cost(natoms, &lattice, &found, images, COSTS[0]);
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, (found, images)));
        }
    }
    Ok(best.expect("the largest cutoff is among them").1)
}

/// Cost of a direct sum in training on forces, with its parameters and numbers of images.
///
/// # Errors
/// `cell` where it is singular or not finite.
pub fn training_cost(
    natoms: usize,
    cell: &[[f64; 3]; 3],
    of: &EwaldParameters,
    images: [i64; 3],
) -> Result<f64> {
    Ok(cost(natoms, &Cell::from_rows(*cell)?, of, images, PAIR_IN_TRAINING))
}

/// Cost of a sum over a list that is searched for, all parameters open, in the unit of [`training_cost`].
///
/// # Errors
/// Those of [`estimate_ewald_parameters`].
pub fn listed_cost(natoms: usize, cell: &[[f64; 3]; 3], accuracy: f64) -> Result<f64> {
    let found = estimate_ewald_parameters(natoms, cell, Some(accuracy), Prescribed::default())?;
    Ok(found.cost(natoms, Cell::from_rows(*cell)?.volume()) + LISTED_ATOM * natoms as f64)
}

/// The images along each axis within a cutoff.
fn images(heights: &[f64; 3], cutoff: f64) -> [i64; 3] {
    heights.map(|height| if 2.0 * cutoff > 1.000_000_1 * height { 2 } else { 1 })
}

/// Cost of a direct sum; `of_pair` that of a pair in one image.
fn cost(natoms: usize, cell: &Cell, of: &EwaldParameters, images: [i64; 3], of_pair: f64) -> f64 {
    let n = natoms as f64;
    let axis = cell.reciprocal()[2];
    let apart = axis.iter().map(|x| x * x).sum::<f64>().sqrt();
    let waves = cell.volume() * of.k_cutoff.powi(3) / (12.0 * PI * PI);
    let of_line = 4.0 / 3.0 * of.k_cutoff / apart;
    let lines = waves / of_line.max(1.0) * (0.5 + of_line / WAVES_OF_LINE as f64).max(1.0);
    of_pair * n * n * images.iter().product::<i64>() as f64 + lines * (COSTS[1] * n + COSTS[2])
}

/// Lines of waves, as the ops take them: the middle wave of each (L, 3), the number of waves beside it, and its system;
/// from Miller indices (K, 3) and the system of each.
pub fn wave_lines(miller: &[[i32; 3]], systems: &[i32]) -> (Vec<[i32; 3]>, Vec<i32>, Vec<i32>) {
    let (mut lines, mut beside, mut of) = (vec![], vec![], vec![]);
    let mut first = 0;
    for end in 1..=miller.len() {
        let follows = miller.get(end).is_some_and(|[h, k, l]| {
            let [a, b, c] = miller[end - 1];
            (*h, *k, Some(*l)) == (a, b, c.checked_add(1)) && systems[end] == systems[end - 1]
        });
        if follows && end - first < WAVES_OF_LINE {
            continue;
        }
        lines.push(miller[first + (end - first - 1) / 2]);
        beside.push((end - first - 1) as i32);
        of.push(systems[first]);
        first = end;
    }
    (lines, beside, of)
}

/// The largest cutoff within which a number of images along each axis has all pairs.
fn largest_cutoff(cell: &Cell, images: [i64; 3]) -> f64 {
    let heights = cell.heights();
    (0..3).map(|n| 0.5 * images[n] as f64 * heights[n]).fold(f64::INFINITY, f64::min)
}
