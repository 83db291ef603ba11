//! Plans run on the host: what callers of Rust have.

use crate::direct::wave_lines;
use crate::energies::{Energies, Options, Reduction};
use crate::kvectors::miller_indices_batch;
use crate::mesh::SPLINE_ORDER;
use crate::ops::registry;
use crate::plan::{
    Axes, Cells, Chosen, Given, Height, Input, Law, Method, Numbered, Parameter, Plan, Prescription, Request,
    Sum, Systems, Term, Terms, UNBOUNDED, UNIT, accuracy, all_pairs, compose, crowding, extents,
    gaussian_reach, kinds, numbers, row,
};
use crate::system::{Excluded, System};
use madelung_core::array::{Array, View};
use madelung_core::backend::Context;
use madelung_core::op::Arg;
use madelung_core::structure::pairs::Neighbors;
use madelung_core::structure::{Batch, Map, Mesh, Structure};
use madelung_core::{Error, Result};
use madelung_neighbors::ExcludedPairs;

/// The results of a sum: parameters that `given` leaves open are chosen, and a list is built unless `pairs` is one.
pub(crate) fn run_plan(
    context: &Context<'_>,
    (sum, method): (Sum, Option<Method>),
    system: &System<'_>,
    given: &Prescription,
    pairs: Option<&dyn Structure>,
    options: &Options,
) -> Result<Energies> {
    if let Some(own) = pairs.and_then(|pairs| pairs.own_rows()) {
        let got = format!("that of a domain of {own} atoms");
        if !sum.is_of_pairs() {
            return Err(Error::argument(
                "pairs",
                "the list of whole systems, for a sum of more than its pairs",
                got,
            ));
        }
        if system.exclusions.is_some() {
            return Err(Error::argument("exclusions", "None with the list of a domain", "some"));
        }
    }
    let (plan, known) = planned((sum, method), system, given, pairs.is_some())?;
    match plan {
        Plan::Sum(terms) => {
            Prepared::of(context, system, given, pairs, terms, &known)?.evaluated(&system.charges, options)
        }
        Plan::Parts(parts) => in_parts(context, sum, system, given, &parts, options),
        Plan::Ask => unreachable!("the request says the kinds of its systems"),
    }
}

/// A sum over a list that is built, to be evaluated for charges of any values.
pub(crate) fn prepared<'a>(
    context: &'a Context<'a>,
    sum: Sum,
    system: &'a System<'a>,
    given: &'a Prescription,
) -> Result<Prepared<'a>> {
    match planned((sum, Some(Method::List)), system, given, false)? {
        (Plan::Sum(terms), known) => Prepared::of(context, system, given, None, terms, &known),
        _ => unreachable!("the request says its method"),
    }
}

/// The plan of a call, its request, and the values that open parameters are chosen by.
fn planned(
    (sum, method): (Sum, Option<Method>),
    system: &System<'_>,
    given: &Prescription,
    has_list: bool,
) -> Result<(Plan, (Request, Values))> {
    given.check(system.systems())?;
    accuracy(given.accuracy, system.is_narrow())?;
    let mut request = request_of(system, given, sum, method, has_list);
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
    Ok((plan, (request, values)))
}

/// The parameters of a sum over a list.
pub(crate) fn parameters(sum: Sum, system: &System<'_>, given: &Prescription) -> Result<Chosen> {
    let request = request_of(system, given, sum, Some(Method::List), false);
    let Plan::Sum(terms) = compose(&request)? else { unreachable!("the request says its method") };
    Values::of(system).measured(system)?.chosen(&request, &terms, system, given)
}

