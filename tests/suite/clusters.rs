//! The real-space sum in clusters against the same row by row, for every set of gradients that has a form of its own.

use crate::common::numeric::{assert_close_rms, rms};
use crate::common::systems::{left_handed_cell, random_system, triclinic_cell};
use crate::support::{Arrays, Call, random};
use madelung::array::{Array, DType};
use madelung::backend::pool::{Serial, Threads};
use madelung::backend::{Context, PairLoops};
use madelung::cpu::Cpu;
use madelung::cpu::Isa;
use madelung::electrostatics::registry;
use madelung::op::{Cotangent, Request};
use madelung::{Energies, Options, Reduction, ewald_real_space};

const CUTOFF: f64 = 8.0;

#[test]
fn clusters_agree_with_rows() {
    let small = random_system(1, 40, triclinic_cell(500.0), 0.3, 1.2);
    let large = random_system(2, 300, left_handed_cell(4000.0), 0.0, 1.2);
    let unwrapped = [large.unwrapped(3, 2), large.unwrapped(3, 400)];
    let asked = [
        Options::default(),
        Options::forces(),
        Options { compute_virial: true, ..Options::forces() },
        Options::everything(),
        Options { energy_reduction: Reduction::System, ..Options::everything() },
    ];
    println!("instruction sets: {:?}", Isa::available());
    for dtype in [DType::F64, DType::F32] {
        let far = &unwrapped[usize::from(dtype == DType::F32)];
        let arrays = Arrays::new(&[&small, &large, far], dtype);
        let system = arrays.system();
        // With a skin.
        let pairs = system.neighbor_list(CUTOFF + 0.5, &Serial).expect("a list");
        let results = |context: &Context<'_>, options: &Options| {
            let Energies { energies, forces, charge_gradients, virial } =
                ewald_real_space(context, &system, &[0.4], &pairs, CUTOFF, options).expect("a sum");
            [Some(energies), forces, charge_gradients, virial].map(|a| a.map(|a| a.to_f64().unwrap()))
        };
        for options in &asked {
            let rows = Context { pair_loops: PairLoops::Rows, ..madelung::cpu::context() };
            let reference = results(&rows, options);
            for &isa in Isa::available() {
                let backend = Cpu::at_most(isa);
                let context = Context {
                    backend: &backend,
                    pair_loops: PairLoops::Clusters,
                    ..madelung::cpu::context()
                };
                let clusters = results(&context, options);
                for (x, y) in clusters.iter().zip(&reference) {
                    let (Some(x), Some(y)) = (x, y) else { continue };
                    let bound = if dtype == DType::F64 { 1e-13 } else { 1e-5 };
                    assert_close_rms(x, y, bound, rms(y).max(0.1));
                }
                let three = Threads::new(3);
                assert_eq!(clusters, results(&context.with_pool(&three), options));
            }
        }
    }
}

/// Every member of the real-space sum with a weight for each atom, along and by all inputs and those that training is
/// about.
#[test]
fn every_member_agrees_with_rows() {
    let systems = [
        random_system(1, 40, triclinic_cell(500.0), 0.3, 1.2),
        random_system(2, 300, left_handed_cell(4000.0), 0.0, 1.2),
    ];
    let op = registry().get("ewald_real_space").expect("an op");
    let call = Call::new(op, &systems.each_ref());
    let weights = Array::from_f64(DType::F64, &[340], &random(5, 340)).expect("shapes fit");
    let (all, positions) = (call.direction(7), call.only(&call.direction(8), "positions"));
    let results = |context: &Context<'_>, directions: &[&[Option<Array>]], by: &[&str]| -> Vec<Vec<f64>> {
        let views: Vec<Vec<_>> =
            directions.iter().map(|u| u.iter().map(|a| a.as_ref().map(Array::view)).collect()).collect();
        let directions: Vec<&[_]> = views.iter().map(Vec::as_slice).collect();
        let gradients: Vec<usize> = by.iter().map(|name| call.position(name)).collect();
        let cotangents = [Some(Cotangent::Array(weights.view()))];
        let cotangents = if by.is_empty() { &[][..] } else { &cotangents };
        let request =
            Request { directions: &directions, cotangents, gradients: &gradients, ..Request::default() };
        let done = call.op.evaluate(context, &call.args(&call.arrays), &request).expect("results");
        done.values.iter().chain(&done.gradients).map(|a| a.to_f64().unwrap()).collect()
    };
    let (training, every) = (&["positions", "charges"][..], &["positions", "charges", "alpha", "strain"][..]);
    let by_cell = &["positions", "cell"][..];
    // The member, and whether it is taken in clusters.
    type Asked<'a> = (&'a [&'a [Option<Array>]], &'a [&'a str], bool);
    let members: [Asked<'_>; 10] = [
        (&[], &[], true),
        (&[&all], &[], false),
        (&[&all, &positions], &[], false),
        (&[], training, true),
        (&[], every, true),
        (&[], by_cell, false),
        (&[&positions], training, true),
        (&[&positions], every, true),
        (&[&all], every, true),
        (&[&all], by_cell, false),
    ];
    println!("instruction sets: {:?}", Isa::available());
    for &isa in Isa::available() {
        let backend = Cpu::at_most(isa);
        let of = |pair_loops| Context { backend: &backend, pair_loops, ..madelung::cpu::context() };
        for (n, (directions, by, in_clusters)) in members.iter().enumerate() {
            let [rows, clusters] =
                [PairLoops::Rows, PairLoops::Clusters].map(|l| results(&of(l), directions, by));
            assert_eq!(rows != clusters, *in_clusters, "member {n}, {isa:?}");
            for (x, y) in clusters.iter().zip(&rows) {
                // Second derivatives meet third ones, which are ten times larger at the closest distance.
                assert_close_rms(x, y, if directions.is_empty() { 1e-13 } else { 1e-12 }, rms(y).max(0.1));
            }
            let three = Threads::new(3);
            assert_eq!(clusters, results(&of(PairLoops::Clusters).with_pool(&three), directions, by));
        }
    }
}
