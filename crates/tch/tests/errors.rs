//! Errors of arguments that do not fit, which name them; arguments of every layout and dtype.

use madelung::batch::Batch;
use madelung::op::Op;
use madelung::pairs::{Kind as ListKind, PairList};
use madelung::{Error, EwaldSettings};
use madelung_tch::{Input, Options, System, call, ewald_summation};
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

const DOUBLE: (Kind, Device) = (Kind::Double, Device::Cpu);

fn op(name: &str) -> &'static Arc<Op> {
    madelung::electrostatics::registry().get(name).expect("an op of the library")
}

fn positions() -> Tensor {
    Tensor::from_slice(&[0.1, 0.2, 0.3, 1.9, 0.4, 0.2, 0.3, 2.1, 0.7]).view([3, 3])
}

fn charges() -> Tensor {
    Tensor::from_slice(&[1.0, -0.7, -0.3])
}

fn cell() -> Tensor {
    (Tensor::eye(3, DOUBLE) * 9.0).unsqueeze(0)
}

/// Energies of pairs, ½ Σ q_i q_j erfc(αr)/r, of these tensors.
fn energies(positions: &Tensor, charges: &Tensor, cell: &Tensor, cutoff: f64) -> madelung::Result<Tensor> {
    energies_over(&pairs(), positions, charges, cell, cutoff)
}

fn pairs() -> Arc<dyn madelung::op::Structure> {
    let (i, j) = ([0, 0, 1, 1, 2, 2], vec![1, 2, 0, 2, 0, 1]);
    Arc::new(PairList::from_coo(&i, j, vec![[0; 3]; 6], 3, 3, ListKind::Full).expect("a list"))
}

fn energies_over(
    pairs: &Arc<dyn madelung::op::Structure>,
    positions: &Tensor,
    charges: &Tensor,
    cell: &Tensor,
    cutoff: f64,
) -> madelung::Result<Tensor> {
    let alpha = Tensor::from_slice(&[0.4]).to_kind(positions.f_kind().unwrap_or(Kind::Double));
    let inputs = [
        positions.into(),
        charges.into(),
        cell.into(),
        (&alpha).into(),
        Input::Zero,
        Input::structure(Batch::single(3)?),
        1.0.into(),
        Input::Structure(pairs.clone()),
        cutoff.into(),
    ];
    Ok(call(op("ewald_real_space"), inputs)?.swap_remove(0))
}

fn numbers(x: &Tensor) -> Vec<f64> {
    Vec::try_from(x.to_kind(Kind::Double).flatten(0, -1)).expect("numbers")
}

/// The argument that an error names, and its text.
fn refused(found: madelung::Result<Tensor>) -> (String, String) {
    let error = found.expect_err("an error");
    match &error {
        Error::Argument { argument, .. } => (argument.clone(), error.to_string()),
        _ => (String::new(), error.to_string()),
    }
}

#[test]
fn arguments_that_do_not_fit() {
    let (r, q, h) = (positions(), charges(), cell());
    assert!(energies(&r, &q, &h, 4.0).is_ok());
    let cases = [
        ("positions", "Int16", energies(&r.to_kind(Kind::Int16), &q, &h, 4.0)),
        ("positions", "undefined", energies(&Tensor::new(), &q, &h, 4.0)),
        ("positions", "sparse", energies(&r.to_sparse_sparse_dim(2), &q, &h, 4.0)),
        ("charges", "float32", energies(&r, &q.to_kind(Kind::Float), &h, 4.0)),
        ("charges", "got 2", energies(&r, &q.narrow(0, 0, 2), &h, 4.0)),
        ("cell", "got", energies(&r, &q, &h.select(0, 0), 4.0)),
        ("cutoff", "-1", energies(&r, &q, &h, -1.0)),
        ("positions", "got", energies(&(&r / 0.0 * 0.0), &q, &h, 4.0)),
    ];
    for (name, got, found) in cases {
        let (argument, text) = refused(found);
        assert_eq!(argument, name, "{text}");
        assert!(text.contains(got), "{text}");
    }
    let few = call(op("ewald_real_space"), [(&r).into()]).map(|mut x| x.swap_remove(0));
    assert_eq!(refused(few).0, "inputs");
}

#[test]
fn sums_that_are_refused() {
    let (r, q, h) = (positions(), charges(), cell());
    let system = || System::new(&r, &q, &h);
    let sum = |system: System<'_>, settings: EwaldSettings| {
        ewald_summation(&system, &settings, None, &Options::per_system())
    };
    let flat = Tensor::zeros([3, 3], DOUBLE);
    let factors = charges();
    let negative = EwaldSettings { alpha: Some(vec![-1.0]), ..EwaldSettings::default() };
    let cases = [
        ("cell", sum(System::new(&r, &q, &flat), EwaldSettings::default())),
        ("pbc", sum(system().with_boundaries(&[[true; 3]; 2]), EwaldSettings::default())),
        ("exclusions", sum(system().excluding(&[[0, 1]], &factors), EwaldSettings::default())),
        ("widths", sum(system().with_widths(&r), EwaldSettings::default())),
        ("alpha", sum(system(), negative)),
    ];
    for (name, found) in cases {
        let (argument, text) = refused(found);
        assert_eq!(argument, name, "{text}");
    }
    let directed = PairList::from_coo(&[0, 0, 1], vec![1, 2, 2], vec![[0; 3]; 3], 3, 3, ListKind::Directed)
        .expect("a list");
    let pairs: Arc<dyn madelung::op::Structure> = Arc::new(directed);
    let settings = EwaldSettings { cutoff: Some(vec![4.0]), ..EwaldSettings::default() };
    let found = ewald_summation(&system(), &settings, Some(&pairs), &Options::default());
    assert_eq!(refused(found).0, "pairs");
}

