//! Functions that generated code calls, for single elements and for lanes.
#![expect(unsafe_code, reason = "the helpers of generated code read and write through a launch's pointers")]

use crate::lanes::packed::unpack;
use crate::{Elem, Lane, MeshShape, wave_places};

/// Element `i`, as f64.
///
/// # Safety
/// `p` is valid for reading element `i`.
#[inline(always)]
pub unsafe fn get<E: Elem>(p: *mut E, i: usize) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { (*p.add(i)).to_f64() }
}

/// Writes or adds to element `i`; a null array is skipped.
///
/// # Safety
/// `p` is null or valid for writing element `i`, which no other thread touches.
#[inline(always)]
pub unsafe fn put<E: Elem>(p: *mut E, i: usize, x: f64, adds: bool) {
    if p.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let q = p.add(i);
        *q = E::of_f64(if adds { (*q).to_f64() + x } else { x });
    }
}

/// Zeros.
///
/// # Safety
/// `p` is valid for writing `n` elements, which no other thread touches.
#[inline(always)]
pub unsafe fn clear<E: Elem>(p: *mut E, n: usize) {
    for i in 0..n {
        // SAFETY: the caller's promise.
        unsafe { *p.add(i) = E::default() };
    }
}

/// No lane type has more lanes.
pub const WIDEST: usize = 16;

/// Room for the lanes of every type.
pub type Spilled<T> = [T; WIDEST];

/// The lanes, as numbers that can be picked.
#[inline(always)]
pub fn spill<L: Lane>(x: L) -> Spilled<L::Elem> {
    const { assert!(L::N <= WIDEST) };
    let mut lanes = [L::Elem::default(); WIDEST];
    // SAFETY: there is room for the lanes of every type.
    unsafe { x.store(lanes.as_mut_ptr()) };
    lanes
}

/// Lanes from numbers.
#[inline(always)]
pub fn filled<L: Lane>(numbers: &Spilled<f64>) -> L {
    const { assert!(L::N <= WIDEST) };
    let lanes = numbers.map(L::Elem::of_f64);
    // SAFETY: there are numbers for the lanes of every type.
    unsafe { L::load(lanes.as_ptr()) }
}

/// Writes or adds the first `n` lanes to the `component` of elements `i, i + 1, …` of so many components; a null array is
/// skipped.
///
/// # Safety
/// `p` is null or valid for reading and writing these elements, which no other thread touches.
#[inline(always)]
pub unsafe fn put_lanes<L: Lane>(
    p: *mut L::Elem,
    (i, n): (usize, usize),
    (stride, component): (usize, usize),
    x: L,
    adds: bool,
) {
    if p.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let q = p.add(i * stride + component);
        if stride > 1 {
            for lane in 0..n {
                let (q, x) = (q.add(lane * stride), x.lane(lane));
                *q = L::Elem::of_f64(if adds { (*q).to_f64() + x } else { x });
            }
        } else if n == L::N {
            (if adds { L::load(q) + x } else { x }).store(q);
        } else {
            (if adds { L::load_first(q, n) + x } else { x }).store_first(q, n);
        }
    }
}

/// Adds each of the first `n` lanes to the `component` of elements `i, i + 1, …` of so many components, where the array is
/// wanted.
///
/// # Safety
/// `p` is null or valid for reading and writing these elements, which no other thread touches.
#[inline(always)]
pub unsafe fn scatter_lanes<L: Lane>(p: *mut f64, i: usize, stride: usize, component: usize, x: L, n: usize) {
    if p.is_null() {
        return;
    }
    for lane in 0..n {
        // SAFETY: the caller's promise.
        unsafe { *p.add((i + lane) * stride + component) += x.lane(lane) };
    }
}

/// Adds to an element, where the array is wanted.
///
/// # Safety
/// `p` is null or valid for element `at`.
#[inline(always)]
pub unsafe fn add(p: *mut f64, at: usize, x: f64) {
    if !p.is_null() {
        // SAFETY: the caller's promise.
        unsafe { *p.add(at) += x };
    }
}

