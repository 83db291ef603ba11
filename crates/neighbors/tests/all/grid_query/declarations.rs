//! Errors at the declaration of an op, and at its calls.

use super::support::{
    Arguments, BLUR_GRID, BLUR_PAIRS, FEATURES, PBC, RADIUS, array, batches, blur_op, grid, inputs,
};
use super::{COUNT, open};
use madelung_core::array::DType;
use madelung_core::op::{Arg, Op, OpBuilder};
use madelung_core::structure::Batch;
use madelung_core::structure::pairs::{Kind, PairList};
use madelung_neighbors::grid::HashGrid;

madelung_core::kernels! {
    #[kernel(small)]
    fn moved(i: Query, x: &[Vec3; Query], y: &mut [Vec3; Query]) { y[i] = 2.0 * x[i]; }

    #[kernel(small)]
    fn shell(
        i: Query, x: &[Vec3; Query], radius: Real, wide: Real, inner: &HashGrid<Query, Point>,
        outer: &HashGrid<Query, Point>, shell: &mut [Real; Query],
    ) {
        let mut n = 0.0;
        for (j, shift) in outer.query(x[i], wide) { n += 1.0; }
        for (j, shift) in inner.query(x[i], radius) { n -= 1.0; }
        shell[i] = n;
    }

    /// An element for each pair that is found.
    #[kernel(small)]
    fn edges(i: Query, x: &[Vec3; Query], radius: Real, grid: &HashGrid<Query, Point, Edge>, out: &mut [Real; Edge]) {
        for (j, shift, p) in grid.query(x[i], radius) { out[p] = 1.0; }
    }
}

/// Every word is in the error.
#[track_caller]
fn says<T: std::fmt::Debug>(result: madelung_core::Result<T>, words: &[&str]) {
    let error = result.unwrap_err().to_string();
    assert!(words.iter().all(|w| error.contains(w)), "{error}\nsays not all of {words:?}");
}

fn counting() -> OpBuilder {
    let op = Op::new("test", "count", 1).real("x", &["Query", "3"]).real("r", &["Point", "3"]);
    let op = op.real("z", &["Query", "3"]).real("flat", &["Point"]).scalar("radius").scalar("wide");
    op.integer_output("found", &["Query"], DType::I32).integer_output("images", &["Query"], DType::I32)
}

#[test]
fn declarations() {
    let build = |op: OpBuilder, points: &str, names: &[(&str, &str)]| {
        op.grid("grid", "Query", "Point", points).step_as(&COUNT, names).build()
    };
    assert!(build(counting(), "r", &[]).is_ok());
    says(
        build(counting(), "flat", &[]),
        &["`test::count.v1::grid`", "`flat` to be the points' positions", "(Point, 3)"],
    );
    says(build(counting(), "x", &[]), &["`x` to be the points' positions"]);
    says(build(counting(), "nobody", &[]), &["no argument `nobody`"]);
    let several = counting().batch("a", "Query", "System").batch("b", "Query", "Group");
    says(build(several, "r", &[]), &["`test::count.v1::grid`", "one batch over Query"]);
    // Positions and radius.
    let before = counting().scratch("y", &["Query", "3"]).step(&MOVED);
    says(
        build(before, "r", &[("x", "y")]),
        &["`test::count.v1::count::x`", "an argument of the op, as the search comes before its steps", "`y`"],
    );
    says(build(counting(), "r", &[("radius", "x")]), &["count::radius", "an attribute"]);
    for (other, named) in [("x", "z"), ("radius", "wide")] {
        let twice =
            counting().grid("grid", "Query", "Point", "r").step(&COUNT).step_as(&COUNT, &[(other, named)]);
        says(twice.build(), &["count::grid", "queried with `x` and `radius` alone, as it is before", named]);
        let second =
            counting().grid("grid", "Query", "Point", "r").grid("same", "Query", "Point", "r").step(&COUNT);
        assert!(second.step_as(&COUNT, &[(other, named), ("grid", "same")]).build().is_ok());
    }
    let shells = |grids: &[(&str, &str)]| {
        let op = Op::new("test", "shell", 1).real("x", &["Query", "3"]).real("r", &["Point", "3"]);
        let op = op.scalar("radius").scalar("wide").output("shell", &["Query"]);
        op.grid("grid", "Query", "Point", "r")
            .grid("same", "Query", "Point", "r")
            .step_as(&SHELL, grids)
            .build()
    };
    assert!(shells(&[("inner", "grid"), ("outer", "same")]).is_ok());
    says(
        shells(&[("inner", "grid"), ("outer", "grid")]),
        &["shell::outer", "queried with `x` and `radius` alone, as it is before", "`x` and `wide`"],
    );
    // A list is no grid, and a grid no list.
    let list = counting().pairs_between("grid", "Query", "Point", "Edge").step(&COUNT);
    says(list.build(), &["count::grid", "a grid for queries over Query, Point", "Pairs"]);
    let other = counting().grid("grid", "Point", "Query", "x").step(&COUNT);
    says(other.build(), &["a grid for queries over Query, Point", "Grid"]);
    let blur = || {
        Op::new("test", "blur", 1)
            .real("x", &["Query", "3"])
            .real("r", &["Point", "3"])
            .real("cell", &["System", "3", "3"])
            .real("features", &["Point", "Feature"])
            .real("width", &[])
            .scalar("radius")
            .batch("queries", "Query", "System")
            .batch("points", "Point", "System")
            .grid("list", "Query", "Point", "r")
            .output("out", &["Query", "Feature"])
            .output("moment", &["Query", "3"])
    };
    says(blur().step(&BLUR_PAIRS).build(), &["blur_pairs::list", "a pair list over Query, Point", "Grid"]);
    assert!(blur().step(&BLUR_GRID).build().is_ok());
    // The number of pairs has no part in the shapes that callers see.
    let edges = || {
        let op = Op::new("test", "edges", 1)
            .real("x", &["Query", "3"])
            .real("r", &["Point", "3"])
            .scalar("radius");
        op.grid_with_entries("grid", ["Query", "Point"], "r", "Edge")
    };
    for op in [edges().output("out", &["Edge"]), edges().saved("out", &["Edge"])] {
        says(op.step(&EDGES).build(), &["`test::edges.v1::grid`", "known before the search", "`out`"]);
    }
    assert!(edges().scratch("out", &["Edge"]).step(&EDGES).build().is_ok());
}

