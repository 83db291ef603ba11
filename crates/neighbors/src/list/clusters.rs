//! Lists in clusters: atoms in an order in space, and for each cluster of them the clusters within reach.
//!
//! Boxes around clusters, around sixteen that follow each other, and so on up to the whole system, are a tree: what is out
//! of reach is left out from the top. The lanes of clusters that remain are tried for each atom, as candidates of rows are.

use super::candidates::{Search, System, band, is_pair};
use crate::boxes::{Extent, Tree};
use madelung_core::Result;
use madelung_core::array::{Buffer, collected, push, reserve};
use madelung_core::backend::pool::{Pool, map_tasks, split_tasks};
use madelung_core::runtime::lanes::packed::{fits, pack};
use madelung_core::stop::if_asked;
use madelung_core::structure::pairs::clusters::{Part, WIDTH, is_worth};
use madelung_core::structure::pairs::order::SpatialOrder;
use madelung_core::structure::{Batch, Clusters};
use madelung_cpu::points::{Points, WORD};

/// Clusters of a task, and the most tasks.
const TASK: [usize; 2] = [8, 256];

/// The systems that are faster in clusters; none where no system is, or images have no room in a packed integer.
pub(super) fn in_clusters(search: &Search<'_>, systems: &[System<'_>]) -> Option<Vec<bool>> {
    let worth = are_dense(search, systems);
    (worth.contains(&true) && has_room(search, systems)).then_some(worth)
}

/// Whether each system is faster in clusters.
pub(super) fn are_dense(search: &Search<'_>, systems: &[System<'_>]) -> Vec<bool> {
    systems.iter().map(|system| is_dense(search, system)).collect()
}

/// Whether the images of all pairs have room in a packed integer.
pub(super) fn has_room(search: &Search<'_>, systems: &[System<'_>]) -> bool {
    systems.iter().all(|system| fits(search.farthest(system)))
}

/// Whether a system has many neighbours for each atom, by the mean density in its cell; along open axes, between its atoms.
fn is_dense(search: &Search<'_>, system: &System<'_>) -> bool {
    let (atoms, lattice) = (system.atoms.len(), system.lattice);
    let mut extent = [[f64::INFINITY, f64::NEG_INFINITY]; 3];
    if lattice.periodic != [true; 3] {
        for placed in &search.placed[system.atoms.clone()] {
            for (extent, s) in extent.iter_mut().zip(placed.s) {
                *extent = [extent[0].min(s), extent[1].max(s)];
            }
        }
    }
    // Components along open axes are lengths.
    let along =
        |k: usize| if lattice.periodic[k] { 1.0 } else { (extent[k][1] - extent[k][0]).max(system.cutoff) };
    let [a, b, c] = lattice.frame;
    let frame = a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0])
        + a[2] * (b[0] * c[1] - b[1] * c[0]);
    let volume = frame.abs() * along(0) * along(1) * along(2);
    let sphere = 4.0 / 3.0 * std::f64::consts::PI * system.cutoff.powi(3);
    is_worth(atoms, atoms as f64 * sphere / volume)
}

/// A full list of all pairs closer than the cutoff, in clusters.
pub(super) fn clusters(
    search: &Search<'_>,
    systems: &[System<'_>],
    in_clusters: &[bool],
    batch: &Batch<'_>,
    pool: &dyn Pool,
) -> Result<Clusters<'static>> {
    // Large scratch is memory that is kept: glibc gives the end of its heap back to the system where many vectors are freed
    // at once, and each search would touch it anew.
    let mut points = Buffer::with_capacity(search.placed.len());
    search.placed.iter().for_each(|placed| points.push(placed.at));
    let wraps = collected(search.placed.iter().map(|placed| placed.wrap));
    let order = SpatialOrder::of_points(&points, wraps, batch, pool);
    let slots = order.slots();
    // A slot that only fills a cluster up is nowhere.
    let is_filling = |n: usize| !n.is_multiple_of(WIDTH) && slots[n - 1] == slots[n];
    let at = |n: usize| if is_filling(n) { [f64::INFINITY; 3] } else { points[slots[n] as usize] };
    let count = slots.len() / WIDTH;
    let tasks = (count / TASK[0]).clamp(1, TASK[1]);
    let ends: Vec<usize> = (1..=tasks).map(|t| count * t / tasks).collect();
    let first = |t: usize| if t == 0 { 0 } else { ends[t - 1] };
    let mut places = Buffer::zeros(count);
    split_tasks(pool, &mut places, &ends, |t, part: &mut [Places]| {
        for (c, places) in (first(t)..).zip(part) {
            for (lane, slot) in (c * WIDTH..(c + 1) * WIDTH).enumerate() {
                let r = at(slot);
                (0..3).for_each(|k| places[k][lane] = r[k]);
            }
        }
    });
    let extents = collected(places.iter().map(extent));
    let mut of = vec![];
    reserve(&mut of, count);
    let mut trees = Vec::with_capacity(systems.len());
    for (b, system) in systems.iter().enumerate() {
        let first = of.len();
        of.resize(first + system.atoms.len().div_ceil(WIDTH), b);
        trees.push(Tree::new(first, extents[first..of.len()].to_vec()));
    }
    let find = Find { search, slots: &slots, extents: &extents, places: &places };
    let parts: Vec<Part> = map_tasks(pool, tasks, |t| {
        let (mut part, mut scratch) = (Part::default(), Scratch::default());
        for c in first(t)..ends[t] {
            if_asked();
            find.cluster(c, &trees[of[c]], &systems[of[c]], &mut scratch, &mut part);
        }
        part
    });
    Clusters::assemble(&order, in_clusters, parts, pool)
}

