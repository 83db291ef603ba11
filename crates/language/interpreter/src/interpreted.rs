//! Kernels that a build compiles to no machine code: programs made from their source when they first run. Sound as compiled
//! kernels are: the programs are those that `kernels!` would have printed.

use crate::{Line, run};
use madelung_kernel::describe::{Code as Described, Width, describe};
use madelung_kernel::lower::lower_block;
use madelung_lanes::{Code, Isa, LaunchAbi};
use rustc_hash::FxHashMap as HashMap;
use std::sync::{OnceLock, PoisonError, RwLock};

/// Code of a part that is interpreted.
#[derive(Clone, Copy, Debug)]
pub struct Interpreted {
    /// The source of the kernel.
    pub source: &'static str,
    /// The number of the program among those of the kernel, in the order of its parts' code.
    pub program: usize,
}

/// A program, and its form in the interpreter once it has run.
type Prepared = (Described, OnceLock<Line>);

/// Programs by the address and the length of their kernel's source, which is part of the executable.
type Kernels = HashMap<(usize, usize), &'static [Prepared]>;

/// The kernels that have run.
static KERNELS: RwLock<Option<Kernels>> = RwLock::new(None);

fn prepared(source: &'static str) -> &'static [Prepared] {
    let key = (source.as_ptr() as usize, source.len());
    let known = KERNELS
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .as_ref()
        .and_then(|all| all.get(&key).copied());
    known.unwrap_or_else(|| {
        let mut all = KERNELS.write().unwrap_or_else(PoisonError::into_inner);
        let all = all.get_or_insert_default();
        // Places are known to the thread that reads the text, for as long as it lives: a thread of its own lets go of them.
        let lowered = || std::thread::scope(|scope| scope.spawn(|| lowered(source)).join());
        all.entry(key).or_insert_with(|| {
            let lowered = lowered().expect("the source of a kernel that the compiler has lowered once");
            Box::leak(lowered.into_iter().map(|code| (code, OnceLock::new())).collect())
        })
    })
}

fn lowered(source: &str) -> Vec<Described> {
    let forms = || describe(lower_block(&syn::parse_str(source)?)?.first().expect("a kernel"));
    forms()
        .expect("a kernel")
        .into_iter()
        .flat_map(|form| form.parts)
        .flat_map(|part| part.into_code())
        .collect()
}

impl Code for Interpreted {
    unsafe fn run(&self, single: bool, isa: Isa, a: &LaunchAbi, lo: usize, hi: usize, partials: *mut f64) {
        let (code, line) = &prepared(self.source)[self.program];
        let isa = if code.width == Width::Few { isa.of_few_lanes(single) } else { isa };
        // SAFETY: the caller's promises are those of the part, whose program it is.
        unsafe { run(line.get_or_init(|| Line::new(&code.program)), single, isa, a, (lo, hi), partials) }
    }
}
