//! What the Rust calls do with arguments that make no sense, and with the smallest that do.

use crate::common::systems::{System, random_system, rock_salt, triclinic_cell};
use crate::support::{Arrays, Call, copied};
use madelung::array::{Array, DType, Data, View};
use madelung::backend::pool::Serial;
use madelung::batch::Batch;
use madelung::electrostatics::registry;
use madelung::op::{Arg, Constraint, Cotangent, Linear, Op, Registry, Request};
use madelung::pairs::{Kind, PairList};
use madelung::tape::Tape;
use madelung::{
    Energies, Error, EwaldSettings, Options, Result, ewald_real_space, ewald_reciprocal_space,
    ewald_summation,
};

/// The error names the argument, and says what was expected and what came.
fn names<T: std::fmt::Debug>(result: Result<T>, argument: &str) {
    match result {
        Err(Error::Argument { argument: named, expected, got }) => {
            assert!(
                named.contains(argument),
                "`{named}` named, not `{argument}`: expected {expected}, got {got}"
            );
            assert!(!expected.is_empty() && !got.is_empty());
        }
        other => panic!("expected an error about `{argument}`, got {other:?}"),
    }
}

fn salt() -> System {
    rock_salt(1, 2.8, 0.05, 1)
}

fn sum_of(system: &System, settings: &EwaldSettings) -> Result<Energies> {
    let arrays = Arrays::new(&[system], DType::F64);
    ewald_summation(&madelung::cpu::context(), &arrays.system(), settings, None, &Options::everything())
}

#[test]
fn systems() {
    let good = Arrays::new(&[&salt()], DType::F64);
    let n = 8;
    let single = || Batch::single(n).expect("a batch");
    let build = |r: &Array, q: &Array, h: &Array, b: Batch<'static>| {
        madelung::System::new(r.view(), q.view(), h.view(), b).map(|_| ())
    };
    let (r, q, h) = (&good.positions, &good.charges, &good.cell);
    assert!(build(r, q, h, single()).is_ok());
    names(build(&Array::zeros(DType::I32, &[n, 3]), q, h, single()), "positions");
    names(build(&Array::zeros(DType::F64, &[n, 2]), q, h, single()), "positions");
    names(build(&Array::zeros(DType::F64, &[3 * n]), q, h, single()), "positions");
    names(build(r, &q.cast(DType::F32).unwrap(), h, single()), "charges");
    names(build(r, &Array::zeros(DType::F64, &[n + 1]), h, single()), "charges");
    names(build(r, q, &Array::zeros(DType::F64, &[3, 3]), single()), "cell");
    names(build(r, q, &Array::filled(DType::F64, &[3, 3], f64::NAN), single()), "cell");
    names(build(r, q, &Array::zeros(DType::F64, &[9]), single()), "cell");
    names(build(r, q, &h.cast(DType::F32).unwrap(), single()), "cell");
    names(build(r, q, h, Batch::single(n - 1).expect("a batch")), "positions");
    names(Batch::from_idx(vec![0, 1, 0], None).map(|_| ()), "batch_idx");
    names(Batch::from_idx(vec![0, -1], None).map(|_| ()), "batch_idx");
    names(Batch::from_ptr(vec![0, 3, 2]).map(|_| ()), "batch_ptr");
    names(View::new(Data::F64(&[0.0; 5]), &[2, 3]), "shape");
    names(View::new(Data::F64(&[]), &[usize::MAX, 2]), "shape");
}

