//! Sums of systems that several processes share.

use crate::call::{compute, exception};
use crate::convert::{elements, given_any, triples};
use madelung::array::{Array, View};
use madelung::batch::Batch;
use madelung::electrostatics::domains::{Exchange, particle_mesh_ewald_of_domain, withdraw};
use madelung::{Error, Options, PrescribedMesh, Reduction, System, cpu};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use std::sync::Mutex;

/// Messages by a method of a Python object, which is called with the interpreter's lock; an exception of it is kept.
struct Messages {
    of: Py<PyAny>,
    rank: usize,
    ranks: usize,
    raised: Mutex<Option<PyErr>>,
}

impl Exchange for Messages {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

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
            *self.raised.lock().expect("no panic holds it") = Some(raised);
            Error::argument("exchange", "messages that arrive", text)
        })
    }
}

/// Energies, forces, charge gradients and virial of a process' own atoms, those that are asked for: see
/// `particle_mesh_ewald_of_domain`. Without `system` this process has an error of its own, which the others are told.
#[pyfunction]
pub(crate) fn ewald_of_domain<'py>(
    py: Python<'py>,
    exchange: &Bound<'py, PyAny>,
    system: Option<(PyReadonlyArray2<'py, f64>, PyReadonlyArray1<'py, f64>, PyReadonlyArray2<'py, f64>)>,
    given: (Option<f64>, Option<f64>, Option<[usize; 3]>, Option<usize>),
    accuracy: Option<f64>,
    prefactor: f64,
    wanted: [bool; 4],
) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
    let messages = Messages {
        of: exchange.clone().unbind(),
        rank: exchange.getattr("rank")?.extract()?,
        ranks: exchange.getattr("ranks")?.extract()?,
        raised: Mutex::new(None),
    };
    let [per_atom, compute_forces, compute_charge_gradients, compute_virial] = wanted;
    let (alpha, cutoff, mesh_dimensions, spline_order) = given;
    let given = PrescribedMesh { alpha, cutoff, mesh_dimensions, spline_order };
    let options = Options {
        prefactor,
        energy_reduction: if per_atom { Reduction::Atom } else { Reduction::System },
        compute_forces,
        compute_charge_gradients,
        compute_virial,
    };
    let arrays = match &system {
        None => None,
        Some((positions, charges, cell)) => Some((triples(positions)?, elements(charges)?, triples(cell)?)),
    };
    let found = compute(py, || {
        let Some((positions, charges, cell)) = arrays else {
            return withdraw(&messages).map(|()| None);
        };
        let made = Batch::single(positions.len())
            .and_then(|batch| System::new(positions.into(), View::from(charges), cell.into(), batch));
        let system = made.or_else(|error| withdraw(&messages).and(Err(error)))?;
        let context = cpu::context();
        particle_mesh_ewald_of_domain(&context, &messages, &system, given, accuracy, &options).map(Some)
    });
    if let Some(raised) = messages.raised.into_inner().expect("no panic holds it") {
        return Err(raised);
    }
    let Some(found) = found? else { return Ok(vec![]) };
    let arrays: [Option<Array>; 4] =
        [Some(found.energies), found.forces, found.charge_gradients, found.virial];
    arrays.into_iter().map(|array| array.map(|array| given_any(py, array)).transpose()).collect()
}
