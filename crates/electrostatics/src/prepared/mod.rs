//! Sums ready to be evaluated: parameters are chosen and lists are built, and what is left are ops with their arguments.
//!
//! The front ends evaluate these on arrays of the host. A caller with arrays of another kind, such as tensors with gradients,
//! puts its own in the place of those of the system:
//!
//! ```
//! use madelung_core::array::Array;
//! use madelung_core::op::Arg;
//! use madelung_core::structure::Batch;
//! use madelung_electrostatics::prepared::{Argument, Prepared, SumSettings, prepare};
//! use madelung_electrostatics::{EwaldSettings, Reduction, System};
//!
//! // Caesium chloride.
//! let (positions, charges) = ([[0.0; 3], [1.0; 3]], [1.0, -1.0]);
//! let cells = [[[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]]];
//! let [r, q] = [Array::from(&positions[..]), Array::from(charges.to_vec())];
//! let batch = Batch::single(2)?;
//! let system = System::new(r.view(), q.view(), (&cells[..]).into(), batch.clone())?;
//! let context = madelung_cpu::context();
//! let settings = SumSettings::ewald(&EwaldSettings::accuracy(1e-10));
//! let Prepared::Sum(sum) = prepare(&context, &settings, &system, None)? else { unreachable!() };
//! let mut energy = 0.0;
//! for term in &sum.terms {
//!     let args = term.arguments.iter().map(|argument| match argument {
//!         Argument::Positions => Arg::Array(r.view()),
//!         Argument::Charges(None) => Arg::Array(q.view()),
//!         Argument::Cell => Arg::Array((&cells[..]).into()),
//!         Argument::Strain => Arg::Zero,
//!         Argument::Batch => Arg::Structure(&batch),
//!         Argument::Prefactor => Arg::Real(1.0),
//!         other => other.made().expect("a crystal of points, without a list, has no others"),
//!     });
//!     let found = term.op(Reduction::System).value(&context, &args.collect::<Vec<_>>())?;
//!     energy += found[0].to_f64()?[0];
//! }
//! // The Madelung constant of caesium chloride over the distance of neighbours.
//! assert!((energy + 1.762_674_773_1 / 3f64.sqrt()).abs() < 1e-8);
//! # Ok::<(), madelung_core::Error>(())
//! ```

mod arguments;

use crate::energies::Reduction;
use crate::ops::registry;
use crate::plan::{
    Chosen, Given, Height, Law, Method, Plan, Prescription, Request, Sum, Systems, Terms, UNIT, accuracy,
    compose, crowding, extents, kinds, numbers, row,
};
use crate::system::System;
use arguments::{Call, Left};
use madelung_core::array::Array;
use madelung_core::backend::Context;
use madelung_core::op::{Arg, Op};
use madelung_core::structure::Structure;
use madelung_core::structure::pairs::{Kind, PairList};
use madelung_core::{Error, Result};
use std::sync::Arc;

/// A sum, and what a caller says of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SumSettings {
    /// Its interactions.
    pub sum: Sum,
    /// How pairs are summed; None: whichever way costs less.
    pub method: Option<Method>,
    /// The parameters that are given.
    pub given: Prescription,
}

/// A sum whose parameters are chosen.
#[derive(Debug)]
pub enum Prepared {
    /// Ops whose energies add up.
    Sum(Summands),
    /// Sums of some systems each, as one way of summing costs less for these and another for those: their settings, and the
    /// systems, in ascending order.
    Parts(Vec<(SumSettings, Vec<usize>)>),
}

/// The ops of a sum.
#[derive(Debug)]
pub struct Summands {
    /// The ops; none of a batch without systems.
    pub terms: Vec<Summand>,
    /// The cells of the sum over the lattice.
    pub lattice: Lattice,
}

/// One op of a sum, with its arguments in their order.
#[derive(Debug)]
pub struct Summand {
    name: String,
    /// The arguments.
    pub arguments: Vec<Argument>,
}

impl Summand {
    /// The op with energies of atoms or of systems.
    pub fn op(&self, reduction: Reduction) -> &'static Arc<Op> {
        let found = match reduction {
            Reduction::Atom => registry().get(&self.name),
            Reduction::System => registry().get(&format!("{}_total", self.name)),
        };
        found.expect("a plan has ops of the registry")
    }
}

/// The cells of a sum over the lattice, made of those of the system.
#[derive(Debug)]
pub struct Lattice {
    /// Heights (B,) and axes (B, 3), with which the op `upright_cells` makes those of slabs; None: there are none.
    pub upright: Option<[Array; 2]>,
    /// Whether each system is none, and has the unit cell; one row for all, or one for each.
    pub is_none: Vec<bool>,
}

