//! Plans run on the host: what callers of Rust have.

use crate::energies::{Energies, Options, Reduction, results};
use crate::kvectors::miller_indices_batch;
use crate::mesh::SPLINE_ORDER;
use crate::ops::registry;
use crate::plan::{
    Cells, Chosen, Given, Height, Input, Method, Parameter, Plan, Prescription, Request, Sum, Systems, Term,
    Terms, UNBOUNDED, compose, extents, kinds, numbers, row, slabs,
};
use crate::system::{Excluded, System};
use madelung_core::array::{Array, View};
use madelung_core::backend::Context;
use madelung_core::op::{Arg, Request as Wanted};
use madelung_core::structure::pairs::{Kind, Neighbors, PairList};
use madelung_core::structure::{Batch, Map, Mesh, Structure};
use madelung_core::{Error, Result};

/// The cutoff of Gaussian charges over the largest width: erfc(11/2) is 7e-15.
const WIDTHS_REACH: f64 = 11.0;

/// The results of a sum: parameters that `given` leaves open are chosen, and a list is built unless `pairs` is one.
pub(crate) fn run_plan(
    context: &Context<'_>,
    (sum, method): (Sum, Option<Method>),
    system: &System<'_>,
    given: &Prescription,
    pairs: Option<&dyn Structure>,
    options: &Options,
) -> Result<Energies> {
    let mut request = Request {
        sum,
        method,
        exponent: 1,
        pbc: Some(system.pbc.clone()),
        given: Given {
            alpha: given.alpha.is_some(),
            cutoff: given.cutoff.is_some(),
            cutoffs: given.cutoff.as_ref().is_some_and(|x| x.len() > 1),
            k_cutoff: given.k_cutoff.is_some(),
            waves: false,
            mesh: given.mesh_dimensions.is_some(),
            list: pairs.is_some(),
            exclusions: system.exclusions.is_some(),
            widths: system.widths.is_some(),
            accuracy: given.accuracy.is_some(),
            cell: true,
            slabs: true,
            slab_height: given.slab_height.is_some(),
            narrow: system.is_narrow(),
            readable: true,
        },
        kinds: None,
    };
    let atoms: Vec<usize> = (0..system.systems()).map(|b| system.batch.members(b).len()).collect();
    let sizes = extents(&system.positions.to_rows()?, &atoms, system.cells(), &system.pbc);
    let systems = Systems { cells: system.cells(), atoms: &atoms, extents: &sizes };
    let mut plan = compose(&request)?;
    if plan == Plan::Ask {
        request.kinds = Some(kinds(&request, systems, given)?);
        plan = compose(&request)?;
    }
    let terms = match plan {
        Plan::Sum(terms) => terms,
        Plan::Parts(parts) => return in_parts(context, sum, system, given, &parts, options),
        Plan::Ask => unreachable!("the request says the kinds of its systems"),
    };
    let chosen = if terms.chooses { Some(numbers(&request, &terms, systems, given)?) } else { None };
    let cells = lattice_cells(system, &terms, given, chosen.as_ref());
    let call = Call { context, system, given, pairs, cells, chosen };
    let excluded = system.exclusions.as_ref().map(|x| call.excluded(x)).transpose()?;
    let each = terms.terms.iter().map(|term| call.evaluated(term, excluded.as_ref(), options));
    let total = each.reduce(|sum, found| sum?.plus(&found?));
    total.expect("a plan has terms")
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
    let mut whole: Option<Energies> = None;
    for (method, of) in parts {
        let atoms: Vec<usize> = of.iter().flat_map(|b| system.batch.members(*b)).collect();
        let part = system.part(of, &atoms)?;
        let found =
            run_plan(context, (sum, Some(*method)), &part.system(&system.pbc, of)?, &given, None, options)?;
        let of_energies = if options.energy_reduction == Reduction::System { of } else { &atoms };
        let whole = whole.get_or_insert_with(|| found.room(system.batch.atoms(), system.systems(), options));
        whole.fill(&found, of_energies, &atoms, of)?;
    }
    whole.ok_or_else(|| Error::Unsupported("a batch without systems".into()))
}

/// The cells of the sum over the lattice.
fn lattice_cells(
    system: &System<'_>,
    terms: &Terms,
    given: &Prescription,
    chosen: Option<&Chosen>,
) -> Vec<[[f64; 3]; 3]> {
    let Cells { no_lattice, upright, height } = &terms.cells;
    let of = |(b, cell): (usize, &[[f64; 3]; 3])| {
        if *row(no_lattice, b) {
            return std::array::from_fn(|k| std::array::from_fn(|n| f64::from(u8::from(k == n))));
        }
        let open = upright.as_ref().and_then(|axes| row(axes, b).iter().position(|x| *x == 1));
        let heights = match height {
            Height::Argument => given.slab_height.as_ref(),
            _ => chosen.map(|x| &x.heights),
        };
        match (open, heights) {
            (Some(open), Some(heights)) => slabs::upright(cell, open, *row(heights, b)),
            _ => *cell,
        }
    };
    system.cells().iter().enumerate().map(of).collect()
}

