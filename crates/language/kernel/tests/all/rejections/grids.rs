//! Queries of grids, in kernels with and without derivatives.

use super::refused;
use madelung_kernel::ir::Query;
use madelung_kernel::lower::lower_block;

const PARAMETERS: &str = "i: Query, x: &[Vec3; Query], y: &[Vec3; Query], q: &[Real; Query], r: &[Vec3; Point], radius: \
     Real, wide: Real, n: i32, g: &Real, queries: &Batch<Query, System>, pairs: &Pairs<Query, Point>, grid: \
     &HashGrid<Query, Point>, named: &HashGrid<Query, Point, Edge>, out: &mut [Real; Query]";

/// Statements that both kinds of kernels accept: every grid is queried.
const QUERIES: &str =
    "for (j, s) in grid.query(x[i], radius) { } for (j, s) in named.query(x[i], radius) { }";

const KINDS: [&str; 2] = ["kernel", "kernel(no_adjoint)"];

fn both(statements: &str, message: &str) {
    for kind in KINDS {
        refused(&format!("#[{kind}] fn k({PARAMETERS}) {{ {statements} out[i] = 0.0; }}"), message);
    }
}

fn parameters(parameters: &str, message: &str) {
    for kind in KINDS {
        refused(&format!("#[{kind}] fn k({parameters}) {{ }}"), message);
    }
}

fn queries(source: &str) -> Vec<Query> {
    let lowered = lower_block(&syn::parse_str(source).expect("source"));
    lowered.unwrap_or_else(|e| panic!("{e}\n{source}")).remove(0).kernel.queries
}

#[test]
fn what_is_accepted() {
    let source = |kind: &str, statements: &str| {
        format!("#[{kind}] fn k({PARAMETERS}) {{ {statements} out[i] = 0.0; }}")
    };
    let [positions, radius, grid, named] = [0, 4, 10, 11];
    let expected =
        vec![Query { grid, positions, radius }, Query { grid: named, positions: 1, radius: radius + 1 }];
    for kind in KINDS {
        let twice = "for (j, s) in grid.query(x[i], radius) { } for (j, _) in grid.query((x[i]), radius) { } for \
                     (_, s, p) in named.query(y[i], wide) { }";
        assert_eq!(queries(&source(kind, twice)), expected);
    }
    // Aliases of the position and the radius.
    let named = "let here = x[i]; let reach = radius; for (j, s) in grid.query(here, reach) { } for (j, s, p) in \
                 named.query(y[i], wide) { }";
    assert_eq!(queries(&source("kernel", named)), expected);
}

#[test]
fn around_the_rows_own_position() {
    let own = "a query is around the row's own element of an array of vectors";
    both("for (j, s) in grid.query(«q[i]», radius) { }", own);
    both("for (j, s) in grid.query(«x[i] + y[i]», radius) { }", own);
    both("for (j, s) in grid.query(«vec3(x[i].x, x[i].y, y[i].z)», radius) { }", own);
    both("for (j, s) in grid.query(«g», radius) { }", own);
    both("for (k, t) in pairs.row(i) { for (j, s) in grid.query(«r[k]», radius) { } }", own);
    let zero = "i: Query, strain: &[Zero<Vec3>; Query], radius: Real, grid: &HashGrid<Query, Point>, out: &mut [Real; Query]";
    refused(
        &format!(
            "#[kernel] fn k({zero}) {{ for (j, s) in grid.query(«strain[i]», radius) {{ }} out[i] = 0.0; }}"
        ),
        own,
    );
    let index = "an element per `Query`, and the index is an `Point`";
    both("for (k, t) in pairs.row(i) { for (j, s) in grid.query(x[«k»], radius) { } }", index);
    // Kernels in which indices may be computed, and outputs read.
    for other in ["x[n]", "force[i]"] {
        refused(
            &format!(
                "#[kernel(no_adjoint)] fn k({PARAMETERS}, force: &mut [Vec3; Query]) {{ for (j, s) in grid.query(«{other}», \
                 radius) {{ }} }}"
            ),
            own,
        );
    }
}

#[test]
fn within_an_attribute() {
    let attribute = "the radius of a query is an attribute, `radius: Real`";
    for radius in ["1.0", "2.0 * radius", "g", "q[i]", "n", "x[i]"] {
        both(&format!("for (j, s) in grid.query(x[i], «{radius}») {{ }}"), attribute);
    }
}

