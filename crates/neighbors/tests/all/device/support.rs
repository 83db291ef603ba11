//! Systems on a device, and lists that are read back.

use crate::gpu::{Gpu, SentBatch};
use crate::systems::{Cell, System, batch, place};
use madelung_core::Result;
use madelung_core::array::{Array, DType};
use madelung_core::structure::DeviceBatch;
use madelung_neighbors::{DeviceOptions, DeviceSearch, Kind, Periodic};

impl System {
    /// Atoms at fractions that look like chance, from 0 to 1 and shifted by some boxes.
    pub(crate) fn new(atoms: usize, cell: Cell, pbc: [bool; 3], boxes: f64) -> Self {
        let fraction = |n: usize, k: usize| {
            let x = ((n * 3 + k + 1) as f64 * 0.754_877_666_246_692_7).fract();
            x + boxes * (((n + k) % 3) as f64 - 1.0)
        };
        let atoms = (0..atoms).map(|n| place(std::array::from_fn(|k| fraction(n * n + n, k)), &cell));
        Self { atoms: atoms.collect(), cell, pbc }
    }
}

/// Systems there.
pub(crate) struct Sent {
    pub(crate) positions: Array,
    pub(crate) cell: Array,
    pub(crate) pbc: Array,
    batch: SentBatch,
}

/// A list as it was read back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Read {
    pub(crate) ptr: Vec<i64>,
    pub(crate) others: Vec<i32>,
    pub(crate) shifts: Vec<[i32; 3]>,
}

impl Gpu {
    pub(crate) fn send(&self, systems: &[System], dtype: DType) -> Sent {
        let positions: Vec<f64> = systems.iter().flat_map(|s| s.atoms.as_flattened().to_vec()).collect();
        let cells: Vec<f64> = systems.iter().flat_map(|s| s.cell.as_flattened().to_vec()).collect();
        let pbc: Vec<f64> = systems.iter().flat_map(|s| s.pbc.map(|p| f64::from(u8::from(p)))).collect();
        let (batch, b) = (batch(systems), systems.len());
        Sent {
            positions: self.upload(dtype, &[batch.atoms(), 3], &positions),
            cell: self.upload(dtype, &[b, 3, 3], &cells),
            pbc: self.upload(DType::I32, &[b, 3], &pbc),
            batch: SentBatch::new(self, &batch),
        }
    }

    pub(crate) fn update(&self, search: &mut DeviceSearch, sent: &Sent) -> Result<()> {
        let pbc = Periodic::Each(sent.pbc.view());
        let (positions, cell) = (sent.positions.view(), sent.cell.view());
        search.search(&self.cuda, &self.context(), &positions, Some(&cell), &pbc, &sent.batch())
    }

    pub(crate) fn offsets(&self, search: &DeviceSearch) -> Vec<i64> {
        self.read(&search.neighbor_ptr()).to_f64().unwrap().iter().map(|x| *x as i64).collect()
    }

    pub(crate) fn list(&self, search: &DeviceSearch) -> Read {
        let (list, ptr) = (search.list().expect("a list"), self.offsets(search));
        let pairs = ptr[ptr.len() - 1] as usize;
        let shifts = match (list.packed(), list.triples()) {
            (Some(packed), _) => self.ints(&packed)[..pairs]
                .iter()
                .map(|p| madelung_core::runtime::lanes::packed::unpack(*p))
                .collect(),
            (_, Some(triples)) => self.ints(&triples).as_chunks::<3>().0[..pairs].to_vec(),
            _ => unreachable!("a list has shifts"),
        };
        Read { ptr, others: self.ints(&list.others())[..pairs].to_vec(), shifts }
    }
}

impl Sent {
    pub(crate) fn batch(&self) -> DeviceBatch<'_> {
        self.batch.batch()
    }
}

pub(crate) fn options(cutoff: f64, half: bool, capacity: usize, packed: bool) -> DeviceOptions {
    DeviceOptions { cutoff, kind: if half { Kind::Half } else { Kind::Full }, capacity, packed }
}
