//! Pairs that are left out, on a device and on the CPU: their list, and lists without them, bit for bit.

use super::{CUBE, LEFT, SKEW, expected};
use crate::gpu::Gpu;
use crate::systems::{System, batch, random};
use madelung_core::array::{Array, DType, View};
use madelung_core::backend::Context;
use madelung_core::op::{Arg, Request};
use madelung_core::structure::DevicePairs;
use madelung_neighbors::{Kind, PairList, searches};

/// The results of an op.
fn called(context: &Context<'_>, name: &str, args: &[Arg<'_>]) -> Vec<Array> {
    let op = searches().get(name).expect("the op");
    op.evaluate(context, args, &Request { values: true, ..Request::default() }).expect("arrays").values
}

/// Systems, with pairs that are left out and their images, or none for the nearest.
struct Given<'s> {
    systems: &'s [System],
    dtype: DType,
    pairs: Vec<[i32; 2]>,
    shifts: Vec<[i32; 3]>,
}

impl Given<'_> {
    fn integers<const N: usize>(rows: &[[i32; N]], dtype: DType) -> Array {
        let numbers: Vec<f64> = rows.as_flattened().iter().map(|x| f64::from(*x)).collect();
        Array::from_f64(dtype, &[rows.len(), N], &numbers).expect("as many")
    }

    /// Offsets, columns, images and pairs of `exclusion_list`.
    fn on_host(&self) -> [Vec<i32>; 4] {
        let (sizes, of) = (self.systems.len(), batch(self.systems));
        let flat = |of: &dyn Fn(&System) -> Vec<f64>, shape: &[usize], dtype| {
            let data: Vec<f64> = self.systems.iter().flat_map(of).collect();
            Array::from_f64(dtype, shape, &data).expect("as many")
        };
        let positions = flat(&|s| s.atoms.as_flattened().to_vec(), &[of.atoms(), 3], self.dtype);
        let cells = flat(&|s| s.cell.as_flattened().to_vec(), &[sizes, 3, 3], self.dtype);
        let pbc = flat(&|s| s.pbc.map(|p| f64::from(u8::from(p))).to_vec(), &[sizes, 3], DType::I32);
        let [pairs, shifts] =
            [Self::integers(&self.pairs, DType::I32), Self::integers(&self.shifts, DType::I32)];
        let [positions, cells, pbc, pairs, shifts] =
            [&positions, &cells, &pbc, &pairs, &shifts].map(|array| Arg::Array(array.view()));
        let args = [positions, cells, pbc, pairs, shifts, Arg::Structure(&of), Arg::Int(0)];
        let found = called(&madelung_cpu::context(), "exclusion_list", &args);
        let ints = |array: &Array| array.view().to_i32("list").expect("integers").to_vec();
        found.iter().map(ints).collect::<Vec<_>>().try_into().expect("four arrays")
    }

    fn on_device(&self, gpu: &Gpu, integers: DType) -> Vec<Array> {
        let sent = gpu.send(self.systems, self.dtype);
        let (pairs, shifts) = (
            gpu.copy(&Self::integers(&self.pairs, integers).view()),
            gpu.copy(&Self::integers(&self.shifts, integers).view()),
        );
        let of = sent.batch();
        let [positions, cells, pbc, pairs, shifts] =
            [&sent.positions, &sent.cell, &sent.pbc, &pairs, &shifts].map(|array| Arg::Array(array.view()));
        let args = [positions, cells, pbc, pairs, shifts, Arg::Structure(&of), Arg::Int(0)];
        called(&gpu.context(), "exclusion_list", &args)
    }
}

/// Each atom of a system with one other, in an order by chance.
fn paired(systems: &[System], seed: u64) -> Vec<[i32; 2]> {
    let (mut next, mut first, mut pairs) = (random(seed), 0, vec![]);
    for system in systems {
        let mut atoms: Vec<i32> = (first..first + system.atoms.len() as i32).collect();
        first += atoms.len() as i32;
        while atoms.len() > 1 {
            let mut take = || atoms.swap_remove((next() * atoms.len() as f64) as usize);
            pairs.push([take(), take()]);
        }
    }
    pairs.reverse();
    pairs
}

