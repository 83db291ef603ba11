//! Calls of generated code whose rows themselves are on lanes: the elements of rows that follow each other, and the
//! waves of a line. Lanes are f64 for either element type, as all code outside of loops over data.
#![expect(unsafe_code, reason = "the helpers of generated code read and write through a launch's pointers")]

use crate::{Elem, Lane, MeshShape, Spilled, WIDEST};

/// Whether memory holds what the lanes compute in.
const fn is_wide<E>() -> bool {
    size_of::<E>() == size_of::<f64>()
}

/// Fewer elements than there are lanes, the last one repeated. Apart from the loops that it ends, which it would double.
///
/// # Safety
/// `p` is valid for reading `n` elements with `stride` between them, `n` ≥ 1.
#[inline(never)]
unsafe fn last_elements<E: Elem>(p: *const E, n: usize, stride: usize) -> Spilled<f64> {
    let mut x = [0.0; WIDEST];
    for (l, x) in x.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *x = unsafe { *p.add(l.min(n - 1) * stride) }.to_f64();
    }
    x
}

/// One component of the elements of `n` rows; the lanes behind repeat the last.
///
/// # Safety
/// `p` is valid for reading these elements of `stride` components, 1 ≤ `n` ≤ `N`.
#[inline(always)]
pub unsafe fn row_load<E: Elem, L: Lane<Elem = f64>>(
    p: *const E,
    row: usize,
    n: usize,
    stride: usize,
    component: usize,
) -> L {
    // SAFETY: the caller's promise; there is room for the lanes of every type.
    unsafe {
        let p = p.add(row * stride + component);
        if n < L::N {
            return L::load(last_elements(p, n, stride).as_ptr());
        }
        if stride == 1 {
            return if is_wide::<E>() { L::load(p.cast()) } else { L::load_some_f32(p.cast(), n) };
        }
        let mut x = [0.0; WIDEST];
        for (l, x) in x.iter_mut().enumerate().take(L::N) {
            *x = (*p.add(l * stride)).to_f64();
        }
        L::load(x.as_ptr())
    }
}

/// The vectors of `n` rows, by component.
///
/// # Safety
/// As [`row_load`], of three components.
#[inline(always)]
pub unsafe fn row_load3<E: Elem, L: Lane<Elem = f64>>(p: *const E, row: usize, n: usize) -> [L; 3] {
    // SAFETY: the caller's promise.
    unsafe {
        if is_wide::<E>() && n == L::N {
            return L::load3(p.add(3 * row).cast());
        }
        [row_load(p, row, n, 3, 0), row_load(p, row, n, 3, 1), row_load(p, row, n, 3, 2)]
    }
}

/// One component of the integers of `n` rows, as reals.
///
/// # Safety
/// As [`row_load`].
#[inline(always)]
pub unsafe fn row_ints<L: Lane<Elem = f64>>(
    p: *const i32,
    row: usize,
    n: usize,
    stride: usize,
    component: usize,
) -> L {
    let mut x = [0.0; WIDEST];
    for (l, x) in x.iter_mut().enumerate().take(L::N) {
        // SAFETY: the caller's promise.
        *x = f64::from(unsafe { *p.add((row + l.min(n - 1)) * stride + component) });
    }
    // SAFETY: there is room for the lanes of every type.
    unsafe { L::load(x.as_ptr()) }
}

/// One component of elements anywhere.
///
/// # Safety
/// `p` is valid for reading every element `index * stride + component`.
#[inline(always)]
pub unsafe fn elements<E: Elem, L: Lane<Elem = f64>>(
    p: *const E,
    index: L::Index,
    stride: usize,
    component: usize,
) -> L {
    let mut x = [0.0; WIDEST];
    for (l, x) in x.iter_mut().enumerate().take(L::N) {
        // SAFETY: the caller's promise.
        *x = unsafe { *p.add(L::index_lane(index, l) * stride + component) }.to_f64();
    }
    // SAFETY: there is room for the lanes of every type.
    unsafe { L::load(x.as_ptr()) }
}

/// The integers of `n` rows.
///
/// # Safety
/// As [`row_load`], of one component.
#[inline(always)]
pub unsafe fn row_index<L: Lane>(p: *const i32, row: usize, n: usize) -> L::Index {
    // SAFETY: the caller's promise.
    unsafe { if n == L::N { L::index(p.add(row)) } else { L::index_first(p.add(row), n) } }
}

/// Writes or adds one component of `n` rows; a null array is skipped. An f32 that would be below the normal numbers is
/// written as 0: what computes with denormals takes many times as long.
///
/// # Safety
/// `p` is null or valid for these elements, which no other thread touches.
#[inline(always)]
pub unsafe fn row_put<E: Elem, L: Lane<Elem = f64>>(
    p: *mut E,
    (row, n): (usize, usize),
    (stride, component): (usize, usize),
    x: L,
    adds: bool,
) {
    if p.is_null() {
        return;
    }
    // SAFETY: the caller's promise; there is room for the lanes of every type.
    unsafe {
        let p = p.add(row * stride + component);
        if is_wide::<E>() && stride == 1 && n == L::N {
            let p: *mut f64 = p.cast();
            (if adds { L::load(p) + x } else { x }).store(p);
            return;
        }
        let x = if is_wide::<E>() || adds {
            x
        } else {
            L::select(x.abs().lt(L::splat(f64::from(f32::MIN_POSITIVE))), L::splat(0.0), x)
        };
        let mut lanes = [0.0; WIDEST];
        x.store(lanes.as_mut_ptr());
        if n == L::N && !adds {
            for (l, x) in lanes.iter().enumerate().take(L::N) {
                *p.add(l * stride) = E::of_f64(*x);
            }
            return;
        }
        put_elements(p, n, stride, &lanes, adds);
    }
}

