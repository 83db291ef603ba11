//! Arguments of the ops of a sum whose parameters are chosen.

use super::{Argument, Lattice, Summand};
use crate::direct::wave_lines;
use crate::kvectors::miller_indices_batch;
use crate::mesh::SPLINE_ORDER;
use crate::plan::{
    Axes, Chosen, Input, Parameter, Prescription, Term, Terms, UNBOUNDED, accuracy, all_pairs,
    gaussian_reach, row,
};
use crate::system::{Excluded, System};
use madelung_core::array::Array;
use madelung_core::backend::Context;
use madelung_core::structure::pairs::PairList;
use madelung_core::structure::{Batch, Map, Mesh, Structure};
use madelung_core::{Error, Result};
use madelung_neighbors::ExcludedPairs;
use std::sync::Arc;

/// Excluded pairs and their factors.
pub(super) struct Left {
    pairs: ExcludedPairs,
    factors: Arc<Array>,
}

impl Left {
    pub(super) fn of(context: &Context<'_>, system: &System<'_>, given: &Excluded) -> Result<Self> {
        let axes: Axes = (0..system.systems()).map(|b| *row(&system.pbc, b)).collect();
        let (positions, cells) = (&system.positions, &system.cell.view());
        let pairs = ExcludedPairs::find(context, positions, cells, &axes, &system.batch, &given.pairs)?;
        let factors = Array::from_f64(system.positions.dtype(), &[given.pairs.len()], &given.factors)?;
        Ok(Self { pairs, factors: Arc::new(factors) })
    }
}

/// A sum whose parameters are chosen.
pub(super) struct Call<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) system: &'a System<'a>,
    pub(super) given: &'a Prescription,
    pub(super) pairs: Option<&'a dyn Structure>,
    /// The full list of a half one that is given.
    pub(super) full: Option<Arc<PairList<'static>>>,
    pub(super) lattice: &'a Lattice,
    /// Values of the cells of the lattice.
    pub(super) cells: Vec<[[f64; 3]; 3]>,
    pub(super) chosen: Option<Chosen>,
    pub(super) left: Option<Left>,
}

