//! One system on the mesh of several processes.
//!
//! Each process has atoms of its own, anywhere in the cell; rows of the mesh, equal shares of its second axis; and planes of
//! waves, equal shares of their first axis. Charges go to the nodes around the own atoms, a *window* of the mesh; windows are
//! added up in rows, in the order of the processes; rows are transformed along the first and the third axis, and are then
//! exchanged for planes, which are transformed along the second one. The energy of the own waves is a share of that of the
//! mesh, and its gradient by these goes the whole way back: to the nodes of the windows, and to positions and charges.

mod ghosts;
mod grid;
mod processes;

pub use processes::{Exchange, Processes};

use crate::energies::{Energies, Options, Reduction};
use crate::kernels as k;
use crate::mesh::{PrescribedMesh, estimate_pme_parameters};
use crate::ops::COULOMB;
use crate::parameters::DEFAULT_ACCURACY;
use crate::system::System;
use ghosts::occupied;
use grid::Grid;
use madelung_core::array::{Array, DType, Place, View};
use madelung_core::backend::Context;
use madelung_core::cell::Cell;
use madelung_core::op::{Arg, Constraint, Cotangent, Op, OpBuilder, Request};
use madelung_core::structure::Mesh;
use madelung_core::{Error, Result};
use std::sync::{Arc, OnceLock};

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
    processes: &Processes<'_>,
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
    let (domain, shares) = agreed(processes, domain, given, None)?;
    domain.on_mesh(context, processes, &shares, (alpha, mesh, spline_order), options)
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
    processes: &Processes<'_>,
    system: &System<'_>,
    given: PrescribedMesh,
    accuracy: Option<f64>,
    options: &Options,
) -> Result<Energies> {
    let (domain, shares) = agreed(processes, Domain::new(context, system, given, options), given, accuracy)?;
    let atoms: usize = shares.iter().map(|share| share.atoms).sum();
    if atoms == 0 {
        return Ok(Energies::zeros(DType::F64, 0, 1, options));
    }
    let is_open = given.alpha.is_none() || given.cutoff.is_none() || given.mesh_dimensions.is_none();
    let accuracy = accuracy.or(is_open.then_some(DEFAULT_ACCURACY));
    let p = estimate_pme_parameters(atoms, &domain.cell.rows(), accuracy, given)?;
    Mesh::new(p.mesh_dimensions, p.spline_order, 1)?;
    let ghosts = domain.ghosts(processes, &shares, p.cutoff)?;
    let of_pairs = domain.of_pairs(context, processes.rank(), ghosts, (p.alpha, p.cutoff), options);
    for (rank, [is_good]) in processes.words([f64::from(of_pairs.is_ok())])?.into_iter().enumerate() {
        if is_good == 0.0 && of_pairs.is_ok() {
            return Err(elsewhere(format!("an error in process {rank}")));
        }
    }
    let near = of_pairs?.sent_back(processes, options)?;
    near.plus(&domain.on_mesh(
        context,
        processes,
        &shares,
        (p.alpha, p.mesh_dimensions, p.spline_order),
        options,
    )?)
}