#[test]
fn descriptions() {
    let op =
        counting().grid_with_entries("grid", ["Query", "Point"], "r", "Edge").step(&COUNT).build().unwrap();
    let grid = serde_json::to_value(&*op).unwrap()["args"][6].clone();
    let wanted = serde_json::json!({
        "name": "grid", "kind": "grid", "rows": "Query", "columns": "Point", "points": "r", "entries": "Edge",
        "constraint": null, "stored": false, "negated": false, "geometry": false, "clusters": null,
    });
    assert_eq!(grid, wanted);
}

#[test]
fn grids_of_other_points() {
    let (inputs, context) = (inputs(), madelung_cpu::context());
    let given = Arguments::new(&inputs, DType::F64);
    let call = |grid: &HashGrid| blur_op(false).value(&context, &given.with(Arg::Grid(grid)));
    let mut stale = grid(&inputs);
    let value = call(&stale).unwrap();
    let mut points = inputs[1].clone();
    points[17] += 1e-15 + points[17] * 1e-15;
    assert!(points != inputs[1]);
    stale.rebuild(&context, &array(DType::F64, &[21, 3], &points).view()).unwrap();
    says(call(&stale), &["`list`: expected a grid of the call's points", "`rebuild`", "a grid of others"]);
    // A rebuild that failed leaves a grid of nothing.
    let far = array(DType::F64, &[21, 3], &[1e300; 63]);
    assert!(stale.rebuild(&context, &far.view()).is_err());
    assert!(!stale.is_of(&far.view()));
    stale.rebuild(&context, &given.arrays[1].view()).unwrap();
    let again = call(&stale).unwrap();
    assert!(again.len() == value.len() && again.iter().zip(&value).all(|(a, b)| a.equals(b).unwrap()));
    // Rounded coordinates are others.
    points[17] = 0.1;
    let mut moved = inputs.clone();
    moved[1] = points;
    let narrow = Arguments::new(&moved, DType::F32);
    let wide = grid(&moved);
    says(
        blur_op(false).value(&context, &narrow.with(Arg::Grid(&wide))),
        &["`list`: expected a grid of the call's points"],
    );
    stale.rebuild(&context, &narrow.arrays[1].view()).unwrap();
    assert!(blur_op(false).value(&context, &narrow.with(Arg::Grid(&stale))).is_ok());
}

