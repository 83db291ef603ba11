//! Kernels with the dispatcher's calling convention.
//!
//! The dispatcher passes a kernel its arguments and no user data, so every member needs a function of its own: an
//! instance of a generic function whose const parameters are the member's position in a table.
//!
//! A kernel owns the tensors among its arguments, and takes all of them before anything can fail. Errors and panics
//! become C++ exceptions, which libtorch throws. They unwind Rust frames without destructors (the text is
//! thread-local), as the language requires for foreign exceptions.
#![expect(unsafe_code, reason = "the dispatcher's calling convention")]

use crate::call::{Entry, run};
use crate::shim::{Boxed, shim};
use crate::tensor::Tensor;
use madelung_bridge::layout::Type;
use madelung_core::stop::caught;
use madelung_core::{Error, Result};
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Room for the members of the library's ops, and of several hundred more that are made at run time.
const PAGES: usize = 8;
const ROWS: usize = 64;
const COLUMNS: usize = 32;
const MOST: usize = PAGES * ROWS * COLUMNS;

static ENTRIES: [OnceLock<Entry>; MOST] = [const { OnceLock::new() }; MOST];
static USED: AtomicUsize = AtomicUsize::new(0);

/// The kernel of an entry.
unsafe extern "C-unwind" fn instance<const PAGE: usize, const ROW: usize, const COLUMN: usize>(
    stack: *mut u64,
    _inputs: u64,
    _results: u64,
) {
    // SAFETY: the dispatcher calls with the arguments of the schema that this function was registered for.
    unsafe { entered((PAGE * ROWS + ROW) * COLUMNS + COLUMN, stack) }
}

/// Runs entry `at`, and throws its error. A function of its own, since there are thousands of instances.
///
/// # Safety
/// The conditions of [`enter`].
#[inline(never)]
unsafe extern "C-unwind" fn entered(at: usize, stack: *mut u64) {
    // SAFETY: as promised by the caller.
    let message = unsafe { enter(at, stack) };
    // SAFETY: a message of this thread, or null.
    unsafe { throw(message) };
}

/// Throws a C++ exception with the message, unless it is null.
///
/// # Safety
/// `message` is null, or a C string that lives until this thread's next error.
unsafe fn throw(message: *const c_char) {
    if !message.is_null() {
        // SAFETY: C strings.
        unsafe { (shim().aoti_torch_check)(false, c"madelung".as_ptr(), c"madelung".as_ptr(), 0, message) };
    }
}

/// Stores the results for the dispatcher.
///
/// # Safety
/// `stack` has room for all results.
unsafe fn give(stack: *mut u64, results: Vec<Tensor>) {
    for (n, result) in results.into_iter().enumerate() {
        // SAFETY: as promised by the caller.
        unsafe { *stack.add(n) = result.into_raw() };
    }
}

macro_rules! row {
    ($($column:literal)*) => {
        const fn row<const PAGE: usize, const ROW: usize>() -> [Boxed; COLUMNS] {
            [$(instance::<PAGE, ROW, $column>),*]
        }
    };
}
row!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);

macro_rules! page {
    ($($row:literal)*) => {
        const fn page<const PAGE: usize>() -> [[Boxed; COLUMNS]; ROWS] {
            [$(row::<PAGE, $row>()),*]
        }
    };
}
page!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
      32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63);

static TABLE: [[[Boxed; COLUMNS]; ROWS]; PAGES] =
    [page::<0>(), page::<1>(), page::<2>(), page::<3>(), page::<4>(), page::<5>(), page::<6>(), page::<7>()];

/// A kernel for the dispatcher that runs the entry.
pub(crate) fn function(entry: Entry) -> Result<Boxed> {
    let at = USED.fetch_add(1, Ordering::Relaxed);
    let (Some(slot), Some(page)) = (ENTRIES.get(at), TABLE.get(at / COLUMNS / ROWS)) else {
        let text = format!(
            "PyTorch: more than {MOST} members of ops in one process; restart it to make other kernels"
        );
        return Err(Error::Unsupported(text));
    };
    slot.get_or_init(|| entry);
    Ok(page[at / COLUMNS % ROWS][at % COLUMNS])
}