fn request_of(
    system: &System<'_>,
    given: &Prescription,
    sum: Sum,
    method: Option<Method>,
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
    Request { sum, method, law: Law::default(), pbc: Some(system.pbc.clone()), given, kinds: None }
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

/// The results of a batch, each part of which has a sum of its own systems.
fn in_parts(
    context: &Context<'_>,
    sum: Sum,
    system: &System<'_>,
    given: &Prescription,
    parts: &[(Method, Vec<usize>)],
    options: &Options,
) -> Result<Energies> {
    let given = Prescription { accuracy: given.accuracy, ..Prescription::default() };
    let dtype = system.positions.dtype();
    let mut whole = Energies::zeros(dtype, system.batch.atoms(), system.systems(), options);
    for (method, of) in parts {
        let atoms: Vec<usize> = of.iter().flat_map(|b| system.batch.members(*b)).collect();
        let part = system.part(of, &atoms)?;
        let found =
            run_plan(context, (sum, Some(*method)), &part.system(&system.pbc, of)?, &given, None, options)?;
        let of_energies = if options.energy_reduction == Reduction::System { of } else { &atoms };
        whole.fill(&found, of_energies, &atoms, of)?;
    }
    Ok(whole)
}

/// The cells of the sum over the lattice.
fn lattice_cells(
    context: &Context<'_>,
    system: &System<'_>,
    terms: &Terms,
    given: &Prescription,
    chosen: Option<&Chosen>,
) -> Result<Vec<[[f64; 3]; 3]>> {
    let (Cells { no_lattice, upright, height }, systems) = (&terms.cells, system.systems());
    let heights = match height {
        Height::Argument => given.slab_height.as_ref(),
        _ => chosen.map(|x| &x.heights),
    };
    let mut cells = match (upright, heights) {
        (Some(axes), Some(heights)) => {
            let axes: Vec<i32> = (0..systems).flat_map(|b| row(axes.known(), b).clone()).collect();
            let heights: Vec<f64> = (0..systems).map(|b| *row(heights, b)).collect();
            let heights = Array::from_f64(system.positions.dtype(), &[systems], &heights)?;
            let axes = Array::from(axes.as_chunks::<3>().0);
            let args = [&system.cell, &heights, &axes].map(|x| Arg::Array(x.view()));
            let op = madelung_neighbors::registry().get("upright_cells").expect("an op of the registry");
            op.value(context, &args)?[0].to_f64()?.as_chunks().0.as_chunks().0.to_vec()
        }
        _ => system.cells().to_vec(),
    };
    for (_, cell) in cells.iter_mut().enumerate().filter(|(b, _)| *row(no_lattice.known(), *b)) {
        *cell = UNIT;
    }
    Ok(cells)
}

/// A sum with its parameters and lists, of whatever charges its atoms have.
pub(crate) struct Prepared<'a> {
    call: Call<'a>,
    terms: Vec<(Term, Numbered)>,
    /// The arguments that each input of the terms stands for.
    inputs: Vec<Vec<Made<'a>>>,
}

impl<'a> Prepared<'a> {
    fn of(
        context: &'a Context<'a>,
        system: &'a System<'a>,
        given: &'a Prescription,
        pairs: Option<&'a dyn Structure>,
        terms: Terms,
        (request, values): &(Request, Values),
    ) -> Result<Self> {
        let chosen = terms.chooses.then(|| values.chosen(request, &terms, system, given)).transpose()?;
        let cells = lattice_cells(context, system, &terms, given, chosen.as_ref())?;
        let no_lattice = terms.cells.no_lattice.known().to_vec();
        let call = Call { context, system, given, pairs, no_lattice, cells, chosen };
        call.check_widths()?;
        let left = system.exclusions.as_ref().map(|x| call.excluded(x)).transpose()?;
        let (inputs, numbered) = terms.inputs();
        let inputs = inputs.into_iter().map(|x| call.input(x, left.as_ref())).collect::<Result<_>>()?;
        Ok(Self { call, terms: terms.terms.into_iter().zip(numbered).collect(), inputs })
    }