/// Adds each of the first `n` lanes to its own element, where the array is wanted.
///
/// # Safety
/// `p` is null or valid for every element `index * stride + component`.
#[inline(always)]
pub unsafe fn scatter<L: Lane>(
    p: *mut f64,
    index: L::Index,
    stride: usize,
    component: usize,
    x: L,
    n: usize,
) {
    if p.is_null() {
        return;
    }
    for lane in 0..n {
        // SAFETY: the caller's promise.
        unsafe { *p.add(L::index_lane(index, lane) * stride + component) += x.lane(lane) };
    }
}

/// The elements that a map gives to the rows `index`.
///
/// # Safety
/// `p` is valid for reading the element of each row.
#[inline(always)]
pub unsafe fn lookup<L: Lane>(p: *const i32, index: L::Index) -> L::Index {
    let mut found = [0i32; 16];
    for (l, found) in found.iter_mut().enumerate().take(L::N) {
        // SAFETY: the caller's promise.
        *found = unsafe { *p.add(L::index_lane(index, l)) };
    }
    // SAFETY: no lane type has more than 16 lanes.
    unsafe { L::index(found.as_ptr()) }
}

/// Elements of a table with rows of `width`.
///
/// # Safety
/// `p` is valid for reading the element of each lane.
#[inline(always)]
pub unsafe fn gather_table<L: Lane>(p: *const L::Elem, rows: L::Index, width: usize, columns: L::Index) -> L {
    let mut found = [L::Elem::default(); 16];
    for (l, found) in found.iter_mut().enumerate().take(L::N) {
        // SAFETY: the caller's promise.
        *found = unsafe { *p.add(L::index_lane(rows, l) * width + L::index_lane(columns, l)) };
    }
    // SAFETY: no lane type has more than 16 lanes.
    unsafe { L::load(found.as_ptr()) }
}

/// Adds the first `n` lanes to elements of a table with rows of `width`, where it is wanted.
///
/// # Safety
/// `p` is null or valid for the element of each lane, which no other thread touches.
#[inline(always)]
pub unsafe fn scatter_table<L: Lane>(
    p: *mut f64,
    rows: L::Index,
    width: usize,
    columns: L::Index,
    x: L,
    n: usize,
) {
    if p.is_null() {
        return;
    }
    for l in 0..n {
        // SAFETY: the caller's promise.
        unsafe { *p.add(L::index_lane(rows, l) * width + L::index_lane(columns, l)) += x.lane(l) };
    }
}

/// `k, k + 1, …` as reals.
#[inline(always)]
pub fn places<L: Lane>(k: usize) -> L {
    let mut at = [L::Elem::default(); 16];
    for (l, at) in at.iter_mut().enumerate() {
        *at = L::Elem::of_f64((k + l) as f64);
    }
    // SAFETY: no lane type has more than 16 lanes.
    unsafe { L::load(at.as_ptr()) }
}

/// The place of each entry among those of its row.
///
/// # Safety
/// `starts` is valid for reading the element of each row.
#[inline(always)]
pub unsafe fn places_in<L: Lane>(starts: *const i64, rows: L::Index, entries: L::Index) -> L {
    let mut at = [L::Elem::default(); 16];
    for (l, at) in at.iter_mut().enumerate().take(L::N) {
        // SAFETY: the caller's promise.
        let start = unsafe { *starts.add(L::index_lane(rows, l)) };
        *at = L::Elem::of_f64((L::index_lane(entries, l) as i64 - start) as f64);
    }
    // SAFETY: no lane type has more than 16 lanes.
    unsafe { L::load(at.as_ptr()) }
}

