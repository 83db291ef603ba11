//! A cache of memory: blocks of large arrays that were dropped, for later arrays of about their size.
//!
//! A page that the system gives afresh costs several times what a pass over it costs (0.4 ns for each byte in pages of
//! 4 kB), so a call that makes and drops megabytes would spend much of its time on them. Blocks come in size classes,
//! four for each power of two. At most [`MOST_BYTES`] are kept (`MADELUNG_KEEP_BYTES` in the environment asks for
//! another number, 0 for none; what is no number is ignored, with a warning on stderr): where there would be more, the blocks that were kept
//! longest go back to the system, and so does a block that was not asked for while [`OLD`] others came back. [`trim`]
//! gives back all of them.
//!
//! A block is taken or kept by one atomic exchange: threads never wait for each other, and a child process, in which the
//! other threads of its parent do not exist, finds no lock held.
#![expect(
    unsafe_code,
    reason = "blocks come from the process's allocator, and the system is advised about them"
)]

use crate::exhausted::is_left;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Bytes that are kept at most: a neighbour list of 10⁵ atoms with a hundred neighbours each takes 80 MB and its search
/// 20 MB, and a mesh of 128³ points 17 MB, of which a call holds half a dozen.
pub const MOST_BYTES: usize = 256 << 20;

/// Smaller arrays have memory of the process's allocator, which serves them without the system.
pub const SMALLEST: usize = 64 << 10;

/// Alignment of blocks: a line of the processor's cache and the longest register.
pub const ALIGNMENT: usize = 64;

/// Alignment of blocks that are not smaller than this: a huge page of the processor.
pub const HUGE_PAGE: usize = 2 << 20;

/// Blocks that come back while another one is kept in vain: some hundred calls.
const OLD: usize = 1 << 12;

/// Number of size classes, from 64 kB to 3.5 GB.
const CLASSES: usize = 64;

/// Number of blocks of one class that are kept: the tasks of a search among 10⁵ atoms have one each.
const DEPTH: usize = 128;

/// Bytes of a block of each class.
const fn size(class: usize) -> usize {
    ((4 + class % 4) * (SMALLEST / 4)) << (class / 4)
}

/// The smallest class whose blocks have so many bytes; none for arrays that are small, or larger than all blocks.
fn class(bytes: usize) -> Option<usize> {
    if bytes < SMALLEST {
        return None;
    }
    let last = (bytes - 1) / (SMALLEST / 4);
    let doublings = last.max(4).ilog2() - 2;
    let class = 4 * doublings as usize + (last >> doublings) + 1 - 4;
    (class < CLASSES).then_some(class)
}

const fn alignment(class: usize) -> usize {
    if size(class) < HUGE_PAGE { ALIGNMENT } else { HUGE_PAGE }
}

/// Layout of the allocation that a block is aligned in: memory that is asked for with an alignment is not given as zeros
/// for nothing.
fn layout(class: usize) -> Layout {
    Layout::from_size_align(size(class) + alignment(class), align_of::<u128>())
        .expect("far from the largest size")
}

/// Start of the block in an allocation of its layout.
fn start(base: NonNull<u8>, class: usize) -> NonNull<u8> {
    // SAFETY: the layout has room for one alignment more than the block.
    unsafe { base.add(base.align_offset(alignment(class))) }
}

/// Zeros of the process's allocator, in huge pages where the system has them.
fn fresh(class: usize) -> Option<NonNull<u8>> {
    // SAFETY: the layout has bytes.
    let base = NonNull::new(unsafe { alloc_zeroed(layout(class)) })?;
    #[cfg(target_os = "linux")]
    if alignment(class) == HUGE_PAGE {
        let whole = size(class) / HUGE_PAGE * HUGE_PAGE;
        // SAFETY: these pages belong to the allocation as a whole, and the advice does not change what they hold. It
        // may be refused.
        unsafe { libc::madvise(start(base, class).as_ptr().cast(), whole, libc::MADV_HUGEPAGE) };
    }
    Some(base)
}

/// Gives an allocation back to the process's allocator.
///
/// # Safety
/// It came from [`fresh`] for this class, and nobody has it any more.
unsafe fn free(class: usize, base: NonNull<u8>) {
    // SAFETY: the caller's promise.
    unsafe { dealloc(base.as_ptr(), layout(class)) };
}

struct Slot {
    /// An allocation of [`fresh`], which belongs to whoever exchanges it for null; or null.
    base: AtomicPtr<u8>,
    /// The cache's clock when the block came.
    since: AtomicUsize,
}

impl Slot {
    const fn empty() -> Self {
        Self { base: AtomicPtr::new(null_mut()), since: AtomicUsize::new(0) }
    }
}

struct Cache {
    slots: [[Slot; DEPTH]; CLASSES],
    /// Bytes of the blocks in the slots. Counted before a block comes and after it went, so never too few; a child
    /// process goes on counting those that were on their way in its parent.
    bytes: AtomicUsize,
    /// Blocks that came so far.
    clock: AtomicUsize,
    /// [`NOT_READ`], or the most bytes that are kept.
    most: AtomicUsize,
}

