//! Machine code for kernels that are made at run time: their text, and addresses of what Python made of it.
#![expect(unsafe_code, reason = "machine code that Python made is called")]

use crate::call::{compute, exception};
use madelung::cpu::Isa;
use madelung::runtime::{Machine, PartCode, Wanted, kernels, wait_for_wanted};
use pyo3::prelude::*;

/// The parts of the kernels of a block of source: kernel, form and part, by their places, and their names.
#[pyfunction]
pub(crate) fn kernel_parts(
    py: Python<'_>,
    source: &str,
) -> PyResult<Vec<(String, usize, usize, &'static str)>> {
    compute(py, || {
        let all = kernels(source)?.iter().flat_map(|made| {
            made.parts().iter().map(move |part| (made.name.to_string(), part.form, part.part, &*part.name))
        });
        Ok(all.collect())
    })
}

/// The code of a part, by its name.
fn part(source: &str, name: &str) -> madelung::Result<&'static PartCode> {
    let mut parts = kernels(source)?.iter().flat_map(|made| made.parts().iter().copied());
    parts
        .find(|part| part.name == name)
        .ok_or_else(|| madelung::Error::argument("part", "the name of a part of the source's kernels", name))
}

fn isa(name: &str) -> madelung::Result<Isa> {
    let found = Isa::available().iter().find(|isa| format!("{isa:?}").eq_ignore_ascii_case(name));
    found.copied().ok_or_else(|| {
        let known: Vec<String> = Isa::available().iter().map(|isa| format!("{isa:?}")).collect();
        madelung::Error::argument("isa", known.join(", "), name)
    })
}

/// LLVM text of a part, for f32 arrays (`single`) or f64 arrays on lanes of an instruction set. It defines the function
/// `machine_code_name`, and calls `machine_code_symbols`.
#[pyfunction]
pub(crate) fn kernel_llvm(
    py: Python<'_>,
    source: &str,
    name: &str,
    single: bool,
    isa: &str,
) -> PyResult<String> {
    compute(py, || Ok(part(source, name)?.llvm(single, self::isa(isa)?)))
}

/// The code of a part, and the instruction set on whose lanes it runs where another one is asked for.
fn slot(source: &str, name: &str, single: bool, isa: &str) -> madelung::Result<(&'static PartCode, Isa)> {
    let (part, isa) = (part(source, name)?, self::isa(isa)?);
    Ok((part, part.isa(single, isa)))
}

/// Whether a part has machine code.
#[pyfunction]
pub(crate) fn has_machine_code(source: &str, name: &str, single: bool, isa: &str) -> PyResult<bool> {
    let (part, isa) = slot(source, name, single, isa).map_err(exception)?;
    Ok(part.has_machine_code(single, isa))
}

/// Puts machine code of a part's text in the place of the interpreter, from the next call on.
///
/// The address is that of the function which LLVM made of `kernel_llvm` with the same arguments, and stays valid as long
/// as the process lives; 0 is refused.
#[pyfunction]
pub(crate) fn install_machine_code(
    source: &str,
    name: &str,
    single: bool,
    isa: &str,
    address: usize,
) -> PyResult<()> {
    let (part, isa) = slot(source, name, single, isa).map_err(exception)?;
    if address == 0 {
        return Err(exception(madelung::Error::argument("address", "the address of a function", "0")));
    }
    // SAFETY: the caller promises the address of a function of this type, made of the part's text.
    unsafe {
        let machine: Machine = std::mem::transmute(std::ptr::with_exposed_provenance::<()>(address));
        part.install(single, isa, machine);
    }
    Ok(())
}

/// The name of the function that each text defines.
#[pyfunction]
pub(crate) fn machine_code_name() -> &'static str {
    madelung::runtime::llvm::NAME
}

/// The functions that texts call, and their addresses.
#[pyfunction]
pub(crate) fn machine_code_symbols() -> Vec<(&'static str, usize)> {
    madelung::runtime::llvm::symbols()
}

/// Waits for parts that the interpreter runs for long: source, name, whether for f32 arrays, and instruction set of each.
/// None after `stop_waiting`.
#[pyfunction]
pub(crate) fn wanted_parts(py: Python<'_>) -> Option<Vec<(&'static str, String, bool, String)>> {
    let of = |wanted: Wanted| (wanted.source, wanted.part, wanted.single, format!("{:?}", wanted.isa));
    Some(py.detach(wait_for_wanted)?.into_iter().map(of).collect())
}

/// Lets the thread in `wanted_parts` go.
#[pyfunction]
pub(crate) fn stop_waiting() {
    madelung::runtime::stop_waiting();
}