#[test]
fn parameters() {
    let settings = EwaldSettings::default;
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        names(sum_of(&salt(), &EwaldSettings { alpha: Some(vec![bad]), ..settings() }), "alpha");
        names(sum_of(&salt(), &EwaldSettings { cutoff: Some(vec![bad]), ..settings() }), "cutoff");
        names(sum_of(&salt(), &EwaldSettings { k_cutoff: Some(vec![bad]), ..settings() }), "k_cutoff");
        names(sum_of(&salt(), &EwaldSettings::accuracy(bad)), "accuracy");
    }
    names(sum_of(&salt(), &EwaldSettings::accuracy(1e-20)), "accuracy");
    names(sum_of(&salt(), &EwaldSettings { alpha: Some(vec![0.3; 2]), ..settings() }), "alpha");
    let arrays = Arrays::new(&[&salt()], DType::F64);
    let context = madelung::cpu::context();
    let pairs = arrays.system().neighbor_list(5.0, &Serial).expect("a list");
    let real = |alpha: f64, cutoff: f64, options: &Options| {
        ewald_real_space(&context, &arrays.system(), &[alpha], &pairs, cutoff, options)
    };
    names(real(-0.3, 5.0, &Options::default()), "alpha");
    names(real(0.3, f64::NAN, &Options::default()), "cutoff");
    names(real(0.3, 5.0, &Options { prefactor: f64::NAN, ..Options::default() }), "prefactor");
    names(
        ewald_reciprocal_space(&context, &arrays.system(), &[0.3], &[0.0], &Options::default()),
        "k_cutoff",
    );
    names(ewald_reciprocal_space(&context, &arrays.system(), &[], &[1.0], &Options::default()), "alpha");
    let given = ewald_summation(&context, &arrays.system(), &settings(), Some(&pairs), &Options::default());
    names(given, "cutoff");
}

#[test]
fn numbers_that_are_none_and_charges_on_one_point() {
    for bad in [f64::NAN, f64::INFINITY] {
        let mut system = salt();
        system.positions[3][1] = bad;
        names(sum_of(&system, &EwaldSettings::default()), "positions");
        let mut system = salt();
        system.charges[2] = bad;
        names(sum_of(&system, &EwaldSettings::default()), "charges");
    }
    let mut system = salt();
    system.positions[1] = system.positions[5];
    names(sum_of(&system, &EwaldSettings::default()), "positions");
    // Also a whole lattice vector apart: the same point of the crystal.
    for (c, x) in system.cell[0].iter().enumerate() {
        system.positions[1][c] += x;
    }
    names(sum_of(&system, &EwaldSettings::default()), "positions");
}

/// A comparison with the cutoff would pass over a NaN.
#[test]
fn numbers_that_are_none_in_ops() {
    for op in registry().iter() {
        let call = Call::new(op, &[&salt()]);
        for name in ["positions", "charges"] {
            let at = call.position(name);
            let mut arrays: Vec<_> = call.arrays.iter().map(copied).collect();
            let array = arrays[at].as_ref().expect("an array");
            let mut data = array.to_f64().unwrap();
            data[4] = f64::NAN;
            arrays[at] = Some(Array::from_f64(DType::F64, array.shape(), &data).expect("shapes fit"));
            names(op.value(&madelung::cpu::context(), &call.args(&arrays)), name);
        }
    }
}

#[test]
fn smallest_systems() {
    let none = System { positions: vec![], charges: vec![], cell: triclinic_cell(50.0) };
    let done = sum_of(&none, &EwaldSettings::default()).expect("an empty sum");
    assert_eq!(done.energies.shape(), [0]);
    assert_eq!(done.forces.expect("asked for").shape(), [0, 3]);
    assert_eq!(done.virial.expect("asked for").to_f64().unwrap(), [0.0; 9]);
    // One charge in its background, in a cubic box: −2.837297479 q²/(2L).
    let one = System {
        positions: vec![[0.3, 0.1, 7.0]],
        charges: vec![2.0],
        cell: [[3.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 3.0]],
    };
    let energy = sum_of(&one, &EwaldSettings::accuracy(1e-12)).expect("a sum").energies.to_f64().unwrap()[0];
    assert!((energy / (-2.837_297_479_480_62 * 4.0 / 6.0) - 1.0).abs() < 1e-11, "{energy}");
}

