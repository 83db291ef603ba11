//! Rows to clusters.

use super::{Clusters, Part, WIDTH, is_worth};
use crate::backend::pool::{Pool, map_tasks};
use crate::runtime::lanes::packed::{fits, pack};
use crate::structure::pairs::order::SpatialOrder;
use crate::structure::pairs::{Kind, PairList, Transpose};
use crate::{Error, Result};

impl Clusters<'static> {
    /// From a full or a half list and an order of its atoms. An order made from other positions than the list's is as right,
    /// and slower. `all`: all systems are evaluated in clusters, and not those alone that are faster so.
    ///
    /// # Errors
    /// `neighbor_list`, where it is directed, of a domain with whole rows, or its images have no room in a packed integer
    /// (beyond 511 or 1023 cells);
    /// `order`, where it is of another number of atoms.
    pub fn from_list(list: &PairList<'_>, order: &SpatialOrder, all: bool, pool: &dyn Pool) -> Result<Self> {
        let half = match list.kind() {
            Kind::Half => Some(&**list.transpose()?),
            Kind::Full if list.own.is_none() => None,
            kind => {
                let got = if kind == Kind::Full { "that of a domain" } else { "a directed one" };
                return Err(Error::argument("neighbor_list", "a full or a half list", got));
            }
        };
        if order.len() != list.rows() {
            let expected = format!("an order of {} atoms", list.rows());
            return Err(Error::argument("order", expected, order.len().to_string()));
        }
        let slots = order.slots();
        // For each atom its packed wrap, and its slot.
        let mut places = vec![([0; 3], 0u32); order.len()];
        for (slot, atom) in slots.iter().enumerate().rev() {
            places[*atom as usize] = (order.wraps()[*atom as usize], slot as u32);
        }
        let clusters = slots.len() / WIDTH;
        let tasks = (pool.threads() * 4).min(clusters).max(1);
        let convert = Convert { list, half, slots: &slots, places: &places, clusters };
        let parts: Option<Vec<Part>> =
            map_tasks(pool, tasks, |t| convert.rows(clusters * t / tasks, clusters * (t + 1) / tasks))
                .into_iter()
                .collect();
        let parts = parts.ok_or_else(|| {
            let expected = "images within 511 cells along the first axis and 1023 along the others";
            Error::argument("neighbor_list", expected, "some beyond")
        })?;
        let worth = |w: &[i32]| {
            let members = w[0] as usize..w[1] as usize;
            // Ghosts of a domain have no rows.
            let atoms = members.clone().filter(|i| list.own.is_none_or(|own| *i < own)).count();
            let pairs = members.map(|i| list.range(i).len()).sum::<usize>() << u32::from(half.is_some());
            all || is_worth(atoms, pairs as f64 / atoms.max(1) as f64)
        };
        let in_clusters: Vec<bool> = order.ptr().windows(2).map(worth).collect();
        Ok(Self { own: list.own, ..Self::assemble(order, &in_clusters, parts, pool)? })
    }
}

struct Convert<'a> {
    list: &'a PairList<'a>,
    /// The transpose of a half list: its pairs from their other sides.
    half: Option<&'a Transpose>,
    slots: &'a [i32],
    places: &'a [([i32; 3], u32)],
    clusters: usize,
}

impl Convert<'_> {
    /// The runs of the rows in clusters `lo..hi`. None where an image does not fit its bits.
    fn rows(&self, lo: usize, hi: usize) -> Option<Part> {
        let Part { mut runs, mut entries } = Part::default();
        // For each cluster the entry it has in the run that made it.
        let mut last = vec![(u32::MAX, 0u32); self.clusters];
        let mut kept: Vec<(i32, u32)> = vec![];
        for slot in lo * WIDTH..hi * WIDTH {
            let i = self.slots[slot] as usize;
            if self.places[i].1 as usize != slot {
                continue;
            }
            self.keep(i, &mut kept)?;
            // Stable: columns stay in the order of the list.
            kept.sort_by_key(|(image, _)| *image);
            for of_image in kept.chunk_by(|a, b| a.0 == b.0) {
                let number = runs.len() as u32;
                for (_, column) in of_image {
                    let (cluster, bit) = (*column as usize / WIDTH, 1 << (*column as usize % WIDTH));
                    let (run, at) = &mut last[cluster];
                    // A pair that the list has twice counts twice.
                    if *run == number && entries[*at as usize][1] & bit == 0 {
                        entries[*at as usize][1] |= bit;
                    } else {
                        (*run, *at) = (number, entries.len() as u32);
                        entries.push([cluster as i32, bit]);
                    }
                }
                runs.push([slot as i32, of_image[0].0, entries.len() as i32]);
            }
        }
        Some(Part { runs, entries })
    }

    /// The pairs of atom `i` that are counted from its side: (packed image of the wrapped atoms, slot of the column).
    fn keep(&self, i: usize, kept: &mut Vec<(i32, u32)>) -> Option<()> {
        let (others, shifts) = self.list.row(i);
        kept.clear();
        let (mine, slot) = self.places[i];
        let mut most = [0; 3];
        let reversed = self.half.into_iter().flat_map(|transpose| {
            let of = transpose.starts()[i] as usize..transpose.starts()[i + 1] as usize;
            let shift = |p: &i32| self.list.images().at(*p as usize).map(i32::wrapping_neg);
            transpose.rows()[of.clone()].iter().zip(transpose.entries()[of].iter().map(shift))
        });
        for (&j, s) in others.iter().zip(shifts).chain(reversed) {
            let (theirs, column) = self.places[j as usize];
            let image: [i32; 3] =
                std::array::from_fn(|k| s[k].saturating_add(theirs[k]).saturating_sub(mine[k]));
            for k in 0..3 {
                most[k] = most[k].max(image[k].saturating_abs()).max(s[k].saturating_abs());
            }
            if column > slot || (column == slot && s > [0; 3]) {
                kept.push((pack(image), column));
            }
        }
        fits(most).then_some(())
    }
}
