//! Which lanes this processor has.

use std::sync::OnceLock;

/// The instruction set that kernels run on. The order is by width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Whatever the target always has (SSE2, NEON). On x86-64, kernels on lanes have no machine code for it and
    /// are interpreted.
    Portable,
    /// AVX2 with fused operations (and `popcnt`, which goes with it).
    Avx2,
    /// AVX-512 F, DQ, VL and BW.
    Avx512,
}

/// Whether there is machine code of kernels for AVX2 alone.
const ONE_ISA: bool = cfg!(all(feature = "one-isa", target_arch = "x86_64"));

/// Words of `MADELUNG_ISA`.
const WISHES: [&str; 3] = ["portable", "avx2", "avx512"];

impl Isa {
    /// The widest that this processor has. `MADELUNG_ISA=portable|avx2|avx512` in the environment asks for less (a
    /// wish for more changes nothing, nor does any other word, which is reported on stderr). Looked up once.
    pub fn detect() -> Self {
        static FOUND: OnceLock<Isa> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let wish = std::env::var_os("MADELUNG_ISA").map(|wish| wish.to_string_lossy().into_owned());
            let found = Self::at_most(Self::of_processor(), wish.as_deref());
            if let Some(wish) = wish.filter(|wish| !WISHES.contains(&wish.as_str())) {
                let expected = WISHES.join(", ");
                eprintln!(
                    "madelung: `MADELUNG_ISA`: expected one of {expected}, got `{wish}`; using {found:?}"
                );
            }
            found
        })
    }

    /// The sets that [`detect`](Self::detect) chooses from, the narrowest first.
    pub fn available() -> &'static [Self] {
        if ONE_ISA {
            return &[Self::Avx2];
        }
        let all = &[Self::Portable, Self::Avx2, Self::Avx512];
        &all[..=Self::detect() as usize]
    }

    /// The lanes of small code on an instruction set: one of f32 (`single`), four of f64 at the most (`small_entry_points!`).
    pub fn of_few_lanes(self, single: bool) -> Self {
        if single { Self::Portable } else { self.min(Self::Avx2) }
    }

    fn at_most(found: Self, wish: Option<&str>) -> Self {
        match wish {
            _ if ONE_ISA => found,
            Some("portable") => Self::Portable,
            Some("avx2") => found.min(Self::Avx2),
            _ => found,
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn of_processor() -> Self {
        macro_rules! has {
            ($($feature:tt)*) => { true $(&& std::arch::is_x86_feature_detected!($feature))* };
        }
        if !has!("avx2" "fma" "popcnt") {
            if ONE_ISA {
                panic!("the feature `one-isa` needs a processor with AVX2");
            }
            Self::Portable
        } else if ONE_ISA || !has!("avx512f" "avx512dq" "avx512vl" "avx512bw") {
            Self::Avx2
        } else {
            Self::Avx512
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn of_processor() -> Self {
        Self::Portable
    }
}

#[cfg(all(test, not(feature = "one-isa")))]
mod tests {
    use super::Isa::{self, *};

    /// Tests on every instruction set run on those that the kernel of the operating system lists.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    #[test]
    fn what_is_available_is_what_the_processor_has() {
        let listed = std::fs::read_to_string("/proc/cpuinfo").expect("a list of processors");
        let flags = listed.lines().find(|l| l.starts_with("flags")).expect("a line of flags");
        let has = |names: &[&str]| names.iter().all(|n| flags.split_whitespace().any(|f| f == *n));
        let mut expected = vec![Portable];
        if has(&["avx2", "fma", "popcnt"]) {
            expected.push(Avx2);
            if has(&["avx512f", "avx512dq", "avx512vl", "avx512bw"]) {
                expected.push(Avx512);
            }
        }
        let wish = std::env::var("MADELUNG_ISA").ok();
        expected.retain(|isa| *isa <= Isa::at_most(Avx512, wish.as_deref()));
        println!("instruction sets: {:?}", Isa::available());
        assert_eq!(Isa::available(), expected);
    }

    #[test]
    fn the_environment_only_lowers() {
        assert_eq!(Isa::at_most(Avx512, Some("portable")), Portable);
        assert_eq!(Isa::at_most(Avx512, Some("avx2")), Avx2);
        assert_eq!(Isa::at_most(Portable, Some("avx2")), Portable);
        assert_eq!(Isa::at_most(Avx2, Some("avx512")), Avx2);
        assert_eq!(Isa::at_most(Avx2, Some("nonsense")), Avx2);
        assert_eq!(Isa::at_most(Avx2, None), Avx2);
    }
}
