//! Pairs of a system that several processes share: atoms near borders are sent as *ghosts*, and what these get goes back.

use super::{Domain, Processes, Share};
use crate::energies::{Energies, Options, Reduction};
use crate::sums::ewald_real_space;
use crate::system::System;
use madelung_core::Result;
use madelung_core::array::{Array, DType, View};
use madelung_core::backend::Context;
use madelung_core::cell::Cell;
use madelung_core::structure::pairs::order::wrapped;
use madelung_core::structure::pairs::{Kind, Shifts};
use madelung_core::structure::{Batch, Neighbors, PairList};
use madelung_neighbors::{Options as ListOptions, find_neighbors};

/// Parts of an axis that are looked at as occupied or not.
const PARTS: usize = 4096;

/// Along each axis of the cell, in fractions of it, where an interval begins that has all atoms, some lattice vectors apart,
/// and its width: all but the longest gap.
pub(super) fn occupied(positions: &[[f64; 3]], cell: &Cell) -> [[f64; 3]; 2] {
    let mut parts = vec![[false; 3]; PARTS];
    for r in positions {
        let s = cell.fractional(*r);
        for axis in 0..3 {
            let part = ((s[axis] - s[axis].floor()) * PARTS as f64) as usize;
            parts[part.min(PARTS - 1)][axis] = true;
        }
    }
    let (mut low, mut width) = ([0.0; 3], [1.0; 3]);
    for axis in 0..3 {
        let is_full = |n: usize| parts[n % PARTS][axis];
        let mut longest = (0, 0);
        let mut begin = None;
        for n in 0..2 * PARTS {
            match (is_full(n), begin) {
                (true, Some(first)) => longest = longest.max((n - first, n % PARTS)),
                (false, Some(_)) => continue,
                _ => {}
            }
            begin = is_full(n).then_some(n + 1);
        }
        if longest.0 > 0 {
            // A part of a thousandth on either side, for rounding.
            let part = 1.0 / PARTS as f64;
            low[axis] = (longest.1 as f64 - 1e-3) * part;
            width[axis] = 1.0 - (longest.0 as f64 - 2e-3) * part;
        }
    }
    [low, width]
}

/// Numbers of a ghost: position, charge, its number in its process, and by how many lattice vectors it is an image there.
const GHOST: usize = 8;

/// Own atoms, in the interval of their process, and ghosts behind them.
pub(super) struct Ghosts {
    positions: Vec<[f64; 3]>,
    charges: Vec<f64>,
    /// The process, the number there, and the image of each ghost.
    ids: Vec<(usize, usize, [i32; 3])>,
    /// Own atoms that each process has as ghosts, and the ghosts of each process.
    sent: Vec<Vec<usize>>,
    received: Vec<usize>,
}

/// Results of own atoms and ghosts.
pub(super) struct OfPairs {
    own: usize,
    found: Energies,
    sent: Vec<Vec<usize>>,
    received: Vec<usize>,
}

