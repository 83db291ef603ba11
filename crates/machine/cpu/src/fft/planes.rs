//! The stage of planes: transforms along the second and the third axis, of two planes of real numbers at a time.

use super::lines::Lines;
use super::transform::{Lanes, MOST, Room, Transform, share};
use super::{Float, normal};

/// Two planes that are transformed together.
struct Pair {
    first: usize,
    /// None beside the first plane where the number of planes is odd.
    second: Option<usize>,
    /// Whether both planes are real, so that each has a half spectrum of its own. Otherwise they are the real and the
    /// imaginary part of one complex plane.
    real: bool,
}

impl Pair {
    fn new(pair: usize, planes: usize) -> Self {
        match pair {
            0 => {
                let second = (planes > 1 && planes.is_multiple_of(2)).then_some(planes / 2);
                Self { first: 0, second, real: true }
            }
            k => Self { first: k, second: Some(planes - k), real: false },
        }
    }
}

/// The room of a task: a plane of complex numbers, lines on lanes before and behind a transform.
struct Places<T: Float> {
    _memory: Room<T>,
    own: *mut T,
    before: Lines<T>,
    behind: Lines<T>,
    plane: Lines<T>,
    /// Rows of zeros, of factors, and for those rows that lie in two pieces.
    zeros: *mut T,
    factors: *mut T,
    pieces: [*mut T; 2],
}

impl<T: Float> Places<T> {
    /// A row of the plane has a vector of room before it, and a number behind it that repeats the first. An odd number of
    /// vectors, so that rows do not meet in few places of the cache.
    fn new(transform: &Transform<T>, lanes: usize) -> Self {
        let [_, k2, k3] = transform.shape.mesh;
        let [rows, columns] = [k2, k3].map(|k| k.next_multiple_of(lanes));
        let pitch = lanes * ((1 + (k3 + 1).div_ceil(lanes)) | 1);
        let own = transform.plans[1].room().max(transform.plans[2].room()) * lanes;
        let ends = 4 * (columns + MOST);
        let mut room = Room::new(own + 4 * columns * lanes + 2 * rows * pitch + ends + 12 * MOST);
        Self {
            own: room.part(own),
            before: room.lines(columns, lanes),
            behind: room.lines(columns, lanes),
            plane: room.lines(rows, pitch).from(lanes),
            zeros: room.part(columns + MOST),
            factors: room.part(columns + MOST),
            pieces: [(); 2].map(|()| room.part(columns + MOST)),
            _memory: room,
        }
    }
}

/// A square of as many rows as there are lanes, of which `wide` numbers are read each, written by columns: the first
/// `deep` numbers of `many` of them, `stride` apart.
#[derive(Clone, Copy)]
struct Square<T> {
    from: [*const T; MOST],
    wide: usize,
    to: *mut T,
    stride: usize,
    many: usize,
    deep: usize,
}

impl<T: Float> Square<T> {
    /// # Safety
    /// The memory is there; the processor has the instructions of `L`.
    #[inline(always)]
    unsafe fn transpose<L: Lanes<Elem = T>>(&self) {
        let mut x = [L::splat(0.0); MOST];
        for (x, from) in x[..L::N].iter_mut().zip(&self.from) {
            // SAFETY: the caller's promise.
            *x = unsafe { if self.wide == L::N { L::load(*from) } else { L::load_some(*from, self.wide) } };
        }
        for n in 0..L::N / 4 {
            exchange::<L, 1, 2>(&mut x, [4 * n, 4 * n + 1, 4 * n + 2, 4 * n + 3]);
        }
        for n in 0..4 {
            if L::N == 8 {
                (x[n], x[n + 4]) = x[n].exchange::<4>(x[n + 4]);
            }
            if L::N == 16 {
                exchange::<L, 4, 8>(&mut x, [n, n + 4, n + 8, n + 12]);
            }
        }
        if self.many == L::N && self.deep == L::N {
            for (n, x) in x[..L::N].iter().enumerate() {
                // SAFETY: the caller's promise.
                unsafe { x.store(self.to.add(n * self.stride)) };
            }
        } else {
            for (n, x) in x[..self.many].iter().enumerate() {
                // SAFETY: the caller's promise.
                unsafe { x.store_first(self.to.add(n * self.stride), self.deep) };
            }
        }
    }
}

/// Two exchanges among four rows.
#[inline(always)]
fn exchange<L: Lanes, const NEAR: usize, const FAR: usize>(x: &mut [L; MOST], [a, b, c, d]: [usize; 4]) {
    (x[a], x[b]) = x[a].exchange::<NEAR>(x[b]);
    (x[c], x[d]) = x[c].exchange::<NEAR>(x[d]);
    (x[a], x[c]) = x[a].exchange::<FAR>(x[c]);
    (x[b], x[d]) = x[b].exchange::<FAR>(x[d]);
}

