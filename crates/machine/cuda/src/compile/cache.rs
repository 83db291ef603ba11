//! Compiled programs on disk.
//!
//! A file is written under a name of its own and renamed, so that processes that start together see whole files. All
//! errors are ignored: compiling again costs time and nothing else.

use crate::compile::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The first bytes of a file; other contents, other bytes.
const MAGIC: &[u8; 16] = b"madelung cubin 1";
/// The magic bytes, a length of 8 bytes, a hash of 16.
const HEAD: usize = 40;

/// The folder of compiled programs: `$MADELUNG_CACHE`, or `madelung` in the user's folder for caches.
fn folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("MADELUNG_CACHE")
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("madelung")))
        .or_else(|| Some(variable("HOME")?.join(".cache").join("madelung")))
}

fn path(key: u128) -> Option<PathBuf> {
    Some(folder()?.join(format!("{key:032x}.cubin")))
}

fn head(bytes: &[u8]) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.extend((bytes.len() as u64).to_le_bytes());
    head.extend(Hash::new().with(bytes).finish().to_le_bytes());
    head
}

/// The bytes kept under a key, if the file is whole.
pub(crate) fn get(key: u128) -> Option<Vec<u8>> {
    let file = std::fs::read(path(key)?).ok()?;
    let (found, bytes) = file.split_at_checked(HEAD)?;
    (found == head(bytes)).then(|| bytes.to_vec())
}

/// Keeps bytes under a key, replacing earlier ones.
pub(crate) fn put(key: u128, bytes: &[u8]) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let Some(path) = path(key) else { return };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let own = path.with_extension(format!("{}-{number}", std::process::id()));
    let mut file = head(bytes);
    file.extend(bytes);
    let written = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(&own, file))
        .and_then(|()| std::fs::rename(&own, &path));
    if written.is_err() {
        remove(&own);
    }
}

/// Removes the file of a key.
pub(crate) fn discard(key: u128) {
    if let Some(path) = path(key) {
        remove(&path);
    }
}

fn remove(path: &Path) {
    // The file may never have existed.
    let _ = std::fs::remove_file(path);
}
