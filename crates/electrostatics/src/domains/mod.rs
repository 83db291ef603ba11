//! One system on the mesh of several processes.
//!
//! Each process has atoms of its own, anywhere in the cell; rows of the mesh, equal shares of its second axis; and planes of
//! waves, equal shares of their first axis. Charges go to the nodes around the own atoms, a *window* of the mesh; windows are
//! added up in rows, in the order of the processes; rows are transformed along the first and the third axis, and are then
//! exchanged for planes, which are transformed along the second one. The energy of the own waves is a share of that of the
//! mesh, and its gradient by these goes the whole way back: to the nodes of the windows, and to positions and charges.

mod grid;

use crate::energies::{Energies, Options, Reduction};
use crate::kernels as k;
use crate::ops::COULOMB;
use crate::system::System;
use grid::{Grid, window};
use madelung_core::array::{Array, DType};
use madelung_core::backend::Context;
use madelung_core::cell::Cell;
use madelung_core::op::{Arg, Constraint, Cotangent, Evaluated, Op, OpBuilder, Request};
use madelung_core::structure::{Mesh, Window};
use madelung_core::{Error, Result};
use std::sync::{Arc, OnceLock};

/// Messages between the processes that share a system.
pub trait Exchange {
    /// This process, from 0 on.
    fn rank(&self) -> usize;

    /// The number of processes.
    fn ranks(&self) -> usize;

    /// Sends to each process its part of `send`, so many numbers as `sent` says, and receives from each as many as `received`
    /// says: parts lie behind each other in the order of the processes. All processes call it, in the same order.
    ///
    /// # Errors
    /// Those of the messages.
    fn all_to_all(&self, send: &[f64], sent: &[usize], receive: &mut [f64], received: &[usize])
    -> Result<()>;
}

/// A process alone.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl Exchange for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn ranks(&self) -> usize {
        1
    }

    fn all_to_all(&self, send: &[f64], _: &[usize], receive: &mut [f64], _: &[usize]) -> Result<()> {
        receive.copy_from_slice(send);
        Ok(())
    }
}

/// [`pme_reciprocal_space`](crate::pme_reciprocal_space) of a system that several processes share, each of which has atoms of
/// its own: energies, forces and charge gradients of these, and this process' share of energies of the system and of the
/// virial, which add up over the processes. `system`: one crystal, with the own atoms alone, of which there may be none; with
/// the others `alpha`, `mesh`, `spline_order` and `options` are the same in all processes. The results are f64, and those of
/// one process to rounding.
///
/// # Errors
/// Those of [`pme_reciprocal_space`](crate::pme_reciprocal_space); `exchange`, where another process has an error or was asked
/// for something else, and what the messages say. Whatever a process is given that is wrong is an error of all of them.
pub fn pme_reciprocal_space_of_domain(
    context: &Context<'_>,
    exchange: &dyn Exchange,
    system: &System<'_>,
    alpha: f64,
    mesh: [usize; 3],
    spline_order: usize,
    options: &Options,
) -> Result<Energies> {
    let made = Domain::new(system, alpha, mesh, spline_order, options);
    let (domain, shares) = agreed(exchange, made, [alpha, options.prefactor], mesh, spline_order)?;
    let grid = Grid::new(exchange, mesh, shares.iter().map(|share| share.window).collect());
    let total_charge = shares.iter().map(|share| share.charge).sum();
    domain.evaluated(context, &grid, total_charge, options)
}

/// Tells the other processes, which call [`pme_reciprocal_space_of_domain`], that this one has an error and does not.
///
/// # Errors
/// Those of the messages.
pub fn withdraw(exchange: &dyn Exchange) -> Result<()> {
    exchanged(exchange, [0.0; SHARE + QUESTION]).map(|_| ())
}

/// Window and total charge of a process' own atoms.
#[derive(Clone, Copy, Debug)]
struct Share {
    window: Window,
    charge: f64,
}