/// Rows at equal distances.
fn rows<T>(first: *const T, stride: usize) -> [*const T; MOST] {
    std::array::from_fn(|r| first.wrapping_add(r * stride))
}

#[inline(always)]
fn reversed<L: Lanes>([re, im]: [L; 2]) -> [L; 2] {
    [re.reversed(), im.reversed()]
}

impl<T: Float> Transform<T> {
    /// Row `row` of plane `plane` where columns have left it; `room` takes a row that the cut runs through.
    unsafe fn row(&self, [re, im]: [*mut T; 2], plane: usize, row: usize, room: *mut T) -> *const T {
        let ([.., k3], width) = (self.shape.mesh, self.shape.width());
        let (start, [re, im]) = (row * k3, [re, im].map(|part| part.wrapping_add(plane * width)));
        if start + k3 <= width {
            re.wrapping_add(start)
        } else if start >= width {
            im.wrapping_add(start - width)
        } else {
            // SAFETY: the caller gives room for a row, and planes that have it.
            unsafe {
                room.copy_from_nonoverlapping(re.add(start), width - start);
                room.add(width - start).copy_from_nonoverlapping(im, start + k3 - width);
            }
            room
        }
    }

    /// Planes forwards, in the memory of the spectrum.
    ///
    /// # Safety
    /// Those of [`Transform::run`].
    #[inline(always)]
    pub(super) unsafe fn planes<L: Lanes<Elem = T>>(&self, system: usize, part: (usize, usize)) {
        let [k1, k2, k3] = self.shape.mesh;
        let spectrum = self.spectrum_of(system);
        let places = Places::<T>::new(self, L::N);
        let plane = places.plane;
        for k in 0..self.shape.half() {
            // SAFETY: a row of factors.
            unsafe { *places.factors.add(k) = T::of_f64(0.5 * self.shape.factor(k)) };
        }
        for pair in share(k1.div_ceil(2), part).map(|pair| Pair::new(pair, k1)) {
            for lo in (0..k2).step_by(L::N) {
                let given = |plane: Option<usize>, piece: *mut T| match plane {
                    None => [places.zeros.cast_const(); MOST],
                    Some(plane) => std::array::from_fn(|r| {
                        // SAFETY: rows of the plane.
                        unsafe { self.row(spectrum, plane, (lo + r).min(k2 - 1), piece) }
                    }),
                };
                let re = given(Some(pair.first), places.pieces[0]);
                let im = given(pair.second, places.pieces[1]);
                for c in (0..k3).step_by(L::N) {
                    let [re, im] = [re, im].map(|rows| rows.map(|row| row.wrapping_add(c)));
                    let to = places.before.from(c * L::N);
                    let square = |from, to| Square {
                        from,
                        wide: L::N.min(k3 - c),
                        to,
                        stride: L::N,
                        many: L::N,
                        deep: L::N,
                    };
                    // SAFETY: rows of K₃ numbers; the room has whole squares.
                    unsafe {
                        square(re, to.re).transpose::<L>();
                        square(im, to.im).transpose::<L>();
                    }
                }
                // SAFETY: lines of K₃ numbers.
                unsafe { L::lines(&self.plans[2], places.before, places.behind, places.own) };
                for c in (0..k3).step_by(L::N) {
                    let (from, to) = (places.behind.from(c * L::N), plane.from(lo * plane.stride + c));
                    let square = |from, to| Square {
                        from: rows(from, L::N),
                        wide: L::N,
                        to,
                        stride: plane.stride,
                        many: L::N,
                        deep: L::N,
                    };
                    // SAFETY: the room has whole squares.
                    unsafe {
                        square(from.re.cast_const(), to.re).transpose::<L>();
                        square(from.im.cast_const(), to.im).transpose::<L>();
                    }
                }
            }
            for c in (0..k3).step_by(L::N) {
                // SAFETY: lines of K₂ numbers, whole vectors.
                unsafe { L::lines(&self.plans[1], plane.from(c), plane.from(c), places.own) };
            }
            for row in 0..k2 {
                // SAFETY: the plane has this row, and a number behind it.
                unsafe {
                    *plane.re.add(row * plane.stride + k3) = *plane.re.add(row * plane.stride);
                    *plane.im.add(row * plane.stride + k3) = *plane.im.add(row * plane.stride);
                }
            }
            // SAFETY: the two planes are this task's own.
            unsafe { self.part_waves::<L>(&pair, spectrum, &places) };
        }
    }