thread_local! {
    /// The message of the thread's last error.
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Runs entry `at`; returns null, or an error message.
///
/// # Safety
/// `stack` holds the arguments of the entry's schema, and has room for its results.
unsafe fn enter(at: usize, stack: *mut u64) -> *const c_char {
    error_message(|| {
        let entry = ENTRIES[at].get().ok_or_else(|| Error::Unsupported("no op is registered here".into()))?;
        // SAFETY: as promised by the caller.
        let (tensors, numbers) = unsafe { take(entry, stack) };
        // SAFETY: there is room for all results.
        unsafe { give(stack, run(entry, tensors, &numbers?)?) };
        Ok(())
    })
}

/// Runs `work`; returns null, or the message of its error or panic, which lives until this thread's next error.
fn error_message(work: impl FnOnce() -> Result<()>) -> *const c_char {
    let message = match catch_unwind(AssertUnwindSafe(|| caught(String::new, work))) {
        Ok(Ok(())) => return std::ptr::null(),
        Ok(Err(error)) => Error::to_string(&error),
        Err(panic) => format!("a defect in Madelung, please report it: {}", panic_message(&*panic)),
    };
    let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
    MESSAGE.with(|place| {
        let mut place = place.borrow_mut();
        *place = text;
        place.as_ptr()
    })
}

/// The arguments: owned tensors, and the bits of numbers, among them lists of integers with their lengths ahead.
///
/// # Safety
/// The conditions of [`enter`].
unsafe fn take(entry: &Entry, stack: *const u64) -> (Vec<Tensor>, Result<Vec<u64>>) {
    let (mut tensors, mut numbers) = (Vec::with_capacity(16), Ok(Vec::with_capacity(8)));
    let inputs = entry.of.inputs.iter().map(|input| input.kind);
    let extra = std::iter::repeat_n(Type::Tensor, entry.of.member.extra_tensors(entry.of.counts));
    let flags = usize::from(entry.of.member.has_mask()) + usize::from(entry.of.member.has_want());
    let all = inputs.chain(extra).chain(std::iter::repeat_n(Type::Int, flags));
    for (n, kind) in all.enumerate() {
        // SAFETY: the schema has as many arguments.
        let value = unsafe { *stack.add(n) };
        match kind {
            // SAFETY: the argument is a tensor that the dispatcher hands over.
            Type::Tensor => tensors.push(unsafe { Tensor::from_raw(value) }),
            Type::Int | Type::Float => _ = numbers.as_mut().map(|numbers| numbers.push(value)),
            Type::Integers => {
                // SAFETY: as above.
                let tensor = unsafe { Tensor::from_raw(value) };
                let list = tensor.integers(&|| entry.of.inputs[n].name.clone());
                numbers = numbers.and_then(|numbers| Ok(listed(numbers, &list?)));
            }
        }
    }
    (tensors, numbers)
}

/// Numbers with those of a list and their count ahead.
fn listed(mut numbers: Vec<u64>, list: &[i64]) -> Vec<u64> {
    numbers.push(list.len() as u64);
    numbers.extend(list.iter().map(|n| n.cast_unsigned()));
    numbers
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn text(work: impl FnOnce() -> Result<()>) -> Option<String> {
        let text = error_message(work);
        // SAFETY: null, or a C string of this thread.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }

    #[test]
    fn errors_and_panics_are_texts() {
        assert_eq!(text(|| Ok(())), None);
        let error = text(|| Err(Error::argument("cutoff", "a number above zero", "-1")));
        assert_eq!(error.as_deref(), Some("`cutoff`: expected a number above zero, got -1"));
        let (row, of) = (7, 3);
        for panic in [text(|| panic!("a plain text")), text(move || panic!("row {row} of\0{of}"))] {
            let panic = panic.expect("a text");
            assert!(panic.starts_with("a defect in Madelung, please report it: "), "{panic}");
            assert!(panic.ends_with("a plain text") || panic.ends_with("row 7 of 3"), "{panic}");
        }
        assert_eq!(text(|| Ok(())), None);
    }
}