/// Numbers of a share, and of the question that all processes are asked.
const SHARE: usize = 8;
const QUESTION: usize = 16;

/// The shares of all processes, where they are asked the same and none has an error.
fn agreed<'a>(
    exchange: &dyn Exchange,
    made: Result<Domain<'a>>,
    numbers: [f64; 2],
    mesh: [usize; 3],
    spline_order: usize,
) -> Result<(Domain<'a>, Vec<Share>)> {
    let mut words = [0.0; SHARE + QUESTION];
    if let Ok(domain) = &made {
        let Share { window: Window { origin, extent }, charge } = domain.share;
        let whole = [origin, extent].concat().into_iter().map(|n| n as f64);
        let sizes = [mesh[0], mesh[1], mesh[2], spline_order, domain.wanted].map(|n| n as f64);
        let cell = domain.cell.rows();
        let question = numbers.into_iter().chain(sizes).chain(cell.into_iter().flatten());
        let all = [1.0].into_iter().chain(whole).chain([charge]).chain(question);
        words.iter_mut().zip(all).for_each(|(word, x)| *word = x);
    }
    let each = exchanged(exchange, words)?;
    let domain = made?;
    for (rank, theirs) in each.iter().enumerate() {
        let got = match theirs {
            [0.0, ..] => format!("an error in process {rank}"),
            _ if theirs[SHARE..] != words[SHARE..] => format!("another one in process {rank}"),
            _ => continue,
        };
        return Err(Error::argument("exchange", "the same cell, mesh and options in all processes", got));
    }
    let shares = each.iter().map(|words| {
        let n = |from: usize| [0, 1, 2].map(|k| words[from + k] as usize);
        Share { window: Window { origin: n(1), extent: n(4) }, charge: words[7] }
    });
    Ok((domain, shares.collect()))
}

/// Words of all processes, for those of this one.
fn exchanged<const N: usize>(exchange: &dyn Exchange, words: [f64; N]) -> Result<Vec<[f64; N]>> {
    let ranks = exchange.ranks();
    let (send, counts, mut all) = (words.repeat(ranks), vec![N; ranks], vec![words; ranks]);
    exchange.all_to_all(&send, &counts, all.as_flattened_mut(), &counts)?;
    Ok(all)
}

/// The own atoms of a process, and what of the mesh they reach.
struct Domain<'a> {
    positions: Array,
    charges: Array,
    cell: Cell,
    alpha: f64,
    order: usize,
    share: Share,
    /// Results that are asked for, in bits.
    wanted: usize,
    system: &'a System<'a>,
}

impl<'a> Domain<'a> {
    fn new(
        system: &'a System<'a>,
        alpha: f64,
        mesh: [usize; 3],
        order: usize,
        options: &Options,
    ) -> Result<Self> {
        let n = system.batch.atoms();
        if system.systems() != 1 || system.pbc != [[true; 3]] {
            let got = format!("{} systems, {:?}", system.systems(), system.pbc.first());
            return Err(Error::argument("system", "one system that is periodic along all axes", got));
        }
        if system.exclusions.is_some() || system.widths.is_some() {
            return Err(Error::argument("system", "one without exclusions and widths", "some"));
        }
        if !(alpha.is_finite() && alpha > 0.0) {
            return Err(Error::argument("alpha", "a finite number above zero", alpha.to_string()));
        }
        if !options.prefactor.is_finite() {
            return Err(Error::argument("prefactor", "a finite number", options.prefactor.to_string()));
        }
        // Sizes and order are looked at there.
        Mesh::new(mesh, order, 1)?;
        let (positions, charges) = (system.positions.to_f64()?, system.charges.to_f64()?);
        for (name, numbers) in [("positions", &positions), ("charges", &charges)] {
            if let Some(bad) = numbers.iter().find(|x| !x.is_finite()) {
                return Err(Error::argument(name, "finite numbers", bad.to_string()));
            }
        }
        let cell = Cell::from_rows(system.cells()[0])?;
        let window = window(positions.as_chunks().0, &cell, mesh, order);
        let wanted = [options.compute_forces, options.compute_charge_gradients, options.compute_virial];
        let of_atoms = options.energy_reduction == Reduction::Atom;
        Ok(Self {
            share: Share { window, charge: charges.iter().sum() },
            positions: Array::from_f64(DType::F64, &[n, 3], &positions)?,
            charges: charges.into(),
            cell,
            alpha,
            order,
            wanted: wanted.into_iter().fold(usize::from(of_atoms), |bits, on| 2 * bits + usize::from(on)),
            system,
        })
    }