    /// The results for charges (N,).
    pub(crate) fn evaluated(&self, charges: &View<'_>, options: &Options) -> Result<Energies> {
        let each = self.terms.iter().map(|(term, (reals, rest))| {
            let of = |numbers: &[usize]| numbers.iter().flat_map(|n| &self.inputs[*n]).collect::<Vec<_>>();
            self.call.evaluated(term, charges, &of(reals), &of(rest), options)
        });
        let total = each.reduce(|sum, found| sum?.plus(&found?));
        // A batch without systems has no terms.
        let system = self.call.system;
        let none = || Ok(Energies::zeros(system.positions.dtype(), 0, system.systems(), options));
        total.unwrap_or_else(none)
    }
}

struct Call<'a> {
    context: &'a Context<'a>,
    system: &'a System<'a>,
    given: &'a Prescription,
    pairs: Option<&'a dyn Structure>,
    /// Systems that are no lattice, a row for each or one for all.
    no_lattice: Vec<bool>,
    cells: Vec<[[f64; 3]; 3]>,
    chosen: Option<Chosen>,
}

/// An input of an op that a term's arguments borrow.
enum Made<'a> {
    Array(Array),
    Borrowed(View<'a>),
    Real(f64),
    Int(i64),
    List(&'a dyn Structure),
    Own(Box<dyn Structure + 'a>),
}

impl Made<'_> {
    fn arg(&self) -> Arg<'_> {
        match self {
            Self::Array(x) => Arg::Array(x.view()),
            Self::Borrowed(x) => Arg::Array(x.clone()),
            Self::Real(x) => Arg::Real(*x),
            Self::Int(x) => Arg::Int(*x),
            Self::List(x) => Arg::Structure(*x),
            Self::Own(x) => Arg::Structure(&**x),
        }
    }
}

/// Excluded pairs and their factors.
struct Left {
    pairs: ExcludedPairs,
    factors: Array,
}

impl<'a> Call<'a> {
    fn excluded(&self, given: &Excluded) -> Result<Left> {
        let system = self.system;
        let axes: Axes = (0..system.systems()).map(|b| *row(&system.pbc, b)).collect();
        let (positions, cells) = (&system.positions, &system.cell.view());
        let pairs = ExcludedPairs::find(self.context, positions, cells, &axes, &system.batch, &given.pairs)?;
        let factors = Array::from_f64(system.positions.dtype(), &[given.pairs.len()], &given.factors)?;
        Ok(Left { pairs, factors })
    }

