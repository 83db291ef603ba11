//! The op `pair_vectors` against `distances` and finite differences.

use crate::systems::random;
use madelung_core::array::{Array, DType, View};
use madelung_core::backend::pool::Serial;
use madelung_core::op::{Arg, Cotangent, Op, Request};
use madelung_core::structure::Batch;
use madelung_neighbors::{Kind, Options, PairList, distances, neighbor_list, registry};

/// Numbers between −1 and 1 in no order.
fn noise(seed: u64, n: usize) -> Vec<f64> {
    let mut next = random(seed);
    (0..n).map(|_| 2.0 * next() - 1.0).collect()
}

/// Two systems, one of them in a cell smaller than the cutoff.
struct Systems {
    positions: Vec<[f64; 3]>,
    cells: Vec<[[f64; 3]; 3]>,
    batch: Batch<'static>,
}

impl Systems {
    fn new() -> Self {
        let positions = noise(1, 30).chunks_exact(3).map(|r| [3.0 * r[0], 3.0 * r[1], 3.0 * r[2]]).collect();
        let cells = vec![
            [[5.1, 0.2, 0.0], [0.3, 4.8, -0.4], [0.0, 0.7, 5.3]],
            [[3.0, 0.0, 0.1], [0.2, -3.2, 0.0], [0.4, 0.0, 3.1]],
        ];
        Self { positions, cells, batch: Batch::from_ptr(vec![0, 6, 10]).expect("a batch") }
    }

    fn list(&self, options: &Options) -> PairList<'static> {
        let pbc = [[true; 3]; 2];
        let (r, h) = (&self.positions, Some(&self.cells[..]));
        neighbor_list(r, 3.3, h, Some(&pbc), &self.batch, options, &Serial).expect("a list")
    }
}

fn op() -> &'static Op {
    registry().get("pair_vectors").expect("the op")
}

fn args<'a>(r: &'a View<'a>, h: &'a View<'a>, batch: &'a Batch<'a>, list: &'a PairList<'a>) -> [Arg<'a>; 4] {
    [Arg::Array(r.clone()), Arg::Array(h.clone()), Arg::Structure(batch), Arg::Structure(list)]
}

fn matrix_of(list: &PairList<'_>) -> PairList<'static> {
    let width = list.max_row() + 2;
    let m = list.to_matrix(Some(width), -1).expect("a matrix");
    let shape = [list.rows(), width];
    PairList::from_matrix(m.neighbor_matrix, shape, m.shifts, -1, list.columns(), list.kind())
        .expect("a list")
}

#[test]
fn values_are_those_of_distances_in_every_format() {
    let s = Systems::new();
    let (full, half) = (s.list(&Options::full()), s.list(&Options::half()));
    let csr = full.to_csr();
    let directed =
        PairList::from_csr(&csr.neighbor_ptr[..], &csr.others[..], &csr.shifts[..], 10, Kind::Directed)
            .expect("a list");
    let padded = matrix_of(&full);
    assert!(padded.others().len() > padded.len(), "with padding");
    for list in [&full, &half, &directed, &padded] {
        let (lengths, vectors) =
            distances(&s.positions, Some(&s.cells), &s.batch, list, &Serial).expect("distances");
        let (r, h) = (View::from(&s.positions[..]), View::from(&s.cells[..]));
        let out = op().value(&madelung_cpu::context(), &args(&r, &h, &s.batch, list)).expect("values");
        assert_eq!(out[0].shape(), [list.others().len(), 3]);
        let close =
            |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-14 * b.abs().max(1.0));
        assert!(
            close(&out[0].to_f64().unwrap(), vectors.as_flattened())
                && close(&out[1].to_f64().unwrap(), &lengths)
        );
    }
}