    fn evaluated(
        &self,
        context: &Context<'_>,
        grid: &Grid<'_>,
        total_charge: f64,
        options: &Options,
    ) -> Result<Energies> {
        let [density, waves, selves] = ops();
        let cell = Array::from_f64(DType::F64, &[1, 3, 3], &self.cell.rows().concat())?;
        let (alpha, total_charge) = (Array::from(vec![self.alpha]), Array::from(vec![total_charge]));
        let mesh = Mesh::of_windows(&[(grid.mesh, self.order, self.share.window)])?;
        let of_density = [
            Arg::Array(self.positions.view()),
            Arg::Array(self.charges.view()),
            Arg::Array(cell.view()),
            Arg::Zero,
            Arg::Structure(&self.system.batch),
            Arg::Structure(&mesh),
        ];
        let of_atoms = options.energy_reduction == Reduction::Atom;
        let goes_back = of_atoms || options.compute_forces || options.compute_charge_gradients;

        let nodes = density.value(context, &of_density)?.swap_remove(0);
        let [real, imaginary] = grid.waves(context, nodes)?;
        let mesh = Mesh::of_waves(grid.mesh, self.order, grid.planes())?;
        let of_waves = [
            Arg::Array(real.view()),
            Arg::Array(imaginary.view()),
            Arg::Array(cell.view()),
            Arg::Array(alpha.view()),
            Arg::Zero,
            Arg::Real(options.prefactor),
            Arg::Structure(&mesh),
        ];
        let by_waves = if goes_back { vec!["real", "imaginary"] } else { vec![] };
        let by_strain = options.compute_virial.then_some("strain");
        let of = |op: &Op, args: &[Arg<'_>], values: bool, by: &[&str], of: Cotangent<'_>| {
            let gradients: Vec<usize> = by.iter().map(|name| op.arg(name).expect("an argument")).collect();
            let cotangents = if by.is_empty() { vec![] } else { vec![Some(of)] };
            let request =
                Request { values, cotangents: &cotangents, gradients: &gradients, ..Request::default() };
            op.evaluate(context, args, &request)
        };
        let by: Vec<&str> = by_waves.into_iter().chain(by_strain).collect();
        let one = Cotangent::Uniform(1.0);
        let Evaluated { values: of_mesh, gradients: mut by_waves, .. } =
            of(waves, &of_waves, true, &by, one.clone())?;
        let of_selves = [
            Arg::Array(self.charges.view()),
            Arg::Array(total_charge.view()),
            Arg::Array(cell.view()),
            Arg::Array(alpha.view()),
            Arg::Zero,
            Arg::Structure(&self.system.batch),
            Arg::Real(options.prefactor),
        ];
        let by_charges = options.compute_charge_gradients.then_some(["charges", "total_charge"]);
        let by: Vec<&str> = by_charges.into_iter().flatten().chain(by_strain).collect();
        let Evaluated { values: mut energies, gradients: mut by_selves, .. } =
            of(selves, &of_selves, true, &by, one)?;

        let virial = match by_strain {
            None => None,
            Some(_) => {
                let mut by = by_waves.pop().expect("the gradient by the strain");
                by.add(&by_selves.pop().expect("the gradient by the strain"))?;
                Some(by.map(|x| -x)?)
            }
        };
        let mut found =
            Energies { energies: energies.swap_remove(0), forces: None, charge_gradients: None, virial };
        if !of_atoms {
            let sum = found.energies.to_f64()?.iter().sum::<f64>() + of_mesh[0].to_f64()?[0];
            found.energies = vec![sum].into();
        }
        let Some((imaginary, real)) = by_waves.pop().zip(by_waves.pop()) else { return Ok(found) };
        let potential = grid.nodes(context, [real, imaginary])?;
        let by_charges = of_atoms || options.compute_charge_gradients;
        let by: Vec<&str> = options
            .compute_forces
            .then_some("positions")
            .into_iter()
            .chain(by_charges.then_some("charges"))
            .collect();
        let mut by =
            of(density, &of_density, false, &by, Cotangent::Array(potential.view()))?.gradients.into_iter();
        if options.compute_forces {
            found.forces = by.next().map(|by| by.map(|x| -x)).transpose()?;
        }
        if let Some(by) = by.next() {
            if of_atoms {
                // Pairs of charges count half at each of them.
                let each = by.to_f64()?.into_iter().zip(self.charges.to_f64()?).map(|(u, q)| 0.5 * q * u);
                found.energies.add(&each.collect::<Vec<f64>>().into())?;
            }
            if options.compute_charge_gradients {
                let [of_charges, of_total] = &by_selves[..] else { unreachable!("two gradients") };
                let each = exchanged(grid.exchange, [of_total.to_f64()?[0]])?;
                let of_total: f64 = each.as_flattened().iter().sum();
                let mut by = by;
                by.add(of_charges)?;
                found.charge_gradients = Some(by.map(|x| x + of_total)?);
            }
        }
        Ok(found)
    }
}

/// Ops of the steps between the messages: charges on nodes, the energy of waves, and that of charges with themselves and the
/// background.
fn ops() -> &'static [Arc<Op>; 3] {
    static OPS: OnceLock<[Arc<Op>; 3]> = OnceLock::new();
    let lattice = |op: OpBuilder| {
        op.scratch("dual", &["System", "3", "3"])
            .scratch("wave_basis", &["System", "3", "3"])
            .scratch("volume", &["System"])
            .step(&k::LATTICE)
    };
    let cell = |op: OpBuilder| op.real("cell", &["System", "3", "3"]).geometry().must_be(Constraint::Cell);
    let strained = |op: OpBuilder| op.zero("strain", &["System", "3", "3"]);
    let declare = || {
        let op =
            Op::new("domains", "density", 1).real("positions", &["Atom", "3"]).real("charges", &["Atom"]);
        let op = strained(cell(op)).batch("atoms", "Atom", "System").mesh("mesh", "System", "Node", "Wave");
        let op = op.scratch("fraction", &["Atom", "3"]).output("density", &["Node"]);
        let density = lattice(op).step(&k::FRACTIONAL).step(&k::SPREAD).build()?;

        let op = Op::new("domains", "waves", 1).real("real", &["Wave"]).real("imaginary", &["Wave"]);
        let op = strained(cell(op).real("alpha", &["System"])).scalar("prefactor");
        let op = op.mesh("mesh", "System", "Node", "Wave").output("energy", &["System"]);
        let waves = lattice(op).step(COULOMB.mesh_energy).build()?;

        let op = Op::new("domains", "selves", 1).real("charges", &["Atom"]).real("total_charge", &["System"]);
        let op = strained(cell(op).real("alpha", &["System"])).batch("atoms", "Atom", "System");
        let op = op.scalar("prefactor").output("energy", &["Atom"]);
        let selves = lattice(op).step(COULOMB.own_energy).build()?;
        Ok::<_, Error>([density, waves, selves])
    };
    OPS.get_or_init(|| declare().expect("the declarations fit their kernels, as the tests show"))
}