/// # Safety
/// As [`row_put`], of the first component of the first row.
#[inline(never)]
unsafe fn put_elements<E: Elem>(p: *mut E, n: usize, stride: usize, x: &Spilled<f64>, adds: bool) {
    for (l, x) in x.iter().enumerate().take(n) {
        // SAFETY: the caller's promise.
        unsafe {
            let q = p.add(l * stride);
            *q = E::of_f64(if adds { (*q).to_f64() + x } else { *x });
        }
    }
}

/// The nearest integer; a number too large for a fraction is one.
#[inline(always)]
pub fn nearest_of_any<L: Lane<Elem = f64>>(x: L) -> L {
    L::select(x.abs().lt(L::splat(2_251_799_813_685_248.0)), crate::nearest(x), x)
}

/// `k, k + 1, …`
#[inline(always)]
fn counted<L: Lane<Elem = f64>>(k: usize) -> L {
    const COUNT: [f64; WIDEST] =
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];
    // SAFETY: there is room for the lanes of every type.
    L::splat(k as f64) + unsafe { L::load(COUNT.as_ptr()) }
}

/// Waves of a mesh that differ in their third index alone. Lines follow each other.
#[derive(Clone, Copy, Debug)]
pub struct WaveLine {
    shape: MeshShape,
    place: [usize; 2],
    first: usize,
}

impl WaveLine {
    /// The line of a wave.
    #[inline(always)]
    pub fn new(shape: MeshShape, wave: usize) -> Self {
        let along = shape[2] / 2 + 1;
        let line = wave.wrapping_sub(shape[7]) / along;
        let first = shape[7].wrapping_add(line * along);
        Self { shape, place: [line / shape[1], line % shape[1]], first }
    }

    /// The first wave behind it.
    #[inline(always)]
    pub fn end(&self) -> usize {
        self.first + self.shape[2] / 2 + 1
    }

    /// The line that follows, of the same mesh.
    #[inline(always)]
    pub fn step(&mut self) {
        self.first = self.end();
        let [x, y] = &mut self.place;
        *y += 1;
        if *y == self.shape[1] {
            (*x, *y) = (*x + 1, 0);
        }
    }

    /// The first or the second component of the index of its waves.
    #[inline(always)]
    pub fn index(&self, axis: usize) -> f64 {
        let (k, size) = (self.place[axis], self.shape[axis]);
        if 2 * k > size { -((size - k) as f64) } else { k as f64 }
    }

    /// The third component of the index of waves from `wave` on.
    #[inline(always)]
    pub fn indices<L: Lane<Elem = f64>>(&self, wave: usize) -> L {
        counted(wave - self.first)
    }

    /// How many waves of a real mesh each stands for.
    #[inline(always)]
    pub fn counts<L: Lane<Elem = f64>>(&self, wave: usize) -> L {
        let k: L = self.indices(wave);
        let single = L::or(k.eq(L::splat(0.0)), (k + k).eq(L::splat(self.shape[2] as f64)));
        L::select(single, L::splat(1.0), L::splat(2.0))
    }

    /// The moduli of `n` waves.
    ///
    /// # Safety
    /// `moduli` are those of the mesh, which has the waves, all of this line.
    #[inline(always)]
    pub unsafe fn moduli<L: Lane<Elem = f64>>(&self, moduli: *const f64, wave: usize, n: usize) -> L {
        let [x, y] = self.place;
        // SAFETY: the caller's promise.
        unsafe {
            let moduli = moduli.add(self.shape[9]);
            let of_line = *moduli.add(x) * *moduli.add(self.shape[0] + y);
            let z = moduli.add(self.shape[0] + self.shape[1]);
            L::splat(of_line) * row_load::<f64, L>(z, wave - self.first, n, 1, 0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{wave_count, wave_index, wave_places};

    #[test]
    fn lines_are_the_waves_of_the_mesh() {
        for shape in [
            [3, 4, 5, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 5],
            [2, 1, 6, 2, 0, 0, 60, 36, 3, 10, 0, 0, 0, 2, 1, 6],
        ] {
            let waves = shape[0] * shape[1] * (shape[2] / 2 + 1);
            let moduli: Vec<f64> =
                (0..shape[9] + shape[0] + shape[1] + shape[2] / 2 + 1).map(|n| n as f64 + 0.5).collect();
            for begin in shape[7]..shape[7] + waves {
                let mut line = WaveLine::new(shape, begin);
                for wave in begin..shape[7] + waves {
                    if wave == line.end() {
                        line.step();
                    }
                    assert!((line.first..line.end()).contains(&wave));
                    let [x, y, z] = wave_places(&shape, wave).map(|place| moduli[place]);
                    assert_eq!(
                        [0, 1].map(|axis| line.index(axis)),
                        [0, 1].map(|axis| wave_index(&shape, wave, axis))
                    );
                    assert_eq!(line.indices::<f64>(wave), wave_index(&shape, wave, 2));
                    assert_eq!(line.counts::<f64>(wave), wave_count(&shape, wave));
                    // SAFETY: the mesh has the wave.
                    assert_eq!(unsafe { line.moduli::<f64>(moduli.as_ptr(), wave, 1) }, x * y * z);
                }
            }
        }
    }
}
