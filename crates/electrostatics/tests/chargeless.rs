//! Particles without charge on others and on each other: every sum is as without them, and their potential is that of the
//! others.

#[path = "../../../tests/common/mod.rs"]
mod common;

use common::numeric::{assert_close_rms, rms};
use common::systems::{System, random_system, triclinic_cell};
use madelung_core::Error;
use madelung_core::array::{Array, DType, View};
use madelung_core::backend::pool::Serial;
use madelung_core::backend::{Context, PairLoops};
use madelung_core::op::{Arg, Cotangent, Evaluated, Op, Request};
use madelung_core::structure::pairs::Kind;
use madelung_core::structure::{Batch, Map, Mesh, PairList};
use madelung_electrostatics::kvectors::miller_indices_batch;
use madelung_electrostatics::registry;
use std::sync::Arc;

const ALPHA: f64 = 1.1;
/// Within half of the smallest height of the cell: direct sums take one image.
const CUTOFF: f64 = 2.5;
/// Atoms of the system without those that have no charge.
const ATOMS: usize = 13;
/// Atoms with a particle without charge on them, one with two; two more lie by themselves.
const ON: [usize; 4] = [2, 5, 5, 8];
/// Pairs with factors; those beyond the atoms count for the larger system alone.
const EXCLUDED: [(usize, usize, f64); 5] =
    [(0, 1, 0.0), (3, 7, 0.4), (2, ATOMS, 0.5), (5, ATOMS + 1, 0.0), (4, ATOMS + 2, 0.5)];

fn charged() -> System {
    random_system(3, ATOMS, triclinic_cell(210.0), 0.4, 1.0)
}

fn with_others() -> System {
    let mut system = charged();
    let alone = [0.31, 0.87, 0.45];
    let places = ON.map(|i| system.positions[i]).into_iter().chain([alone; 2]);
    system.positions.extend(places);
    system.charges.resize(system.positions.len(), 0.0);
    system
}

/// Whether the list is one in clusters.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Rows,
    Clusters,
}

