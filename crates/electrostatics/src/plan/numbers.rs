//! Parameters that a request leaves open, from cells and numbers of atoms.

use super::boundaries::{Boundaries, row};
use super::known::{KINDS, NUMBERS, Question};
use super::{Height, Kind, Parameter, Request, Sum, Terms, crowding, slabs};
use crate::direct::{crowded_parameters, direct_parameters, listed_cost, training_cost, wave_lines};
use crate::kvectors::miller_indices_batch;
use crate::mesh::{PrescribedMesh, SPLINE_ORDER};
use crate::parameters::{Accuracy, each, ewald_parameters, per_system, pme_parameters};
use crate::tuning::Prescribed;
use madelung_core::cell::Cell;
use madelung_core::{Error, Result};

/// The systems of a call.
#[derive(Clone, Copy, Debug)]
pub struct Systems<'a> {
    /// Their cells; vectors along open axes are not looked at.
    pub cells: &'a [[[f64; 3]; 3]],
    /// The number of atoms of each.
    pub atoms: &'a [usize],
    /// The thickness of each slab along its normal, and a distance beyond all pairs of each other system. Where
    /// [`Terms::by_extents`] is false it may be empty.
    pub extents: &'a [f64],
    /// The density around the atoms of each over that of its cell, by [`crowding`](super::crowding()). Empty: their cells are
    /// filled.
    pub crowding: &'a [f64],
}

/// Parameters that are prescribed, one for all systems or one for each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prescription {
    /// Splitting parameter, in 1/L.
    pub alpha: Option<Vec<f64>>,
    /// Radius of the real-space sum, in L.
    pub cutoff: Option<Vec<f64>>,
    /// Radius of the reciprocal sum, in radians per L.
    pub k_cutoff: Option<Vec<f64>>,
    /// Nodes along each lattice vector.
    pub mesh_dimensions: Option<Vec<[usize; 3]>>,
    /// Order of the splines.
    pub spline_order: Option<Vec<usize>>,
    /// Miller indices (K, 3), one of each two ±k, and the system of each wave, in ascending order.
    pub waves: Option<(Vec<[i32; 3]>, Vec<i32>)>,
    /// Height of the cells of slabs, in L.
    pub slab_height: Option<Vec<f64>>,
    /// Relative error of forces, which all parameters have to meet. None: open ones are chosen for
    /// [`DEFAULT_ACCURACY`](crate::DEFAULT_ACCURACY), or what float32
    /// reaches.
    pub accuracy: Option<f64>,
}

/// Parameters chosen for each system.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chosen {
    /// Splitting parameter.
    pub alpha: Vec<f64>,
    /// Radius of the real-space sum.
    pub cutoff: Vec<f64>,
    /// Radius of the reciprocal sum.
    pub k_cutoff: Vec<f64>,
    /// Nodes and order (K₁, K₂, K₃, p) of a mesh.
    pub mesh: Vec<[usize; 4]>,
    /// Height of the cell of slabs; 0 for other systems.
    pub heights: Vec<f64>,
    /// The cost of sums over lists, in the unit of [`PAIR_COST`](crate::tuning::PAIR_COST).
    pub cost: f64,
    /// The expected relative error of forces; 0 for systems that are no lattice.
    pub errors: Vec<f64>,
    /// Images along each axis of a direct sum.
    pub images: [i64; 3],
    /// Lines of waves of a direct sum: see [`wave_lines`].
    pub lines: (Vec<[i32; 3]>, Vec<i32>, Vec<i32>),
    /// Whether cells are so much wider than cutoffs that [`crowding`](super::crowding()) may change what is chosen.
    pub by_crowding: bool,
}

impl Chosen {
    /// A parameter of each system.
    pub fn of(&self, parameter: Parameter) -> &[f64] {
        match parameter {
            Parameter::Alpha => &self.alpha,
            Parameter::Cutoff => &self.cutoff,
            Parameter::KCutoff => &self.k_cutoff,
        }
    }
}

