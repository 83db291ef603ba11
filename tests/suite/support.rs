//! The library's calls in the terms of the tests' systems.

use crate::common::systems::System;
use madelung::array::{Array, DType, View};
use madelung::batch::Batch;

/// Positions, charges and cell as arrays of a dtype, and back as numbers that this dtype holds exactly.
pub struct Arrays {
    pub positions: Array,
    pub charges: Array,
    pub cell: Array,
    pub sizes: Vec<usize>,
}

impl Arrays {
    pub fn new(systems: &[&System], dtype: DType) -> Self {
        let flat: Vec<f64> = systems.iter().flat_map(|s| s.positions.as_flattened().to_vec()).collect();
        let charges: Vec<f64> = systems.iter().flat_map(|s| s.charges.clone()).collect();
        let cells: Vec<f64> = systems.iter().flat_map(|s| s.cell.as_flattened().to_vec()).collect();
        let make = |shape: &[usize], data: &[f64]| Array::from_f64(dtype, shape, data).expect("shapes fit");
        Self {
            positions: make(&[charges.len(), 3], &flat),
            charges: make(&[charges.len()], &charges),
            cell: make(&[systems.len(), 3, 3], &cells),
            sizes: systems.iter().map(|s| s.charges.len()).collect(),
        }
    }

    pub fn batch(&self) -> Batch<'static> {
        let mut ptr = vec![0i32];
        for n in &self.sizes {
            ptr.push(ptr[ptr.len() - 1] + *n as i32);
        }
        Batch::from_ptr(ptr).expect("a batch")
    }

    pub fn system(&self) -> madelung::System<'_> {
        madelung::System::new(self.positions.view(), self.charges.view(), self.cell.view(), self.batch())
            .expect("a system")
    }

    /// The first system, with the numbers that the dtype has.
    pub fn rounded(&self) -> System {
        let rows = |v: Vec<f64>| v.chunks_exact(3).map(|r| [r[0], r[1], r[2]]).collect::<Vec<_>>();
        let cell = rows(self.cell.to_f64());
        System {
            positions: rows(self.positions.to_f64()),
            charges: self.charges.to_f64(),
            cell: [cell[0], cell[1], cell[2]],
        }
    }
}

pub fn view(a: &Array) -> View<'_> {
    a.view()
}
