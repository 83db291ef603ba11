//! One system on the mesh of several processes.
//!
//! Each process has atoms of its own, anywhere in the cell; rows of the mesh, equal shares of its second axis; and planes of
//! waves, equal shares of their first axis. Charges go to the nodes around the own atoms, a *window* of the mesh; windows are
//! added up in rows, in the order of the processes; rows are transformed along the first and the third axis, and are then
//! exchanged for planes, which are transformed along the second one. The energy of the own waves is a share of that of the
//! mesh, and its gradient by these goes the whole way back: to the nodes of the windows, and to positions and charges.

use crate::energies::{Energies, Options, Reduction};
use crate::kernels as k;
use crate::ops::COULOMB;
use crate::system::System;
use madelung_core::array::{Array, DType, DataMut};
use madelung_core::backend::{Context, Meshes, Waves};
use madelung_core::cell::Cell;
use madelung_core::op::{Arg, Constraint, Cotangent, Evaluated, Op, OpBuilder, Request};
use madelung_core::structure::{Mesh, Window};
use madelung_core::{Error, Result};
use std::ops::Range;
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

/// What a process says about its atoms.
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
    let ranks = exchange.ranks();
    let send = words.repeat(ranks);
    let mut all = vec![0.0; send.len()];
    let counts = vec![words.len(); ranks];
    exchange.all_to_all(&send, &counts, &mut all, &counts)?;
    let domain = made?;
    let each = all.as_chunks::<{ SHARE + QUESTION }>().0;
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

/// The own atoms of a process, and what of the mesh they reach.
struct Domain<'a> {
    positions: Array,
    charges: Array,
    cell: Cell,
    alpha: f64,
    order: usize,
    share: Share,
    /// What is asked for, in bits.
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
                let of_total = grid.sum(of_total.to_f64()?[0])?;
                let mut by = by;
                by.add(of_charges)?;
                found.charge_gradients = Some(by.map(|x| x + of_total)?);
            }
        }
        Ok(found)
    }
}

/// The nodes that splines around positions reach: along each axis all but the longest gap.
fn window(positions: &[[f64; 3]], cell: &Cell, mesh: [usize; 3], order: usize) -> Window {
    let mut reached = mesh.map(|k| vec![false; k]);
    for r in positions {
        let s = cell.fractional(*r);
        for (axis, reached) in reached.iter_mut().enumerate() {
            let size = reached.len();
            // Where rounding decides about a node, its spline has no weight.
            let last = (((s[axis] - s[axis].floor()) * size as f64) as usize).min(size - 1);
            (0..order).for_each(|n| reached[(last + size - n) % size] = true);
        }
    }
    let mut window = Window { origin: [0; 3], extent: [order; 3] };
    for (axis, reached) in reached.iter().enumerate() {
        let size = reached.len();
        let ends = |n: &usize| reached[*n] && !reached[(n + 1) % size];
        let gap = |end: usize| (1..=size).take_while(|n| !reached[(end + n) % size]).count();
        if let Some((gap, end)) = (0..size).filter(ends).map(|end| (gap(end), end)).max() {
            window.origin[axis] = (end + gap + 1) % size;
            window.extent[axis] = size - gap;
        } else if reached[0] {
            window.extent[axis] = size;
        }
    }
    window
}

/// Shares of a number of things in order, one for each process.
fn shares(count: usize, ranks: usize) -> Vec<Range<usize>> {
    (0..ranks).map(|rank| count * rank / ranks..count * (rank + 1) / ranks).collect()
}

/// The mesh of all processes, and the places of its nodes and waves.
struct Grid<'e> {
    exchange: &'e dyn Exchange,
    mesh: [usize; 3],
    /// Waves along the third axis.
    half: usize,
    windows: Vec<Window>,
    /// Shares of the second axis of nodes, and of the first one of waves.
    rows: Vec<Range<usize>>,
    planes: Vec<Range<usize>>,
}

impl<'e> Grid<'e> {
    fn new(exchange: &'e dyn Exchange, mesh: [usize; 3], windows: Vec<Window>) -> Self {
        let of = |axis: usize| shares(mesh[axis], exchange.ranks());
        Self { exchange, mesh, half: mesh[2] / 2 + 1, windows, rows: of(1), planes: of(0) }
    }

    fn planes(&self) -> Range<usize> {
        self.planes[self.exchange.rank()].clone()
    }

    fn rows(&self) -> Range<usize> {
        self.rows[self.exchange.rank()].clone()
    }

    /// Numbers from each process, in their order, for the parts of `send` that each gets.
    fn all_to_all(&self, send: &[f64], sent: &[usize], received: &[usize]) -> Result<Vec<f64>> {
        let mut receive = vec![0.0; received.iter().sum()];
        self.exchange.all_to_all(send, sent, &mut receive, received)?;
        Ok(receive)
    }

