//! Complex transforms along the second of three axes, in place.

use super::Float;
use super::lines::Lines;
use super::plan::Plan;
use super::transform::{Block, Lanes, Room, share};
use std::sync::Arc;

/// Arrays of complex numbers, (P, K, C), whose lines along the second axis are transformed.
pub(crate) struct Complex<T> {
    pub(super) sizes: [usize; 3],
    pub(super) plan: Arc<Plan<T>>,
    pub(super) inverse: bool,
    /// The real and the imaginary part.
    pub(super) parts: [*mut T; 2],
}

// SAFETY: tasks write to different lines, those of their share.
unsafe impl<T: Sync> Sync for Complex<T> {}

impl<T: Float> Complex<T> {
    /// Transforms a share of the lines, as many at a time as there are lanes.
    ///
    /// # Safety
    /// The processor has the instructions of `L`; both parts have the sizes, and no other task has this share.
    #[inline(always)]
    pub(super) unsafe fn run<L: Lanes<Elem = T>>(&self, part: (usize, usize)) {
        let [planes, len, columns] = self.sizes;
        let blocks = columns.div_ceil(L::N);
        let mut room = Room::new((self.plan.room() + 2 * len) * L::N);
        let (own, few) = (room.part(self.plan.room() * L::N), room.lines(len, L::N));
        for n in share(planes * blocks, part) {
            let from = n % blocks * L::N;
            let (first, width) = (n / blocks * len * columns + from, L::N.min(columns - from));
            let [re, im] =
                self.parts.map(|part| Block { at: part.wrapping_add(first), width, plane: columns });
            let is_full = width == L::N;
            let lines = if is_full { Lines { re: re.at, im: im.at, stride: columns } } else { few };
            let turned = if self.inverse { lines.exchanged() } else { lines };
            // SAFETY: blocks lie inside the planes of their arrays.
            unsafe {
                for k in (0..len).filter(|_| !is_full) {
                    few.set::<L>(k, [re.load(k), im.load(k)]);
                }
                L::lines(&self.plan, turned, turned, own);
                for k in (0..len).filter(|_| !is_full) {
                    let [x, y] = few.get::<L>(k);
                    re.store(k, x);
                    im.store(k, y);
                }
            }
        }
    }
}