    /// The results of a term.
    fn evaluated(
        &self,
        term: &Term,
        charges: &View<'_>,
        reals: &[&Made<'_>],
        rest: &[&Made<'_>],
        options: &Options,
    ) -> Result<Energies> {
        let system = self.system;
        let name = match options.energy_reduction {
            Reduction::Atom => term.op.clone(),
            Reduction::System => format!("{}_total", term.op),
        };
        let op = registry().get(&name).expect("a plan has ops of the registry");
        let dtype = system.positions.dtype();
        let of_lattice = term.atoms.lattice.then(|| self.cells.as_flattened().as_flattened());
        let cells = of_lattice.map(|x| Array::from_f64(dtype, &[system.systems(), 3, 3], x)).transpose()?;
        let charged = term.atoms.charged.as_ref().map(|factors| {
            let mut q = charges.to_f64()?;
            q.iter_mut().zip(system.batch.idx()).for_each(|(q, b)| *q *= *row(factors.known(), *b as usize));
            Array::from_f64(dtype, &[q.len()], &q)
        });
        let charged = charged.transpose()?;
        let first = [
            Arg::Array(system.positions.clone()),
            Arg::Array(charged.as_ref().map_or_else(|| charges.clone(), Array::view)),
            Arg::Array(cells.as_ref().unwrap_or(&system.cell).view()),
        ];
        let between = [Arg::Zero, Arg::Structure(&system.batch), Arg::Real(options.prefactor)];
        let args: Vec<Arg<'_>> = first
            .into_iter()
            .chain(reals.iter().map(|x| x.arg()))
            .chain(between)
            .chain(rest.iter().map(|x| x.arg()))
            .collect();
        Energies::of_op(self.context, op, &args, options)
    }

    /// A number of each system.
    fn of_systems(&self, input: &Input) -> Result<Vec<f64>> {
        let systems = self.system.systems();
        let each = |x: &[f64]| (0..systems).map(|b| *row(x, b)).collect();
        Ok(match input {
            Input::Argument(Parameter::Alpha) => each(self.given.alpha.as_deref().unwrap_or_default()),
            Input::Argument(Parameter::Cutoff) => each(self.given.cutoff.as_deref().unwrap_or_default()),
            Input::Argument(Parameter::KCutoff) => each(self.given.k_cutoff.as_deref().unwrap_or_default()),
            Input::Chosen(of) => self.chosen().of(*of).to_vec(),
            Input::Number(x) => vec![*x; systems],
            Input::Numbers(x) => each(x.known()),
            Input::Masked(value, rows, other) => {
                let rest = self.of_systems(other)?;
                (0..systems).map(|b| if *row(rows.known(), b) { *value } else { rest[b] }).collect()
            }
            other => return Err(Error::Unsupported(format!("{other:?} for each system"))),
        })
    }

    fn chosen(&self) -> &Chosen {
        self.chosen.as_ref().expect("a plan that chooses has chosen")
    }

    /// The arguments that an input stands for.
    fn input(&self, input: &Input, left: Option<&Left>) -> Result<Vec<Made<'a>>> {
        let (dtype, systems) = (self.system.positions.dtype(), self.system.systems());
        Ok(match input {
            Input::Scalar(x) => vec![Made::Real(*x)],
            Input::Cutoff => vec![Made::Real(self.cutoff())],
            Input::Pairs(pairs) => {
                let found = self.list(pairs.search.as_deref())?;
                vec![match (found, left.filter(|_| pairs.without)) {
                    (Ok(list), None) => Made::List(list),
                    (Err(own), None) => Made::Own(Box::new(own)),
                    (Ok(list), Some(left)) => {
                        left.pairs.left_out_of(list)?.map_or(Made::List(list), Made::Own)
                    }
                    (Err(own), Some(left)) => Made::Own(Box::new(own.without(&left.pairs.list)?)),
                }]
            }
            Input::Excluded => {
                let left = left.expect("exclusions of a plan that has them");
                let of = Map::new(left.pairs.of.clone(), left.factors.shape()[0])?;
                let structures: [Box<dyn Structure>; 2] = [Box::new(left.pairs.list.clone()), Box::new(of)];
                let factors = Made::Array(left.factors.try_clone()?);
                structures.into_iter().map(Made::Own).chain([factors]).collect()
            }
            Input::WavesWithin(of, is_given) => {
                let given = if *is_given { Input::Argument(*of) } else { Input::Chosen(*of) };
                let mut radii = self.of_systems(&given)?;
                radii
                    .iter_mut()
                    .enumerate()
                    .for_each(|(b, k)| *k = if *row(&self.no_lattice, b) { 0.0 } else { *k });
                let (rows, ptr) = miller_indices_batch(&self.cells, &radii)?;
                vec![Made::Array(Array::from(rows.as_slice())), Made::Own(Box::new(Batch::from_ptr(ptr)?))]
            }
            Input::Waves => {
                let (indices, of) = self.waves();
                let of = Batch::from_idx(of.clone(), Some(systems))?;
                vec![Made::Array(Array::from(&indices[..])), Made::Own(Box::new(of))]
            }
            Input::Lines(is_given) => {
                let chosen = self.chosen();
                let own;
                let (middles, beside, of) = if *is_given {
                    let (indices, of) = self.waves();
                    own = wave_lines(indices, of);
                    &own
                } else {
                    &chosen.lines
                };
                let of = Batch::from_idx(of.clone(), Some(systems))?;
                let arrays = [Array::from(middles.as_slice()), Array::from(beside.clone())];
                let images = chosen.images.map(Made::Int).into_iter();
                images.chain(arrays.map(Made::Array)).chain([Made::Own(Box::new(of))]).collect()
            }
            Input::Mesh(_) => {
                let mesh = match (&self.chosen, &self.given.mesh_dimensions) {
                    (None, Some(nodes)) => {
                        let order = |b| self.given.spline_order.as_ref().map_or(SPLINE_ORDER, |p| *row(p, b));
                        (0..systems).map(|b| (*row(nodes, b), order(b))).collect()
                    }
                    _ => self.chosen().mesh.iter().map(|[a, b, c, p]| ([*a, *b, *c], *p)).collect::<Vec<_>>(),
                };
                vec![Made::Own(Box::new(Mesh::of_systems(&mesh)?))]
            }
            Input::Integers(rows) => {
                let rows = rows.known();
                let each: Vec<i32> = (0..systems).flat_map(|b| row(rows, b).clone()).collect();
                let is_flat = rows[0].len() == 1;
                let array = if is_flat { Array::from(each) } else { Array::from(each.as_chunks::<3>().0) };
                vec![Made::Array(array)]
            }
            Input::AllPairs(rows) => {
                vec![Made::Own(Box::new(all_pairs(&self.system.batch, rows.known())?))]
            }
            Input::Widths => vec![Made::Borrowed(self.widths()?.clone())],
            Input::ReachOfWidths => vec![Made::Real(gaussian_reach(self.widest()?, None))],
            numbers => vec![Made::Array(Array::from_f64(dtype, &[systems], &self.of_systems(numbers)?)?)],
        })
    }

    /// The waves that the caller gives.
    fn waves(&self) -> &(Vec<[i32; 3]>, Vec<i32>) {
        self.given.waves.as_ref().expect("waves of a request that has them")
    }

    fn cutoff(&self) -> f64 {
        self.given.cutoff.as_ref().map_or(UNBOUNDED, |x| x[0])
    }

    fn widths(&self) -> Result<&View<'a>> {
        self.system.widths.as_ref().ok_or_else(|| Error::argument("widths", "widths of charges", "None"))
    }

