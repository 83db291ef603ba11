//! A potential of your own: written once, differentiated twice.
//!
//! The Buckingham potential, E_i = ½ Σ_j A exp(−r/ρ) − C/r⁶, tapered at the cutoff, as a kernel, an op and on a tape; its gradient and a
//! Hessian-vector product against finite differences. Run with `cargo run --release --bin own_kernel`.

use madelung::array::{Array, DType};
use madelung::backend::pool::Serial;
use madelung::batch::Batch;
use madelung::op::{Constraint, Op};
use madelung::tape::{Tape, Value, Var};
use std::sync::Arc;

// 1. The formula, for one atom. Everything else is derived from it.
madelung::kernels! {
    #[func]
    fn buckingham(r: Real, a: Real, rho: Real, c: Real) -> Real {
        a * exp(-r / rho) - c / pow(r, 6)
    }

    /// Goes to zero at the cutoff with two derivatives, so that no pair that crosses it makes a jump.
    #[func]
    fn taper(r: Real, cutoff: Real) -> Real {
        pow(1.0 - pow(r / cutoff, 2), 3)
    }

    /// Buckingham energy per atom, in the units of `amplitude`.
    #[kernel]
    fn buckingham_energy(
        i: Atom,
        positions: &[Vec3; Atom],
        cell: &[Mat3; System],
        strain: &[Zero<Mat3>; System],
        amplitude: &Real,
        rho: &Real,
        dispersion: &Real,
        cutoff: Real,
        atoms: &Batch<Atom, System>,
        pairs: &Pairs<Atom>,
        energy: &mut [Real; Atom],
    ) {
        let b = atoms.of(i);
        let mut e = 0.0;
        for (j, shift) in pairs.row(i) {
            let d = positions[j] - positions[i] + shift * cell[b];
            let d = d + d * strain[b];
            let r = length(d);
            if r < cutoff {
                e += buckingham(r, amplitude, rho, dispersion) * taper(r, cutoff);
            }
        }
        energy[i] = 0.5 * e;
    }
}

// 2. The op: names, shapes, and which kernels compute it.
fn buckingham_op() -> madelung::Result<Arc<Op>> {
    Op::new("example", "buckingham", 1)
        .real("positions", &["Atom", "3"])
        .real("cell", &["System", "3", "3"])
        .must_be(Constraint::Cell)
        .zero("strain", &["System", "3", "3"])
        .real("amplitude", &[])
        .real("rho", &[])
        .must_be(Constraint::Positive)
        .real("dispersion", &[])
        .scalar("cutoff")
        .batch("atoms", "Atom", "System")
        .pairs("pairs", "Atom")
        .lattice("positions", "cell", "atoms")
        .output("energy", &["Atom"])
        .step(&BUCKINGHAM_ENERGY)
        .build()
}

/// Silica-like ions on a jittered lattice: (positions, cell).
fn structure() -> (Vec<f64>, [[f64; 3]; 3]) {
    let (edge, spacing) = (4, 2.1);
    let mut positions = vec![];
    for n in 0..edge * edge * edge {
        for (axis, site) in [n / (edge * edge), n / edge % edge, n % edge].into_iter().enumerate() {
            positions.push(spacing * site as f64 + 0.15 * ((7 * n + 3 * axis) as f64).sin());
        }
    }
    let length = spacing * edge as f64;
    (positions, [[length, 0.0, 0.0], [0.0, length, 0.0], [0.0, 0.0, length]])
}

const CUTOFF: f64 = 6.0;

