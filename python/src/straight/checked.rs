//! Plain lists that a call has found full, by their content: arrays of NumPy do not say whether they have changed.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use xxhash_rust::xxh3::Xxh3;

/// Pairs below which a list is checked in every call.
pub(crate) const MANY: usize = 4096;

/// How many lists are remembered.
const KEPT: usize = 16;

/// The digests of lists.
static CHECKED: Mutex<VecDeque<u128>> = Mutex::new(VecDeque::new());

/// The digest of a list's arrays, of 128 bits, with their lengths. As for every call, nothing is to write to them until it
/// has ended.
pub(super) fn digest(arrays: [&[i32]; 3]) -> u128 {
    let mut hash = Xxh3::new();
    for array in arrays {
        hash.update(&array.len().to_ne_bytes());
        let mut bytes = [0; 4096];
        for part in array.chunks(bytes.len() / 4) {
            part.iter().zip(bytes.as_chunks_mut().0).for_each(|(x, to)| *to = x.to_ne_bytes());
            hash.update(&bytes[..4 * part.len()]);
        }
    }
    hash.digest128()
}

/// Whether a call has found the list of a digest full.
pub(super) fn is_known(digest: u128) -> bool {
    CHECKED.lock().unwrap_or_else(PoisonError::into_inner).contains(&digest)
}

/// Keeps the digest of a list that a call has found full.
pub(super) fn remember(digest: u128) {
    let mut checked = CHECKED.lock().unwrap_or_else(PoisonError::into_inner);
    checked.retain(|known| *known != digest);
    checked.truncate(KEPT - 1);
    checked.push_front(digest);
}