fn evaluate(
    op: &Op,
    system: &System,
    dtype: DType,
    form: Form,
    request: &Request<'_, '_>,
) -> Result<Evaluated, Error> {
    let n = system.charges.len();
    let array = |shape: &[usize], data: &[f64]| Array::from_f64(dtype, shape, data).expect("shapes fit");
    let (positions, charges) =
        (array(&[n, 3], system.positions.as_flattened()), array(&[n], &system.charges));
    let cell = array(&[1, 3, 3], system.cell.as_flattened());
    let [alpha, one, reach, dispersion] = [ALPHA, 1.0, CUTOFF, 6.0].map(|x| array(&[1], &[x]));
    let atoms = Batch::single(n).expect("a batch");
    let given =
        madelung_electrostatics::System::new(positions.view(), charges.view(), cell.view(), atoms.clone());
    let list = given.expect("a system").neighbor_list(CUTOFF, &Serial).expect("a list");
    let rows = list.rows(&Serial).into_owned();
    let exclusions: Vec<_> = EXCLUDED.into_iter().filter(|(i, j, _)| *i.max(j) < n).collect();
    let exclusion =
        |i: usize, j: usize| exclusions.iter().position(|(a, b, _)| [(i, j), (j, i)].contains(&(*a, *b)));
    let listed = |pairs: &[(usize, usize, [i32; 3])]| {
        let [i, j] = [0, 1].map(|k| pairs.iter().map(|p| [p.0, p.1][k] as i32).collect::<Vec<_>>());
        let shifts = pairs.iter().map(|p| p.2).collect::<Vec<_>>();
        PairList::from_coo(&i, j, shifts, n, n, Kind::Full).expect("a list").into_owned()
    };
    let is_kept = |(i, j, s): &(usize, usize, [i32; 3])| *s != [0; 3] || exclusion(*i, *j).is_none();
    let without = listed(&rows.iter().filter(is_kept).collect::<Vec<_>>());
    let both = (0..n).flat_map(|i| (0..n).map(move |j| (i, j, [0; 3])));
    let excluded = listed(&both.filter(|(i, j, _)| exclusion(*i, *j).is_some()).collect::<Vec<_>>());
    let of = excluded.iter().map(|(i, j, _)| exclusion(i, j).expect("excluded") as i32).collect::<Vec<_>>();
    let exclusion_of = Map::new(of, exclusions.len()).expect("a map");
    let factors = array(&[exclusions.len()], &exclusions.iter().map(|e| e.2).collect::<Vec<_>>());
    let widths = array(&[n], &(0..n).map(|i| 0.3 + 0.01 * i as f64).collect::<Vec<_>>());
    let (miller, ptr) = miller_indices_batch(&[system.cell], &[2.0 * ALPHA * 5.0]).expect("wave vectors");
    let waves = Batch::from_ptr(ptr).expect("a batch");
    let beside = vec![0_i32; miller.len()];
    let mesh = Mesh::of_systems(&[([16, 18, 16], 6)]).expect("a mesh");
    let axis = [[0_i32, 1, 0]];
    let field = array(&[1, 3], &[0.1, -0.2, 0.3]);
    let is_listed = op.arg("excluded").is_none();
    let args: Vec<Arg<'_>> = op
        .args
        .iter()
        .map(|arg| match arg.name.as_str() {
            "positions" => Arg::Array(positions.view()),
            "charges" => Arg::Array(charges.view()),
            "cell" => Arg::Array(cell.view()),
            "alpha" => Arg::Array(alpha.view()),
            "field" => Arg::Array(field.view()),
            "strain" => Arg::Zero,
            "widths" => Arg::Array(widths.view()),
            "background" => Arg::Array(one.view()),
            "exponent" => Arg::Array(dispersion.view()),
            "factors" => Arg::Array(factors.view()),
            "cutoff" if op.arg("lines").is_some() => Arg::Array(reach.view()),
            "open_axis" | "wire_axis" => Arg::Array(View::from(axis.as_slice())),
            "is_open" => Arg::Array(View::from(&[1_i32])),
            "miller" | "lines" => Arg::Array(View::from(miller.as_slice())),
            "beside" => Arg::Array(View::from(&beside)),
            "atoms" => Arg::Structure(&atoms),
            "waves" | "line_systems" => Arg::Structure(&waves),
            "pairs" if is_listed && form == Form::Clusters => Arg::Structure(&list),
            "pairs" if is_listed => Arg::Structure(&rows),
            "pairs" => Arg::Structure(&without),
            "excluded" => Arg::Structure(&excluded),
            "exclusion_of" => Arg::Structure(&exclusion_of),
            "mesh" => Arg::Structure(&mesh),
            "images_1" | "images_2" | "images_3" => Arg::Int(1),
            "cutoff" => Arg::Real(CUTOFF),
            "prefactor" | "real" | "reciprocal" => Arg::Real(1.0),
            name => panic!("what is `{name}`?"),
        })
        .collect();
    let pair_loops = if form == Form::Rows { PairLoops::Rows } else { PairLoops::Clusters };
    let context = Context { pair_loops, ..madelung_cpu::context() };
    op.evaluate(&context, &args, request)
}

/// Energies, and gradients by positions and charges of the sum of them.
fn results(op: &Op, system: &System, dtype: DType, form: Form) -> [Vec<f64>; 3] {
    let gradients = ["positions", "charges"].map(|name| op.arg(name).expect("an argument"));
    let cotangents = &[Some(Cotangent::Uniform(1.0))];
    let request = Request { values: true, cotangents, gradients: &gradients, ..Request::default() };
    let found = evaluate(op, system, dtype, form, &request).unwrap_or_else(|e| panic!("{}: {e}", op.name));
    let alone = Request { values: true, ..Request::default() };
    let values =
        evaluate(op, system, dtype, form, &alone).expect("values").values[0].to_f64().expect("reals");
    assert!(values.iter().all(|e| e.is_finite()), "{}", op.name);
    let [r, q] = [0, 1].map(|k| found.gradients[k].to_f64().expect("reals"));
    [values, r, q]
}

/// The ops of charges; latent ones are regular anywhere, and atoms without charge take part in charge transfer.
fn ops() -> impl Iterator<Item = &'static Arc<Op>> {
    let others = ["own", "electronegativity"];
    registry()
        .iter()
        .filter(move |op| op.arg("charges").is_some() && others.iter().all(|x| op.arg(x).is_none()))
}