fn main() -> madelung::Result<()> {
    let op = buckingham_op()?;
    let (positions, cell) = structure();
    let n = positions.len() / 3;
    let batch = Batch::single(n)?;
    // A list that reaches a little further than the cutoff stays right while atoms move a little.
    let rows: Vec<[f64; 3]> = positions.as_chunks().0.to_vec();
    let options = madelung::neighbors::Options::full();
    let pairs = madelung::neighbor_list(&rows, CUTOFF + 0.3, Some(&[cell]), None, &batch, &options, &Serial)?;
    let (batch, pairs) = (Arc::new(batch), Arc::new(pairs));

    // 3. On a tape.
    let mut tape = Tape::new(madelung::cpu::context());
    let array = |shape: &[usize], data: &[f64]| Array::from_f64(DType::F64, shape, data);
    let r = tape.input(array(&[n, 3], &positions)?);
    let h = tape.input(array(&[1, 3, 3], cell.as_flattened())?);
    let strain = tape.input(array(&[1, 3, 3], &[0.0; 9])?);
    let rho = tape.input(array(&[], &[0.3])?);
    let amplitude = tape.input(array(&[], &[1000.0])?);
    let dispersion = tape.input(array(&[], &[30.0])?);
    let arguments = |r: Var, rho: Var| {
        vec![
            r.into(),
            h.into(),
            strain.into(),
            amplitude.into(),
            rho.into(),
            dispersion.into(),
            Value::Real(CUTOFF),
            Value::Structure(batch.clone()),
            Value::Structure(pairs.clone()),
        ]
    };
    let energy = tape.call(&op, arguments(r, rho))?[0];
    let total = |tape: &Tape<'_>| Ok::<f64, madelung::Error>(tape.value(energy)?.to_f64()?.iter().sum());
    println!("{n} atoms, {} pairs, energy {:.10}", pairs.len(), total(&tape)?);

    // The gradient: forces, virial and the derivative by a parameter, in one pass.
    let ones = Array::filled(DType::F64, &[n], 1.0);
    tape.backward(&[(energy, ones.try_clone()?)])?;
    let gradient = |tape: &Tape<'_>, v: Var| tape.gradient(v).map_or(Ok(vec![]), Array::to_f64);
    let (by_r, by_rho) = (gradient(&tape, r)?, gradient(&tape, rho)?[0]);
    println!("dE/drho {by_rho:.10}, trace of the virial {:.10}", {
        let by_strain = gradient(&tape, strain)?;
        -(by_strain[0] + by_strain[4] + by_strain[8])
    });

    // The backward pass recorded, and differentiated again: a Hessian-vector product.
    let weights = tape.constant(ones);
    let forces = tape.differentiate(&[(energy, weights)], &[r])?[0].expect("the energy depends on positions");
    let direction: Vec<f64> = (0..3 * n).map(|k| (0.7 * k as f64).cos()).collect();
    tape.zero();
    tape.backward(&[(forces, array(&[n, 3], &direction)?)])?;
    let hessian_vector = gradient(&tape, r)?;

    // 4. Finite differences agree: move the input along the direction, replay, and look at the slope.
    type EnergyAndForces = (f64, Vec<f64>);
    let mut slopes = |step: f64| -> madelung::Result<EnergyAndForces> {
        let mut at = |x: f64| -> madelung::Result<EnergyAndForces> {
            let moved: Vec<f64> = positions.iter().zip(&direction).map(|(r, u)| r + x * u).collect();
            tape.set(r, array(&[n, 3], &moved)?)?;
            tape.replay()?;
            Ok((total(&tape)?, tape.value(forces)?.to_f64()?))
        };
        // Four points: the error is of order step⁴.
        let points = [at(-2.0 * step)?, at(-step)?, at(step)?, at(2.0 * step)?];
        let slope = |f: &dyn Fn(&EnergyAndForces) -> f64| {
            let [a, b, c, d] = [&points[0], &points[1], &points[2], &points[3]].map(f);
            (a - d + 8.0 * (c - b)) / (12.0 * step)
        };
        Ok((slope(&|p| p.0), (0..3 * n).map(|k| slope(&|p| p.1[k])).collect()))
    };
    let (slope, curvature) = slopes(1e-4)?;
    let along: f64 = by_r.iter().zip(&direction).map(|(g, u)| g * u).sum();
    let rms = |v: &[f64]| (v.iter().map(|x| x * x).sum::<f64>() / v.len() as f64).sqrt();
    let difference: Vec<f64> = hessian_vector.iter().zip(&curvature).map(|(a, b)| a - b).collect();
    let first = (slope / along - 1.0).abs();
    let second = rms(&difference) / rms(&hessian_vector);
    println!("gradient against finite differences:               {first:.1e}");
    println!("Hessian-vector product against finite differences: {second:.1e}");
    assert!(first < 1e-8 && second < 1e-8, "the derivatives are wrong");
    Ok(())
}
