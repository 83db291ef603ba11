//! A network of charges that learns from energies and forces, in Rust alone: charges follow from the species and the
//! density around each ion, the energy is Ewald's sum of them, and forces are its gradient, through the network and
//! the sum.

use madelung::batch::Batch;
use madelung::neighbors::Options as Lists;
use madelung::pairs::PairList;
use madelung::{EwaldSettings, Result, backend::pool::Serial};
use madelung_tch::{Input, Options, System, call, ewald_summation};
use std::sync::Arc;
use tch::nn::{Module, OptimizerConfig};
use tch::{Device, Kind, Tensor, nn};

/// Length of the cell, and the distance of ions in the crystal, in Å.
const LENGTH: f64 = 5.6;
const DISTANCE: f64 = 2.8;
/// Radius around an ion in which others count for its density, in Å.
const RADIUS: f64 = 4.2;

/// A disturbed crystal of rock salt, its pairs, and the energy and the forces to be learned.
struct Sample {
    positions: Tensor,
    pairs: Arc<PairList<'static>>,
    rows: Tensor,
    energy: Tensor,
    forces: Tensor,
}

fn cell() -> Tensor {
    Tensor::eye(3, (Kind::Double, Device::Cpu)) * LENGTH
}

/// 1 for sodium and −1 for chlorine.
fn species() -> Tensor {
    let of = |n: i32| if (n / 4 + n / 2 % 2 + n % 2) % 2 == 0 { 1.0 } else { -1.0 };
    Tensor::from_slice(&(0..8).map(of).collect::<Vec<f64>>())
}

/// The density ρ of neighbours around each ion: Σ exp(−r²/2d²), that of the perfect crystal about 1.
fn density(positions: &Tensor, pairs: &Arc<PairList<'static>>, rows: &Tensor) -> Result<Tensor> {
    let op = madelung::neighbors::registry().get("pair_vectors").expect("an op of the library");
    let batch = Input::structure(Batch::single(8)?);
    let found =
        call(op, [positions.into(), cell().unsqueeze(0).into(), batch, Input::Structure(pairs.clone())])?;
    let each = (found[1].square() / (-2.0 * DISTANCE * DISTANCE)).exp() / 8.0;
    Ok(Tensor::zeros([8], (Kind::Double, Device::Cpu)).index_add(0, rows, &each))
}

/// The energy in eV of charges (N,), and the forces in eV/Å, which can be differentiated again.
fn energy_and_forces(positions: &Tensor, charges: &Tensor) -> Result<(Tensor, Tensor)> {
    let (neutral, cell) = (charges - charges.mean(Kind::Double), cell());
    let system = System::new(positions, &neutral, &cell);
    let options = Options { prefactor: madelung::units::EV_ANGSTROM, ..Options::per_system() };
    let energy = ewald_summation(&system, &EwaldSettings::default(), None, &options)?;
    let forces = -Tensor::run_backward(&[&energy], &[positions], true, true).remove(0);
    Ok((energy, forces))
}

impl Sample {
    /// Ions of charges ±(1 − ρ/5), which the network does not know.
    fn new() -> Result<Self> {
        let sites: Vec<f64> =
            (0..8).flat_map(|n| [n / 4, n / 2 % 2, n % 2].map(|k| f64::from(k) * DISTANCE)).collect();
        let noise = Tensor::randn([8, 3], (Kind::Double, Device::Cpu)) * 0.25;
        let positions = (Tensor::from_slice(&sites).view([8, 3]) + noise).set_requires_grad(true);
        let rows: Vec<f64> = Vec::try_from(positions.flatten(0, 1)).expect("numbers");
        let cell = [[LENGTH, 0.0, 0.0], [0.0, LENGTH, 0.0], [0.0, 0.0, LENGTH]];
        let batch = Batch::single(8)?;
        let pairs = madelung::neighbor_list(
            rows.as_chunks::<3>().0,
            RADIUS,
            Some(&[cell]),
            None,
            &batch,
            &Lists::full(),
            &Serial,
        )?;
        let of: Vec<i64> = pairs.iter().map(|(i, ..)| i as i64).collect();
        let (pairs, rows) = (Arc::new(pairs), Tensor::from_slice(&of));
        let charges = species() * (1.0 - density(&positions, &pairs, &rows)? / 5.0);
        let (energy, forces) = energy_and_forces(&positions, &charges)?;
        Ok(Self { positions, pairs, rows, energy: energy.detach(), forces: forces.detach() })
    }
}

/// The loss before and after some steps of training.
pub(crate) fn train(steps: usize) -> Result<[f64; 2]> {
    tch::manual_seed(1);
    let samples = (0..4).map(|_| Sample::new()).collect::<Result<Vec<_>>>()?;
    let mut variables = nn::VarStore::new(Device::Cpu);
    let path = variables.root();
    let network = nn::seq()
        .add(nn::linear(&path / "in", 2, 16, Default::default()))
        .add_fn(Tensor::tanh)
        .add(nn::linear(&path / "out", 16, 1, Default::default()));
    variables.double();
    let mut optimizer = nn::Adam::default().build(&variables, 1e-2).expect("an optimizer");
    let mut losses = vec![];
    for _ in 0..=steps {
        let mut loss = Tensor::zeros([], (Kind::Double, Device::Cpu));
        for sample in &samples {
            let density = density(&sample.positions, &sample.pairs, &sample.rows)?;
            let charges = network.forward(&Tensor::stack(&[species(), density], 1)).squeeze_dim(1);
            let (energy, forces) = energy_and_forces(&sample.positions, &charges)?;
            loss += (energy - &sample.energy).square().sum(Kind::Double) / 8.0;
            loss += (forces - &sample.forces).square().sum(Kind::Double);
        }
        losses.push(loss.double_value(&[]));
        optimizer.backward_step(&loss);
    }
    Ok([losses[0], losses[steps]])
}

#[allow(dead_code, reason = "a test has the functions above alone")]
fn main() -> Result<()> {
    let [first, last] = train(200)?;
    println!("loss: {first:.3} before, {last:.5} after 200 steps");
    Ok(())
}