/// The thickness of each slab along its normal, and a distance beyond all pairs of each other system, from the positions of
/// all systems, one after the other. Rounded up by at most 3 %, so that they stay while atoms move.
///
/// # Errors
/// `pbc`, where it has rows of another number of systems.
pub fn extents(
    positions: &[[f64; 3]],
    atoms: &[usize],
    cells: &[[[f64; 3]; 3]],
    axes: &[[bool; 3]],
) -> Result<Vec<f64>> {
    check_rows(axes, atoms.len())?;
    let mut rest = positions;
    let of = |(b, atoms): (usize, &usize)| {
        let own;
        (own, rest) = rest.split_at((*atoms).min(rest.len()));
        let span = |along: [f64; 3]| {
            let place = |r: &[f64; 3]| r.iter().zip(along).map(|(x, y)| x * y).sum::<f64>();
            let ends = own.iter().map(place).fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(x), b.max(x)));
            (ends.1 - ends.0).max(0.0)
        };
        let periodic = row(axes, b);
        let size = match periodic.iter().position(|x| !x) {
            Some(open) if periodic.iter().filter(|x| **x).count() == 2 => {
                span(slabs::normal(&cells[b], open))
            }
            _ => 1.001 * UNIT.map(span).iter().map(|x| x * x).sum::<f64>().sqrt() + 1e-3,
        };
        // A step of a 32nd of the power of two below.
        let step = size.log2().floor().exp2() / 32.0;
        if size.is_normal() { (size / step).ceil() * step } else { 0.0 }
    };
    Ok(atoms.iter().enumerate().map(of).collect())
}

/// The parameters of a sum, whose terms are those of its request. Those of recent calls are kept.
///
/// # Errors
/// Those of the estimates; `accuracy`, where arrays of float32 do not have it.
pub fn numbers(
    request: &Request,
    terms: &Terms,
    systems: Systems<'_>,
    given: &Prescription,
) -> Result<Chosen> {
    NUMBERS.of(Question { request, systems, given }, || chosen(request, terms, systems, given))
}

fn chosen(request: &Request, terms: &Terms, systems: Systems<'_>, given: &Prescription) -> Result<Chosen> {
    let call = Call::new(request, systems, given)?;
    let count = systems.atoms.len();
    let mut found = Chosen {
        alpha: vec![1.0; count],
        cutoff: vec![0.0; count],
        k_cutoff: vec![0.0; count],
        heights: vec![0.0; count],
        errors: vec![0.0; count],
        images: [1; 3],
        ..Chosen::default()
    };
    if request.sum == Sum::Mesh {
        // Systems that are no lattice have the smallest mesh.
        let smallest = |b: usize| [given.spline_order.as_ref().map_or(SPLINE_ORDER, |p| *row(p, b)); 4];
        found.mesh = (0..count).map(smallest).collect();
    }
    for b in (0..count).filter(|b| !call.is_open(*b)) {
        let (own, height) = call.own(terms, b).map_err(|error| of_system(error, b, count))?;
        [found.alpha[b], found.cutoff[b], found.k_cutoff[b]] = own.parameters;
        if request.sum == Sum::Mesh {
            found.mesh[b] = own.mesh;
        }
        (found.heights[b], found.errors[b]) = (height, own.error);
        found.by_crowding |= own.by_crowding;
        found.images = std::array::from_fn(|k| found.images[k].max(own.images[k]));
        found.cost += own.cost;
    }
    let largest = found.cutoff.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    for b in (0..count).filter(|b| call.is_open(*b)) {
        found.cutoff[b] = if terms.is_direct { OPEN_REACH } else { call.reach(largest, b) };
    }
    if terms.is_direct && !request.given.waves {
        let cell = |b| if call.is_open(b) { UNIT } else { call.cell(terms.cells.height, b, 0.0).0 };
        let cells: Vec<_> = (0..count).map(cell).collect();
        let (miller, ptr) = miller_indices_batch(&cells, &found.k_cutoff)?;
        let waves_of = |b: usize| vec![b as i32; (ptr[b + 1] - ptr[b]) as usize];
        let of: Vec<i32> = (0..count).flat_map(waves_of).collect();
        found.lines = wave_lines(&miller, &of);
    }
    Ok(found)
}

/// The cheapest sum of each system of a request that leaves all parameters open.
///
/// # Errors
/// Those of the estimates.
pub fn kinds(request: &Request, systems: Systems<'_>, given: &Prescription) -> Result<Vec<Kind>> {
    KINDS.of(Question { request, systems, given }, || cheapest(request, systems, given))
}

