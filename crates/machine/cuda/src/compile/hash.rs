//! Names for texts: FNV-1a of 128 bits.
//!
//! The standard library's hash has 64 bits and may change with the compiler, which would empty every cache. No one who
//! may write to the cache needs a collision to do harm, so a cryptographic hash would guard nothing.

/// A hash of everything that was added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hash(u128);

impl Hash {
    pub(crate) fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    /// The hash continued with these bytes; their number is hashed too, so that later bytes cannot be taken for a part
    /// of them.
    pub(crate) fn with(mut self, bytes: &[u8]) -> Self {
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
        self
    }

    pub(crate) fn finish(self) -> u128 {
        self.0
    }
}