#[test]
fn forms_of_the_loop() {
    let image = "`for (j, shift) in grid.query(x[i], radius)`";
    both("for «j» in grid.query(x[i], radius) { }", image);
    both("for «(j, s, p, k)» in named.query(x[i], radius) { }", image);
    both("for «(j, s, p)» in grid.query(x[i], radius) { }", "this grid does not name its pairs");
    both("for (j, s) in «grid.query(x[i])» { }", "a query is `for (j, shift) in grid.query(x[i], radius)`");
    both("for (j, s) in «grid.query(x[i], radius, n)» { }", "a query is");
    both("for (j, s) in «grid.row(i)» { }", "a grid has no pairs before it is queried");
    both("for (j, s) in «grid.rows(i)» { }", "a grid has no pairs before it is queried");
    both("for (j, s) in «pairs.query(x[i], radius)» { }", "only grids are queried");
    both("for (j, s) in «queries.query(x[i], radius)» { }", "`&HashGrid<Query, Point>`");
    refused(
        &format!("#[kernel] fn k({PARAMETERS}) {{ let e = «grid.query(x[i], radius)»; out[i] = 0.0; }}"),
        "in loops `batch.members(system)`, `pairs.row(i)` and `grid.query(x[i], radius)`",
    );
}

#[test]
fn one_query_for_each_grid() {
    let two = "take two parameters, which may be given the same grid";
    both("for (j, s) in grid.query(x[i], radius) { } for (j, s) in «grid.query(x[i], wide)» { }", two);
    both("for (j, s) in grid.query(x[i], radius) { } for (j, s) in «grid.query(y[i], radius)» { }", two);
    let none = "`grid` is not queried: `for (j, shift) in grid.query(x[i], radius)`";
    parameters_and_store("«grid»: &HashGrid<Query, Point>", "", none);
    both(&format!("{QUERIES} for (j, s) in «grid.query(y[i], wide)» {{ }}"), "`grid` is queried around");
}

fn parameters_and_store(grid: &str, statements: &str, message: &str) {
    for kind in KINDS {
        refused(
            &format!(
                "#[{kind}] fn k(i: Query, {grid}, out: &mut [Real; Query]) {{ {statements} out[i] = 0.0; }}"
            ),
            message,
        );
    }
}

#[test]
fn around_the_kernels_own_rows() {
    let own = "a grid is queried around the kernel's own rows, `&HashGrid<Point, Point>`";
    parameters("j: Point, x: &[Vec3; Query], grid: &HashGrid<«Query», Point>", own);
    for kind in KINDS {
        let wrong =
            ["«&HashGrid<Query>»", "«&HashGrid<Query, Point, Edge, More>»", "«&mut HashGrid<Query, Point>»"];
        for wrong in wrong {
            refused(&format!("#[{kind}] fn k(i: Query, grid: {wrong}) {{ }}"), "`&HashGrid<Rows, Points>`");
        }
    }
}

/// Contributions to partners never come from both sides: a query finds a point at distance zero as well, and the
/// transpose exists only where the points are the queries.
#[test]
fn grids_are_no_full_lists() {
    let kernel = |list: &str, pairs: &str| {
        format!(
            "#[kernel] fn k(i: Point, x: &[Vec3; Point], q: &[Real; Point], radius: Real, list: {list}, out: &mut [Real; \
             Point]) {{ let mut e = 0.0; for k in 0..2 {{ for (j, s) in {pairs} {{ e += q[j] * (k as Real); }} }} out[i] = \
             e; }}"
        )
    };
    let forms = |source: &str| {
        let lowered = lower_block(&syn::parse_str(source).expect("source")).expect("a kernel");
        madelung_kernel::forms::forms(&lowered[0].kernel, &Default::default()).map(|_| ())
    };
    assert_eq!(forms(&kernel("&Pairs<Point>", "list.row(i)")), Ok(()));
    let error = forms(&kernel("&HashGrid<Point, Point>", "list.query(x[i], radius)")).unwrap_err();
    assert!(error.contains("a loop over pairs inside another loop has no transpose"), "{error}");
}