const NOT_READ: usize = usize::MAX;

static CACHE: Cache = Cache::new(NOT_READ);

/// Most bytes to keep, by the text in the environment; the text that is no number.
fn most_bytes(asked: Option<&str>) -> Result<usize, &str> {
    asked.map_or(Ok(MOST_BYTES), |text| match text.trim().parse::<usize>() {
        Ok(bytes) => Ok(bytes.min(NOT_READ - 1)),
        Err(_) => Err(text),
    })
}

impl Cache {
    const fn new(most: usize) -> Self {
        Self {
            slots: [const { [const { Slot::empty() }; DEPTH] }; CLASSES],
            bytes: AtomicUsize::new(0),
            clock: AtomicUsize::new(0),
            most: AtomicUsize::new(most),
        }
    }

    fn most(&self) -> usize {
        let known = self.most.load(Ordering::Relaxed);
        if known != NOT_READ {
            return known;
        }
        let asked = std::env::var_os("MADELUNG_KEEP_BYTES").map(|asked| asked.to_string_lossy().into_owned());
        let most = most_bytes(asked.as_deref());
        // Threads that read at once read the same, and one of them says what is wrong.
        let first = self
            .most
            .compare_exchange(NOT_READ, most.unwrap_or(MOST_BYTES), Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
        if let (true, Err(text)) = (first, most) {
            eprintln!(
                "madelung: `MADELUNG_KEEP_BYTES`: expected a number of bytes, got `{text}`; using {MOST_BYTES}"
            );
        }
        most.unwrap_or(MOST_BYTES)
    }

    /// Allocation of a slot, which is empty from then on.
    fn take_from(&self, class: usize, slot: &Slot) -> Option<NonNull<u8>> {
        if slot.base.load(Ordering::Relaxed).is_null() {
            return None;
        }
        let base = NonNull::new(slot.base.swap(null_mut(), Ordering::Acquire))?;
        self.bytes.fetch_sub(size(class), Ordering::Relaxed);
        Some(base)
    }

    fn take(&self, class: usize) -> Option<NonNull<u8>> {
        self.slots[class].iter().find_map(|slot| self.take_from(class, slot))
    }

    /// Keeps an allocation, or gives it back to the process's allocator.
    ///
    /// # Safety
    /// As for [`free`].
    unsafe fn give(&self, class: usize, base: NonNull<u8>) {
        let most = self.most();
        let now = self.clock.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.bytes.fetch_add(size(class), Ordering::Relaxed);
        let fill = |slot: &Slot| {
            let filled = slot
                .base
                .compare_exchange(null_mut(), base.as_ptr(), Ordering::Release, Ordering::Relaxed)
                .is_ok();
            if filled {
                slot.since.store(now, Ordering::Relaxed);
            }
            filled
        };
        if size(class) > most || !self.slots[class].iter().any(fill) {
            self.bytes.fetch_sub(size(class), Ordering::Relaxed);
            // SAFETY: the caller's promise; it was put into no slot.
            unsafe { free(class, base) };
        }
        while self.bytes.load(Ordering::Relaxed) > most && self.free_oldest(0) {}
        if now.is_multiple_of(64) {
            while self.free_oldest(OLD) {}
        }
    }

    /// Frees the block that was kept longest, if `least` others came since; whether there was one.
    fn free_oldest(&self, least: usize) -> bool {
        let now = self.clock.load(Ordering::Relaxed);
        let classes = self.slots.iter().enumerate();
        let kept = classes.flat_map(|(class, slots)| slots.iter().map(move |slot| (class, slot)));
        // A block that came since the clock was read has no age.
        let age = |slot: &Slot| now.wrapping_sub(slot.since.load(Ordering::Relaxed)).cast_signed().max(0);
        let kept = kept.filter(|(_, slot)| {
            !slot.base.load(Ordering::Relaxed).is_null() && age(slot).cast_unsigned() >= least
        });
        let Some((class, slot)) = kept.max_by_key(|(_, slot)| age(slot)) else { return false };
        if let Some(base) = self.take_from(class, slot) {
            // SAFETY: what lies in a slot came by `give`, and now nobody else has it.
            unsafe { free(class, base) };
        }
        true
    }

    fn trim(&self) {
        while self.free_oldest(0) {}
    }
}

/// Gives all memory back that is kept for later arrays.
pub fn trim() {
    CACHE.trim();
}

/// Bytes that are kept for later arrays now.
pub fn bytes() -> usize {
    CACHE.bytes.load(Ordering::Relaxed)
}

/// A block of memory, which is kept when it is dropped. All its bytes are initialised.
pub(super) struct Block {
    base: NonNull<u8>,
    class: u8,
}

// SAFETY: the memory belongs to the block alone.
unsafe impl Send for Block {}
// SAFETY: as above; it is not touched through a shared block.
unsafe impl Sync for Block {}

impl Block {
    /// A block of at least so many bytes, and whether they are zeros; none for arrays that are small or very large, where
    /// nothing is to be kept, and where there is no memory.
    pub(super) fn new(bytes: usize) -> Option<(Self, bool)> {
        let class = class(bytes).filter(|_| CACHE.most() > 0)?;
        let (base, zeros) = match CACHE.take(class) {
            Some(base) => (base, false),
            None if is_left(bytes) => (fresh(class)?, true),
            None => return None,
        };
        Some((Self { base, class: class as u8 }, zeros))
    }