/// Argument of an op of a sum: of the system, for whose arrays a caller may have others, or made for the op.
#[derive(Clone, Debug)]
pub enum Argument {
    /// The positions.
    Positions,
    /// The charges, times factors (N,) where there are some.
    Charges(Option<Arc<Array>>),
    /// The cells (B, 3, 3).
    Cell,
    /// The cells of the sum over the lattice, of [`Lattice`], and their values.
    LatticeCell(Arc<Array>),
    /// The strain, which is zero.
    Strain,
    /// The batch.
    Batch,
    /// The factor of energies.
    Prefactor,
    /// The list that is given.
    Pairs,
    /// The widths of charges.
    Widths,
    /// The factors of excluded pairs, and their values.
    Factors(Arc<Array>),
    /// An array.
    Array(Arc<Array>),
    /// A batch, a list, a map or a mesh.
    Structure(Arc<dyn Structure>),
    /// A real number.
    Real(f64),
    /// An integer.
    Int(i64),
}

impl Argument {
    fn structure(structure: impl Structure + 'static) -> Self {
        Self::Structure(Arc::new(structure))
    }

    fn array(array: impl Into<Array>) -> Self {
        Self::Array(Arc::new(array.into()))
    }

    /// The argument as ops of the host take it; None of an array, batch, list or factor that the caller has.
    pub fn made(&self) -> Option<Arg<'_>> {
        Some(match self {
            Self::LatticeCell(x) | Self::Factors(x) | Self::Array(x) => Arg::Array(x.view()),
            Self::Structure(x) => Arg::Structure(&**x),
            Self::Real(x) => Arg::Real(*x),
            Self::Int(x) => Arg::Int(*x),
            _ => return None,
        })
    }
}

/// The ops of a sum: parameters that `settings` leaves open are chosen, and a list is built unless `pairs` is one.
///
/// # Errors
/// Those of [`compose`](crate::plan::compose()) and [`numbers`](crate::plan::numbers()); an argument that does not fit the
/// systems, or that the sum does not have.
pub fn prepare(
    context: &Context<'_>,
    settings: &SumSettings,
    system: &System<'_>,
    pairs: Option<&dyn Structure>,
) -> Result<Prepared> {
    let SumSettings { sum, given, .. } = settings;
    let full = pairs.map(full_list).transpose()?.flatten();
    check_domain(*sum, system, pairs)?;
    let (plan, request, values) = planned(settings, system, pairs.is_some())?;
    let terms = match plan {
        Plan::Sum(terms) => terms,
        Plan::Parts(parts) => {
            let given = Prescription { accuracy: given.accuracy, ..Prescription::default() };
            let of = |method| SumSettings { sum: *sum, method: Some(method), given: given.clone() };
            return Ok(Prepared::Parts(parts.into_iter().map(|(method, b)| (of(method), b)).collect()));
        }
        Plan::Ask => unreachable!("the request says the kinds of its systems"),
    };
    let chosen = terms.chooses.then(|| values.chosen(&request, &terms, system, given)).transpose()?;
    let lattice = lattice_of(system, &terms, given, chosen.as_ref())?;
    let cells = lattice.cells(context, system)?;
    let left = system.exclusions.as_ref().map(|x| Left::of(context, system, x)).transpose()?;
    let call = Call { context, system, given, pairs, full, lattice: &lattice, cells, chosen, left };
    call.check_widths()?;
    let terms = call.summands(&terms)?;
    Ok(Prepared::Sum(Summands { terms, lattice }))
}

/// The full list of a half one; None of one that is full.
fn full_list(pairs: &dyn Structure) -> Result<Option<Arc<PairList<'static>>>> {
    match pairs.list_kind() {
        Some(Kind::Full) => Ok(None),
        Some(Kind::Half) if let Some(half) = pairs.as_pairs() => {
            Ok(Some(Arc::new(half.to_full()?.into_owned())))
        }
        _ => Err(Error::argument("pairs", "a full or a half list on the host", pairs.describe())),
    }
}

/// Refuses the list of a domain where a sum is of more than its pairs.
fn check_domain(sum: Sum, system: &System<'_>, pairs: Option<&dyn Structure>) -> Result<()> {
    let Some(own) = pairs.and_then(|pairs| pairs.own_rows()) else { return Ok(()) };
    if !sum.is_of_pairs() {
        let expected = "the list of whole systems, for a sum of more than its pairs";
        return Err(Error::argument("pairs", expected, format!("that of a domain of {own} atoms")));
    }
    match system.exclusions {
        Some(_) => Err(Error::argument("exclusions", "None with the list of a domain", "some")),
        None => Ok(()),
    }
}

/// The plan of a call, its request, and the values that open parameters are chosen by.
fn planned(settings: &SumSettings, system: &System<'_>, has_list: bool) -> Result<(Plan, Request, Values)> {
    let given = &settings.given;
    given.check(system.systems())?;
    accuracy(given.accuracy, system.is_narrow())?;
    let mut request = request_of(settings, system, has_list);
    let mut values = Values::of(system);
    let mut plan = compose(&request)?;
    if plan == Plan::Ask {
        values = values.measured(system)?;
        request.kinds = Some(kinds(&request, values.systems(system), given)?);
        plan = compose(&request)?;
    }
    if matches!(&plan, Plan::Sum(terms) if terms.by_extents) {
        values = values.measured(system)?;
    }
    Ok((plan, request, values))
}