struct Call<'a> {
    context: &'a Context<'a>,
    system: &'a System<'a>,
    given: &'a Prescription,
    pairs: Option<&'a dyn Structure>,
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

/// Excluded pairs: their list, the pair of each of its entries, and factors.
struct Left {
    list: Neighbors<'static>,
    of: Vec<i32>,
    factors: Array,
}

impl<'a> Call<'a> {
    fn excluded(&self, given: &Excluded) -> Result<Left> {
        let system = self.system;
        let pairs = Array::from(given.pairs.as_slice());
        let axes: Vec<[i32; 3]> = (0..system.systems()).map(|b| row(&system.pbc, b).map(i32::from)).collect();
        let axes = Array::from(axes.as_slice());
        let none = Array::from(&[] as &[[i32; 3]]);
        let args = [
            Arg::Array(system.positions.clone()),
            Arg::Array(system.cell.view()),
            Arg::Array(axes.view()),
            Arg::Array(pairs.view()),
            Arg::Array(none.view()),
            Arg::Structure(&system.batch),
            Arg::Int(0),
        ];
        let op = madelung_neighbors::searches().get("exclusion_list").expect("a search of the registry");
        let request = Wanted { values: true, ..Wanted::default() };
        let found = op.evaluate(self.context, &args, &request)?.values;
        let ints = |n: usize| found[n].view().to_i32("exclusions").map(|x| x.into_owned());
        let (ptr, columns, images, of) = (ints(0)?, ints(1)?, ints(2)?, ints(3)?);
        let ptr: Vec<i64> = ptr.into_iter().map(i64::from).collect();
        let images = images.as_chunks().0.to_vec();
        let list = PairList::from_csr(ptr, columns, images, system.batch.atoms(), Kind::Full)?;
        let factors = Array::from_f64(system.positions.dtype(), &[given.pairs.len()], &given.factors)?;
        Ok(Left { list: Neighbors::Rows(list), of, factors })
    }