/// ⟨w, (vectors, distances)⟩ at positions and cells moved along u by h.
fn along(s: &Systems, list: &PairList<'_>, w: [&Array; 2], u: &[Array; 2], h: f64) -> f64 {
    let moved = |x: &[f64], u: &Array, shape: &[usize]| {
        let data: Vec<f64> = x.iter().zip(u.to_f64().unwrap()).map(|(x, u)| x + h * u).collect();
        Array::from_f64(DType::F64, shape, &data).expect("shapes fit")
    };
    let (r, c) = (
        moved(s.positions.as_flattened(), &u[0], &[10, 3]),
        moved(s.cells.as_flattened().as_flattened(), &u[1], &[2, 3, 3]),
    );
    let (r, c) = (r.view(), c.view());
    let out = op().value(&madelung_cpu::context(), &args(&r, &c, &s.batch, list)).expect("values");
    out.iter().zip(w).map(|(o, w)| dot(&o.to_f64().unwrap(), &w.to_f64().unwrap())).sum()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn derivatives_are_those_of_finite_differences() {
    let s = Systems::new();
    let full = s.list(&Options::full());
    for list in [&full, &s.list(&Options::half()), &matrix_of(&full)] {
        let entries = list.others().len();
        let array = |shape: &[usize], seed| {
            Array::from_f64(DType::F64, shape, &noise(seed, shape.iter().product())).expect("shapes fit")
        };
        let (wv, wd) = (array(&[entries, 3], 2), array(&[entries], 3));
        let u = [array(&[10, 3], 4), array(&[2, 3, 3], 5)];
        let (r, h) = (View::from(&s.positions[..]), View::from(&s.cells[..]));
        let args = args(&r, &h, &s.batch, list);
        let weights = [Some(Cotangent::Array(wv.view())), Some(Cotangent::Array(wd.view()))];
        let direction = [Some(u[0].view()), Some(u[1].view()), None, None];
        let directions: [&[_]; 2] = [&direction, &direction];
        let run = |cotangents: &[Option<Cotangent<'_>>], order: usize| {
            let gradients: &[usize] = if cotangents.is_empty() { &[] } else { &[0, 1] };
            let directions = &directions[..order];
            let request = Request { cotangents, gradients, directions, ..Request::default() };
            op().evaluate(&madelung_cpu::context(), &args, &request).expect("derivatives")
        };
        // Central differences with the error of order h² taken off.
        let f = |h: f64| along(&s, list, [&wv, &wd], &u, h);
        let first = |h: f64| (f(h) - f(-h)) / (2.0 * h);
        let second = |h: f64| (f(h) - 2.0 * f(0.0) + f(-h)) / (h * h);
        let better = |d: &dyn Fn(f64) -> f64, h: f64| (4.0 * d(h / 2.0) - d(h)) / 3.0;
        let (first, second) = (better(&first, 1e-3), better(&second, 4e-3));
        let contract = |arrays: &[Array]| {
            arrays
                .iter()
                .zip([&wv, &wd])
                .map(|(a, w)| dot(&a.to_f64().unwrap(), &w.to_f64().unwrap()))
                .sum::<f64>()
        };
        let onto_u = |g: &[Array]| {
            g.iter().zip(&u).map(|(g, u)| dot(&g.to_f64().unwrap(), &u.to_f64().unwrap())).sum::<f64>()
        };
        for (what, got, want) in [
            ("F1", contract(&run(&[], 1).values), first),
            ("G0", onto_u(&run(&weights, 0).gradients), first),
            ("F2", contract(&run(&[], 2).values), second),
            ("G1", onto_u(&run(&weights, 1).gradients), second),
        ] {
            assert!((got - want).abs() <= 1e-6 * want.abs().max(1.0), "{what}: {got} against {want}");
        }
    }
}

#[test]
fn a_length_of_zero_has_no_derivative() {
    let positions = [[0.0; 3], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]];
    let (cell, batch) =
        ([[[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 4.0]]], Batch::single(3).expect("a batch"));
    let list = PairList::from_csr(&[0i64, 1, 2, 3][..], vec![1, 2, 1], vec![[0; 3]; 3], 3, Kind::Directed)
        .expect("a list");
    let (r, h) = (View::from(&positions[..]), View::from(&cell[..]));
    let args = args(&r, &h, &batch, &list);
    let out = op().value(&madelung_cpu::context(), &args).expect("a value");
    assert_eq!(out[1].to_f64().unwrap(), [1.0, 0.0, 0.0]);
    let weights = [None, Some(Cotangent::Uniform(1.0))];
    let request = Request { cotangents: &weights, gradients: &[0], ..Request::default() };
    let error =
        op().evaluate(&madelung_cpu::context(), &args, &request).expect_err("no derivative").to_string();
    assert!(error.starts_with("`positions`: expected points that are apart"), "{error}");
    assert!(error.ends_with("points 1 and 2 (image [0, 0, 0]) on one place"), "{error}");
}
