//! The code of parts: a program, which the interpreter runs until machine code is there. Sound because whoever installs
//! machine code promises that it is the program's.
#![expect(unsafe_code, reason = "machine code that others made is called")]

use crate::wanted::{self, Wanted};
use madelung_core::runtime::{Code, Isa, LaunchAbi};
use madelung_interpreter::{self as interpreter, Line};
use madelung_kernel::describe::{self, Width};
use madelung_kernel::program::Program;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Machine code of a part: a [`madelung_core::runtime::Run`] with the calling convention of C.
pub type Machine = unsafe extern "C" fn(*const LaunchAbi, usize, usize, *mut f64);

/// The code of one part of a form.
#[derive(Debug)]
pub struct PartCode {
    /// The source of its kernel.
    source: &'static str,
    /// The name of the part among those of its kernel.
    pub name: String,
    /// The form, by its place among the kernel's.
    pub form: usize,
    /// The part, by its place among the form's.
    pub part: usize,
    /// The program.
    pub program: Program,
    /// Whether it runs on few lanes ([`Isa::of_few_lanes`]).
    few: bool,
    line: OnceLock<Line>,
    /// Machine code, null where there is none: for f32 and f64 arrays, by instruction set.
    machine: [[AtomicPtr<()>; 3]; 2],
    /// Nanoseconds for which the interpreter has run it, in the same order.
    interpreted: [[AtomicU64; 3]; 2],
}

impl PartCode {
    pub(crate) fn new(source: &'static str, (form, part): (usize, usize), code: describe::Code) -> Self {
        let describe::Code { name, program, width } = code;
        let (few, line, machine, interpreted) =
            (width == Width::Few, <_>::default(), <_>::default(), <_>::default());
        Self { source, name, form, part, program, few, line, machine, interpreted }
    }

    /// Asks for machine code, once, after some time in the interpreter.
    fn count(&self, single: bool, isa: Isa, time: Duration) {
        let (nanoseconds, after) = (time.as_nanos() as u64, wanted::AFTER.as_nanos() as u64);
        let before =
            self.interpreted[usize::from(!single)][isa as usize].fetch_add(nanoseconds, Ordering::Relaxed);
        if before < after && before + nanoseconds >= after {
            wanted::ask(Wanted { source: self.source, part: self.name.clone(), single, isa });
        }
    }

    /// The instruction set whose lanes the part runs on where an [`Isa`] is asked for.
    pub fn isa(&self, single: bool, isa: Isa) -> Isa {
        if self.few { isa.of_few_lanes(single) } else { isa }
    }

    /// Whether there is machine code for f32 arrays (`single`) or f64 arrays on lanes of an instruction set.
    pub fn has_machine_code(&self, single: bool, isa: Isa) -> bool {
        !self.machine[usize::from(!single)][isa as usize].load(Ordering::Acquire).is_null()
    }

    /// Lets machine code take the place of the interpreter, from the next call on: for f32 arrays (`single`) or f64 arrays,
    /// on lanes of an instruction set ([`PartCode::isa`]).
    ///
    /// # Safety
    /// The code does what the program says, for the launches that a [`madelung_core::runtime::Run`] of the part is called
    /// with, and stays where it is as long as the process lives.
    pub unsafe fn install(&self, single: bool, isa: Isa, machine: Machine) {
        self.machine[usize::from(!single)][isa as usize].store(machine as *mut (), Ordering::Release);
    }
}

impl Code for PartCode {
    unsafe fn run(&self, single: bool, isa: Isa, a: &LaunchAbi, lo: usize, hi: usize, partials: *mut f64) {
        let isa = self.isa(single, isa);
        let machine = self.machine[usize::from(!single)][isa as usize].load(Ordering::Acquire);
        // SAFETY: the caller's promises are those of the part; whoever installed machine code has promised that it is that.
        unsafe {
            if machine.is_null() {
                let line = self.line.get_or_init(|| Line::new(&self.program));
                let start = Instant::now();
                interpreter::run(line, single, isa, a, (lo, hi), partials);
                self.count(single, isa, start.elapsed());
            } else {
                let machine: Machine = std::mem::transmute(machine);
                machine(a, lo, hi, partials);
            }
        }
    }
}