impl Domain<'_> {
    /// Atoms of all processes within a cutoff of where own atoms lie.
    pub(super) fn ghosts(&self, processes: &Processes<'_>, shares: &[Share], cutoff: f64) -> Result<Ghosts> {
        let rows = self.cell.rows();
        // All own atoms in the interval of their process.
        let placed = self.positions.iter().map(|r| {
            let s = self.cell.fractional(*r);
            let by: [i32; 3] = std::array::from_fn(|k| (s[k] - self.share.low[k]).floor() as i32);
            (std::array::from_fn(|k| s[k] - f64::from(by[k])), wrapped(*r, by, &rows))
        });
        let (fractions, mut positions): (Vec<[f64; 3]>, Vec<[f64; 3]>) = placed.unzip();
        let reach = self.cell.heights().map(|height| cutoff / height * (1.0 + 1e-9));
        let rank = processes.rank();
        let (mut send, mut sent) = (vec![], vec![vec![]; shares.len()]);
        for (other, share) in shares.iter().enumerate().filter(|(_, share)| share.atoms > 0) {
            for (i, (s, r)) in fractions.iter().zip(&positions).enumerate() {
                let images: [_; 3] = std::array::from_fn(|k| {
                    let (low, high) = (share.low[k] - reach[k], share.low[k] + share.width[k] + reach[k]);
                    (low - s[k]).ceil() as i32..=(high - s[k]).floor() as i32
                });
                for a in images[0].clone() {
                    for b in images[1].clone() {
                        for c in images[2].clone().filter(|c| other != rank || [a, b, *c] != [0; 3]) {
                            let at = wrapped(*r, [-a, -b, -c], &rows);
                            let image = [a, b, c].map(f64::from);
                            send.extend(at.into_iter().chain([self.charges[i], i as f64]).chain(image));
                            sent[other].push(i);
                        }
                    }
                }
            }
        }
        let received = processes.counts(sent.iter().map(Vec::len))?;
        let lengths: Vec<usize> = sent.iter().map(|of| GHOST * of.len()).collect();
        let expected: Vec<usize> = received.iter().map(|n| GHOST * n).collect();
        let ghosts = processes.all_to_all(&send, &lengths, &expected)?;
        let ghosts = ghosts.as_chunks::<GHOST>().0;
        let mut charges = self.charges.clone();
        let mut ids = Vec::with_capacity(ghosts.len());
        let of = received.iter().enumerate().flat_map(|(p, n)| std::iter::repeat_n(p, *n));
        for (process, [x, y, z, q, i, a, b, c]) in of.zip(ghosts) {
            positions.push([*x, *y, *z]);
            charges.push(*q);
            ids.push((process, *i as usize, [*a, *b, *c].map(|n| n as i32)));
        }
        Ok(Ghosts { positions, charges, ids, sent, received })
    }

    /// The real-space part for α and a cutoff.
    pub(super) fn of_pairs(
        &self,
        context: &Context<'_>,
        rank: usize,
        Ghosts { positions, charges, ids, sent, received }: Ghosts,
        (alpha, cutoff): (f64, f64),
        options: &Options,
    ) -> Result<OfPairs> {
        let own = self.charges.len();
        // Each pair is summed once, by one of the two processes that have it; integers say by which.
        let is_here = |i: usize, ghost: usize| {
            let (process, j, image) = ids[ghost];
            match process == rank {
                true => (i, [0; 3]) < (j, image),
                false => (i + j).is_multiple_of(2) == (rank < process),
            }
        };
        let n = charges.len();
        let batch = Batch::single(n)?;
        let pool = context.threads();
        let near = find_neighbors(&positions, cutoff, None, None, &batch, &ListOptions::half(), &pool)?;
        let near = near.rows(&pool);
        let (mut first, mut others) = (vec![0], Vec::with_capacity(near.len()));
        for i in 0..n {
            let of_row = near.row(i).0.iter().filter(|j| match (i < own, (**j as usize) < own) {
                (true, true) => true,
                (false, false) => false,
                (true, false) => is_here(i, **j as usize - own),
                (false, true) => is_here(**j as usize, i - own),
            });
            others.extend(of_row);
            first.push(others.len() as i64);
        }
        let none = Shifts::Packed(vec![0; others.len()].into());
        let half = PairList::from_search(first, others, none, n, Kind::Half)?;
        let view: View<'_> = (&positions[..]).into();
        let pairs = Neighbors::of_domain(&half, &view, &pool)?;
        let open = System::with_boundaries(
            view,
            (&charges[..]).into(),
            (&[[0.0; 3]; 3][..]).into(),
            &[[false; 3]],
            batch,
        )?;
        let options = Options { energy_reduction: Reduction::Atom, ..*options };
        let found = ewald_real_space(context, &open, &[alpha], &pairs, cutoff, &options)?;
        Ok(OfPairs { own, found, sent, received })
    }
}

impl OfPairs {
    /// The results of own atoms, with what other processes have for them.
    pub(super) fn sent_back(self, processes: &Processes<'_>, options: &Options) -> Result<Energies> {
        let Self { own, found, sent, received } = self;
        let parts = [Some(&found.energies), found.forces.as_ref(), found.charge_gradients.as_ref()];
        let mut columns = vec![];
        for part in parts.into_iter().flatten() {
            columns.push((part.to_f64()?, part.shape().iter().skip(1).product::<usize>()));
        }
        let numbers: usize = columns.iter().map(|(_, width)| width).sum();
        let atoms = found.energies.shape()[0];
        let row = |i: usize| columns.iter().flat_map(move |(x, width)| &x[i * width..(i + 1) * width]);
        let send: Vec<f64> = (own..atoms).flat_map(row).copied().collect();
        let lengths: Vec<usize> = received.iter().map(|n| numbers * n).collect();
        let expected: Vec<usize> = sent.iter().map(|of| numbers * of.len()).collect();
        let back = processes.all_to_all(&send, &lengths, &expected)?;
        for (i, more) in sent.iter().flatten().zip(back.chunks_exact(numbers)) {
            let mut more = more.iter();
            for (x, width) in &mut columns {
                x[i * *width..(i + 1) * *width].iter_mut().zip(&mut more).for_each(|(x, more)| *x += more);
            }
        }
        let mut parts = columns.into_iter().map(|(mut x, width)| {
            x.truncate(own * width);
            x
        });
        let energies = parts.next().expect("energies");
        let energies = match options.energy_reduction {
            Reduction::Atom => energies,
            Reduction::System => vec![energies.iter().sum()],
        };
        let forces = if options.compute_forces { parts.next() } else { None };
        let forces = forces.map(|x| Array::from_f64(DType::F64, &[own, 3], &x)).transpose()?;
        let charge_gradients = if options.compute_charge_gradients { parts.next() } else { None };
        Ok(Energies {
            energies: energies.into(),
            forces,
            charge_gradients: charge_gradients.map(Array::from),
            virial: found.virial,
        })
    }
}
