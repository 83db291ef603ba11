//! Loads, stores and gathers: the right elements, and none outside.

use super::on_every_lane;
use crate::lanes::packed::pack;
use crate::lanes::{Elem, Lane};

/// Memory whose end is the end of what the process may read.
struct Fenced {
    page: *mut u8,
}

const PAGE: usize = 4096;

impl Fenced {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    fn new() -> Self {
        let page: *mut u8;
        let (mmap, munmap, read_write, private_anonymous) = (9usize, 11usize, 3, 0x22);
        // SAFETY: two system calls: two fresh pages, then the second goes back.
        unsafe {
            core::arch::asm!("syscall", inlateout("rax") mmap => page, in("rdi") 0, in("rsi") 2 * PAGE,
                in("rdx") read_write, in("r10") private_anonymous, in("r8") -1isize, in("r9") 0,
                lateout("rcx") _, lateout("r11") _);
            assert!((page as isize) > 0);
            let result: isize;
            core::arch::asm!("syscall", inlateout("rax") munmap => result, in("rdi") page.add(PAGE),
                in("rsi") PAGE, lateout("rcx") _, lateout("r11") _);
            assert_eq!(result, 0);
        }
        Self { page }
    }

    /// No fence elsewhere: the values are still checked.
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    fn new() -> Self {
        Self { page: Box::leak(vec![0u64; PAGE / 8].into_boxed_slice()).as_mut_ptr().cast() }
    }

    /// Puts the values right before the fence.
    fn fill<T: Copy>(&self, values: impl ExactSizeIterator<Item = T>) -> *mut T {
        let count = values.len();
        assert!(count * size_of::<T>() <= PAGE);
        // SAFETY: within the page, and aligned, for the page is and sizes are powers of two.
        unsafe {
            let start = self.page.add(PAGE - count * size_of::<T>()).cast::<T>();
            for (i, v) in values.enumerate() {
                start.add(i).write(v);
            }
            start
        }
    }
}

fn all<L: Lane>(v: L) -> Vec<f64> {
    (0..L::N).map(|l| v.lane(l)).collect()
}

#[inline(always)]
fn loads<L: Lane>(reals: &Fenced, ints: &Fenced) {
    let element = |i: usize| L::Elem::of_f64(i as f64 + 0.5);
    for n in 1..=L::N {
        let expected = |factor: f64, offset: f64| -> Vec<f64> {
            (0..L::N).map(|l| factor * l.min(n - 1) as f64 + offset).collect()
        };
        let p = reals.fill((0..n).map(element));
        // SAFETY: n elements.
        assert_eq!(all(unsafe { L::load_first(p, n) }), expected(1.0, 0.5));
        let p = reals.fill((0..3 * n).map(element));
        // SAFETY: n rows.
        let rows = unsafe { L::load3_first(p, n) };
        let q = ints.fill((0..3 * n as i32).map(|i| i - 7));
        // SAFETY: n rows.
        let int_rows = unsafe { L::int3_first(q, n) };
        for k in 0..3 {
            assert_eq!(all(rows[k]), expected(3.0, k as f64 + 0.5));
            assert_eq!(all(int_rows[k]), expected(3.0, k as f64 - 7.0));
        }
        if n == L::N {
            // SAFETY: N rows, and so N elements.
            let (one, full, int_full) = unsafe { (L::load(p), L::load3(p), L::int3(q)) };
            assert_eq!(all(one), expected(1.0, 0.5));
            for k in 0..3 {
                assert_eq!(all(full[k]), all(rows[k]));
                assert_eq!(all(int_full[k]), all(int_rows[k]));
            }
        }
        let codes = ints.fill((0..n as i32).map(|i| pack([i - 5, 1000 - i, i - 1000])));
        // SAFETY: n elements.
        let packed = unsafe { L::packed3_first(codes, n) };
        let unpacked = [expected(1.0, -5.0), expected(-1.0, 1000.0), expected(1.0, -1000.0)];
        assert_eq!(packed.map(all), unpacked);
        if n == L::N {
            // SAFETY: N elements, which are those that the indices name.
            let (full, gathered) = unsafe {
                let reversed: Vec<i32> = (0..n as i32).rev().collect();
                (L::packed3(codes), L::packed3_gather(codes, L::index(reversed.as_ptr())))
            };
            assert_eq!(full.map(all), unpacked);
            assert_eq!(gathered.map(|c| all(c).into_iter().rev().collect::<Vec<_>>()), unpacked);
        }
    }
}