/// The larger of the earlier maximum and the lanes' values, and its place: the first one where several are largest.
#[inline(always)]
pub fn best<L: Lane>(mut best: f64, mut place: f64, lanes: L, places: L) -> (f64, f64) {
    for l in 0..L::N {
        let (x, at) = (lanes.lane(l), places.lane(l));
        if at >= 0.0 && (x > best || (x == best && place >= 0.0 && at < place)) {
            (best, place) = (x, at);
        }
    }
    (best, place)
}

/// One component of the shift of a list's entry, from whichever array of them is there.
///
/// # Safety
/// One of the arrays is valid for reading the entry, and `packed` is null if it is the other one.
#[inline(always)]
pub unsafe fn shift(triples: *const i32, packed: *const i32, entry: usize, component: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        if packed.is_null() {
            *triples.add(3 * entry + component)
        } else {
            unpack(*packed.add(entry))[component]
        }
    }
}

/// The shifts of `N` entries from `k` on, by component.
///
/// # Safety
/// As [`shift`], for `N` entries.
#[inline(always)]
pub unsafe fn shifts<L: Lane>(triples: *const i32, packed: *const i32, k: usize) -> [L; 3] {
    // SAFETY: the caller's promise.
    unsafe { if packed.is_null() { L::int3(triples.add(3 * k)) } else { L::packed3(packed.add(k)) } }
}

/// The shifts of the first `n` entries from `k` on, by component.
///
/// # Safety
/// As [`shift`], for `n` entries, 1 ≤ `n` ≤ `N`.
#[inline(always)]
pub unsafe fn shifts_first<L: Lane>(triples: *const i32, packed: *const i32, k: usize, n: usize) -> [L; 3] {
    // SAFETY: the caller's promise.
    unsafe {
        if packed.is_null() {
            L::int3_first(triples.add(3 * k), n)
        } else {
            L::packed3_first(packed.add(k), n)
        }
    }
}

/// The shifts of some entries, by component.
///
/// # Safety
/// As [`shift`], for each entry.
#[inline(always)]
pub unsafe fn shifts_at<L: Lane>(triples: *const i32, packed: *const i32, entries: L::Index) -> [L; 3] {
    // SAFETY: the caller's promise.
    unsafe {
        if packed.is_null() {
            [
                L::int_gather(triples, entries, 3, 0),
                L::int_gather(triples, entries, 3, 1),
                L::int_gather(triples, entries, 3, 2),
            ]
        } else {
            L::packed3_gather(packed, entries)
        }
    }
}

/// `0, 1, …` for arrays that have no faster way; the lanes from `n` on repeat the last.
#[inline(always)]
pub fn consecutive<L: Lane>(n: usize) -> L::Index {
    iterations::<L>(0, n)
}

/// `k, k + 1, …`, of which lists have less than 2³¹; the lanes from `n` on repeat the last.
#[inline(always)]
pub fn iterations<L: Lane>(k: usize, n: usize) -> L::Index {
    let mut index = [0i32; 16];
    for (l, i) in index.iter_mut().enumerate() {
        *i = (k + l.min(n - 1)) as i32;
    }
    // SAFETY: no lane type has more than 16 lanes.
    unsafe { L::index(index.as_ptr()) }
}

/// The nearest integer, for |x| < 2²² (f32) or 2⁵¹ (f64).
#[inline(always)]
pub fn nearest<L: Lane>(x: L) -> L {
    // Adding 1.5 · 2^(mantissa bits) leaves no room for a fraction.
    let big = L::splat(if size_of::<L::Elem>() == 4 { 12_582_912.0 } else { 6_755_399_441_055_744.0 });
    (x + big) - big
}

/// The modulus of a wave, the product of those along the axes.
///
/// # Safety
/// `moduli` are those of the mesh, which has the wave.
#[inline(always)]
pub unsafe fn wave_modulus(shape: &MeshShape, moduli: *const f64, wave: usize) -> f64 {
    // SAFETY: the caller's promise.
    let [x, y, z] = wave_places(shape, wave).map(|place| unsafe { *moduli.add(place) });
    x * y * z
}