    /// Number of bytes.
    pub(super) fn size(&self) -> usize {
        size(self.class.into())
    }

    /// Start of the bytes: a multiple of [`ALIGNMENT`], and of [`HUGE_PAGE`] in blocks that have as many.
    pub(super) fn start(&self) -> NonNull<u8> {
        start(self.base, self.class.into())
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the block came from `fresh` for its class, and is dropped once.
        unsafe { CACHE.give(self.class.into(), self.base) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fresh block of a class, kept by `cache`.
    fn keep(cache: &Cache, class: usize) -> NonNull<u8> {
        let base = fresh(class).expect("memory");
        // SAFETY: it is fresh.
        unsafe { cache.give(class, base) };
        base
    }

    fn kept(cache: &Cache) -> usize {
        let of = |(class, slots): (usize, &[Slot; DEPTH])| {
            slots.iter().filter(|slot| !slot.base.load(Ordering::Relaxed).is_null()).count() * size(class)
        };
        cache.slots.iter().enumerate().map(of).sum()
    }

    #[test]
    fn classes_are_the_smallest_that_fit() {
        assert_eq!(class(SMALLEST - 1), None);
        assert_eq!(class(SMALLEST), Some(0));
        for c in 0..CLASSES {
            assert_eq!(class(size(c)), Some(c));
            assert_eq!(class(size(c) - 1), Some(c).filter(|c| *c > 0));
            assert_eq!(class(size(c) + 1), Some(c + 1).filter(|c| *c < CLASSES));
            assert!(c == 0 || size(c - 1) < size(c) && 4 * size(c) <= 5 * size(c - 1));
        }
        assert_eq!(class(usize::MAX), None);
    }

    #[test]
    fn the_environment_asks() {
        assert_eq!(most_bytes(Some(" 1000 ")), Ok(1000));
        assert_eq!(most_bytes(Some("0")), Ok(0));
        assert_eq!(most_bytes(None), Ok(MOST_BYTES));
        for bad in ["", "many", "-1", "1e9"] {
            assert_eq!(most_bytes(Some(bad)), Err(bad));
        }
    }

    #[test]
    fn blocks_come_back() {
        let cache = Cache::new(MOST_BYTES);
        assert_eq!(cache.take(3), None);
        let (a, b) = (keep(&cache, 3), keep(&cache, 4));
        assert_eq!(cache.bytes.load(Ordering::Relaxed), size(3) + size(4));
        assert_eq!((cache.take(3), cache.take(3), cache.take(4)), (Some(a), None, Some(b)));
        assert_eq!(cache.bytes.load(Ordering::Relaxed), 0);
        // SAFETY: they came from the cache, which has them no more.
        unsafe { cache.give(3, a) };
        // SAFETY: as above.
        unsafe { cache.give(4, b) };
        cache.trim();
        assert_eq!((kept(&cache), cache.bytes.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn the_oldest_go_where_there_would_be_too_many() {
        let cache = Cache::new(4 * size(0));
        let blocks = [0; 6].map(|class| keep(&cache, class));
        assert_eq!(kept(&cache), 4 * size(0));
        let left = std::array::from_fn::<_, 4, _>(|_| cache.take(0).expect("four of them"));
        assert!(blocks[2..].iter().all(|block| left.contains(block)), "the last four");
        for base in left {
            // SAFETY: as in `blocks_come_back`.
            unsafe { cache.give(0, base) };
        }
        // A block that is larger than all that may be kept leaves the others where they are.
        keep(&cache, 13);
        assert_eq!(kept(&cache), 4 * size(0));
        keep(&cache, 4);
        assert_eq!((kept(&cache), cache.bytes.load(Ordering::Relaxed)), (4 * size(0), 4 * size(0)));
        cache.trim();
        let none = Cache::new(0);
        keep(&none, 0);
        assert_eq!(kept(&none), 0);
    }

    #[test]
    fn a_class_has_a_number_of_slots_and_old_blocks_go() {
        let cache = Cache::new(MOST_BYTES);
        let last = keep(&cache, 1);
        for _ in 0..2 * DEPTH {
            keep(&cache, 0);
        }
        assert_eq!(kept(&cache), DEPTH * size(0) + size(1));
        for _ in 0..OLD + 64 {
            let base = cache.take(0).expect("blocks of this class");
            // SAFETY: as in `blocks_come_back`.
            unsafe { cache.give(0, base) };
        }
        assert_eq!(cache.take(1), None, "{last:?} was not asked for");
        assert_eq!(kept(&cache), size(0), "one of them was");
        cache.trim();
    }
}