impl Call<'_> {
    /// The ops, with inputs that they share made once.
    pub(super) fn summands(&self, terms: &Terms) -> Result<Vec<Summand>> {
        let (inputs, numbered) = terms.inputs();
        let inputs = inputs.into_iter().map(|x| self.input(x)).collect::<Result<Vec<_>>>()?;
        let lattice = match self.lattice.is_given() {
            true => Argument::Cell,
            false => {
                let (shape, cells) = ([self.cells.len(), 3, 3], self.cells.as_flattened().as_flattened());
                let cells = Array::from_f64(self.system.positions.dtype(), &shape, cells)?;
                Argument::LatticeCell(Arc::new(cells))
            }
        };
        let each = terms.terms.iter().zip(numbered).map(|(term, (reals, rest))| {
            let cell = if term.atoms.lattice { lattice.clone() } else { Argument::Cell };
            let of = |numbers: Vec<usize>| numbers.into_iter().flat_map(|n| inputs[n].iter().cloned());
            let mut arguments = vec![Argument::Positions, self.charges(term)?, cell];
            arguments.extend(of(reals));
            arguments.extend([Argument::Strain, Argument::Batch, Argument::Prefactor]);
            arguments.extend(of(rest));
            Ok(Summand { name: term.op.clone(), arguments })
        });
        each.collect()
    }

    fn charges(&self, term: &Term) -> Result<Argument> {
        let factors = term.atoms.charged.as_ref().map(|factors| {
            let of = |b: &i32| *row(factors.known(), *b as usize);
            let factors: Vec<f64> = self.system.batch.idx().iter().map(of).collect();
            Array::from_f64(self.system.positions.dtype(), &[factors.len()], &factors).map(Arc::new)
        });
        Ok(Argument::Charges(factors.transpose()?))
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
    fn input(&self, input: &Input) -> Result<Vec<Argument>> {
        let systems = self.system.systems();
        let batch_of =
            |of: &[i32]| Ok::<_, Error>(Argument::structure(Batch::from_idx(of.to_vec(), Some(systems))?));
        Ok(match input {
            Input::Scalar(x) => vec![Argument::Real(*x)],
            Input::Cutoff => vec![Argument::Real(self.cutoff())],
            Input::Pairs(pairs) => {
                let left = self.left.as_ref().filter(|_| pairs.without).map(|left| &left.pairs);
                vec![match &pairs.search {
                    Some(reach) => self.found(reach, left)?,
                    None => self.listed(left)?,
                }]
            }
            Input::Excluded => {
                let left = self.left.as_ref().expect("exclusions of a plan that has them");
                let of = Map::new(left.pairs.of.clone(), left.factors.shape()[0])?;
                let list = Argument::structure(left.pairs.list.clone());
                vec![list, Argument::structure(of), Argument::Factors(left.factors.clone())]
            }
            Input::WavesWithin(of, is_given) => {
                let given = if *is_given { Input::Argument(*of) } else { Input::Chosen(*of) };
                let mut radii = self.of_systems(&given)?;
                let is_none = |b| *row(&self.lattice.is_none, b);
                radii.iter_mut().enumerate().filter(|(b, _)| is_none(*b)).for_each(|(_, k)| *k = 0.0);
                let (rows, ptr) = miller_indices_batch(&self.cells, &radii)?;
                vec![Argument::array(&rows[..]), Argument::structure(Batch::from_ptr(ptr)?)]
            }
            Input::Waves => {
                let (indices, of) = self.waves();
                vec![Argument::array(&indices[..]), batch_of(of)?]
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
                let [a, b, c] = chosen.images.map(Argument::Int);
                let (middles, beside) = (Argument::array(&middles[..]), Argument::array(beside.clone()));
                vec![a, b, c, middles, beside, batch_of(of)?]
            }
            Input::Mesh(_) => {
                let mesh = match (&self.chosen, &self.given.mesh_dimensions) {
                    (None, Some(nodes)) => {
                        let order = |b| self.given.spline_order.as_ref().map_or(SPLINE_ORDER, |p| *row(p, b));
                        (0..systems).map(|b| (*row(nodes, b), order(b))).collect()
                    }
                    _ => self.chosen().mesh.iter().map(|[a, b, c, p]| ([*a, *b, *c], *p)).collect::<Vec<_>>(),
                };
                vec![Argument::structure(Mesh::of_systems(&mesh)?)]
            }
            Input::Integers(rows) => {
                let rows = rows.known();
                let each: Vec<i32> = (0..systems).flat_map(|b| row(rows, b).clone()).collect();
                let is_flat = rows[0].len() == 1;
                vec![if is_flat { Argument::array(each) } else { Argument::array(each.as_chunks::<3>().0) }]
            }
            Input::AllPairs(rows) => {
                vec![Argument::structure(all_pairs(&self.system.batch, rows.known())?)]
            }
            Input::Widths => vec![Argument::Widths],
            Input::ReachOfWidths => vec![Argument::Real(gaussian_reach(self.widest()?, None))],
            numbers => {
                let each = self.of_systems(numbers)?;
                vec![Argument::array(Array::from_f64(self.system.positions.dtype(), &[systems], &each)?)]
            }
        })
    }

    /// The waves that the caller gives.
    fn waves(&self) -> &(Vec<[i32; 3]>, Vec<i32>) {
        self.given.waves.as_ref().expect("waves of a request that has them")
    }

    fn cutoff(&self) -> f64 {
        self.given.cutoff.as_ref().map_or(UNBOUNDED, |x| x[0])
    }

    /// The largest width.
    fn widest(&self) -> Result<f64> {
        let widths = self.system.widths.as_ref().expect("widths of a plan that has them");
        Ok(widths.to_f64()?.into_iter().fold(1e-3, f64::max))
    }

    /// Refuses a list that lacks pairs of Gaussian charges which differ from points.
    pub(super) fn check_widths(&self) -> Result<()> {
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

    /// The list that is given, without the pairs that are left out.
    fn listed(&self, left: Option<&ExcludedPairs>) -> Result<Argument> {
        let full = self.full.as_deref().map(|full| full as &dyn Structure);
        let list = full.or(self.pairs).expect("a list that is given");
        let rest = left.map(|left| left.left_out_of(list)).transpose()?.flatten();
        Ok(match (rest, &self.full) {
            (Some(rest), _) => Argument::Structure(rest.into()),
            (None, Some(full)) => Argument::Structure(full.clone()),
            (None, None) => Argument::Pairs,
        })
    }

    /// The list of a search, without the pairs that are left out.
    fn found(&self, reach: &Input, left: Option<&ExcludedPairs>) -> Result<Argument> {
        let cutoffs = match reach {
            Input::Cutoff => vec![self.cutoff(); self.system.systems()],
            Input::ReachOfWidths => vec![gaussian_reach(self.widest()?, None); self.system.systems()],
            other => self.of_systems(other)?,
        };
        let found = self.system.neighbor_list(&cutoffs[..], &self.context.threads())?;
        Ok(match left {
            Some(left) => Argument::structure(found.without(&left.list)?),
            None => Argument::structure(found),
        })
    }
}