#[test]
fn sums_are_as_without_them() {
    let (charged, all) = (charged(), with_others());
    for op in ops() {
        for (dtype, bound) in [(DType::F64, 1e-13), (DType::F32, 3e-5)] {
            for form in [Form::Rows, Form::Clusters] {
                let want = results(op, &charged, dtype, form);
                let mut got = results(op, &all, dtype, form);
                assert!(got.iter().flatten().all(|x| x.is_finite()), "{}: {got:?}", op.name);
                // What has no charge has no energy and no force.
                if got[0].len() > 1 {
                    assert!(got[0].split_off(ATOMS).iter().all(|e| *e == 0.0), "{}", op.name);
                }
                assert!(got[1].split_off(3 * ATOMS).iter().all(|f| *f == 0.0), "{}", op.name);
                got[2].truncate(ATOMS);
                for (k, (got, want)) in got.iter().zip(&want).enumerate() {
                    println!("{} {dtype:?} {k}", op.name);
                    assert_close_rms(got, want, bound, rms(want));
                }
            }
        }
    }
}

/// On an atom that is left out with the factor 1, a particle without charge has the potential that the atom has from all
/// others and from images; only pairs with one's own charge count half, and are the atom's own.
#[test]
fn potentials_on_atoms_are_those_of_the_atoms() {
    let all = with_others();
    let sums =
        ["ewald_summation", "ewald_mesh_summation", "ewald_direct", "wire_summation", "open_summation"];
    for name in sums {
        for total in ["", "_total"] {
            let op = registry().get(&format!("{name}{total}")).expect("an op");
            for form in [Form::Rows, Form::Clusters] {
                let [_, _, q] = results(op, &all, DType::F64, form);
                for (k, atom) in ON.into_iter().enumerate() {
                    let (found, want) = (q[ATOMS + k], q[atom]);
                    assert!((found - want).abs() < 1e-13 * rms(&q), "{}: {found} on {atom}, {want}", op.name);
                }
            }
        }
    }
}

/// Sums that leave pairs out have the same potentials, less those of the atoms that they leave out by factors.
#[test]
fn potentials_without_pairs() {
    let all = with_others();
    let [_, _, whole] =
        results(registry().get("open_summation").expect("an op"), &all, DType::F64, Form::Rows);
    let [_, _, found] =
        results(registry().get("open_summation_without").expect("an op"), &all, DType::F64, Form::Rows);
    let potential = |i: usize, j: usize| {
        let d: f64 = (0..3).map(|c| (all.positions[i][c] - all.positions[j][c]).powi(2)).sum();
        all.charges[j] / d.sqrt()
    };
    for (k, on) in ON.into_iter().enumerate() {
        let mut want = whole[ATOMS + k];
        for (i, j, f) in EXCLUDED.into_iter().filter(|(i, j, _)| *j == ATOMS + k && *i != on) {
            want -= (1.0 - f) * potential(j, i);
        }
        assert!((found[ATOMS + k] - want).abs() < 1e-13 * rms(&whole), "{}: {want}", found[ATOMS + k]);
    }
}

/// The correction of Gaussian charges takes its limit on one point, with the long-range part that point charges lack there.
#[test]
fn gaussian_charges_of_one_point_are_regular() {
    let near = |h: f64| {
        let mut system = with_others();
        system.positions[ATOMS][0] += h;
        ["gaussian_correction", "ewald_summation"].map(|name| {
            let op = registry().get(name).expect("an op");
            results(op, &system, DType::F64, Form::Rows)[2][ATOMS]
        })
    };
    let sum = |h: f64| near(h).iter().sum::<f64>();
    // What is odd in h is the field of the others.
    let (at, beside) = (sum(0.0), 0.5 * (sum(1e-4) + sum(-1e-4)));
    assert!((at - beside).abs() < 1e-6 * near(0.0)[0].abs(), "{at}, {beside}");
}

#[test]
fn two_charges_on_one_point_are_named() {
    let mut all = with_others();
    all.positions[9] = all.positions[4];
    let request = Request { values: true, ..Request::default() };
    let is_finite = |op: &Op| ["slab", "gaussian", "uniform"].iter().any(|name| op.name.starts_with(name));
    for op in ops().filter(|op| !is_finite(op)) {
        if op.name.contains("reciprocal") || op.name.contains("exclusions") {
            continue;
        }
        for form in [Form::Rows, Form::Clusters] {
            for dtype in [DType::F64, DType::F32] {
                let error =
                    evaluate(op, &all, dtype, form, &request).expect_err("an infinite energy").to_string();
                let wanted = "expected no two atoms on one point, got atoms 4 and 9";
                assert!(error.contains(wanted), "{}: {error}", op.name);
            }
        }
    }
}