fn cheapest(request: &Request, systems: Systems<'_>, given: &Prescription) -> Result<Vec<Kind>> {
    let call = Call::new(request, systems, given)?;
    let of = |b: usize| {
        if call.is_open(b) || systems.atoms[b] == 0 {
            return Ok(None);
        }
        let (atoms, (cell, _)) = (systems.atoms[b], call.cell(Height::Chosen, b, 0.0));
        let (p, images) =
            direct_parameters(atoms, &cell, Some(call.accuracy.target()), Prescribed::default())?;
        Ok(Some(
            if training_cost(atoms, &cell, &p, images)? > listed_cost(atoms, &cell, call.accuracy.target())? {
                Kind::List
            } else if images == [1; 3] {
                Kind::Nearest
            } else {
                Kind::More
            },
        ))
    };
    let count = systems.atoms.len();
    let each = (0..count).map(|b| of(b).map_err(|error| of_system(error, b, count)));
    let found = each.collect::<Result<Vec<_>>>()?;
    // Systems that are empty or no lattice take part in any sum.
    let any = found.iter().copied().flatten().min().unwrap_or(Kind::List);
    Ok(found.into_iter().map(|kind| kind.unwrap_or(any)).collect())
}

/// Whether sums on meshes have an accuracy: below 1e-10 their errors are those of their rounding.
pub fn meshes_reach(accuracy: Option<f64>) -> bool {
    accuracy.is_none_or(|x| x >= 1e-10)
}

impl Prescription {
    /// The parameters of a system.
    fn of(&self, b: usize) -> Prescribed {
        let of = |x: &Option<Vec<f64>>| x.as_ref().map(|x| *row(x, b));
        Prescribed { alpha: of(&self.alpha), cutoff: of(&self.cutoff), k_cutoff: of(&self.k_cutoff) }
    }

    /// Refuses parameters of another number of systems, and such that are no lengths.
    pub(crate) fn check(&self, systems: usize) -> Result<()> {
        let numbers = [
            ("alpha", &self.alpha),
            ("cutoff", &self.cutoff),
            ("k_cutoff", &self.k_cutoff),
            ("slab_height", &self.slab_height),
        ];
        for (name, x) in numbers {
            per_system(name, x.as_deref(), systems)?;
        }
        let nodes = each("mesh_dimensions", self.mesh_dimensions.as_deref(), systems)?;
        if let Some(bad) = nodes.iter().flatten().flatten().find(|n| i32::try_from(**n).is_err()) {
            return Err(Error::argument("mesh_dimensions", "integers below 2³¹", bad.to_string()));
        }
        let orders = each("spline_order", self.spline_order.as_deref(), systems)?;
        if let Some(bad) = orders.iter().flatten().find(|p| !(4..=8).contains(*p)) {
            return Err(Error::argument("spline_order", "4 to 8", bad.to_string()));
        }
        self.waves.as_ref().map_or(Ok(()), |waves| check_waves(waves, systems))
    }
}

/// Refuses waves whose systems do not fit, and the one without a length.
fn check_waves((indices, of): &(Vec<[i32; 3]>, Vec<i32>), systems: usize) -> Result<()> {
    if of.len() != indices.len() {
        let expected = format!("the system of each of {} waves", indices.len());
        return Err(Error::argument("waves", expected, format!("{} systems", of.len())));
    }
    let is_there = |b: &i32| usize::try_from(*b).is_ok_and(|b| b < systems);
    if !of.is_sorted() || !of.iter().all(is_there) {
        let expected = format!("systems 0 to {} in ascending order", systems.saturating_sub(1));
        return Err(Error::argument("waves", expected, "other numbers"));
    }
    match indices.iter().position(|wave| *wave == [0; 3]) {
        Some(row) => Err(Error::argument("waves", "waves other than (0, 0, 0)", format!("it in row {row}"))),
        None => Ok(()),
    }
}

/// Refuses rows of periodic axes of another number of systems.
pub(super) fn check_rows(axes: &[[bool; 3]], systems: usize) -> Result<()> {
    if [1, systems].contains(&axes.len()) {
        return Ok(());
    }
    let expected = format!("one row, or one for each of {systems} systems");
    Err(Error::argument("pbc", expected, format!("{} rows", axes.len())))
}