#[inline(always)]
fn stores<L: Lane>(reals: &Fenced) {
    for n in 0..=L::N {
        let p = reals.fill((0..n + 1).map(|_| L::Elem::of_f64(-1.0)));
        let v = L::splat(2.0);
        // SAFETY: room for n elements behind the first.
        unsafe { v.store_first(p.add(1), n) };
        if n == L::N {
            // SAFETY: room for N elements.
            unsafe { v.store(p.add(1)) };
        }
        for i in 0..=n {
            // SAFETY: n + 1 elements.
            assert_eq!(unsafe { p.add(i).read() }.to_f64(), if i == 0 { -1.0 } else { 2.0 });
        }
    }
    let p = reals.fill((0..L::N).map(|_| L::Elem::of_f64(-1.0)));
    // SAFETY: room for N elements; only the first n are written.
    unsafe { L::splat(2.0).store_first(p, L::N / 2) };
    // SAFETY: N elements.
    assert_eq!(unsafe { p.add(L::N - 1).read() }.to_f64(), -1.0);
}

#[inline(always)]
fn gathers<L: Lane>(reals: &Fenced, ints: &Fenced, indices: &Fenced) {
    let rows = 40;
    for n in 1..=L::N {
        // The last row of all is always among them, in every lane once.
        let wanted: Vec<i32> = (0..n).map(|l| ((l * 17 + n) % rows) as i32).collect();
        let wanted: Vec<i32> =
            wanted.iter().enumerate().map(|(l, &i)| if l == n / 2 { rows as i32 - 1 } else { i }).collect();
        let p = indices.fill(wanted.iter().copied());
        // SAFETY: n indices.
        let i = unsafe { L::index_first(p, n) };
        let expected: Vec<usize> = (0..L::N).map(|l| wanted[l.min(n - 1)] as usize).collect();
        for (l, &row) in expected.iter().enumerate() {
            assert_eq!(L::index_lane(i, l), row);
            if n == L::N {
                // SAFETY: N indices.
                assert_eq!(L::index_lane(unsafe { L::index(p) }, l), row);
            }
        }
        for (stride, offset) in [(1, 0), (3, 2), (4, 1)] {
            let count = (rows - 1) * stride + offset + 1;
            let real = reals.fill((0..count).map(|i| L::Elem::of_f64(i as f64 * 0.25)));
            let int = ints.fill((0..count as i32).map(|i| 5 - i));
            // SAFETY: the last row has its element, and so have all.
            let (real, int) =
                unsafe { (L::gather(real, i, stride, offset), L::int_gather(int, i, stride, offset)) };
            for (l, &row) in expected.iter().enumerate() {
                let at = (row * stride + offset) as f64;
                assert_eq!((real.lane(l), int.lane(l)), (at * 0.25, 5.0 - at));
            }
        }
        let p = reals.fill((0..3 * rows).map(|i| L::Elem::of_f64(i as f64 * 0.25)));
        // SAFETY: all rows are there.
        let [x, y, z] = unsafe { L::gather3(p, i) };
        for (l, &row) in expected.iter().enumerate() {
            let at = 0.75 * row as f64;
            assert_eq!((x.lane(l), y.lane(l), z.lane(l)), (at, at + 0.25, at + 0.5));
        }
    }
}

/// Lane l of row r is 100 r + l.
#[inline(always)]
fn exchanges<L: Lane>(reals: &Fenced) {
    let row = |r: usize| {
        let p = reals.fill((0..L::N).map(|l| L::Elem::of_f64((100 * r + l) as f64)));
        // SAFETY: N elements.
        unsafe { L::load(p) }
    };
    let mut rows: Vec<L> = (0..L::N).map(row).collect();
    let reversed: Vec<f64> = all(rows[0]).into_iter().rev().collect();
    assert_eq!(all(rows[0].reversed()), reversed);
    macro_rules! exchange {
        ($($D:literal)*) => {$(
            for r in (0..L::N).filter(|r| r & $D == 0 && r + $D < L::N) {
                (rows[r], rows[r + $D]) = rows[r].exchange::<$D>(rows[r + $D]);
            }
        )*};
    }
    exchange!(1 2 4 8);
    for (l, row) in rows.iter().enumerate() {
        assert_eq!(all(*row), (0..L::N).map(|r| (100 * r + l) as f64).collect::<Vec<_>>());
    }
    let (a, b) = (row(0), row(1));
    let (c, d) = a.exchange::<16>(b);
    assert_eq!((all(c), all(d)), (all(a), all(b)));
}

#[test]
fn rows_become_columns() {
    let reals = Fenced::new();
    on_every_lane!(exchanges(&reals));
}

#[test]
fn memory_functions_touch_what_they_should() {
    let (reals, ints, indices) = (Fenced::new(), Fenced::new(), Fenced::new());
    on_every_lane!(loads(&reals, &ints));
    on_every_lane!(stores(&reals));
    on_every_lane!(gathers(&reals, &ints, &indices));
}
