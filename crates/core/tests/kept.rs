//! Memory of large arrays, which is kept for later ones: counted at the process's allocator.
//!
//! A binary of its own: other tests would have that allocator too, and their arrays would be in the cache.
#![expect(unsafe_code, reason = "an allocator that counts, and a child process")]

use madelung_core::array::kept::{ALIGNMENT, HUGE_PAGE, SMALLEST, bytes, trim};
use madelung_core::array::{Array, Buffer, DType, Data};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

thread_local! {
    /// Large allocations of this thread.
    static LARGE: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(layout: Layout) {
    if layout.size() >= SMALLEST {
        _ = LARGE.try_with(|large| large.set(large.get() + 1));
    }
}

// SAFETY: the system's allocator, which is only counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(start, layout) };
    }
}

/// The cache is the process's: tests that look into it take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    trim();
    turn
}

fn large_allocations(work: impl FnOnce()) -> usize {
    let before = LARGE.get();
    work();
    LARGE.get() - before
}

#[test]
fn memory_of_large_arrays_is_asked_for_once() {
    let _turn = turn();
    let memory = madelung_cpu::context().allocator;
    let call = || {
        let arrays =
            [DType::F64, DType::F32, DType::I32].map(|dtype| memory.zeros(dtype, &[100_000]).unwrap());
        let copy = arrays[0].try_clone().unwrap();
        let collected: Buffer<u64> = (0..50_000).collect();
        assert!(collected.is_kept() && collected.iter().copied().eq(0..50_000));
        arrays.into_iter().chain([copy]).for_each(|array| memory.recycle(array));
    };
    // Two of 800 kB, two of 400 kB, and a vector that grew by itself.
    assert!(large_allocations(call) >= 5);
    assert_eq!(large_allocations(|| (0..20).for_each(|_| call())), 0);
    assert!(bytes() >= 2_800_000);
    trim();
    assert_eq!(bytes(), 0);
    assert!(large_allocations(call) >= 5);
}

#[test]
fn small_arrays_are_left_to_the_allocator() {
    let _turn = turn();
    let small = Buffer::<u8>::zeros(SMALLEST - 1);
    assert!(!small.is_kept() && Buffer::<u8>::zeros(SMALLEST).is_kept());
    let kept = bytes();
    drop(small);
    assert_eq!(bytes(), kept);
}

#[test]
fn zeros_are_zeros_where_others_have_written() {
    let _turn = turn();
    for len in [10, 100_000, 1_000_000] {
        for dtype in [DType::F64, DType::F32, DType::I32, DType::I64, DType::F16, DType::BF16] {
            drop(Array::filled(dtype, &[len], -3.0));
            assert!(Array::zeros(dtype, &[len]).to_f64().unwrap().iter().all(|x| *x == 0.0), "{len} {dtype}");
        }
        drop(Buffer::filled(len, [7u32; 3]));
        assert!(Buffer::<[u32; 3]>::zeros(len).iter().all(|x| *x == [0; 3]));
        let (mut room, zeros) = Buffer::<u32>::room(3 * len);
        assert!(!zeros || len == 10, "memory that was written, but where it is not kept");
        room.resize(3 * len + 5, 4);
        assert_eq!(room[3 * len..], [4; 5]);
    }
}

#[test]
fn blocks_are_aligned() {
    let _turn = turn();
    for _ in 0..2 {
        for bytes in [SMALLEST, 100_000, 1 << 20, HUGE_PAGE - 1, HUGE_PAGE, 5_000_000] {
            let array = Array::zeros(DType::F64, &[bytes / 8]);
            let Data::F64(elements) = array.view().data() else { unreachable!("made as float64") };
            let alignment = if bytes / 8 * 8 > 7 << 18 { HUGE_PAGE } else { ALIGNMENT };
            assert_eq!(elements.as_ptr().addr() % alignment, 0, "{bytes} bytes");
        }
    }
}

#[test]
fn buffers_are_vectors() {
    let _turn = turn();
    let mut seed = 1u64;
    let (mut buffer, mut vector) = (Buffer::new(), Vec::new());
    for step in 0..400 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let n = (seed >> 33) as usize % 4000;
        match step % 5 {
            0 => buffer.push(seed),
            1 => buffer.extend_from_slice(&vec![seed; n]),
            2 => buffer.resize(vector.len() + n, seed),
            3 => buffer.truncate(vector.len() - n.min(vector.len()) / 8),
            _ => buffer.extend((0..n as u64).map(|k| k ^ seed)),
        }
        match step % 5 {
            0 => vector.push(seed),
            1 => vector.extend_from_slice(&vec![seed; n]),
            2 => vector.resize(vector.len() + n, seed),
            3 => vector.truncate(vector.len() - n.min(vector.len()) / 8),
            _ => vector.extend((0..n as u64).map(|k| k ^ seed)),
        }
        assert_eq!(*buffer, *vector);
    }
    assert!(buffer.is_kept());
    let copy = buffer.clone();
    assert_eq!((Vec::from(buffer), Vec::from(copy)), (vector.clone(), vector.clone()));
    let pointer = vector.as_ptr();
    let back = Vec::from(Buffer::from(vector));
    assert!(std::ptr::eq(back.as_ptr(), pointer), "the vector's own memory");
}

/// Each writes its number into blocks, and finds it there until it drops them, in another thread.
#[test]
fn threads_share_the_cache() {
    let _turn = turn();
    let (give, take) = std::sync::mpsc::channel::<(u32, Buffer<u32>)>();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let give = give.clone();
            scope.spawn(move || {
                for n in 0..300 {
                    let buffer = Buffer::filled((20_000 + n * 97 % 5 * 20_000) as usize, thread);
                    let zeros = Buffer::<u32>::zeros(buffer.len());
                    assert!(zeros.iter().all(|x| *x == 0) && buffer.iter().all(|x| *x == thread));
                    give.send((thread, buffer)).expect("somebody takes it");
                }
            });
        }
        drop(give);
        for (thread, buffer) in take {
            assert!(buffer.iter().all(|x| *x == thread));
        }
    });
}

/// A child has no other threads, wherever they were in its parent.
#[cfg(target_os = "linux")]
#[test]
fn a_child_process_has_memory() {
    let _turn = turn();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let work = || drop([20_000, 40_000, 500_000].map(|len| Buffer::filled(len, 1.5f64)));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    work()
                }
            });
        }
        for _ in 0..50 {
            // SAFETY: the child uses its memory, and leaves without what its parent registered for its own end.
            let child = unsafe { libc::fork() };
            assert!(child >= 0, "a process");
            if child == 0 {
                // SAFETY: as above; it is stopped where it waits for a lock.
                unsafe { libc::alarm(20) };
                (0..20).for_each(|_| work());
                trim();
                work();
                // SAFETY: as above.
                unsafe { libc::_exit(0) };
            }
            let mut status = -1;
            // SAFETY: the child is this process's.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// Run by the test below, with another environment.
#[test]
#[ignore = "for an environment that asks for it"]
fn nothing_is_kept() {
    let _turn = turn();
    let call = || drop(Array::filled(DType::F64, &[100_000], 1.0));
    assert!((0..3).all(|_| large_allocations(call) == 1));
    assert!(!Buffer::<u64>::zeros(100_000).is_kept() && bytes() == 0);
}

#[test]
fn the_environment_turns_it_off() {
    let mut test = std::process::Command::new(std::env::current_exe().expect("a test"));
    test.args(["--exact", "nothing_is_kept", "--ignored"]).env("MADELUNG_KEEP_BYTES", "0");
    let ran = test.output().expect("runs");
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && text.contains("1 passed"), "{text}");
}
