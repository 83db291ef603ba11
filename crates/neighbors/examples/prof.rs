use madelung_core::backend::pool::{Serial};
use madelung_core::batch::Batch;
use madelung_neighbors::{Options, neighbor_list};
fn main() {
    let a: Vec<f64> = std::env::args().skip(1).map(|x| x.parse().unwrap()).collect();
    let (n, cutoff, reps, shuffled) = (a[0] as usize, a[1], a[2] as usize, a[3] != 0.0);
    let mut seed = 1u64;
    let mut random = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 11) as f64 / (1u64 << 53) as f64
    };
    let spacing = 10f64.cbrt();
    let mut atoms: Vec<[f64; 3]> = (0..n * n * n)
        .map(|p| [p / n / n, p / n % n, p % n].map(|c| (c as f64 + 0.9 * random()) * spacing))
        .collect();
    if shuffled { (1..atoms.len()).rev().for_each(|p| atoms.swap(p, (random() * (p + 1) as f64) as usize)); }
    let l = n as f64 * spacing;
    let cell = [[l, 0.0, 0.0], [0.0, l, 0.0], [0.0, 0.0, l]];
    let batch = Batch::single(atoms.len()).unwrap();
    let mut best = f64::MAX;
    let mut p = 1;
    for _ in 0..reps {
        let t = std::time::Instant::now();
        let list = neighbor_list(&atoms, cutoff, Some(&[cell]), None, &batch, &Options::full(), &Serial).unwrap();
        p = list.len();
        best = best.min(t.elapsed().as_secs_f64());
    }
    println!("{} pairs {:.2} ns/pair best", p, best * 1e9 / p as f64);
}
