//! One system on the mesh of several processes.
//!
//! Each process has atoms of its own, anywhere in the cell; rows of the mesh, equal shares of its second axis; and planes of
//! waves, equal shares of their first axis. Charges go to the nodes around the own atoms, a *window* of the mesh; windows are
//! added up in rows, in the order of the processes; rows are transformed along the first and the third axis, and are then
//! exchanged for planes, which are transformed along the second one. The energy of the own waves is a share of that of the
//! mesh, and its gradient by these goes the whole way back: to the nodes of the windows, and to positions and charges.

mod ghosts;
mod grid;

use crate::energies::{Energies, Options, Reduction};
use crate::kernels as k;
use crate::mesh::{PrescribedMesh, estimate_pme_parameters};
use crate::ops::COULOMB;
use crate::parameters::DEFAULT_ACCURACY;
use crate::system::System;
use ghosts::occupied;
use grid::Grid;
use madelung_core::array::{Array, DType, Place};
use madelung_core::backend::Context;
use madelung_core::cell::Cell;
use madelung_core::op::{Arg, Constraint, Cotangent, Evaluated, Op, OpBuilder, Request};
use madelung_core::structure::Mesh;
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
    let given = PrescribedMesh {
        alpha: Some(alpha),
        mesh_dimensions: Some(mesh),
        spline_order: Some(spline_order),
        ..PrescribedMesh::default()
    };
    // Sizes and order are looked at there.
    let domain = Mesh::new(mesh, spline_order, 1).and_then(|_| Domain::new(context, system, given, options));
    let (domain, shares) = agreed(exchange, domain, given, None)?;
    domain.on_mesh(context, exchange, &shares, (alpha, mesh, spline_order), options)
}

/// [`particle_mesh_ewald`](crate::particle_mesh_ewald) of a system that several processes share, as
/// [`pme_reciprocal_space_of_domain`] has its reciprocal part. Processes send each other their atoms near borders, and what these
/// get of forces back. Atoms may be with any process; those of one that are near each other make little to send.
///
/// Parameters that are not `given` are chosen for an accuracy, None: [`DEFAULT_ACCURACY`], and for atoms that fill the cell.
///
/// # Errors
/// Those of [`pme_reciprocal_space_of_domain`], [`estimate_pme_parameters`] and
/// [`ewald_real_space`](crate::ewald_real_space).
pub fn particle_mesh_ewald_of_domain(
    context: &Context<'_>,
    exchange: &dyn Exchange,
    system: &System<'_>,
    given: PrescribedMesh,
    accuracy: Option<f64>,
    options: &Options,
) -> Result<Energies> {
    let (domain, shares) = agreed(exchange, Domain::new(context, system, given, options), given, accuracy)?;
    let atoms: usize = shares.iter().map(|share| share.atoms).sum();
    if atoms == 0 {
        return Ok(Energies::zeros(DType::F64, 0, 1, options));
    }
    let is_open = given.alpha.is_none() || given.cutoff.is_none() || given.mesh_dimensions.is_none();
    let accuracy = accuracy.or(is_open.then_some(DEFAULT_ACCURACY));
    let p = estimate_pme_parameters(atoms, &domain.cell.rows(), accuracy, given)?;
    Mesh::new(p.mesh_dimensions, p.spline_order, 1)?;
    let ghosts = domain.ghosts(exchange, &shares, p.cutoff)?;
    let of_pairs = domain.of_pairs(context, exchange.rank(), ghosts, (p.alpha, p.cutoff), options);
    for (rank, [is_good]) in exchanged(exchange, [f64::from(of_pairs.is_ok())])?.into_iter().enumerate() {
        if is_good == 0.0 && of_pairs.is_ok() {
            return Err(elsewhere(format!("an error in process {rank}")));
        }
    }
    let near = of_pairs?.sent_back(exchange, options)?;
    near.plus(&domain.on_mesh(
        context,
        exchange,
        &shares,
        (p.alpha, p.mesh_dimensions, p.spline_order),
        options,
    )?)
}

