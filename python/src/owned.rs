//! Memory of arrays of a device, and the pair lists that searches have left there: of one that nobody else can have written
//! to, calls need no check.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use madelung::array::{Array, Data};

/// Memory of arrays.
#[derive(Debug)]
pub(crate) struct Owned {
    _owner: Arc<dyn Any + Send + Sync>,
    address: u64,
    bytes: usize,
    /// Whether somebody else may write to it.
    is_shared: AtomicBool,
    /// The number of the list that a search has left in it.
    list: OnceLock<u64>,
}

impl Owned {
    /// Memory of an array on a device.
    pub(crate) fn of(array: Arc<Array>) -> Arc<Self> {
        let (address, bytes) = match array.view().data() {
            Data::Device(remote) => (remote.address(), array.view().len() * array.dtype().size()),
            _ => unreachable!("arrays of calls on a device lie there"),
        };
        Self::new(array, address, bytes, false)
    }

    /// Memory that somebody else has lent.
    pub(crate) fn lent(owner: Arc<dyn Any + Send + Sync>, address: u64, bytes: usize) -> Arc<Self> {
        Self::new(owner, address, bytes, true)
    }

    fn new(owner: Arc<dyn Any + Send + Sync>, address: u64, bytes: usize, is_shared: bool) -> Arc<Self> {
        Arc::new(Self { _owner: owner, address, bytes, is_shared: is_shared.into(), list: OnceLock::new() })
    }

    /// Whether memory is so many of its bytes, from `first` on.
    pub(crate) fn is_at(&self, address: u64, first: usize, bytes: usize) -> bool {
        address == self.address + first as u64 && first + bytes <= self.bytes
    }

    /// The address of its first element.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of the list that a search has left in it, if nobody can have changed that.
    fn list(&self) -> Option<u64> {
        self.list.get().copied().filter(|_| !self.is_shared.load(Ordering::Relaxed))
    }

    /// Notes that from here on somebody else may write to it.
    pub(crate) fn share(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    /// Notes that a search has left a full list in these parts, which have memory of their own.
    pub(crate) fn found(list: [&Self; 3]) {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        list.iter().for_each(|part| _ = part.list.set(number));
    }

    /// Whether these are the parts of such a list, which nobody can have changed.
    pub(crate) fn are_checked(list: [&Self; 3]) -> bool {
        let [first, rest @ ..] = list.map(Self::list);
        first.is_some() && rest == [first; 2]
    }
}