    /// The largest width.
    fn widest(&self) -> Result<f64> {
        Ok(self.widths()?.to_f64()?.into_iter().fold(1e-3, f64::max))
    }

    /// Refuses a list that lacks pairs of Gaussian charges which differ from points.
    fn check_widths(&self) -> Result<()> {
        let (Some(_), Some(_), Some(cutoff)) = (&self.system.widths, self.pairs, &self.given.cutoff) else {
            return Ok(());
        };
        let accuracy = accuracy(self.given.accuracy, self.system.is_narrow())?;
        let (widest, largest) = (self.widest()?, cutoff.iter().copied().fold(0.0, f64::max));
        let least = gaussian_reach(widest, Some(accuracy));
        if largest < least {
            let expected =
                format!("at least {least:.4} with a width of {widest:.4}, in a list that is given");
            return Err(Error::argument("cutoff", expected, largest.to_string()));
        }
        Ok(())
    }

    /// The list of a call, or one that is searched for.
    fn list(
        &self,
        search: Option<&Input>,
    ) -> Result<std::result::Result<&'a dyn Structure, Neighbors<'static>>> {
        let cutoffs = match search {
            None => return Ok(Ok(self.pairs.expect("a list that is given"))),
            Some(Input::Cutoff) => vec![self.cutoff(); self.system.systems()],
            Some(Input::ReachOfWidths) => {
                vec![gaussian_reach(self.widest()?, None); self.system.systems()]
            }
            Some(other) => self.of_systems(other)?,
        };
        self.system.neighbor_list(&cutoffs[..], &self.context.threads()).map(Err)
    }
}