/// An error of one of several systems.
fn of_system(error: Error, b: usize, systems: usize) -> Error {
    match error {
        Error::Argument { argument, expected, got } if systems > 1 => {
            Error::argument(argument, expected, format!("{got} (system {b})"))
        }
        other => other,
    }
}

/// The parameters of a system.
struct Own {
    /// Splitting parameter, cutoff and radius of the reciprocal sum.
    parameters: [f64; 3],
    mesh: [usize; 4],
    images: [i64; 3],
    error: f64,
    cost: f64,
    by_crowding: bool,
}

struct Call<'a> {
    request: &'a Request,
    systems: Systems<'a>,
    given: &'a Prescription,
    edges: Boundaries,
    no_lattice: Vec<bool>,
    accuracy: Accuracy,
}

impl<'a> Call<'a> {
    fn new(request: &'a Request, systems: Systems<'a>, given: &'a Prescription) -> Result<Self> {
        let (edges, count) = (Boundaries::of(request)?, systems.atoms.len());
        check_rows(&edges.axes, count)?;
        given.check(count)?;
        let accuracy = Accuracy::of(given.accuracy, request.given.narrow)?;
        Ok(Self { request, systems, given, no_lattice: edges.no_lattice().known().to_vec(), edges, accuracy })
    }

    fn is_open(&self, b: usize) -> bool {
        *row(&self.no_lattice, b)
    }

    fn extent(&self, b: usize) -> f64 {
        self.systems.extents.get(b).copied().unwrap_or(0.0)
    }

    fn crowding(&self, b: usize) -> f64 {
        self.systems.crowding.get(b).copied().unwrap_or(1.0)
    }

    /// The cell of a lattice, and the height of a slab's.
    fn cell(&self, height: Height, b: usize, cutoff: f64) -> ([[f64; 3]; 3], f64) {
        let cell = self.systems.cells[b];
        let axes = row(&self.edges.axes, b);
        let open = axes.iter().position(|periodic| !periodic);
        let Some(open) = open.filter(|_| height != Height::Cell) else { return (cell, 0.0) };
        let height = match &self.given.slab_height {
            Some(heights) => *row(heights, b),
            None => slabs::height(&cell, open, self.extent(b), self.accuracy.target(), cutoff),
        };
        (slabs::upright(&cell, open, height), height)
    }

    /// The parameters of a lattice, and the height of a slab's cell.
    fn own(&self, terms: &Terms, b: usize) -> Result<(Own, f64)> {
        let (from, is_direct) = (terms.cells.height, terms.is_direct);
        let (cell, mut height) = self.cell(from, b, 0.0);
        let mut own = self.choose(is_direct, b, &cell, self.given.of(b))?;
        if from == Height::Chosen && !is_direct {
            // A gap as wide as the cutoff, too: then no pair is with an image along the normal.
            let cutoff = own.parameters[1];
            let (cell, wide) = self.cell(Height::Chosen, b, cutoff);
            if wide > height {
                height = wide;
                let fixed = Prescribed { cutoff: Some(cutoff), ..self.given.of(b) };
                own = self.choose(is_direct, b, &cell, fixed)?;
            }
        }
        let cutoff = if is_direct { 0.0 } else { own.parameters[1] };
        self.check_height(from, b, height, cutoff)?;
        Ok((own, height))
    }

    /// Refuses a height that is given, of which too little is left between a slab and its image: less than the cutoff, or
    /// than the accuracy asks for where one is stated.
    fn check_height(&self, from: Height, b: usize, height: f64, cutoff: f64) -> Result<()> {
        let open = row(&self.edges.axes, b).iter().position(|periodic| !periodic);
        let Some(open) = open.filter(|_| from != Height::Chosen && self.request.given.readable) else {
            return Ok(());
        };
        let cell = &self.systems.cells[b];
        let (name, height) = match from {
            Height::Argument => ("slab_height", height),
            _ => ("cell", slabs::height_of(cell, open)),
        };
        let gap = self.given.accuracy.map_or(0.0, |accuracy| slabs::gap(cell, open, accuracy)).max(cutoff);
        let least = 0.97 * self.extent(b) + gap;
        if height < least {
            let expected = format!("a height of at least {least:.6} along the normal of the slab");
            return Err(Error::argument(name, expected, format!("{height:.6}")));
        }
        Ok(())
    }