    /// The waves of two planes from the transform of both, z = z(k), and its conjugate at −k.
    ///
    /// # Safety
    /// Those of [`Transform::run`].
    #[inline(always)]
    unsafe fn part_waves<L: Lanes<Elem = T>>(&self, pair: &Pair, spectrum: [*mut T; 2], places: &Places<T>) {
        let ([_, k2, k3], half) = (self.shape.mesh, self.shape.half());
        let of_plane = |p: usize| spectrum.map(|part| part.wrapping_add(p * self.shape.width()));
        let (first, second) = (of_plane(pair.first), of_plane(pair.second.unwrap_or(0)));
        for row in 0..k2 {
            for lo in (0..half).step_by(L::N) {
                let (n, at) = (L::N.min(half - lo), row * half + lo);
                // SAFETY: rows have a vector of room before them; waves of this row, and no more.
                unsafe {
                    let z: [L; 2] = places.plane.from(lo).get(row);
                    let opposite = places.plane.from((k3 + 1).wrapping_sub(lo + L::N));
                    let y: [L; 2] = reversed(opposite.get((k2 - row) % k2));
                    let factor = L::load(places.factors.add(lo));
                    let (a, b) = if pair.real {
                        ([z[0] + y[0], z[1] - y[1]], [z[1] + y[1], y[0] - z[0]])
                    } else {
                        (z, [y[0], -y[1]])
                    };
                    put(first, at, [factor * a[0], factor * a[1]], n);
                    if pair.second.is_some() {
                        put(second, at, [factor * b[0], factor * b[1]], n);
                    }
                }
            }
        }
    }

    /// Planes of an inverse transform, to the memory of the mesh.
    ///
    /// # Safety
    /// Those of [`Transform::run`].
    #[inline(always)]
    pub(super) unsafe fn planes_back<L: Lanes<Elem = T>>(&self, system: usize, part: (usize, usize)) {
        let [k1, k2, k3] = self.shape.mesh;
        let (spectrum, mesh) = (self.spectrum_of(system), self.mesh_of(system));
        let places = Places::<T>::new(self, L::N);
        let plane = places.plane;
        for pair in share(k1.div_ceil(2), part).map(|pair| Pair::new(pair, k1)) {
            // SAFETY: only read.
            unsafe {
                self.join_waves::<L>(&pair, spectrum, &places);
                self.join_own::<L>(&pair, spectrum, &places);
            }
            for c in (0..k3).step_by(L::N) {
                let lines = plane.from(c).exchanged();
                // SAFETY: lines of K₂ numbers, whole vectors.
                unsafe { L::lines(&self.plans[1], lines, lines, places.own) };
            }
            for lo in (0..k2).step_by(L::N) {
                for c in (0..k3).step_by(L::N) {
                    let (from, to) = (plane.from(lo * plane.stride + c), places.before.from(c * L::N));
                    let square = |from, to| Square {
                        from: rows(from, plane.stride),
                        wide: L::N,
                        to,
                        stride: L::N,
                        many: L::N,
                        deep: L::N,
                    };
                    // SAFETY: the room has whole squares.
                    unsafe {
                        square(from.re.cast_const(), to.re).transpose::<L>();
                        square(from.im.cast_const(), to.im).transpose::<L>();
                    }
                }
                let (before, behind) = (places.before.exchanged(), places.behind.exchanged());
                // SAFETY: lines of K₃ numbers.
                unsafe { L::lines(&self.plans[2], before, behind, places.own) };
                for c in (0..k3).step_by(L::N) {
                    let from = places.behind.from(c * L::N);
                    let square = |from: *mut T, p: usize| Square {
                        from: rows(from.cast_const(), L::N),
                        wide: L::N,
                        to: mesh.wrapping_add((p * k2 + lo) * k3 + c),
                        stride: k3,
                        many: L::N.min(k2 - lo),
                        deep: L::N.min(k3 - c),
                    };
                    // SAFETY: the two planes are this task's own, and have these rows and columns.
                    unsafe {
                        square(from.re, pair.first).transpose::<L>();
                        if let Some(second) = pair.second {
                            square(from.im, second).transpose::<L>();
                        }
                    }
                }
            }
        }
    }