#[test]
fn lists() {
    let arrays = Arrays::new(&[&salt()], DType::F64);
    let context = madelung::cpu::context();
    let full = arrays.system().neighbor_list(5.0, &Serial).expect("a list").rows(&Serial).into_owned();
    let with = |pairs: &PairList<'_>| {
        ewald_real_space(&context, &arrays.system(), &[0.5], pairs, 5.0, &Options::forces())
    };
    // A half list is expanded; nothing changes but the order of nothing.
    let half = full.to_half().expect("half");
    let [halved, whole] = [&half, &full].map(|list| with(list).expect("a sum").forces.expect("forces"));
    assert!(halved.equals(&whole).unwrap());
    let csr = full.to_csr();
    let (ptr, others, shifts) = (csr.neighbor_ptr.to_vec(), csr.others.to_vec(), csr.shifts.to_vec());
    let directed = PairList::from_csr(ptr.clone(), others.clone(), shifts.clone(), 8, Kind::Directed);
    names(with(&directed.expect("a list")), "pairs");
    // A full list that lacks a pair is found out.
    let mut short = (ptr.clone(), others.clone(), shifts.clone());
    short.1.pop();
    short.2.pop();
    if let Some(last) = short.0.last_mut() {
        *last -= 1;
    }
    names(PairList::from_csr(short.0, short.1, short.2, 8, Kind::Full), "neighbor_list");
    let mut wrong = others.clone();
    wrong[3] = 8;
    names(PairList::from_csr(ptr.clone(), wrong, shifts.clone(), 8, Kind::Directed), "neighbor");
    names(PairList::from_csr(ptr, others, shifts[1..].to_vec(), 8, Kind::Directed), "neighbor");
    // Of another number of atoms, or across systems.
    let other = Arrays::new(&[&random_system(1, 5, triclinic_cell(200.0), 0.0, 1.0)], DType::F64);
    let foreign = other.system().neighbor_list(5.0, &Serial).expect("a list").rows(&Serial).into_owned();
    names(with(&foreign), "pairs");
    let two = Arrays::new(&[&salt(), &salt()], DType::F64);
    let joined =
        madelung::System::new(two.positions.view(), two.charges.view(), two.cell.view(), two.batch())
            .expect("a system");
    let one_batch = Batch::single(16).expect("a batch");
    let cell = salt().cell;
    let rows: Vec<[f64; 3]> = two
        .positions
        .to_f64()
        .unwrap()
        .chunks_exact(3)
        .enumerate()
        .map(|(i, r)| [r[0] + if i < 8 { 0.0 } else { 0.5 }, r[1], r[2]])
        .collect();
    let options = madelung::neighbors::Options::full();
    let crossing = madelung::neighbor_list(&rows, 5.0, Some(&[cell]), None, &one_batch, &options, &Serial)
        .expect("a list");
    names(ewald_real_space(&context, &joined, &[0.5], &crossing, 5.0, &Options::default()), "neighbor_list");
}

#[test]
fn calls_of_ops() {
    let system = salt();
    let context = madelung::cpu::context();
    for op in registry().iter() {
        let call = Call::new(op, &[&system]);
        let args = call.args(&call.arrays);
        assert!(op.value(&context, &args).is_ok());
        names(op.value(&context, &args[1..]), &op.name);
        // Each argument replaced by each kind of wrong thing.
        for n in 0..args.len() {
            let float = Array::zeros(DType::F32, &[2, 2]);
            let double = Array::zeros(DType::F64, &[1, 2, 3, 4]);
            let ints = Array::zeros(DType::I32, &[7]);
            for wrong in [Arg::Array(float.view()), Arg::Array(double.view()), Arg::Array(ints.view())] {
                let mut args = args.clone();
                args[n] = wrong;
                assert!(op.value(&context, &args).is_err(), "{} argument {n}", op.name);
            }
            for wrong in [Arg::Real(f64::NAN), Arg::Int(-1)] {
                let mut args = args.clone();
                args[n] = wrong;
                names(op.value(&context, &args), &op.args[n].name);
            }
        }
        // A strain stands for a derivative.
        let mut strained = args.clone();
        let strain = Array::filled(DType::F64, &[1, 3, 3], 0.1);
        strained[call.position("strain")] = Arg::Array(strain.view());
        names(op.value(&context, &strained), "strain");
        let mut zero = args.clone();
        let strain = Array::zeros(DType::F64, &[1, 3, 3]);
        zero[call.position("strain")] = Arg::Array(strain.view());
        assert!(op.value(&context, &zero).is_ok());
        // Cotangents, directions and gradients that do not fit.
        let evaluate = |request: &Request<'_, '_>| op.evaluate(&context, &args, request);
        let wrong = Array::zeros(DType::F64, &[5]);
        let cotangents = [Some(Cotangent::Array(wrong.view()))];
        names(
            evaluate(&Request { cotangents: &cotangents, gradients: &[0], ..Request::default() }),
            "cotangent",
        );
        let cotangents = [Some(Cotangent::Uniform(1.0))];
        for bad in [call.position("atoms"), 99] {
            let gradients = [bad];
            let request = Request { cotangents: &cotangents, gradients: &gradients, ..Request::default() };
            names(evaluate(&request), "gradients");
        }
        let two = [Some(Cotangent::Uniform(1.0)), Some(Cotangent::Uniform(1.0))];
        names(evaluate(&Request { cotangents: &two, gradients: &[0], ..Request::default() }), "cotangents");
        names(evaluate(&Request { directions: &[&[]], ..Request::default() }), "directions");
        let twice = Request { cotangents: &cotangents, gradients: &[0, 0], ..Request::default() };
        names(evaluate(&twice), "gradients");
        names(evaluate(&Request { gradients: &[0], ..Request::default() }), "cotangents");
        let mut direction = vec![None; args.len()];
        direction[0] = Some(wrong.view());
        names(
            evaluate(&Request { directions: &[&direction], ..Request::default() }),
            "direction 0 of positions",
        );
    }
}

