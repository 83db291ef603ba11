//! Functions that are called and functions that are defined.

use super::{PARAMETERS, refused, value};

/// Spellings of newcomers, and the ones that they are told to use.
#[test]
fn what_is_written_elsewhere_is_written_otherwise() {
    value(
        "«norm(positions[i])»",
        "there is no function `norm` with 1 argument(s): write `length(v)`; builtins are",
    );
    value("«positions[i].norm()»", "write `length(v)`; methods are");
    value("«ln(g)»", "write `log(x)`");
    value("«g.powi(6)»", "write `pow(x, 6)`");
    value("«round(g)»", "write `nearest(x)`");
    value("«g ** 6»", "`**` is not an operator: a power is `pow(x, 6)`");
    value("«2.0 * g ** 6»", "a power is `pow(x, 6)`");
    value("g * «*g»", "(a power is `pow(x, n)`)");
    value("«g ^ 6»", "powers are `pow(x, 6)`");
    value("«g ^ 2.0»", "powers are `pow(x, 6)`");
    value("«1e999»", "beyond the range of f64");
    let untyped = "say what `f` gives back: `-> Real` behind its arguments";
    function("#[func] «fn f(x: Real)» { x * x }", untyped);
    function("#[func] «fn f(x: Real)» { let y = x; }", untyped);
    let derivative = "#[func] fn f(x: Real) -> Real { x } #[derivative(f)] «fn d(x: Real)» { 1.0 }";
    function(derivative, "say what `d` gives back");
}

/// A kernel that calls `f` of this block.
fn function(block: &str, message: &str) {
    refused(&format!("{block} #[kernel] fn k({PARAMETERS}) {{ energy[i] = f(charges[i]); }}"), message);
}

#[test]
fn functions_are_formulas() {
    function(
        "#[func] fn f(x: Real) -> Real { g(x) } #[func] fn g(x: Real) -> Real { 2.0 * «f(x)» }",
        "`f` calls itself",
    );
    function("#[func] fn f(x: Real) -> Real { «f(x)» }", "recursion has no end");
    function(
        "#[func] fn f(x: «f64») -> Real { x }",
        "an argument is Real, i32, Vec2, Vec3, Vec4, Mat2 or Mat3",
    );
    function("#[func] fn f(«self») -> Real { 1.0 }", "a function has no `self`");
    function("#[func] fn f(«(x, y)»: Real) -> Real { x }", "an argument is a plain name");
    function("#[func] «fn f(x: Real) -> Real» { }", "a function is `let`s and one expression at the end");
    function(
        "#[func] «fn f(x: Real) -> Real» { let y = x; }",
        "a function is `let`s and one expression at the end",
    );
    function("#[func] fn f(x: Real) -> Real { «if x > 1.0 { return x; }» x }", "a function is `let`s");
    function("#[func] fn f(x: Real) -> Real { «let (y, z) = x;» y }", "a function is `let`s");
    function("#[func] fn f(x: Real) -> Real { let «mut y» = x; y }", "`let mut` belongs in the kernel");
    function("#[func] fn f(x: Real) -> Real { let «mut y»: Real = x; y }", "`let mut` belongs in the kernel");
    function("#[func] fn f(x: Real) -> Real { let y: «Vec3» = x; x }", "this value is Real");
    function("#[func] fn f(x: Real) -> «Vec3» { let y: Real = x; y }", "this value is Real");
    function("#[func] fn f(x: Real) -> Real { «x += 1.0» }", "the operands do not fit this operator");
    function("#[func] fn f(x: Real) -> Real { x * «cutoff» }", "there is no `cutoff` here");
    function("#[func] «fn f(x: Real) -> Real» { (x, x) }", "a function gives back one value");
    refused(
        &format!(
            "#[func] fn f(x: Real) -> Real {{ x }} #[kernel] fn k({PARAMETERS}) {{ energy[i] = «f(1.0, 2.0)»; }}"
        ),
        "`f` takes 1 argument(s), not 2",
    );
    refused(
        &format!(
            "#[func] fn f(x: Vec3) -> Real {{ x.x }} #[kernel] fn k({PARAMETERS}) {{ energy[i] = f(«charges[i]»); }}"
        ),
        "`f` takes a Vec3 here",
    );
    let f = "#[func] fn f(x: Real) -> Real { x * x }";
    function(
        &format!("{f} #[func] fn «f»(x: Real) -> Real {{ x }}"),
        "this was already defined in this block",
    );
    function(
        &format!("{f} #[derivative(f)] fn d(x: Real) -> (Real, Real) {{ «(x, x)» }}"),
        "one partial derivative per argument: 1, not 2",
    );
    function(
        &format!("{f} #[derivative(f)] fn d(«x: Real, y: Real») -> Real {{ x }}"),
        "the arguments of its function: 1",
    );
    function(
        &format!("{f} #[derivative(f)] «fn d(x: Real) -> Vec3» {{ vec3(x, x, x) }}"),
        "a derivative is a Real, or a tuple of them",
    );
    function(
        &format!("{f} #[derivative(h)] fn «d»(x: Real) -> Real {{ x }}"),
        "there is no `#[func] fn h` in this block",
    );
    let of_vector = "#[func] fn h(v: Vec3) -> Real { v.x } #[derivative(h)] fn d(«v: Vec3») -> Real { 1.0 } #[func] fn f(x: \
                     Real) -> Real { h(vec3(x, x, x)) }";
    function(of_vector, "a function with its own derivative takes reals only");
    let of_system = "#[func] «fn h(x: Real) -> Vec3» { vec3(x, x, x) } #[derivative(h)] fn d(x: Real) -> Real { 1.0 } #[func] \
                     fn f(x: Real) -> Real { h(x).x }";
    function(of_system, "a function with its own derivative gives back a Real");
}
