//! Check that a list has each pair from both sides: the sum of a code over its pairs is then the sum over their reverses, in
//! whatever order they stand.

use super::{Numbers, Shifts};
use crate::runtime::lanes::packed::unpack;
use std::ops::Range;

/// Odd numbers with bits in no order: of the row, the column and the three components of the image, for each of two codes.
const FACTORS: [[u32; 5]; 2] = [
    [0x9e37_79b1, 0xc2b2_ae3d, 0x1656_67b1, 0xd35a_2d97, 0x2545_f491],
    [0x85eb_ca77, 0x27d4_eb2f, 0x6c07_8965, 0x5851_f42d, 0x9e6c_63d1],
];

/// A sum over pairs less that over their reverses: 0 for a full list, and else with a chance of 2⁻⁶⁴.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Surplus([u32; 2]);

impl Surplus {
    /// Adds the pairs of a row.
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        i: usize,
        others: &Numbers<'_, i32>,
        shifts: &Shifts<'_>,
        row: Range<usize>,
    ) {
        let others = others[row.clone()].iter();
        match shifts {
            Shifts::Triples(triples) => self.add_each(i as u32, others.zip(triples[row].iter().copied())),
            Shifts::Packed(packed) => {
                self.add_each(i as u32, others.zip(packed[row].iter().map(|s| unpack(*s))))
            }
        }
    }

    #[inline(always)]
    fn add_each<'a>(&mut self, i: u32, pairs: impl Iterator<Item = (&'a i32, [i32; 3])>) {
        let mut sums = self.0;
        for (j, shift) in pairs {
            let ([x, y, z], j) = (shift.map(i32::cast_unsigned), j.cast_unsigned());
            for (sum, [row, column, a, b, c]) in sums.iter_mut().zip(FACTORS) {
                // Linear in S, so that −S has the negative code.
                let image = x.wrapping_mul(a).wrapping_add(y.wrapping_mul(b)).wrapping_add(z.wrapping_mul(c));
                let forth = i.wrapping_mul(row).wrapping_add(j.wrapping_mul(column)).wrapping_add(image);
                let back = j.wrapping_mul(row).wrapping_add(i.wrapping_mul(column)).wrapping_sub(image);
                *sum = sum.wrapping_add(mixed(forth)).wrapping_sub(mixed(back));
            }
        }
        self.0 = sums;
    }
}

/// A number in which each bit depends on all of a code's, as in MurmurHash3 (A. Appleby, public domain): anything near a
/// polynomial cancels on the rings and lattices that neighbour lists are made of. Of 32 bits, which processors multiply on
/// lanes.
#[inline(always)]
fn mixed(mut code: u32) -> u32 {
    code = (code ^ code >> 16).wrapping_mul(0x85eb_ca6b);
    code = (code ^ code >> 13).wrapping_mul(0xc2b2_ae35);
    code ^ code >> 16
}