    /// The parameters of a lattice.
    fn choose(&self, is_direct: bool, b: usize, cell: &[[f64; 3]; 3], fixed: Prescribed) -> Result<Own> {
        // An empty system has nothing to sum, whatever the parameters.
        let atoms = self.systems.atoms[b].max(1);
        let Some(exponent) = self.request.law.power() else { return Ok(self.given_of(b, fixed)) };
        let (lattice, crowding) = (Cell::from_rows(*cell)?, self.crowding(b));
        let volume = lattice.volume();
        let by_crowding =
            |cutoff| self.request.given.readable && crowding::is_possible(atoms, &lattice, cutoff);
        if self.request.sum == Sum::Mesh {
            let given = PrescribedMesh {
                alpha: fixed.alpha,
                cutoff: fixed.cutoff,
                mesh_dimensions: self.given.mesh_dimensions.as_ref().map(|x| *row(x, b)),
                spline_order: self.given.spline_order.as_ref().map(|x| *row(x, b)),
            };
            let p = pme_parameters((atoms, cell, crowding), exponent, self.accuracy, given)?;
            let [k1, k2, k3] = p.mesh_dimensions;
            return Ok(Own {
                parameters: [p.alpha, p.cutoff, 0.0],
                mesh: [k1, k2, k3, p.spline_order],
                images: [1; 3],
                error: p.predicted_force_error,
                cost: p.cost(atoms, volume),
                by_crowding: by_crowding(p.cutoff),
            });
        }
        let fixed = match (fixed.alpha, fixed.cutoff) {
            // Waves that are given have no radius: with any, nothing is open.
            (Some(alpha), Some(_)) if self.request.given.waves => {
                Prescribed { k_cutoff: Some(fixed.k_cutoff.unwrap_or(alpha)), ..fixed }
            }
            _ => fixed,
        };
        let (p, images) = if is_direct {
            let of = |accuracy| crowded_parameters(atoms, cell, crowding, accuracy, fixed);
            self.accuracy.met(fixed.is_open(), of, || of(None).ok())?
        } else {
            (ewald_parameters((atoms, cell, crowding), exponent, self.accuracy, fixed)?, [1; 3])
        };
        Ok(Own {
            parameters: [p.alpha, p.cutoff, p.k_cutoff],
            mesh: [0; 4],
            images,
            error: p.predicted_force_error,
            cost: p.cost(atoms, volume),
            by_crowding: by_crowding(p.cutoff),
        })
    }

    /// The parameters of a lattice whose law nothing estimates: all are given.
    fn given_of(&self, b: usize, fixed: Prescribed) -> Own {
        let [k1, k2, k3] = self.given.mesh_dimensions.as_ref().map_or([0; 3], |x| *row(x, b));
        let order = self.given.spline_order.as_ref().map_or(SPLINE_ORDER, |p| *row(p, b));
        Own {
            parameters: [fixed.alpha, fixed.cutoff, fixed.k_cutoff].map(Option::unwrap_or_default),
            mesh: [k1, k2, k3, order],
            images: [1; 3],
            error: f64::NAN,
            cost: f64::NAN,
            by_crowding: false,
        }
    }

    /// How far a list has the pairs of a system that is no lattice; `largest`: the cutoff of those that are.
    fn reach(&self, largest: f64, b: usize) -> f64 {
        let given = &self.request.given;
        let axes = row(&self.edges.axes, b);
        match axes.iter().position(|periodic| *periodic) {
            // Exclusions of wires are split at half a period.
            Some(k) if given.exclusions => {
                0.5 * self.systems.cells[b][k].iter().map(|x| x * x).sum::<f64>().sqrt()
            }
            None if given.exclusions || !self.request.law.is_coulomb() || self.request.sum == Sum::Pairs => {
                self.extent(b).max(f64::MIN_POSITIVE)
            }
            // No pair is needed.
            _ => 1e-6 * largest,
        }
    }
}

/// The cell of systems that are no lattice in a sum over the lattice, where they have no charge.
pub(crate) const UNIT: [[f64; 3]; 3] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

/// A cutoff in it.
pub(super) const OPEN_REACH: f64 = 0.25;