#[test]
fn a_backward_pass_that_cannot_be_is_an_error_of_torch() {
    let r = positions().set_requires_grad(true);
    let energy = energies(&r, &charges(), &cell(), 4.0).expect("energies").sum(Kind::Double);
    let once = || Tensor::f_run_backward(&[&energy], &[&r], false, false);
    assert!(once().is_ok());
    let again = once().expect_err("a graph that was given back").to_string();
    assert!(again.contains("a second time"), "{again}");

    let q = charges();
    let energy = energies(&r, &q, &cell(), 4.0).expect("energies").sum(Kind::Double);
    let _ = q.shallow_clone().fill_(2.0);
    let changed = Tensor::f_run_backward(&[&energy], &[&r], false, false).expect_err("a changed input");
    assert!(changed.to_string().contains("modified by an inplace operation"), "{changed}");

    // Infinite cotangents are no error: by them a trainer knows that a scaled loss has overflowed.
    let infinite = Tensor::from_slice(&[f64::INFINITY; 3]);
    let energy = energies(&r, &charges(), &cell(), 4.0).expect("energies");
    let found = Tensor::f_run_backward(&[&(energy * infinite).sum(Kind::Double)], &[&r], false, false);
    assert!(found.is_ok());
}

#[test]
fn tensors_of_any_layout_and_dtype() {
    let (r, q, h) = (positions(), charges(), cell());
    let wanted = numbers(&energies(&r, &q, &h, 4.0).expect("energies"));
    let transposed = r.transpose(0, 1).contiguous().transpose(0, 1);
    assert!(!transposed.is_contiguous());
    assert_eq!(numbers(&energies(&transposed, &q, &h, 4.0).expect("energies")), wanted);
    let narrow = [&r, &q, &h].map(|x| x.to_kind(Kind::Float).set_requires_grad(true));
    let found = energies(&narrow[0], &narrow[1], &narrow[2], 4.0).expect("energies");
    assert_eq!(found.kind(), Kind::Float);
    for (found, wanted) in numbers(&found).iter().zip(&wanted) {
        // Rounding of the inputs.
        assert!((found - wanted).abs() < 1e-6, "{found} against {wanted}");
    }
    let forces = Tensor::run_backward(&[&found.sum(Kind::Float)], &[&narrow[0]], true, true).remove(0);
    assert_eq!(forces.kind(), Kind::Float);
    let by_charges = Tensor::run_backward(&[&forces.square().sum(Kind::Float)], &[&narrow[1]], false, false);
    assert_eq!(by_charges[0].kind(), Kind::Float);
}

#[test]
fn tensors_without_memory_are_refused() {
    let zeros = Tensor::internal_efficientzerotensor([3, 3], DOUBLE);
    let (argument, text) = refused(energies(&zeros, &charges(), &cell(), 4.0));
    assert!(argument == "positions" && text.contains("without memory"), "{text}");
}

/// Whether there was a backward pass or none, here or on another thread, and after one that fails.
#[test]
fn lists_are_kept_for_as_long_as_results() {
    let list = pairs();
    let result = || {
        let r = positions().set_requires_grad(true);
        let energy = energies_over(&list, &r, &charges(), &cell(), 4.0).expect("energies");
        assert!(Arc::strong_count(&list) > 1);
        (energy.sum(Kind::Double), r)
    };
    drop(result());
    assert_eq!(Arc::strong_count(&list), 1);
    for twice in [false, true] {
        let (energy, r) = result();
        let forces = Tensor::run_backward(&[&energy], &[&r], twice, twice).remove(0);
        if twice {
            forces.square().sum(Kind::Double).backward();
        }
        drop((energy, forces));
        drop(r);
        assert_eq!(Arc::strong_count(&list), 1);
    }
    let (energy, r) = result();
    let here = Tensor::run_backward(&[&energy], &[&r], true, false).remove(0);
    let there = std::thread::spawn(move || Tensor::run_backward(&[energy], &[r], false, false).remove(0));
    assert_eq!(numbers(&here), numbers(&there.join().expect("a backward pass")));
    assert_eq!(Arc::strong_count(&list), 1);
    assert!(energies_over(&list, &positions(), &charges(), &cell(), -1.0).is_err());
    assert_eq!(Arc::strong_count(&list), 1);
}

#[test]
fn nothing_is_recorded_without_a_graph() {
    let r = positions().set_requires_grad(true);
    assert!(!energies(&positions(), &charges(), &cell(), 4.0).expect("energies").requires_grad());
    let within = tch::no_grad(|| energies(&r, &charges(), &cell(), 4.0).expect("energies"));
    assert!(!within.requires_grad());
    assert!(energies(&r, &charges(), &cell(), 4.0).expect("energies").requires_grad());
}
