//! Pairs so close to the cutoff that f32 does not tell on which side they are.

use super::{CUBE, LEFT, SKEW, agree};
use crate::gpu::Gpu;
use crate::systems::{Cell, System, place};

/// Pairs of atoms at distances next to the cutoff, in all directions, from anywhere in the cell.
fn at_the_cutoff(pairs: usize, cell: Cell, pbc: [bool; 3], cutoff: f64) -> System {
    let chance = |n: usize| [0.754_877, 0.569_840, 0.430_159].map(|x| (n as f64 * x).fract());
    let atoms = (0..pairs).flat_map(|n| {
        let from = place(chance(n), &cell);
        let way = chance(n + 7 * pairs).map(|x| x - 0.5);
        let length = way.iter().map(|x| x * x).sum::<f64>().sqrt();
        let off = [0.0, 1.2e-16, 2.3e-16, 1e-10, 1e-8, 6e-8, 2e-7, 1e-6][n % 8];
        let distance = cutoff * (1.0 + if n / 8 % 2 == 0 { off } else { -off });
        [from, std::array::from_fn(|k| from[k] + distance * way[k] / length)]
    });
    System { atoms: atoms.collect(), cell, pbc }
}

#[test]
fn in_cells_of_any_shape_and_size() {
    let gpu = Gpu::new();
    for (cell, pbc) in [(CUBE, [true; 3]), (SKEW, [true; 3]), (LEFT, [true; 3]), (SKEW, [true, false, true])]
    {
        // Cells of a grid for each, then so many that they hash, and cutoffs that are lost in the size of the box.
        for (size, cutoff) in
            [(1.0, 1.7), (1e4, 1.7e4), (30.0, 1.7), (1e5, 3.0), (1e9, 2.0), (1e-12, 1.3e-12)]
        {
            let cell = cell.map(|row| row.map(|x| size * x));
            agree(&gpu, &[at_the_cutoff(48, cell, pbc, cutoff)], cutoff);
        }
    }
}

#[test]
fn where_squares_have_no_room_in_f32() {
    let gpu = Gpu::new();
    for (size, cutoff) in [(1e-25, 2e-25), (1e25, 2e25)] {
        let cell = SKEW.map(|row| row.map(|x| size * x));
        agree(&gpu, &[at_the_cutoff(16, cell, [true; 3], cutoff)], cutoff);
    }
}

/// Each system has a band, and a grid, of its own.
#[test]
fn in_systems_of_very_different_sizes() {
    let gpu = Gpu::new();
    let sized =
        |size: f64, pairs| at_the_cutoff(pairs, SKEW.map(|row| row.map(|x| size * x)), [true; 3], 1.9);
    let open = at_the_cutoff(20, LEFT, [false; 3], 1.9);
    let mut far = sized(1.0, 12);
    for atom in &mut far.atoms {
        (0..3).for_each(|c| atom[c] += 3e6 * far.cell[0][c]);
    }
    agree(&gpu, &[sized(1.0, 16), sized(1e6, 16), open, sized(0.3, 2), far, sized(8.0, 60)], 1.9);
}