    /// Planes of waves as the plane of which they are the transform: that of [`Self::part_waves`]' opposite, with half of
    /// the waves given and half their conjugates. Waves that stand for themselves are left to [`Self::join_own`].
    ///
    /// # Safety
    /// Those of [`Transform::run`].
    #[inline(always)]
    unsafe fn join_waves<L: Lanes<Elem = T>>(&self, pair: &Pair, spectrum: [*mut T; 2], places: &Places<T>) {
        let ([_, k2, k3], half) = (self.shape.mesh, self.shape.half());
        let of_plane = |p: usize| spectrum.map(|part| part.wrapping_add(p * self.shape.width()));
        let factor = L::splat(self.shape.factor(1));
        for row in 0..k2 {
            let opposite = (k2 - row) % k2 * half;
            // What is behind the last wave of these goes in front, where the others are written behind them.
            for lo in (0..half).step_by(L::N) {
                let n = L::N.min(half - lo);
                // SAFETY: waves of the row; rows have a vector of room before them.
                unsafe {
                    let [re, im] = if pair.real {
                        let [re, im] = taken(of_plane(0), opposite + lo, n, factor);
                        match pair.second {
                            Some(second) => {
                                let h: [L; 2] = taken(of_plane(second), opposite + lo, n, factor);
                                [re + h[1], h[0] - im]
                            }
                            None => [re, -im],
                        }
                    } else {
                        let second = of_plane(pair.second.unwrap_or(pair.first));
                        let [re, im]: [L; 2] = taken(second, opposite + lo, n, factor);
                        [re, -im]
                    };
                    let to = places.plane.from((k3 + 1).wrapping_sub(lo + L::N));
                    to.set(row, reversed([re, im]));
                }
            }
            for lo in (0..half).step_by(L::N) {
                let (n, at) = (L::N.min(half - lo), row * half + lo);
                // SAFETY: waves of the row.
                unsafe {
                    let mut x: [L; 2] = taken(of_plane(pair.first), at, n, factor);
                    if let (true, Some(second)) = (pair.real, pair.second) {
                        let h: [L; 2] = taken(of_plane(second), at, n, factor);
                        x = [x[0] - h[1], x[1] + h[0]];
                    }
                    let to = places.plane.from(row * places.plane.stride + lo);
                    put([to.re, to.im], 0, x, n);
                }
            }
        }
    }

    /// Waves with k₃ = 0 or K₃/2: one half of the wave at k, and one half of the conjugate of the one at −k.
    ///
    /// # Safety
    /// Those of [`Transform::run`].
    #[inline(always)]
    unsafe fn join_own<L: Lanes<Elem = T>>(&self, pair: &Pair, [re, im]: [*mut T; 2], places: &Places<T>) {
        let ([_, k2, k3], half, width) = (self.shape.mesh, self.shape.half(), self.shape.width());
        let of_half = T::of_f64(0.5);
        for own in [0, k3 / 2] {
            if 2 * own % k3 != 0 {
                continue;
            }
            for row in 0..k2 {
                let (at, opposite) = (row * half + own, (k2 - row) % k2 * half + own);
                // SAFETY: waves of these rows.
                let wave = |plane: usize, at: usize| unsafe {
                    let [re, im] = [*re.add(plane * width + at), *im.add(plane * width + at)];
                    [of_half * normal(re), of_half * normal(im)]
                };
                let ([a, b], [c, d]) = if pair.real {
                    (wave(pair.first, at), wave(pair.first, opposite))
                } else {
                    (wave(pair.first, at), wave(pair.second.unwrap_or(pair.first), opposite))
                };
                let mut x = [a + c, b - d];
                if let (true, Some(second)) = (pair.real, pair.second) {
                    let ([a, b], [c, d]) = (wave(second, at), wave(second, opposite));
                    x = [x[0] - (b - d), x[1] + (a + c)];
                }
                let to = row * places.plane.stride + own;
                // SAFETY: a number of the plane.
                unsafe {
                    *places.plane.re.wrapping_add(to) = x[0];
                    *places.plane.im.wrapping_add(to) = x[1];
                }
            }
        }
    }
}

/// # Safety
/// There are `n` numbers at this place of both parts.
#[inline(always)]
unsafe fn taken<L: Lanes>([re, im]: [*mut L::Elem; 2], at: usize, n: usize, factor: L) -> [L; 2] {
    // SAFETY: the caller's promise.
    let [re, im]: [L; 2] = unsafe {
        if n == L::N {
            [L::load(re.add(at)), L::load(im.add(at))]
        } else {
            [L::load_some(re.add(at), n), L::load_some(im.add(at), n)]
        }
    };
    [factor * normal(re), factor * normal(im)]
}

/// # Safety
/// There are `n` numbers at this place of both parts, which are the caller's to write.
#[inline(always)]
unsafe fn put<L: Lanes>([re, im]: [*mut L::Elem; 2], at: usize, x: [L; 2], n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if n == L::N {
            x[0].store(re.add(at));
            x[1].store(im.add(at));
        } else {
            x[0].store_first(re.add(at), n);
            x[1].store_first(im.add(at), n);
        }
    }
}
