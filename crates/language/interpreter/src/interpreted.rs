//! Kernels that a build compiles to no machine code: programs made from their source when they first run.
#![expect(unsafe_code, reason = "programs are run for launches")]

use crate::{Line, run};
use madelung_kernel::describe::describe;
use madelung_kernel::lower::lower_block;
use madelung_lanes::{Code, Isa, LaunchAbi};
use rustc_hash::FxHashMap as HashMap;
use std::sync::{OnceLock, PoisonError, RwLock};

/// Code of a part that is interpreted.
#[derive(Clone, Copy, Debug)]
pub struct Interpreted {
    /// The source of the kernel.
    pub source: &'static str,
    /// The number of the program among those of the kernel: form by form and part by part the part's, and then the two of
    /// its cluster form, if it has one.
    pub program: usize,
}

/// A program of a kernel.
struct Program {
    program: madelung_kernel::program::Program,
    line: OnceLock<Line>,
    /// Whether it runs on few lanes ([`Isa::of_few_lanes`]).
    few: bool,
}

type Programs = HashMap<(usize, usize), &'static [Program]>;

/// The programs of the kernels that have run, by the address and the length of their source.
static PROGRAMS: RwLock<Option<Programs>> = RwLock::new(None);

fn programs(source: &'static str) -> &'static [Program] {
    let key = (source.as_ptr() as usize, source.len());
    let of = |all: &Option<Programs>| all.as_ref().and_then(|all| all.get(&key).copied());
    if let Some(found) = of(&PROGRAMS.read().unwrap_or_else(PoisonError::into_inner)) {
        return found;
    }
    let mut all = PROGRAMS.write().unwrap_or_else(PoisonError::into_inner);
    of(&all).unwrap_or_else(|| {
        let made = Box::leak(lowered(source).into_boxed_slice());
        all.get_or_insert_default().insert(key, made);
        made
    })
}

fn lowered(source: &str) -> Vec<Program> {
    let forms = || -> syn::Result<_> {
        let sources = lower_block(&syn::parse_str(source)?)?;
        let source = sources.first().expect("a kernel's source");
        Ok((describe(source)?, source.options.small))
    };
    let (forms, small) = forms().expect("the source of a kernel that the compiler has lowered once");
    let mut programs = vec![];
    for part in forms.into_iter().flat_map(|form| form.parts) {
        programs.push((part.program, small && !part.is_scalar));
        programs.extend(part.clusters.into_iter().flat_map(|c| [(c.pairs, false), (c.rows, false)]));
    }
    programs.into_iter().map(|(program, few)| Program { program, few, line: OnceLock::new() }).collect()
}

impl Code for Interpreted {
    unsafe fn run(&self, single: bool, isa: Isa, a: &LaunchAbi, lo: usize, hi: usize, partials: *mut f64) {
        let Program { program, line, few } = &programs(self.source)[self.program];
        let isa = if *few { isa.of_few_lanes(single) } else { isa };
        // SAFETY: the caller's promises are those of the part, whose program it is.
        unsafe { run(line.get_or_init(|| Line::new(program)), single, isa, a, (lo, hi), partials) }
    }
}