#[test]
fn other_arguments() {
    let (inputs, context) = (inputs(), madelung_cpu::context());
    let (given, grid) = (Arguments::new(&inputs, DType::F64), grid(&inputs));
    let with = |n: usize, arg: Arg<'_>| {
        let mut args = given.with(Arg::Grid(&grid));
        args[n] = arg;
        blur_op(false).value(&context, &args)
    };
    says(with(5, Arg::Real(-1.0)), &["`radius`: expected a finite number ≥ 0, got -1"]);
    says(with(5, Arg::Real(f64::NAN)), &["`radius`"]);
    says(with(5, Arg::Real(1e9)), &["`radius`: expected a radius within reach of fewer than 2^32 images"]);
    says(
        with(0, Arg::Array(array(DType::F64, &[12, 3], &[1e300; 36]).view())),
        &["`x`: expected finite coordinates, below 1e30"],
    );
    let list = PairList::from_coo(&[], vec![], vec![], 12, 21, Kind::Directed).unwrap();
    says(with(8, Arg::Structure(&list)), &["`list`: expected a grid of points, got a pair list (directed)"]);
    says(with(8, Arg::Zero), &["`list`: expected a grid of points"]);
    let fewer = open(&array(DType::F64, &[20, 3], &inputs[1][..60]));
    says(with(8, Arg::Grid(&fewer)), &["`list`: expected 21 rows (Point)", "got 20"]);
    // Systems.
    let one = open(&given.arrays[1]);
    says(
        with(8, Arg::Grid(&one)),
        &["`list`: expected a grid over 3 systems, as `queries` has, got 1 systems"],
    );
    let points = Batch::from_ptr(&[0, 7, 14, 21][..]).unwrap();
    says(with(7, Arg::Structure(&points)), &["`list`: expected a grid of the call's points"]);
    let args = [Arg::Array(given.arrays[0].view()), Arg::Array(given.arrays[1].view())];
    let op =
        Op::new("test", "count", 1).real("x", &["Query", "3"]).real("r", &["Point", "3"]).scalar("radius");
    let op = op.grid("grid", "Query", "Point", "r").integer_output("found", &["Query"], DType::I32);
    let op = op.integer_output("images", &["Query"], DType::I32).step(&COUNT).build().unwrap();
    let call = |grid: &HashGrid| {
        let mut args = args.to_vec();
        args.extend([Arg::Real(RADIUS), Arg::Grid(grid)]);
        op.value(&context, &args)
    };
    says(
        call(&grid),
        &["`grid`: expected a grid over one system, as the op has no batch over Query, got 3 systems"],
    );
    assert!(call(&one).is_ok());
    // No points, and no queries.
    let nothing = array(DType::F64, &[0, 3], &[]);
    let none =
        [Arg::Array(nothing.view()), Arg::Array(nothing.view()), Arg::Real(1.0), Arg::Grid(&open(&nothing))];
    assert_eq!(op.value(&context, &none).unwrap()[0].to_f64().unwrap(), [0.0; 0]);
    let [queries, _] = batches();
    let empty = Batch::from_ptr(&[0, 0, 0, 0][..]).unwrap();
    let cells = [[[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 4.0]]; 3];
    let no_points =
        HashGrid::build(&context, &nothing.view(), Some(&cells), Some(&PBC), empty.clone()).unwrap();
    let features = array(DType::F64, &[0, FEATURES], &[]);
    let mut args = given.with(Arg::Grid(&no_points));
    args[1] = Arg::Array(nothing.view());
    args[3] = Arg::Array(features.view());
    args[6] = Arg::Structure(&queries);
    args[7] = Arg::Structure(&empty);
    assert!(blur_op(false).value(&context, &args).unwrap()[0].to_f64().unwrap().iter().all(|x| *x == 0.0));
}

/// An array over the pairs has the length of the search's result.
#[test]
fn arguments_for_the_pairs_that_are_found() {
    let op = Op::new("test", "pick", 1)
        .real("x", &["Query", "3"])
        .real("r", &["Point", "3"])
        .real("factor", &["Edge"])
        .scalar("radius")
        .grid_with_entries("grid", ["Query", "Point"], "r", "Edge")
        .output("out", &["Query"])
        .step(&PICK)
        .build()
        .unwrap();
    let x = array(DType::F64, &[2, 3], &[0.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
    let r = array(DType::F64, &[2, 3], &[0.5, 0.0, 0.0, 1.5, 0.0, 0.0]);
    let call = |n: usize| {
        let factor = array(DType::F64, &[n], &[1.0, 2.0, 4.0, 8.0][..n]);
        let arrays = [&x, &r, &factor].map(|a| Arg::Array(a.view()));
        let grid = open(&r);
        let args = [&arrays[..], &[Arg::Real(1.0), Arg::Grid(&grid)]].concat();
        op.value(&madelung_cpu::context(), &args).map(|y| y[0].to_f64().unwrap())
    };
    assert_eq!(call(3).unwrap(), [1.0, 6.0]);
    says(call(4), &["`grid`: expected 4 pairs (Edge) within the radius, as other arguments have, got 3"]);
}

madelung_core::kernels! {
    #[kernel(small)]
    fn pick(
        i: Query, x: &[Vec3; Query], factor: &[Real; Edge], radius: Real, grid: &HashGrid<Query, Point, Edge>,
        out: &mut [Real; Query],
    ) {
        let mut s = 0.0;
        for (j, shift, p) in grid.query(x[i], radius) { s += factor[p]; }
        out[i] = s;
    }
}