/// Tells the other processes, which call a sum of a domain, that this one has an error and does not.
///
/// # Errors
/// Those of the messages.
pub fn withdraw(processes: &Processes<'_>) -> Result<()> {
    processes.words([0.0; SHARE + QUESTION]).map(|_| ())
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
    processes: &Processes<'_>,
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
    let each = processes.words(words)?;
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
        processes: &Processes<'_>,
        shares: &[Share],
        (alpha, mesh, order): (f64, [usize; 3], usize),
        options: &Options,
    ) -> Result<Energies> {
        let [density, waves, _] = ops();
        let windows: Vec<_> = shares.iter().map(|share| share.window(mesh, order)).collect();
        let window = Mesh::of_windows(&[(mesh, order, windows[processes.rank()])])?;
        let grid = Grid::new(*processes, mesh, windows);
        let (positions, charges) =
            (array(&[self.charges.len(), 3], self.positions.as_flattened())?, self.charges());
        let (cell, alpha) = (array(&[1, 3, 3], self.cell.rows().as_flattened())?, Array::from(vec![alpha]));
        let of_density = [
            Arg::Array(positions.view()),
            Arg::Array(charges),
            Arg::Array(cell.view()),
            Arg::Zero,
            Arg::Structure(&self.system.batch),
            Arg::Structure(&window),
        ];
        let nodes = density.value(context, &of_density)?.swap_remove(0);
        let [real, imaginary] = grid.waves(context, nodes)?;
        let planes = Mesh::of_waves(mesh, order, grid.planes())?;
        let of_waves = [
            Arg::Array(real.view()),
            Arg::Array(imaginary.view()),
            Arg::Array(cell.view()),
            Arg::Array(alpha.view()),
            Arg::Zero,
            Arg::Real(options.prefactor),
            Arg::Structure(&planes),
        ];
        let of_atoms = options.energy_reduction == Reduction::Atom;
        let by_charges = of_atoms || options.compute_charge_gradients;
        let goes_back = by_charges || options.compute_forces;
        let by = [(goes_back, "real"), (goes_back, "imaginary"), (options.compute_virial, "strain")];
        let one = Cotangent::Uniform(1.0);
        let (energy, [real, imaginary, by_strain]) = evaluated(context, waves, &of_waves, by, one)?;

        // Forwards a process had its window of nodes and planes of waves; gradients go the whole way back.
        let potential = real.zip(imaginary).map(|parts| grid.nodes(context, parts.into())).transpose()?;
        let by = [(options.compute_forces, "positions"), (by_charges, "charges")];
        let [by_positions, by_charges] = match &potential {
            Some(potential) => {
                evaluated(context, density, &of_density, by, Cotangent::Array(potential.view()))?.1
            }
            None => [None, None],
        };
        let own = if of_atoms {
            // Pairs of charges count half at each of them.
            let of = by_charges.as_ref().expect("energies of atoms go back").to_f64()?;
            of.iter().zip(&self.charges).map(|(u, q)| 0.5 * q * u).collect()
        } else {
            energy.to_f64()?
        };
        let found = Energies {
            energies: own.into(),
            forces: by_positions.map(|by| by.map(|x| -x)).transpose()?,
            charge_gradients: by_charges.filter(|_| options.compute_charge_gradients),
            virial: by_strain.map(|by| by.map(|x| -x)).transpose()?,
        };
        let total_charge = shares.iter().map(|share| share.charge).sum();
        found.plus(&self.of_selves(context, processes, (&cell, &alpha, total_charge), options)?)
    }

    /// The energies of charges with themselves and the background; forces are zero.
    fn of_selves(
        &self,
        context: &Context<'_>,
        processes: &Processes<'_>,
        (cell, alpha, total_charge): (&Array, &Array, f64),
        options: &Options,
    ) -> Result<Energies> {
        let total_charge = Array::from(vec![total_charge]);
        let args = [
            Arg::Array(self.charges()),
            Arg::Array(total_charge.view()),
            Arg::Array(cell.view()),
            Arg::Array(alpha.view()),
            Arg::Zero,
            Arg::Structure(&self.system.batch),
            Arg::Real(options.prefactor),
        ];
        let by_charges = options.compute_charge_gradients;
        let by = [(by_charges, "charges"), (by_charges, "total_charge"), (options.compute_virial, "strain")];
        let [_, _, selves] = ops();
        let (energies, [by_charges, by_total, by_strain]) =
            evaluated(context, selves, &args, by, Cotangent::Uniform(1.0))?;
        let charge_gradients = match by_charges.zip(by_total) {
            // Every charge is a part of the total of all processes.
            Some((by_charges, by_total)) => {
                let of_total: f64 = processes.words([by_total.to_f64()?[0]])?.as_flattened().iter().sum();
                Some(by_charges.map(|x| x + of_total)?)
            }
            None => None,
        };
        let energies = match options.energy_reduction {
            Reduction::Atom => energies,
            Reduction::System => vec![energies.to_f64()?.iter().sum::<f64>()].into(),
        };
        let zeros = || Array::zeros(DType::F64, &[self.charges.len(), 3]);
        let forces = options.compute_forces.then(zeros);
        let virial = by_strain.map(|by| by.map(|x| -x)).transpose()?;
        Ok(Energies { energies, forces, charge_gradients, virial })
    }

    fn charges(&self) -> View<'_> {
        (&self.charges[..]).into()
    }
}

fn array(shape: &[usize], numbers: &[f64]) -> Result<Array> {
    Array::from_f64(DType::F64, shape, numbers)
}

/// The output of an op, and the gradients of its product with a cotangent by those of some arguments that are wanted.
fn evaluated<const N: usize>(
    context: &Context<'_>,
    op: &Op,
    args: &[Arg<'_>],
    by: [(bool, &str); N],
    of: Cotangent<'_>,
) -> Result<(Array, [Option<Array>; N])> {
    let wanted = by.iter().filter(|(is_wanted, _)| *is_wanted);
    let gradients: Vec<usize> = wanted.map(|(_, name)| op.arg(name).expect("an argument")).collect();
    let cotangents = if gradients.is_empty() { vec![] } else { vec![Some(of)] };
    let request =
        Request { values: true, cotangents: &cotangents, gradients: &gradients, ..Request::default() };
    let mut found = op.evaluate(context, args, &request)?;
    let mut gradients = found.gradients.into_iter();
    let each = by.map(|(is_wanted, _)| if is_wanted { gradients.next() } else { None });
    Ok((found.values.swap_remove(0), each))
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
