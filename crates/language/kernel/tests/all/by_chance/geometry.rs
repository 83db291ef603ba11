//! Two systems of atoms and points, and the pairs among them.

use super::sources::Random;

/// Atoms of each system.
pub(crate) const ATOMS: [usize; 2] = [6, 4];
/// Waves of each system.
pub(crate) const WAVES: [usize; 2] = [3, 5];
/// Points of each system, to which atoms have pairs of their own.
pub(crate) const POINTS: [usize; 2] = [4, 3];
/// Nodes of each system's mesh, and the order of its splines: three continuous derivatives at least.
pub(crate) const MESHES: [([usize; 3], usize); 2] = [([5, 6, 5], 5), ([6, 7, 6], 6)];
pub(crate) const CUTOFF: f64 = 2.2;
pub(crate) const STEP: f64 = 5e-4;

/// The pairs of each row, (column, shift).
pub(crate) type List = Vec<Vec<(usize, [i32; 3])>>;

/// The positions of atoms and points, the full list of the atoms' pairs, and the points near each atom.
pub(crate) struct Geometry {
    pub(crate) positions: Vec<f64>,
    pub(crate) list: List,
    pub(crate) points: Vec<f64>,
    pub(crate) near: List,
}

impl Geometry {
    pub(crate) fn new(r: &mut Random) -> Self {
        let (of_atom, of_point) = (members(&ATOMS), members(&POINTS));
        let mut somewhere = |of: &[usize]| {
            let mut positions = vec![];
            for system in of {
                let s: [f64; 3] = std::array::from_fn(|_| r.next());
                positions.extend((0..3).map(|c| (0..3).map(|k| s[k] * cells()[*system][k][c]).sum::<f64>()));
            }
            positions
        };
        std::iter::repeat_with(|| {
            let (positions, points) = (somewhere(&of_atom), somewhere(&of_point));
            let list = pairs((&positions, &of_atom), (&positions, &of_atom), true)?;
            let near = pairs((&positions, &of_atom), (&points, &of_point), false)?;
            Some(Self { positions, list, points, near })
        })
        .find_map(|found| found)
        .expect("some are good")
    }
}

pub(crate) fn cells() -> Vec<[[f64; 3]; 3]> {
    vec![
        [[2.9, 0.1, -0.2], [0.3, 2.7, 0.2], [-0.1, 0.2, 3.1]],
        [[2.6, 0.0, 0.3], [-0.2, 3.0, 0.1], [0.2, -0.3, 2.5]],
    ]
}

pub(crate) fn rows(dim: &str) -> usize {
    match dim {
        "Atom" => ATOMS.iter().sum(),
        "Wave" => WAVES.iter().sum(),
        "Point" => POINTS.iter().sum(),
        "System" => 2,
        "Feature" => 5,
        "Basis" => 3,
        "Element" => 3,
        "Node" => MESHES.iter().map(|(sizes, _)| sizes.iter().product::<usize>()).sum(),
        d => panic!("no dimension {d}"),
    }
}

pub(crate) fn members(sizes: &[usize]) -> Vec<usize> {
    sizes.iter().enumerate().flat_map(|(s, n)| std::iter::repeat_n(s, *n)).collect()
}

/// Each pair of a full list once.
pub(crate) fn half(list: &List) -> List {
    let keep = |i: usize, (j, s): &(usize, [i32; 3])| i < *j || (i == *j && *s > [0; 3]);
    list.iter().enumerate().map(|(i, row)| row.iter().filter(|p| keep(i, p)).copied().collect()).collect()
}

/// A bit more than the cutoff, as with a skin. The last atom has no pairs: rows may be empty. None where a distance is
/// near one at which the tests' kernels have no derivative.
pub(crate) fn pairs(from: (&[f64], &[usize]), to: (&[f64], &[usize]), same: bool) -> Option<List> {
    let (n, m) = (from.1.len(), to.1.len());
    let mut rows = vec![vec![]; n];
    for (i, row) in rows.iter_mut().enumerate().take(n - 1) {
        for j in 0..m - 1 {
            if from.1[i] != to.1[j] {
                continue;
            }
            for code in 0..27 {
                let s = [code / 9 - 1, code / 3 % 3 - 1, code % 3 - 1];
                let cell = &cells()[from.1[i]];
                let square: f64 = (0..3)
                    .map(|c| {
                        let image: f64 = (0..3).map(|k| f64::from(s[k]) * cell[k][c]).sum();
                        (to.0[3 * j + c] - from.0[3 * i + c] + image).powi(2)
                    })
                    .sum();
                let r = square.sqrt();
                if [1.5, 2.1, CUTOFF].iter().any(|edge| (r - edge).abs() < 4.0 * STEP) {
                    return None;
                }
                if (!same || i != j || s != [0; 3]) && r < CUTOFF + 0.4 {
                    row.push((j, s));
                }
            }
        }
    }
    Some(rows)
}
