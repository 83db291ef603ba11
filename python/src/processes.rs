//! Sums of systems that several processes share.

use crate::call::{compute, exception};
use crate::convert::{elements, given_any, triples};
use madelung::array::{Array, View};
use madelung::batch::Batch;
use madelung::electrostatics::domains::{Exchange, Processes, particle_mesh_ewald_of_domain, withdraw};
use madelung::{Error, Options, PrescribedMesh, Reduction, System, cpu};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Mutex;

/// Messages by a method of a Python object, which is called with the interpreter's lock; an exception of it is kept.
struct Messages {
    of: Py<PyAny>,
    rank: i64,
    ranks: i64,
    raised: Mutex<Option<PyErr>>,
}

impl Exchange for Messages {
    fn all_to_all(
        &self,
        send: &[f64],
        sent: &[usize],
        receive: &mut [f64],
        received: &[usize],
    ) -> madelung::Result<()> {
        let found = Python::attach(|py| {
            let arguments = (PyArray1::from_slice(py, send), sent.to_vec(), received.to_vec());
            let found = self.of.call_method1(py, "all_to_all", arguments)?;
            let found: PyReadonlyArray1<'_, f64> = found.extract(py)?;
            let numbers = elements(&found)?;
            if numbers.len() != receive.len() {
                let expected = format!("{} numbers", receive.len());
                return Err(exception(Error::argument("all_to_all", expected, numbers.len().to_string())));
            }
            receive.copy_from_slice(numbers);
            Ok(())
        });
        found.map_err(|raised: PyErr| {
            let text = raised.to_string();
            self.raised.lock().expect("no panic holds it").get_or_insert(raised);
            Error::argument("exchange", "messages that arrive", text)
        })
    }
}

impl Messages {
    fn new(exchange: &Bound<'_, PyAny>) -> PyResult<Self> {
        let [rank, ranks] = [exchange.getattr("rank")?.extract()?, exchange.getattr("ranks")?.extract()?];
        Ok(Self { of: exchange.clone().unbind(), rank, ranks, raised: Mutex::new(None) })
    }

    /// The result of a call without the interpreter's lock, or what the object has raised.
    fn compute<T: Send>(
        self,
        py: Python<'_>,
        work: impl FnOnce(&Processes<'_>) -> madelung::Result<T> + Send,
    ) -> PyResult<T> {
        let found = compute(py, || work(&Processes::new(self.rank, self.ranks, &self)?));
        self.raised.into_inner().expect("no panic holds it").map_or(found, Err)
    }
}

/// Energies, forces, charge gradients and virial of a process' own atoms, those that are asked for: see
/// `particle_mesh_ewald_of_domain`.
#[pyfunction]
pub(crate) fn ewald_of_domain<'py>(
    py: Python<'py>,
    exchange: &Bound<'py, PyAny>,
    positions: PyReadonlyArray2<'py, f64>,
    charges: PyReadonlyArray1<'py, f64>,
    cell: PyReadonlyArray2<'py, f64>,
    parameters: &Bound<'py, PyDict>,
    wanted: [bool; 4],
) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
    let messages = Messages::new(exchange)?;
    let of = |name: &str| parameters.as_any().get_item(name);
    let given = PrescribedMesh {
        alpha: of("alpha")?.extract()?,
        cutoff: of("cutoff")?.extract()?,
        mesh_dimensions: of("mesh_dimensions")?.extract()?,
        spline_order: of("spline_order")?.extract()?,
    };
    let accuracy = of("accuracy")?.extract()?;
    let [per_atom, compute_forces, compute_charge_gradients, compute_virial] = wanted;
    let options = Options {
        prefactor: of("prefactor")?.extract()?,
        energy_reduction: if per_atom { Reduction::Atom } else { Reduction::System },
        compute_forces,
        compute_charge_gradients,
        compute_virial,
    };
    let (positions, charges, cell) = (triples(&positions)?, elements(&charges)?, triples(&cell)?);
    let found = messages.compute(py, |processes| {
        let made = Batch::single(positions.len())
            .and_then(|batch| System::new(positions.into(), View::from(charges), cell.into(), batch));
        let system = made.or_else(|error| withdraw(processes).and(Err(error)))?;
        particle_mesh_ewald_of_domain(&cpu::context(), processes, &system, given, accuracy, &options)
    })?;
    let arrays: [Option<Array>; 4] =
        [Some(found.energies), found.forces, found.charge_gradients, found.virial];
    arrays.into_iter().map(|array| array.map(|array| given_any(py, array)).transpose()).collect()
}

/// Tells the other processes of a sum that this one has an error.
#[pyfunction]
pub(crate) fn withdraw_from_domain(py: Python<'_>, exchange: &Bound<'_, PyAny>) -> PyResult<()> {
    Messages::new(exchange)?.compute(py, withdraw)
}