/// Scratch of a task.
#[derive(Default)]
struct Scratch {
    /// Clusters within reach, with their images, and the way to them from the centre of the box.
    near: Vec<(i32, [i32; 3], [f64; 3])>,
    points: Points,
    bits: Vec<u64>,
    certain: Vec<u64>,
}

struct Find<'a> {
    search: &'a Search<'a>,
    slots: &'a [i32],
    /// Box of each cluster.
    extents: &'a [Extent],
    places: &'a [Places],
}

/// Atoms of a cluster, coordinate by coordinate; those that only fill it up are nowhere.
type Places = [[f64; WIDTH]; 3];

/// Box of a cluster.
fn extent(places: &Places) -> Extent {
    let atoms = (0..WIDTH).map(|lane| places.map(|along| along[lane])).filter(|r| r[0] != f64::INFINITY);
    atoms.fold(Extent::NONE, |extent, r| extent.with(Extent { low: r, high: r }))
}

impl Find<'_> {
    /// The runs of the atoms of cluster `c`.
    fn cluster(&self, c: usize, tree: &Tree, system: &System<'_>, scratch: &mut Scratch, part: &mut Part) {
        let (own, places, cutoff) = (&self.extents[c], &self.places[c], system.cutoff);
        let length = (cutoff + system.slack) * (1.0 + 1e-9);
        let centre: [f64; 3] = std::array::from_fn(|k| 0.5 * (own.low[k] + own.high[k]));
        let scale = 1.0 / cutoff;
        scratch.near.clear();
        let most = system.images.most();
        for x in -most[0]..=most[0] {
            for y in -most[1]..=most[1] {
                for z in -most[2]..=most[2] {
                    let image = [x, y, z];
                    let t = system.lattice.translation(image);
                    let origin = std::array::from_fn(|k| t[k] - centre[k]);
                    tree.visit(&self.search.cpu, &own.moved(t.map(|x| -x)), length, c, &mut |j| {
                        push(&mut scratch.near, (j as i32, image, origin));
                    });
                }
            }
        }
        let blocks = scratch.near.iter().map(|(j, _, origin)| (&self.places[*j as usize], *origin));
        scratch.points.fill_blocks(&self.search.cpu, blocks, scale);
        // No atom of a box within reach is farther from the centre.
        let half = (0..3).map(|k| own.high[k] - centre[k]).fold(0.0, f64::max);
        let limits = band((length + half + tree.longest) * scale + 1.0, system.slack * scale);
        scratch.bits.resize(scratch.points.words(), 0);
        for lane in 0..WIDTH {
            let slot = c * WIDTH + lane;
            let r = places.map(|places| places[lane]);
            if r[0] == f64::INFINITY {
                break;
            }
            let at: [f32; 3] = std::array::from_fn(|k| ((r[k] - centre[k]) * scale) as f32);
            let Scratch { points, bits, .. } = scratch;
            if points.near(&self.search.cpu, 0, at, limits.0, limits.1, bits) {
                self.settle(slot, at, limits.0, system, scratch);
            }
            put(c, lane, &scratch.near, &scratch.bits, part);
        }
    }

    /// Removes the lanes that single precision let in and f64 rejects.
    #[cold]
    fn settle(&self, slot: usize, at: [f32; 3], certain: f32, system: &System<'_>, scratch: &mut Scratch) {
        scratch.certain.resize(scratch.bits.len(), 0);
        scratch.points.near(&self.search.cpu, 0, at, certain, certain, &mut scratch.certain);
        let i = self.slots[slot] as usize;
        for (w, (word, certain)) in scratch.bits.iter_mut().zip(&scratch.certain).enumerate() {
            let mut open = *word & !certain;
            while open != 0 {
                let bit = open.trailing_zeros() as usize;
                open &= open - 1;
                let n = w * WORD + bit;
                let (cluster, image, _) = scratch.near[n / WIDTH];
                let j = self.slots[cluster as usize * WIDTH + n % WIDTH];
                if !is_pair(i, j, system.images.code(image), self.search, system) {
                    *word &= !(1 << bit);
                }
            }
        }
    }
}

/// Writes the runs of the atom in a lane of cluster `c`, whose neighbours are those lanes of `near` that have a bit.
fn put(c: usize, lane: usize, near: &[(i32, [i32; 3], [f64; 3])], bits: &[u64], part: &mut Part) {
    let slot = (c * WIDTH + lane) as i32;
    let (mut image, mut begun) = ([i32::MAX; 3], part.entries.len());
    for (clusters, word) in near.chunks(WORD / WIDTH).zip(bits) {
        let mut word = *word;
        if word == 0 {
            continue;
        }
        for (j, s, _) in clusters {
            let mut lanes = word as u32 & 0xffff;
            word >>= WIDTH;
            if *j as usize == c {
                // Behind the atom itself, and of its own images one of each two.
                lanes &= !1 << lane | u32::from(*s > [0; 3]) << lane;
            }
            if lanes == 0 {
                continue;
            }
            if *s != image {
                if part.entries.len() > begun {
                    part.runs.push([slot, pack(image), part.entries.len() as i32]);
                }
                (image, begun) = (*s, part.entries.len());
            }
            part.entries.push([*j, lanes as i32]);
        }
    }
    if part.entries.len() > begun {
        part.runs.push([slot, pack(image), part.entries.len() as i32]);
    }
}