/// Tells the other processes, which call a sum of a domain, that this one has an error and does not.
///
/// # Errors
/// Those of the messages.
pub fn withdraw(exchange: &dyn Exchange) -> Result<()> {
    exchanged(exchange, [0.0; SHARE + QUESTION]).map(|_| ())
}

/// Place of a process' own atoms in fractions of the cell, their number and total charge.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// Along each axis all are between `low` and `low + width`, some lattice vectors apart.
    low: [f64; 3],
    width: [f64; 3],
    atoms: usize,
    charge: f64,
}

/// Cells between the origin and an atom, at most: farther away, places in the cell have lost too many digits.
const FARTHEST: f64 = 1e6;

/// Numbers of a share, and of the question that all processes are asked.
const SHARE: usize = 9;
const QUESTION: usize = 18;

/// The shares of all processes, where they are asked the same and none has an error.
fn agreed<'a>(
    exchange: &dyn Exchange,
    made: Result<Domain<'a>>,
    given: PrescribedMesh,
    accuracy: Option<f64>,
) -> Result<(Domain<'a>, Vec<Share>)> {
    let mut words = [0.0; SHARE + QUESTION];
    if let Ok(domain) = &made {
        let Share { low, width, atoms, charge } = domain.share;
        let share = [low, width].concat().into_iter().chain([atoms as f64, charge]);
        // None of the numbers that may be given is below zero.
        let numbers = [given.alpha, given.cutoff, accuracy].map(|x| x.unwrap_or(-1.0));
        let [k1, k2, k3] = given.mesh_dimensions.map_or([-1.0; 3], |mesh| mesh.map(|k| k as f64));
        let order = given.spline_order.map_or(-1.0, |order| order as f64);
        let question = numbers.into_iter().chain([k1, k2, k3, order, domain.wanted, domain.prefactor]);
        let all = [1.0].into_iter().chain(share).chain(question).chain(domain.cell.rows().concat());
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
        return Err(elsewhere(got));
    }
    let shares = each.iter().map(|words| Share {
        low: [words[1], words[2], words[3]],
        width: [words[4], words[5], words[6]],
        atoms: words[7] as usize,
        charge: words[8],
    });
    Ok((domain, shares.collect()))
}

fn elsewhere(got: String) -> Error {
    Error::argument("exchange", "the same cell, mesh and options in all processes", got)
}

/// Words of all processes, for those of this one.
fn exchanged<const N: usize>(exchange: &dyn Exchange, words: [f64; N]) -> Result<Vec<[f64; N]>> {
    let ranks = exchange.ranks();
    let (send, counts, mut all) = (words.repeat(ranks), vec![N; ranks], vec![words; ranks]);
    exchange.all_to_all(&send, &counts, all.as_flattened_mut(), &counts)?;
    Ok(all)
}

/// A number from each process, for those that this one has for each.
fn all_counts(exchange: &dyn Exchange, counts: &[usize]) -> Result<Vec<usize>> {
    let (send, ones) = (counts.iter().map(|n| *n as f64).collect::<Vec<_>>(), vec![1; counts.len()]);
    let mut all = vec![0.0; counts.len()];
    exchange.all_to_all(&send, &ones, &mut all, &ones)?;
    Ok(all.into_iter().map(|n| n as usize).collect())
}

/// The own atoms of a process.
struct Domain<'a> {
    positions: Vec<[f64; 3]>,
    charges: Vec<f64>,
    cell: Cell,
    share: Share,
    /// Results that are asked for, in bits.
    wanted: f64,
    prefactor: f64,
    system: &'a System<'a>,
}