/// The parameters of a sum over a list.
pub(crate) fn parameters(settings: &SumSettings, system: &System<'_>) -> Result<Chosen> {
    let mut request = request_of(settings, system, false);
    request.method = Some(Method::List);
    let Plan::Sum(terms) = compose(&request)? else { unreachable!("the request says its method") };
    Values::of(system).measured(system)?.chosen(&request, &terms, system, &settings.given)
}

fn request_of(
    SumSettings { sum, method, given }: &SumSettings,
    system: &System<'_>,
    has_list: bool,
) -> Request {
    let given = Given {
        alpha: given.alpha.is_some(),
        cutoff: given.cutoff.is_some(),
        cutoffs: given.cutoff.as_ref().is_some_and(|x| x.len() > 1),
        k_cutoff: given.k_cutoff.is_some(),
        waves: given.waves.is_some(),
        mesh: given.mesh_dimensions.is_some(),
        list: has_list,
        exclusions: system.exclusions.is_some(),
        widths: system.widths.is_some(),
        accuracy: given.accuracy.is_some(),
        cell: true,
        slabs: true,
        slab_height: given.slab_height.is_some(),
        narrow: system.is_narrow(),
        readable: true,
        unread_axes: false,
    };
    let (sum, method, pbc) = (*sum, *method, Some(system.pbc.clone()));
    Request { sum, method, law: Law::default(), pbc, given, kinds: None }
}

/// Numbers of atoms and extents of systems.
struct Values {
    atoms: Vec<usize>,
    extents: Vec<f64>,
}

impl Values {
    fn of(system: &System<'_>) -> Self {
        let atoms = (0..system.systems()).map(|b| system.batch.members(b).len()).collect();
        Self { atoms, extents: vec![] }
    }

    /// Values with extents, which batches of crystals need none of.
    fn measured(mut self, system: &System<'_>) -> Result<Self> {
        if self.extents.is_empty() && system.pbc.as_flattened().contains(&false) {
            self.extents = extents(&system.positions.to_rows()?, &self.atoms, system.cells(), &system.pbc)?;
        }
        Ok(self)
    }

    fn systems<'a>(&'a self, system: &'a System<'_>) -> Systems<'a> {
        Systems { cells: system.cells(), atoms: &self.atoms, extents: &self.extents, crowding: &[] }
    }

    /// The parameters that terms leave open: those of filled cells, or others where atoms crowd.
    fn chosen(
        &self,
        request: &Request,
        terms: &Terms,
        system: &System<'_>,
        given: &Prescription,
    ) -> Result<Chosen> {
        let systems = self.systems(system);
        let filled = numbers(request, terms, systems, given)?;
        if !filled.by_crowding {
            return Ok(filled);
        }
        let positions = system.positions.to_rows()?;
        match crowding(request, systems, (&filled.cutoff, &filled.heights), &positions)? {
            None => Ok(filled),
            Some(crowding) => numbers(request, terms, Systems { crowding: &crowding, ..systems }, given),
        }
    }
}

/// The cells of the sum over the lattice.
fn lattice_of(
    system: &System<'_>,
    terms: &Terms,
    given: &Prescription,
    chosen: Option<&Chosen>,
) -> Result<Lattice> {
    let systems = system.systems();
    let heights = match terms.cells.height {
        Height::Argument => given.slab_height.as_ref(),
        _ => chosen.map(|x| &x.heights),
    };
    let upright = terms.cells.upright.as_ref().zip(heights).map(|(axes, heights)| {
        let axes: Vec<i32> = (0..systems).flat_map(|b| row(axes.known(), b).clone()).collect();
        let heights: Vec<f64> = (0..systems).map(|b| *row(heights, b)).collect();
        let heights = Array::from_f64(system.positions.dtype(), &[systems], &heights)?;
        Ok::<_, Error>([heights, Array::from(axes.as_chunks::<3>().0)])
    });
    Ok(Lattice { upright: upright.transpose()?, is_none: terms.cells.no_lattice.known().to_vec() })
}

impl Lattice {
    /// The values of the cells.
    fn cells(&self, context: &Context<'_>, system: &System<'_>) -> Result<Vec<[[f64; 3]; 3]>> {
        let mut cells = match &self.upright {
            Some([heights, axes]) => {
                let args = [&system.cell, heights, axes].map(|x| Arg::Array(x.view()));
                Self::upright_cells().value(context, &args)?[0].to_f64()?.as_chunks().0.as_chunks().0.to_vec()
            }
            None => system.cells().to_vec(),
        };
        for (_, cell) in cells.iter_mut().enumerate().filter(|(b, _)| *row(&self.is_none, *b)) {
            *cell = UNIT;
        }
        Ok(cells)
    }

    /// The op that makes cells of slabs, of cells, heights and axes.
    pub fn upright_cells() -> &'static Arc<Op> {
        madelung_neighbors::registry().get("upright_cells").expect("an op of the registry")
    }

    /// Whether cells are those of the system.
    fn is_given(&self) -> bool {
        self.upright.is_none() && !self.is_none.contains(&true)
    }
}
