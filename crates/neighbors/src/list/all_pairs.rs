//! Small systems: every atom is tried with every image that comes near the atoms at all.

use super::candidates::{Candidates, Found, Search, System};
use madelung_core::array::push;
use madelung_core::stop::if_asked;

/// Rows of all atoms of `system`, appended to `found`.
pub(crate) fn search(
    search: &Search<'_>,
    system: &System<'_>,
    near: &mut Vec<([f32; 3], i32, i32)>,
    own: &mut Vec<usize>,
    candidates: &mut Candidates,
    found: &mut Found,
) {
    let Some(centre) = search.placed[system.atoms.clone()].first().map(|first| first.at) else { return };
    let scale = 1.0 / system.cutoff;
    let mut extent = 0.0f64;
    let mut relative = |at: [f64; 3]| -> [f32; 3] {
        let at: [f64; 3] = std::array::from_fn(|k| (at[k] - centre[k]) * scale);
        extent = at.iter().fold(extent, |extent, x| extent.max(x.abs()));
        at.map(|x| x as f32)
    };
    near.clear();
    own.clear();
    images(search, system, |j, n, at| {
        if n == [0; 3] {
            push(own, near.len());
        }
        push(near, (relative(at), j as i32, system.images.code(n)));
    });
    candidates.fill(near.iter().copied(), found);
    candidates.cell(own.iter().copied(), None, extent, search, system, found);
}

/// Gives `found` every image within reach of the parallelepiped around the atoms, by atom and then by image.
fn images(search: &Search<'_>, system: &System<'_>, mut found: impl FnMut(usize, [i32; 3], [f64; 3])) {
    let lattice = system.lattice;
    let (mut low, mut high) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
    for placed in &search.placed[system.atoms.clone()] {
        for k in 0..3 {
            low[k] = low[k].min(placed.s[k]);
            high[k] = high[k].max(placed.s[k]);
        }
    }
    let reach = (system.cutoff + system.slack) * (1.0 + 1e-9);
    let most = system.images.most();
    for j in system.atoms.clone() {
        if j % 64 == 0 {
            if_asked();
        }
        let placed = &search.placed[j];
        let range: [_; 3] = std::array::from_fn(|k| {
            if !lattice.periodic[k] {
                return 0..=0;
            }
            let fraction = reach / lattice.heights[k] + 1e-9;
            let first = ((low[k] - fraction - placed.s[k]).ceil() as i32).max(-most[k]);
            let last = ((high[k] + fraction - placed.s[k]).floor() as i32).min(most[k]);
            first..=last
        });
        for nx in range[0].clone() {
            for ny in range[1].clone() {
                for nz in range[2].clone() {
                    let t = lattice.translation([nx, ny, nz]);
                    found(j, [nx, ny, nz], std::array::from_fn(|k| placed.at[k] + t[k]));
                }
            }
        }
    }
}