impl<'a> Domain<'a> {
    fn new(
        context: &Context<'_>,
        system: &'a System<'a>,
        given: PrescribedMesh,
        options: &Options,
    ) -> Result<Self> {
        if context.backend.place() != Place::Host {
            return Err(Error::argument("context", "one of the host", context.backend.name()));
        }
        if system.systems() != 1 || system.pbc != [[true; 3]] {
            let got = format!("{} systems, {:?}", system.systems(), system.pbc.first());
            return Err(Error::argument("system", "one system that is periodic along all axes", got));
        }
        if system.exclusions.is_some() || system.widths.is_some() {
            return Err(Error::argument("system", "one without exclusions and widths", "some"));
        }
        for (name, x) in [("alpha", given.alpha), ("cutoff", given.cutoff)] {
            if let Some(bad) = x.filter(|x| !(x.is_finite() && *x > 0.0)) {
                return Err(Error::argument(name, "a finite number above zero", bad.to_string()));
            }
        }
        let prefactor = options.prefactor;
        if !prefactor.is_finite() {
            return Err(Error::argument("prefactor", "a finite number", prefactor.to_string()));
        }
        let (positions, charges) = (system.positions.to_f64()?, system.charges.to_f64()?);
        for (name, numbers) in [("positions", &positions), ("charges", &charges)] {
            if let Some(bad) = numbers.iter().find(|x| !x.is_finite()) {
                return Err(Error::argument(name, "finite numbers", bad.to_string()));
            }
        }
        let (positions, cell) = (positions.as_chunks().0.to_vec(), Cell::from_rows(system.cells()[0])?);
        let is_near = |r: &[f64; 3]| cell.fractional(*r).iter().all(|s| s.abs() <= FARTHEST);
        if let Some(far) = positions.iter().find(|r| !is_near(r)) {
            let expected = format!("atoms within {FARTHEST:e} cells of the origin");
            return Err(Error::argument("positions", expected, format!("one at {far:?}")));
        }
        let [low, width] = occupied(&positions, &cell);
        let wanted = [
            options.energy_reduction == Reduction::Atom,
            options.compute_forces,
            options.compute_charge_gradients,
            options.compute_virial,
        ];
        Ok(Self {
            share: Share { low, width, atoms: charges.len(), charge: charges.iter().sum() },
            positions,
            charges,
            cell,
            wanted: wanted.into_iter().fold(0.0, |bits, on| 2.0 * bits + f64::from(on)),
            prefactor,
            system,
        })
    }

    /// The reciprocal part, on a mesh for α and splines of an order.
    fn on_mesh(
        &self,
        context: &Context<'_>,
        exchange: &dyn Exchange,
        shares: &[Share],
        (alpha, mesh, order): (f64, [usize; 3], usize),
        options: &Options,
    ) -> Result<Energies> {
        let windows = shares.iter().map(|share| share.window(mesh, order)).collect();
        let (grid, [density, waves, selves]) = (Grid::new(exchange, mesh, windows), ops());
        let total_charge: f64 = shares.iter().map(|share| share.charge).sum();
        let n = self.charges.len();
        let positions = Array::from_f64(DType::F64, &[n, 3], self.positions.as_flattened())?;
        let charges = Array::from_f64(DType::F64, &[n], &self.charges)?;
        let cell = Array::from_f64(DType::F64, &[1, 3, 3], &self.cell.rows().concat())?;
        let (alpha, total_charge) = (Array::from(vec![alpha]), Array::from(vec![total_charge]));
        let mesh = Mesh::of_windows(&[(mesh, order, self.share.window(mesh, order))])?;
        let of_density = [
            Arg::Array(positions.view()),
            Arg::Array(charges.view()),
            Arg::Array(cell.view()),
            Arg::Zero,
            Arg::Structure(&self.system.batch),
            Arg::Structure(&mesh),
        ];
        let of_atoms = options.energy_reduction == Reduction::Atom;
        let goes_back = of_atoms || options.compute_forces || options.compute_charge_gradients;

        let nodes = density.value(context, &of_density)?.swap_remove(0);
        let [real, imaginary] = grid.waves(context, nodes)?;
        let mesh = Mesh::of_waves(grid.mesh, order, grid.planes())?;
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
            Arg::Array(charges.view()),
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
                let each = by.to_f64()?.into_iter().zip(&self.charges).map(|(u, q)| 0.5 * q * u);
                found.energies.add(&each.collect::<Vec<f64>>().into())?;
            }
            if options.compute_charge_gradients {
                let [of_charges, of_total] = &by_selves[..] else { unreachable!("two gradients") };
                let each = exchanged(exchange, [of_total.to_f64()?[0]])?;
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
