//! Energies of atoms by charge gradients of the energy of their system, against the same op's own steps.

use crate::support::{array, names, wiggles};
use madelung_core::Result;
use madelung_core::array::Array;
use madelung_core::op::{Arg, Cotangent, Linear, Op, OpBuilder, Request};
use madelung_core::structure::Batch;
use std::sync::Arc;

madelung_core::kernels! {
    /// ½ qᵢ Σⱼ qⱼ cos(xᵢ − xⱼ)
    #[kernel(small)]
    fn interaction(
        i: Atom,
        x: &[Real; Atom],
        q: &[Real; Atom],
        atoms: &Batch<Atom, System>,
        energy: &mut [Real; Atom],
    ) {
        let mut sum = 0.0;
        for j in atoms.members(atoms.of(i)) {
            sum += q[j] * cos(x[i] - x[j]);
        }
        energy[i] = 0.5 * q[i] * sum;
    }
}

fn arguments(name: &str) -> OpBuilder {
    Op::new("test", name, 1).real("x", &["Atom"]).real("q", &["Atom"]).batch("atoms", "Atom", "System")
}

fn rows() -> OpBuilder {
    arguments("interaction").output("energy", &["Atom"]).step(&INTERACTION)
}

fn sum() -> Arc<Op> {
    arguments("interaction_total")
        .output("energy", &["System"])
        .scratch("atom_energy", &["Atom"])
        .step_as(&INTERACTION, &[("energy", "atom_energy")])
        .linear(Linear::SegmentedSum, &["atoms", "atom_energy", "energy"])
        .build()
        .expect("the declaration fits")
}

const ATOMS: usize = 23;

fn close(found: &Array, expected: &Array) {
    let (found, expected) = (found.to_f64().unwrap(), expected.to_f64().unwrap());
    let scale = expected.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 1e-14 * scale));
}

#[test]
fn rows_of_a_form_of_second_degree_come_from_its_gradient() -> Result<()> {
    let (own, by_sum) = (rows().build()?, rows().rows_of("q", &sum()).build()?);
    let context = madelung_cpu::context();
    let (x, q) = (array(&[ATOMS], &wiggles(ATOMS, 0.3)), array(&[ATOMS], &wiggles(ATOMS, 1.9)));
    let batch = Batch::from_ptr(vec![0, 9, 9, 23])?;
    let args = [Arg::Array(x.view()), Arg::Array(q.view()), Arg::Structure(&batch)];
    close(&by_sum.value(&context, &args)?[0], &own.value(&context, &args)?[0]);

    let w = array(&[ATOMS], &wiggles(ATOMS, 0.7));
    let uniform = [Some(Cotangent::Uniform(-0.75))];
    let weights = [Some(Cotangent::Array(w.view()))];
    for (cotangents, gradients, values) in [
        (&uniform, &[0][..], true),
        (&uniform, &[0], false),
        (&uniform, &[1, 0], true),
        (&weights, &[0, 1], true),
        (&weights, &[1], false),
    ] {
        let request = Request { values, cotangents, gradients, ..Request::default() };
        let (a, b) = (by_sum.evaluate(&context, &args, &request)?, own.evaluate(&context, &args, &request)?);
        assert_eq!((a.values.len(), a.gradients.len()), (usize::from(values), gradients.len()));
        for (found, expected) in a.values.iter().zip(&b.values).chain(a.gradients.iter().zip(&b.gradients)) {
            close(found, expected);
        }
    }
    let direction = [Some(w.view()), None, None];
    let tangent = Request { directions: &[&direction], ..Request::default() };
    let (a, b) = (by_sum.evaluate(&context, &args, &tangent)?, own.evaluate(&context, &args, &tangent)?);
    close(&a.values[0], &b.values[0]);
    Ok(())
}

#[test]
fn a_sum_of_another_kind_is_an_error() {
    names(rows().rows_of("energy", &sum()).build(), "sum of test::interaction");
    let other = Op::new("test", "other", 1)
        .real("q", &["Atom"])
        .batch("atoms", "Atom", "System")
        .output("energy", &["System"])
        .linear(Linear::SegmentedSum, &["atoms", "q", "energy"])
        .build()
        .expect("the declaration fits");
    names(rows().rows_of("q", &other).build(), "sum of test::interaction");
    let per_system = arguments("total")
        .output("energy", &["System"])
        .linear(Linear::SegmentedSum, &["atoms", "q", "energy"]);
    names(per_system.rows_of("q", &sum()).build(), "sum of test::total");
}
