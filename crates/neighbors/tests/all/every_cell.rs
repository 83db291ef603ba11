//! Ten thousand cells of every shape: lists, points within a radius and nearest points against every image, one by one.

use crate::hash_grid::{Cells, Set, all, closest, entries, within};
use crate::systems::{heights, place, random};
use madelung_core::backend::pool::Serial;
use madelung_neighbors::{HashGrid, Method, Options, neighbor_list};

const CELLS: usize = 10_000;

/// Images of one point that are tried, at most.
const IMAGES: f64 = 4000.0;

fn between(random: &mut impl FnMut() -> f64, low: f64, high: f64) -> f64 {
    low + (high - low) * random()
}

/// Cube, triclinic of either hand, needle, plate, tiny, huge, or skewed by up to 100 boxes.
fn cell(random: &mut impl FnMut() -> f64) -> Cells {
    let l = between(random, 1.0, 4.0);
    let mut cell = loop {
        let rows: Cells = [[(); 3]; 3].map(|row| row.map(|()| between(random, -3.0, 3.0)));
        if heights(&rows).iter().all(|h| *h > 0.6) {
            break rows;
        }
    };
    match (random() * 8.0) as usize {
        0 => cell = [[l, 0.0, 0.0], [0.0, l, 0.0], [0.0, 0.0, l]],
        1 => cell.swap(0, 2),
        2 => cell[1] = cell[1].map(|x| 30.0 * x),
        3 => cell[2] = cell[2].map(|x| 0.1 * x),
        4 => cell = cell.map(|row| row.map(|x| 1e-3 * x)),
        5 => cell = cell.map(|row| row.map(|x| 1e3 * x)),
        6 => {
            let boxes = between(random, -100.0, 100.0).round();
            cell[1] = std::array::from_fn(|c| cell[1][c] + boxes * cell[0][c]);
        }
        _ => {}
    }
    cell
}

/// Points of some systems in and around their cells: a few of them many boxes away, a few on one place, and systems without
/// a point.
fn points(random: &mut impl FnMut() -> f64, cells: &[Cells], most: usize) -> Set {
    let mut set = Set { at: vec![], ptr: vec![0] };
    for cell in cells {
        for n in 0..(random() * (most as f64 + 1.0)) as usize {
            let boxes = if random() < 0.1 { 30.0 } else { 1.0 };
            let same = n > 0 && random() < 0.1;
            let at = place([(); 3].map(|()| boxes * between(random, -0.5, 1.5)), cell);
            set.at.push(if same { set.at[set.at.len() - 1] } else { at });
        }
        set.ptr.push(set.at.len() as i32);
    }
    set
}

#[test]
fn ten_thousand_cells_have_the_pairs_of_brute_force() {
    let mut random = random(17);
    let context = madelung_cpu::context();
    let (mut seen, mut found, mut incomplete) = (0, 0, 0);
    while seen < CELLS {
        let cells: Vec<Cells> = (0..1 + (random() * 3.0) as usize).map(|_| cell(&mut random)).collect();
        let pbc = [(); 3].map(|()| random() < 0.6);
        // Lengths of boxes from a tenth to five, as far as all images can be tried.
        let volume = |cell: &Cells| heights(cell)[0] * area(cell);
        let unit = cells.iter().map(volume).fold(f64::INFINITY, f64::min).cbrt();
        let images = |cutoff: f64| {
            let of = |cell: &Cells| {
                let along = heights(cell).into_iter().zip(pbc).filter(|(_, axis)| *axis);
                along.map(|(h, _)| 2.0 * cutoff / h + 1.0).product::<f64>()
            };
            cells.iter().map(of).fold(1.0, f64::max)
        };
        let mut cutoff = unit * between(&mut random, 0.1, 5.0);
        while images(cutoff) > IMAGES {
            cutoff *= 0.7;
        }
        let most = (20_000.0 / images(cutoff)).sqrt().clamp(2.0, 14.0) as usize;
        let (atoms, queries) = (points(&mut random, &cells, most), points(&mut random, &cells, 4));
        let (given, axes) =
            if pbc == [false; 3] { (None, None) } else { (Some(&cells[..]), Some(&[pbc][..])) };
        let about = |what: &str| format!("{what} {seen}: {cells:?} {pbc:?} {cutoff} {atoms:?} {queries:?}");

        let every = all(&atoms, &atoms, &cells, pbc, cutoff);
        let mut full: Vec<_> = every
            .iter()
            .filter(|(i, j, s, d)| *d < cutoff && (i != j || *s != [0; 3]))
            .map(|(i, j, s, _)| (*i, *j, *s))
            .collect();
        full.sort_unstable();
        let half: Vec<_> = full.iter().copied().filter(|(i, j, s)| i < j || i == j && *s > [0; 3]).collect();
        for method in [Method::CellList, Method::BruteForce] {
            for (options, expected) in [(Options::full(), &full), (Options::half(), &half)] {
                let options = options.with_method(method);
                let list = neighbor_list(&atoms.at, cutoff, given, axes, &atoms.batch(), &options, &Serial);
                assert_eq!(&entries(&list.expect("a list")), expected, "{}", about("list"));
            }
        }
        found += full.len();

        let every = all(&queries, &atoms, &cells, pbc, cutoff);
        let grid = HashGrid::build(&context, &atoms.view(), given, axes, atoms.batch()).expect("a grid");
        let list = grid.query(&context, &queries.view(), &queries.batch(), cutoff).expect("a list");
        let mut expected = within(&every, cutoff);
        expected.sort_unstable();
        assert_eq!(entries(&list), expected, "{}", about("radius"));
        let k = (random() * 9.0) as usize;
        let nearest = grid
            .nearest(&context, &queries.view(), &queries.batch(), k, f64::INFINITY, Some(-1))
            .expect("points");
        let expected = closest(&every, queries.at.len(), k, -1);
        for row in (0..queries.at.len()).map(|i| i * k..(i + 1) * k) {
            // Brute force has all images up to the cutoff, and without periodic axes all points.
            if pbc == [false; 3] || expected.distances[row.clone()].iter().all(|d| *d < cutoff) {
                assert_eq!(
                    nearest.indices[row.clone()],
                    expected.indices[row.clone()],
                    "{}",
                    about("nearest")
                );
                assert_eq!(nearest.shifts[row.clone()], expected.shifts[row.clone()], "{}", about("nearest"));
                assert_eq!(nearest.distances[row.clone()], expected.distances[row], "{}", about("nearest"));
            } else {
                incomplete += 1;
            }
        }
        seen += cells.len();
    }
    assert!(found > 100 * CELLS, "{found} pairs");
    assert!(incomplete < CELLS, "{incomplete} queries without enough points in reach");
}

/// Area of the face of the second and third lattice vector.
fn area(cell: &Cells) -> f64 {
    let [_, b, c] = cell;
    let face = [b[1] * c[2] - b[2] * c[1], b[2] * c[0] - b[0] * c[2], b[0] * c[1] - b[1] * c[0]];
    face.iter().map(|x| x * x).sum::<f64>().sqrt()
}