#[test]
fn lists_of_pairs() {
    let gpu = Gpu::new();
    let sheared = SKEW.map(|row| [row[0] + 19.0 * row[1], row[1], row[2] - 7.0 * row[1]]);
    for cell in [CUBE, SKEW, LEFT, sheared] {
        for bits in 0..8 {
            let pbc = [bits & 1 != 0, bits & 2 != 0, bits & 4 != 0];
            let systems = [
                System::new(16, cell, pbc, 3.0),
                System::new(0, cell, pbc, 0.0),
                System::new(9, LEFT, [true; 3], 2.0),
            ];
            let nearest = paired(&systems, bits as u64);
            let given: Vec<[i32; 2]> =
                nearest.iter().copied().chain(nearest[..4].iter().map(|[i, j]| [*j, *i])).collect();
            let image = |n: usize| [0, 1, 2].map(|k| if pbc[k] { (n * 5 + 3 * k) as i32 % 7 - 3 } else { 0 });
            let shifts: Vec<[i32; 3]> = (0..given.len()).map(image).collect();
            for dtype in [DType::F64, DType::F32] {
                let systems = systems.each_ref().map(System::rounded);
                let mut cases = vec![(nearest.clone(), vec![])];
                if bits == 7 {
                    cases.push((given.clone(), shifts.clone()));
                }
                for (pairs, shifts) in cases {
                    let case = Given { systems: &systems, dtype, pairs, shifts };
                    let want = case.on_host();
                    for integers in [DType::I32, DType::I64] {
                        let got = case.on_device(&gpu, integers);
                        gpu.check().expect("nothing wrong");
                        let got: Vec<_> = got.iter().map(|array| gpu.ints(&array.view())).collect();
                        assert_eq!(got, want, "{dtype}, {pbc:?}, {cell:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn lists_without_pairs() {
    let gpu = Gpu::new();
    let systems = [40, 0, 25].map(|n| System::new(n, SKEW, [true; 3], 1.0));
    let want = expected(&systems, 4.0, false);
    let case = Given { systems: &systems, dtype: DType::F64, pairs: paired(&systems, 3), shifts: vec![] };
    let [ptr, columns, images, _] = case.on_host();
    let csr = |ptr: &[i32], columns: Vec<i32>, images: &[i32]| {
        let ptr = ptr.iter().map(|p| i64::from(*p)).collect::<Vec<_>>();
        PairList::from_csr(ptr, columns, images.as_chunks::<3>().0.to_vec(), 65, Kind::Full).expect("a list")
    };
    let list = PairList::from_csr(want.ptr.clone(), want.others.clone(), want.shifts.clone(), 65, Kind::Full)
        .unwrap();
    let rest = list.without(&csr(&ptr, columns, &images)).expect("a list");
    let rest = rest.to_csr();
    let left = rest.others.len();
    assert!(left < want.others.len());
    let excluded = case.on_device(&gpu, DType::I32);
    let there = |x: &[i32]| gpu.copy(&View::from(x));
    let (others, shifts) = (there(&want.others), gpu.copy(&View::from(want.shifts.as_slice())));
    let wide = gpu.copy(&View::from(want.ptr.as_slice()));
    let pairs = DevicePairs::from_csr(wide.view(), others.view(), shifts.view(), 65, Kind::Full).unwrap();
    let room = gpu.context().allocator.room(DType::I64, &[66]).expect("room");
    let [ptr, columns, images] = [0, 1, 2].map(|n| excluded[n].view());
    let of = DevicePairs::widened(ptr, room, columns, images, 65, Kind::Full).unwrap();
    for capacity in [None, Some(want.others.len()), Some(left), Some(left - 1)] {
        let size = Arg::Int(capacity.map_or(-1, |n| n as i64));
        let args = [Arg::Structure(&of), Arg::Structure(&pairs), size];
        let found = called(&gpu.context(), "rows_without", &args);
        let [ptr, columns, images] =
            found.iter().map(|a| gpu.ints(&a.view())).collect::<Vec<_>>().try_into().expect("three arrays");
        assert!(ptr.iter().map(|p| i64::from(*p)).eq(rest.neighbor_ptr.iter().copied()));
        assert_eq!(columns.len(), capacity.unwrap_or(left));
        if columns.len() < left {
            assert!(gpu.error().contains("capacity"), "no room");
            continue;
        }
        gpu.check().expect("nothing wrong");
        assert_eq!(columns[..left], rest.others[..]);
        assert_eq!(images.as_chunks::<3>().0[..left], rest.shifts[..]);
        assert!(columns[left..].iter().all(|j| *j == 65));
    }
}

/// Pairs, their images, and what the error says.
type Wrong<'a> = (&'a [[i32; 2]], &'a [[i32; 3]], &'a str);

#[test]
fn pairs_that_are_wrong() {
    let gpu = Gpu::new();
    let systems = [9, 7].map(|n| System::new(n, CUBE, [true, false, true], 0.0));
    let cases: [Wrong<'_>; 8] = [
        (&[[0, 1], [3, 2], [1, 0]], &[], "each pair once"),
        (&[[0, 1], [1, 0]], &[[1, 0, 2], [-1, 0, -2]], "each pair once"),
        (&[[0, 1], [2, 2]], &[], "pairs of two atoms"),
        (&[[0, 1], [2, 16]], &[], "indices of rows"),
        (&[[0, 1], [2, -1]], &[], "indices of rows"),
        (&[[0, 1], [2, 9]], &[], "pairs within one system"),
        (&[[0, 1], [2, 3]], &[[0; 3], [0, 1, 0]], "images along periodic axes"),
        (&[[0, 1], [2, 3]], &[[0; 3], [1 << 21, 0, 0]], "coordinates within"),
    ];
    for (pairs, shifts, message) in cases {
        let case =
            Given { systems: &systems, dtype: DType::F64, pairs: pairs.to_vec(), shifts: shifts.to_vec() };
        let found = case.on_device(&gpu, DType::I64);
        let error = gpu.error();
        assert!(error.starts_with("`exclusions::exclusions`") && error.contains(message), "{error}");
        // Offsets that calls refuse, and no index out of range.
        let ptr = gpu.ints(&found[0].view());
        assert!(ptr[0] == 0 && ptr[1..].iter().all(|end| *end == i32::MAX), "{message}");
        assert!(gpu.ints(&found[3].view()).iter().all(|p| (0..pairs.len() as i32).contains(p)));
    }
}
