//! An allocator that puts every allocation right before, or right after, memory that may not be touched: what lanes read
//! or write outside an array faults at the instruction that does it. Fresh memory is full of NaN, so that what is read
//! before it was written shows in a result.
//!
//! `MADELUNG_FENCE=behind` (the default), `before` or `none` in the environment says where the fence is.
#![expect(unsafe_code, reason = "an allocator is unsafe by its trait, and its pages come from the system")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Fenced;

#[global_allocator]
static ALLOCATOR: Fenced = Fenced;

const PAGE: usize = 4096;

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Behind = 1,
    Before = 2,
    None = 3,
}

/// Read once; without allocating, for this is the allocator.
fn side() -> Side {
    static SIDE: AtomicU8 = AtomicU8::new(0);
    let known = match SIDE.load(Ordering::Relaxed) {
        1 => Some(Side::Behind),
        2 => Some(Side::Before),
        3 => Some(Side::None),
        _ => None,
    };
    known.unwrap_or_else(|| {
        // SAFETY: the name ends with a zero, and so does what comes back, which nobody changes while it is read.
        let value = unsafe {
            let value = libc::getenv(c"MADELUNG_FENCE".as_ptr());
            if value.is_null() { c"behind" } else { std::ffi::CStr::from_ptr(value) }
        };
        let side = match value.to_bytes() {
            b"none" => Side::None,
            b"before" => Side::Before,
            _ => Side::Behind,
        };
        SIDE.store(side as u8, Ordering::Relaxed);
        side
    })
}

thread_local! {
    static FENCED: Cell<bool> = const { Cell::new(false) };
}

/// The result of `work`, whose allocations in this thread have fences. Others have none: descriptions of all ops, and programs
/// of kernels that are interpreted, would take more mappings than a process may have, and no kernel reads them.
pub(crate) fn within<T>(work: impl FnOnce() -> T) -> T {
    FENCED.set(true);
    let result = work();
    FENCED.set(false);
    result
}

/// Whether an allocation is fenced. Bytes are text, which no kernel reads.
fn is_fenced(layout: Layout, side: Side) -> bool {
    side != Side::None && (2..=PAGE).contains(&layout.align()) && FENCED.try_with(Cell::get).unwrap_or(false)
}

/// Addresses of all mappings: more than a run takes, and closed until they are taken.
const REGION: usize = 1 << 42;
static BASE: AtomicUsize = AtomicUsize::new(0);
/// Bytes of the region that are taken.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The region's address; 0 where the system gives none.
fn region() -> usize {
    let known = BASE.load(Ordering::Acquire);
    if known != 0 {
        return known;
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: fresh addresses, closed.
    let made = unsafe { libc::mmap(std::ptr::null_mut(), REGION, libc::PROT_NONE, flags, -1, 0) };
    if made == libc::MAP_FAILED {
        return 0;
    }
    match BASE.compare_exchange(0, made as usize, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => made as usize,
        Err(other) => {
            // SAFETY: another thread was faster, and nobody has seen these addresses.
            unsafe { libc::munmap(made, REGION) };
            other
        }
    }
}

/// Whether an allocation is one of the region.
fn is_ours(start: *mut u8) -> bool {
    let base = BASE.load(Ordering::Acquire);
    base != 0 && (base..base + REGION).contains(&(start as usize))
}

/// Bytes of whole pages that hold an allocation.
fn room(layout: Layout) -> usize {
    layout.size().next_multiple_of(PAGE)
}

/// Mappings of one size that are free again: a list that runs through their first open bytes.
struct Free(Mutex<*mut u8>);
// SAFETY: the mappings belong to the list alone.
unsafe impl Sync for Free {}

/// By the number of open pages, from one on. The memory of larger ones goes back to the system.
static FREE: [Free; 16] = [const { Free(Mutex::new(std::ptr::null_mut())) }; 16];

fn free(room: usize) -> Option<MutexGuard<'static, *mut u8>> {
    FREE.get(room / PAGE - 1).map(|list| list.0.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A mapping of `room` open bytes with a closed page on one side; its open part.
fn map(room: usize, side: Side) -> Option<*mut u8> {
    if let Some(mut first) = free(room).filter(|first| !first.is_null()) {
        let open = *first;
        // SAFETY: what is on the list begins with the address of the next.
        *first = unsafe { open.cast::<*mut u8>().read() };
        return Some(open);
    }
    let base = region();
    let taken = TAKEN.fetch_add(room + PAGE, Ordering::Relaxed);
    if base == 0 || taken + room + PAGE > REGION {
        return None;
    }
    let all = (base + taken) as *mut u8;
    let open = if side == Side::Before { all.wrapping_add(PAGE) } else { all };
    // SAFETY: pages of the region that no other allocation has.
    let is_open = unsafe { libc::mprotect(open.cast(), room, libc::PROT_READ | libc::PROT_WRITE) == 0 };
    is_open.then_some(open)
}

/// Where an allocation lies in the open part of its mapping.
fn offset(layout: Layout, side: Side) -> usize {
    if side == Side::Before { 0 } else { room(layout) - layout.size().next_multiple_of(layout.align()) }
}

// SAFETY: every fenced allocation has pages of its own in the region, large enough and aligned (the end of a page less a size that is
// rounded up to the alignment, or the beginning of one), and `dealloc` computes the mapping from the same layout.
unsafe impl GlobalAlloc for Fenced {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let side = side();
        if !is_fenced(layout, side) {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc(layout) };
        }
        match map(room(layout), side) {
            // SAFETY: within the mapping.
            Some(open) => unsafe {
                let start = open.add(offset(layout, side));
                start.write_bytes(0xff, layout.size());
                start
            },
            None => std::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        if !is_ours(start) {
            // SAFETY: the caller's promise.
            return unsafe { System.dealloc(start, layout) };
        }
        let (room, side) = (room(layout), side());
        // SAFETY: the mapping that `alloc` made for this layout, now nobody's.
        unsafe {
            let open = start.sub(offset(layout, side));
            if let Some(mut first) = free(room) {
                open.cast::<*mut u8>().write(*first);
                *first = open;
            } else {
                // The addresses stay closed: there are enough.
                libc::madvise(open.cast(), room, libc::MADV_DONTNEED);
                libc::mprotect(open.cast(), room, libc::PROT_NONE);
            }
        }
    }
}

/// The system will not read for us what lies beyond an array, or before it.
#[test]
fn the_fence_is_closed() {
    let array = within(|| Box::new([1.0f64; 7]));
    let mut pipe = [0; 2];
    // SAFETY: room for two descriptors.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    // SAFETY: the system checks the address that it is to read from.
    let reads = |address: *const f64| unsafe { libc::write(pipe[1], address.cast(), 1) == 1 };
    let ends = array.as_ptr_range();
    assert!(reads(ends.start));
    match side() {
        Side::Behind => assert!(!reads(ends.end)),
        Side::Before => assert!(!reads(ends.start.wrapping_sub(1))),
        Side::None => {}
    }
}