#[test]
fn declarations() {
    let op = |o: madelung::op::OpBuilder| o.build().map(|_| ());
    let kernels = madelung_electrostatics::all_kernels();
    let sum = kernels.iter().find(|k| k.name == "sum_charges").expect("a kernel");
    let good = || Op::new("test", "charge", 1).real("charges", &["Atom"]).batch("atoms", "Atom", "System");
    assert!(op(good().output("total_charge", &["System"]).step(sum)).is_ok());
    names(op(good().step(sum)), "total_charge");
    names(op(good().output("total_charge", &["Atom"]).step(sum)), "total_charge");
    names(op(good().output("total_charge", &["System", "3"]).step(sum)), "total_charge");
    names(op(good().output("q", &["System"]).step_as(sum, &[("total_charge", "charges")])), "total_charge");
    names(
        op(Op::new("test", "t", 1).real("charges", &["Atom", "3"]).must_be(Constraint::Finite).step(sum)),
        "charges",
    );
    // Written by nobody, read by a later step, or read before it was whole.
    names(op(good().output("total_charge", &["System"]).scratch("idle", &["Atom"]).step(sum)), "idle");
    let with =
        || good().output("energy", &["System"]).scratch("e", &["Atom"]).output("total_charge", &["System"]);
    names(op(with().step(sum).linear(Linear::SegmentedSum, &["atoms", "e", "energy"])), "e");
    let op = good().output("total_charge", &["System"]).step(sum).build().expect("an op");
    names(Registry::new([op.clone(), op]).map(|_| ()), "op");
    // What bridges read is there.
    let json: serde_json::Value = serde_json::from_str(&registry().to_json()).expect("JSON");
    let first = &json["ops"][0];
    assert_eq!(first["name"], "ewald_real_space");
    assert_eq!(first["args"][0]["name"], "positions");
    assert_eq!(first["outputs"][0]["shape"][0]["dim"], "Atom");
    assert_eq!(first["derivatives"][4], "G1");
}

#[test]
fn tapes() {
    let mut tape = Tape::new(madelung::cpu::context());
    let x = tape.input(Array::zeros(DType::F64, &[3]));
    let c = tape.constant(Array::zeros(DType::F64, &[3]));
    names(tape.set(x, Array::zeros(DType::F64, &[4])), "array");
    names(tape.set(c, Array::zeros(DType::F64, &[3])), "var");
    names(tape.backward(&[(x, Array::zeros(DType::F64, &[4]))]), "cotangent");
    // Between a change and a replay there is no function to differentiate.
    tape.set(x, Array::zeros(DType::F64, &[3])).expect("an input");
    names(tape.backward(&[(x, Array::zeros(DType::F64, &[3]))]), "tape");
    tape.replay().expect("a replay");
    assert!(tape.backward(&[(x, Array::zeros(DType::F64, &[3]))]).is_ok());
    let mut other = Tape::new(madelung::cpu::context());
    for _ in 0..3 {
        other.input(Array::zeros(DType::F64, &[3]));
    }
    let foreign = other.input(Array::zeros(DType::F64, &[3]));
    names(tape.value(foreign).map(|_| ()), "var");
    names(tape.backward(&[(foreign, Array::zeros(DType::F64, &[3]))]), "var");
}
