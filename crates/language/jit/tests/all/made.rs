//! Kernels of source text: their declarations, imports, and how long they are kept.

use madelung_jit::{Declaration, Function, kernels, kernels_with};

const SPRINGS: &str = "#[kernel] fn springs(i: Atom, x: &[Vec3; Atom], k: &Real, pairs: &Pairs<Atom>, energy: &mut [Real; \
                       Atom]) { let mut e = 0.0; for (j, s) in pairs.row(i) { let d = x[j] - x[i]; e += dot(d, d); } \
                       energy[i] = k * e; }";

#[test]
fn equal_text_gives_the_same_kernels() {
    let [one, other] = [SPRINGS, SPRINGS].map(|text| kernels(text).expect("it compiles")[0].kernel());
    assert!(std::ptr::eq(one, other));
    let another = kernels(&SPRINGS.replace("dot(d, d)", "length(d)")).expect("it compiles")[0].kernel();
    assert!(!std::ptr::eq(one, another));
}

#[test]
fn threads_that_come_first_together_get_one_kernel() {
    let text = SPRINGS.replace("springs", "at_once");
    let found = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|_| scope.spawn(|| kernels(&text).expect("it compiles")[0].kernel())).collect();
        threads.into_iter().map(|t| t.join().expect("no panic")).collect::<Vec<_>>()
    });
    assert!(found.iter().all(|kernel| std::ptr::eq(*kernel, found[0])));
}

#[test]
fn five_hundred_definitions_of_one_name_are_five_hundred_kernels() {
    let all: std::collections::BTreeSet<usize> = (0..500)
        .map(|n| {
            SPRINGS.replace("k * e", &format!("k * e * {n}.0")).replace("#[kernel]", "#[kernel(no_adjoint)]")
        })
        .map(|text| std::ptr::from_ref(kernels(&text).expect("it compiles")[0].kernel()).addr())
        .collect();
    assert_eq!(all.len(), 500);
}

#[test]
fn parse_errors_have_their_place() {
    let error =
        kernels("#[kernel]\nfn k(i: Atom, x: &[Real; Atom]) { let y = ; }").expect_err("no expression");
    assert_eq!((error.start.line, error.start.column), (2, 42));
    assert!(error.to_string().starts_with("line 2, column 43: expected"), "{error}");
    let error = kernels("#[func] fn f(x: Real) -> Real { x }").expect_err("no kernel");
    assert!(error.message.contains("no `#[kernel] fn`"), "{error}");
}

#[test]
fn functions_are_imported_by_their_paths_or_the_ends_of_these() {
    let twice = Function {
        path: "one::forms::twice",
        source: "#[func] fn twice(x: Real) -> Real { 2.0 * helper(x) } #[func] fn twice__calls__helper(x: Real) -> Real { x }",
    };
    let twice =
        Function { source: &*twice.source.replace("* helper", "* twice__calls__helper").leak(), ..twice };
    let other = Function { path: "two::forms::twice", ..twice };
    let text = |import: &str, name: &str| {
        format!(
            "use {import}; #[kernel] fn k(i: Atom, x: &[Real; Atom], y: &mut [Real; Atom]) {{ y[i] = {name}(x[i]); }}"
        )
    };
    for (import, name) in
        [("one::forms::twice", "twice"), ("forms::twice", "twice"), ("twice as double", "double")]
    {
        assert!(kernels_with(&text(import, name), &[twice]).is_ok(), "{import}");
    }
    for import in ["forms::twice", "three::twice"] {
        let error = kernels_with(&text(import, "twice"), &[twice, other]).expect_err(import);
        assert!(error.message.contains("one::forms::twice, two::forms::twice"), "{error}");
        assert_eq!(error.start.line, 1);
    }
}

#[test]
fn a_declaration_says_what_does_not_fit() {
    let springs = kernels(SPRINGS).expect("it compiles")[0].kernel();
    let op = Declaration::default().op(("tests", "springs", 1), &[springs]).expect("an op");
    assert_eq!(op.args.iter().map(|a| &*a.name).collect::<Vec<_>>(), ["x", "k", "pairs"]);
    let wrong = Declaration { scratch: vec!["enregy".into()], ..Declaration::default() };
    let error = wrong.op(("tests", "springs", 1), &[springs]).expect_err("no such array").to_string();
    assert!(error.contains("`enregy`"), "{error}");
}

#[test]
fn in_out_arrays_begin_as_arguments() {
    let text = "#[kernel(no_adjoint)] fn seen(i: Row, y: &[i64; Row], before: &mut [i64; Row]) { before[i] = y[i]; } \
                #[kernel(no_adjoint)] fn go_on(i: Row, x: &[i64; Row], y: &mut [InOut<i64>; Row]) { y[i] += x[i]; }";
    let made = kernels(text).expect("it compiles");
    let [seen, go_on] = ["seen", "go_on"].map(|name| {
        let found = made.iter().find(|made| made.name == name);
        found.expect("a kernel of this name").kernel()
    });
    for (steps, args, outputs) in [
        (&[go_on][..], ["x", "y"], &["y"][..]),
        (&[go_on, go_on], ["x", "y"], &["y"]),
        (&[seen, go_on], ["y", "x"], &["before", "y"]),
    ] {
        let op = Declaration::default().op(("tests", "go_on", 1), steps).expect("an op");
        assert_eq!(op.args.iter().map(|a| &*a.name).collect::<Vec<_>>(), args);
        assert_eq!(op.outputs.iter().map(|o| &*o.name).collect::<Vec<_>>(), outputs);
    }
    let inner = Declaration { scratch: vec!["y".into()], ..Declaration::default() };
    let error = inner.op(("tests", "go_on", 1), &[go_on, seen]).expect_err("no argument").to_string();
    assert!(
        error.contains("go_on::y`: expected an argument of this name, or an array that an earlier"),
        "{error}"
    );
}

/// For callers who search.
#[test]
fn a_grid_can_be_a_list() {
    let text = "#[kernel] fn near(i: Query, x: &[Vec3; Query], q: &[Real; Point], radius: Real, grid: &HashGrid<Query, \
                Point>, sum: &mut [Real; Query]) { let mut s = 0.0; for (j, shift) in grid.query(x[i], radius) { s += \
                q[j]; } sum[i] = s; }";
    let made = &kernels(text).expect("it compiles")[0];
    let declare = |kernel| Declaration::default().op(("tests", "near", 1), &[kernel]);
    assert!(declare(made.kernel()).expect_err("no points").to_string().contains("`grid`"));
    let op = declare(made.listed()).expect("an op of pairs");
    assert!(op.args.iter().any(|a| a.name == "grid" && a.kind.structure().is_some_and(|s| !s.is_grid)));
    let springs = &kernels(SPRINGS).expect("it compiles")[0];
    assert!(std::ptr::eq(springs.kernel(), springs.listed()));
}