    /// The sum of a number of each process.
    fn sum(&self, x: f64) -> Result<f64> {
        let ranks = self.exchange.ranks();
        Ok(self.all_to_all(&vec![x; ranks], &vec![1; ranks], &vec![1; ranks])?.iter().sum())
    }

    /// Rows of the mesh that a window has in a share of them: the places of each in the window and in the share.
    fn common(&self, window: &Window, rows: &Range<usize>) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (first, size, rows) = (window.origin[1], self.mesh[1], rows.clone());
        (0..window.extent[1]).filter_map(move |j| {
            let row = (first + j) % size;
            rows.contains(&row).then(|| (j, row - rows.start))
        })
    }

    /// Numbers that a window and a share of the rows have in common.
    fn count(&self, window: &Window, rows: &Range<usize>) -> usize {
        self.common(window, rows).count() * window.extent[0] * window.extent[2]
    }

    /// The lines of nodes along the third axis that a window has in a share of the rows, in both: where each begins in the
    /// window, and its two pieces in the share, as pairs of a place there and one in the line.
    fn lines(
        &self,
        window: &Window,
        rows: &Range<usize>,
    ) -> impl Iterator<Item = (usize, [(usize, Range<usize>); 2])> + use<> {
        let ([k1, _, k3], [e1, e2, e3]) = (self.mesh, window.extent);
        let [o1, _, o3] = window.origin;
        let turn = e3.min(k3 - o3);
        self.common(window, rows).flat_map(move |(j, row)| {
            (0..e1).map(move |i| {
                let line = (row * k1 + (o1 + i) % k1) * k3;
                ((i * e2 + j) * e3, [(line + o3, 0..turn), (line, turn..e3)])
            })
        })
    }

    /// The waves of this process, (planes, K₂, K₃/2 + 1), from the nodes of its window: real and imaginary parts.
    fn waves(&self, context: &Context<'_>, nodes: Array) -> Result<[Array; 2]> {
        let (nodes, own) = (nodes.to_f64()?, &self.windows[self.exchange.rank()]);
        let mut send = Vec::with_capacity(nodes.len());
        for rows in &self.rows {
            let lines = self.lines(own, rows);
            lines.for_each(|(at, _)| send.extend_from_slice(&nodes[at..at + own.extent[2]]));
        }
        let sent: Vec<usize> = self.rows.iter().map(|rows| self.count(own, rows)).collect();
        let rows = self.rows();
        let received: Vec<usize> = self.windows.iter().map(|window| self.count(window, &rows)).collect();
        let all = self.all_to_all(&send, &sent, &received)?;
        let mut slab = vec![0.0; rows.len() * self.mesh[0] * self.mesh[2]];
        let mut from = &all[..];
        for window in &self.windows {
            for (_, pieces) in self.lines(window, &rows) {
                let (line, rest) = from.split_at(window.extent[2]);
                from = rest;
                for (at, piece) in pieces {
                    let to = slab[at..][..piece.len()].iter_mut();
                    to.zip(&line[piece]).for_each(|(to, x)| *to += x);
                }
            }
        }
        let mut spectrum = self.planar(context, slab)?;
        let [re, im] = spectrum.each_mut().map(numbers);
        let [re, im] = self.turned(re, im)?;
        let sizes = [self.planes().len(), self.mesh[1], self.half];
        let [mut re, mut im] = [re.into(), im.into()];
        context.complex_fft(sizes, false, [&mut re, &mut im])?;
        Ok([re, im])
    }

    /// The nodes of this process' window from gradients by its waves: the transpose of [`Grid::waves`].
    fn nodes(&self, context: &Context<'_>, [mut re, mut im]: [Array; 2]) -> Result<Array> {
        let sizes = [self.planes().len(), self.mesh[1], self.half];
        context.complex_fft(sizes, true, [&mut re, &mut im])?;
        let slab = self.planar_back(context, self.turned_back(numbers(&mut re), numbers(&mut im))?)?;
        let slab = slab.to_f64()?;
        let rows = self.rows();
        let mut send = vec![];
        for window in &self.windows {
            for (_, pieces) in self.lines(window, &rows) {
                pieces.into_iter().for_each(|(at, piece)| send.extend_from_slice(&slab[at..][..piece.len()]));
            }
        }
        let own = &self.windows[self.exchange.rank()];
        let sent: Vec<usize> = self.windows.iter().map(|window| self.count(window, &rows)).collect();
        let received: Vec<usize> = self.rows.iter().map(|rows| self.count(own, rows)).collect();
        let all = self.all_to_all(&send, &sent, &received)?;
        let mut nodes = vec![0.0; own.extent.iter().product()];
        let lines = self.rows.iter().flat_map(|rows| self.lines(own, rows));
        for ((at, _), line) in lines.zip(all.chunks_exact(own.extent[2])) {
            nodes[at..at + line.len()].copy_from_slice(line);
        }
        Ok(nodes.into())
    }

    /// Rows as pairs of two, which are transformed as meshes of two planes, and what is left.
    fn pairs(&self) -> [Meshes; 2] {
        let ([k1, _, k3], rows) = (self.mesh, self.rows().len());
        [Meshes { sizes: [2, k1, k3], systems: rows / 2 }, Meshes { sizes: [1, k1, k3], systems: rows % 2 }]
    }

    /// Half the sum and half the difference of the two rows of each pair: the transform along their first axis, and back.
    fn halves(&self, spectrum: [&mut [f64]; 2]) {
        let width = self.mesh[0] * self.half;
        for part in spectrum {
            for pair in part.chunks_exact_mut(2 * width) {
                let (first, second) = pair.split_at_mut(width);
                first.iter_mut().zip(second).for_each(|(a, b)| (*a, *b) = (0.5 * (*a + *b), 0.5 * (*a - *b)));
            }
        }
    }

    /// Transforms along the first and the third axis of own rows, (rows, K₁, K₃).
    fn planar(&self, context: &Context<'_>, slab: Vec<f64>) -> Result<[Array; 2]> {
        let waves = self.rows().len() * self.mesh[0] * self.half;
        let [mut re, mut im] = [(); 2].map(|()| Array::zeros(DType::F64, &[waves]));
        let slab: &[f64] = &slab;
        context.real_fft(&self.pairs(), Waves::Kept, &slab.into(), [&mut re, &mut im])?;
        self.halves([numbers(&mut re), numbers(&mut im)]);
        Ok([re, im])
    }

    /// The transpose of [`Grid::planar`].
    fn planar_back(&self, context: &Context<'_>, [mut re, mut im]: [Vec<f64>; 2]) -> Result<Array> {
        self.halves([&mut re, &mut im]);
        let mut slab = Array::zeros(DType::F64, &[self.rows().len() * self.mesh[0] * self.mesh[2]]);
        let (re, im): (&[f64], &[f64]) = (&re, &im);
        context.inverse_real_fft(&self.pairs(), Waves::Kept, [&re.into(), &im.into()], &mut slab)?;
        Ok(slab)
    }

    /// Own planes, (planes, K₂, half), in exchange for own rows, (rows, K₁, half).
    fn turned(&self, re: &[f64], im: &[f64]) -> Result<[Vec<f64>; 2]> {
        let (k1, k2, half) = (self.mesh[0], self.mesh[1], self.half);
        let (rows, planes) = (self.rows(), self.planes());
        let mut send = Vec::with_capacity(re.len() + im.len());
        for planes in &self.planes {
            for row in 0..rows.len() {
                for part in [re, im] {
                    send.extend_from_slice(&part[(row * k1 + planes.start) * half..][..planes.len() * half]);
                }
            }
        }
        let [sent, received] = self.turns();
        let all = self.all_to_all(&send, &sent, &received)?;
        let mut parts = [(); 2].map(|()| vec![0.0; planes.len() * k2 * half]);
        let mut lines = all.chunks_exact(half);
        for row in 0..k2 {
            for part in &mut parts {
                for (plane, line) in (0..planes.len()).zip(&mut lines) {
                    part[(plane * k2 + row) * half..][..half].copy_from_slice(line);
                }
            }
        }
        Ok(parts)
    }

    /// The transpose of [`Grid::turned`], which is its inverse.
    fn turned_back(&self, re: &[f64], im: &[f64]) -> Result<[Vec<f64>; 2]> {
        let (k1, k2, half) = (self.mesh[0], self.mesh[1], self.half);
        let (rows, planes) = (self.rows(), self.planes());
        let mut send = Vec::with_capacity(re.len() + im.len());
        for row in 0..k2 {
            for part in [re, im] {
                for plane in 0..planes.len() {
                    send.extend_from_slice(&part[(plane * k2 + row) * half..][..half]);
                }
            }
        }
        let [received, sent] = self.turns();
        let all = self.all_to_all(&send, &sent, &received)?;
        let mut parts = [(); 2].map(|()| vec![0.0; rows.len() * k1 * half]);
        let mut from = &all[..];
        for planes in &self.planes {
            for row in 0..rows.len() {
                for part in &mut parts {
                    let (lines, rest) = from.split_at(planes.len() * half);
                    from = rest;
                    part[(row * k1 + planes.start) * half..][..lines.len()].copy_from_slice(lines);
                }
            }
        }
        Ok(parts)
    }

    /// Numbers that rows send to the planes of each process, and that planes receive from the rows of each.
    fn turns(&self) -> [Vec<usize>; 2] {
        let (rows, planes) = (self.rows().len(), self.planes().len());
        let of = |count: usize, shares: &[Range<usize>]| {
            shares.iter().map(|share| 2 * count * share.len() * self.half).collect()
        };
        [of(rows, &self.planes), of(planes, &self.rows)]
    }
}

/// The numbers of an array of f64.
fn numbers(array: &mut Array) -> &mut [f64] {
    match array.data_mut() {
        Some(DataMut::F64(numbers)) => numbers,
        _ => unreachable!("arrays of f64 on the host"),
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