    /// The results of a term.
    fn evaluated(&self, term: &Term, left: Option<&Left>, options: &Options) -> Result<Energies> {
        let system = self.system;
        let name = match options.energy_reduction {
            Reduction::Atom => term.op.clone(),
            Reduction::System => format!("{}_total", term.op),
        };
        let op = registry().get(&name).expect("a plan has ops of the registry");
        let dtype = system.positions.dtype();
        let cells = if term.atoms.lattice {
            Array::from_f64(dtype, &[system.systems(), 3, 3], self.cells.as_flattened().as_flattened())?
        } else {
            system.cell.try_clone()?
        };
        let charges = match &term.atoms.charged {
            None => system.charges.to_array()?,
            Some(factors) => {
                let idx = system.batch.idx();
                let mut q = system.charges.to_f64()?;
                q.iter_mut().zip(idx).for_each(|(q, b)| *q *= *row(factors, *b as usize));
                Array::from_f64(dtype, &[q.len()], &q)?
            }
        };
        let mut reals = vec![];
        for input in &term.reals {
            reals.push(Array::from_f64(dtype, &[system.systems()], &self.of_systems(input)?)?);
        }
        let mut rest = vec![];
        for input in &term.rest {
            self.input(input, left, &mut rest)?;
        }
        let first =
            [Arg::Array(system.positions.clone()), Arg::Array(charges.view()), Arg::Array(cells.view())];
        let between = [Arg::Zero, Arg::Structure(&system.batch), Arg::Real(options.prefactor)];
        let args: Vec<Arg<'_>> = first
            .into_iter()
            .chain(reals.iter().map(|x| Arg::Array(x.view())))
            .chain(between)
            .chain(rest.iter().map(Made::arg))
            .collect();
        results(self.context, op, &args, options)
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
            Input::Masked(value, rows, other) => {
                let rest = self.of_systems(other)?;
                (0..systems).map(|b| if *row(rows, b) { *value } else { rest[b] }).collect()
            }
            other => return Err(Error::Unsupported(format!("{other:?} for each system"))),
        })
    }

    fn chosen(&self) -> &Chosen {
        self.chosen.as_ref().expect("a plan that chooses has chosen")
    }

    /// The arguments that an input stands for.
    fn input(&self, input: &Input, left: Option<&'a Left>, into: &mut Vec<Made<'a>>) -> Result<()> {
        let (system, systems) = (self.system, self.system.systems());
        match input {
            Input::Scalar(x) => into.push(Made::Real(*x)),
            Input::Cutoff => into.push(Made::Real(self.cutoff())),
            Input::Pairs(pairs) => {
                let found = self.list(pairs.search.as_deref())?;
                into.push(match (found, left.filter(|_| pairs.without)) {
                    (Ok(list), None) => Made::List(list),
                    (Err(own), None) => Made::Own(Box::new(own)),
                    (Ok(list), Some(left)) => Made::Own(Box::new(without(list.as_pairs(), left)?)),
                    (Err(own), Some(left)) => Made::Own(Box::new(own.without(&left.pairs())?)),
                });
            }
            Input::Excluded => {
                let left = left.expect("exclusions of a plan that has them");
                into.push(Made::List(&left.list));
                into.push(Made::Own(Box::new(Map::new(&left.of[..], left.factors.shape()[0])?)));
                into.push(Made::Borrowed(left.factors.view()));
            }
            Input::WavesWithin(of, is_given) => {
                let given = if *is_given { Input::Argument(*of) } else { Input::Chosen(*of) };
                let (rows, ptr) = miller_indices_batch(&self.cells, &self.of_systems(&given)?)?;
                into.push(Made::Array(Array::from(rows.as_slice())));
                into.push(Made::Own(Box::new(Batch::from_ptr(ptr)?)));
            }
            Input::Lines(_) => {
                let chosen = self.chosen();
                let (middles, beside, of) = &chosen.lines;
                into.extend(chosen.images.map(Made::Int));
                into.push(Made::Array(Array::from(middles.as_slice())));
                into.push(Made::Array(Array::from(beside.clone())));
                into.push(Made::Own(Box::new(Batch::from_idx(of.clone(), Some(systems))?)));
            }
            Input::Mesh(_) => {
                let given: Vec<_> = match (&self.chosen, &self.given.mesh_dimensions) {
                    (None, Some(nodes)) => (0..systems)
                        .map(|b| {
                            let order = self.given.spline_order.as_ref().map_or(SPLINE_ORDER, |p| *row(p, b));
                            (*row(nodes, b), order)
                        })
                        .collect(),
                    _ => self.chosen().mesh.iter().map(|[a, b, c, p]| ([*a, *b, *c], *p)).collect(),
                };
                into.push(Made::Own(Box::new(Mesh::of_systems(&given)?)));
            }
            Input::Integers(rows) => {
                let each: Vec<i32> = (0..systems).flat_map(|b| row(rows, b).clone()).collect();
                into.push(Made::Array(if rows[0].len() == 1 {
                    Array::from(each)
                } else {
                    Array::from(each.as_chunks::<3>().0)
                }));
            }
            Input::Widths => into.push(Made::Borrowed(self.widths()?.clone())),
            Input::ReachOfWidths => into.push(Made::Real(self.reach_of_widths()?)),
            Input::Numbers(x) => {
                let each: Vec<f64> = (0..systems).map(|b| *row(x, b)).collect();
                into.push(Made::Array(Array::from_f64(system.positions.dtype(), &[systems], &each)?));
            }
            other => return Err(Error::Unsupported(format!("{other:?} of a plan that Rust runs"))),
        }
        Ok(())
    }

    fn cutoff(&self) -> f64 {
        self.given.cutoff.as_ref().map_or(UNBOUNDED, |x| x[0])
    }

    fn widths(&self) -> Result<&View<'a>> {
        self.system.widths.as_ref().ok_or_else(|| Error::argument("widths", "widths of charges", "None"))
    }

    /// The distance beyond which Gaussian charges are points.
    fn reach_of_widths(&self) -> Result<f64> {
        Ok(WIDTHS_REACH * self.widths()?.to_f64()?.into_iter().fold(1e-3, f64::max))
    }

    /// The list of a call, or one that is searched for.
    fn list(
        &self,
        search: Option<&Input>,
    ) -> Result<std::result::Result<&'a dyn Structure, Neighbors<'static>>> {
        let cutoffs = match search {
            None => return Ok(Ok(self.pairs.expect("a list that is given"))),
            Some(Input::Cutoff) => vec![self.cutoff(); self.system.systems()],
            Some(Input::ReachOfWidths) => vec![self.reach_of_widths()?; self.system.systems()],
            Some(other) => self.of_systems(other)?,
        };
        self.system.neighbor_list(&cutoffs[..], &self.context.threads()).map(Err)
    }
}

impl Left {
    fn pairs(&self) -> PairList<'_> {
        match &self.list {
            Neighbors::Rows(list) => list.borrowed(),
            Neighbors::Clusters(_) => unreachable!("exclusions are in rows"),
        }
    }
}

/// A list that is given without excluded pairs.
fn without(list: Option<&PairList<'_>>, left: &Left) -> Result<PairList<'static>> {
    let list = list.ok_or_else(|| Error::argument("pairs", "a list on the host", "another one"))?;
    list.without(&left.pairs())
}
