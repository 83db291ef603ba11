//! The sources of kernels by chance, by seed.

mod patterns;
mod statements;

/// Numbers in 0..1, the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn between(&mut self, lo: f64, hi: f64) -> f64 {
        lo + (hi - lo) * self.next()
    }
}

/// The first of the kernels of vectors and matrices of two and four.
const FLAT: u64 = 240;

/// The source of a kernel `k` with the attribute `#[kernel]`: a quarter of them statement by statement by chance, the
/// others from the patterns of loops, with formulas by chance.
pub(crate) fn text(seed: u64) -> String {
    match seed {
        FLAT.. => patterns::flat(seed),
        seed if seed.is_multiple_of(4) => statements::kernel(seed),
        seed => patterns::kernel(seed),
    }
}

/// The seeds of the kernels that are compiled (`tests/random_kernels`): together they take every rule of the printers
/// that any kernel by chance takes. Chosen by `rules::cover`; a test says what to put here where they take too few.
pub(crate) const COMPILED: [u64; 40] = [
    80, 56, 226, 172, 196, 8, 224, 117, 88, 95, 164, 216, 120, 74, 28, 53, 61, 60, 68, 19, 247, 51, 176, 220,
    212, 92, 184, 156, 104, 232, 218, 84, 191, 192, 20, 236, 100, 140, 48, 112,
];
