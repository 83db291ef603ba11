//! Rejected programs: the error message, and its source position. `refusal` compiles a program: the compiler itself in this
//! crate's tests, the way of source text at run time in those of `madelung-jit`.

mod functions;
mod grids;
mod meshes;

use super::refusal::{Refusal, refusal};

const PARAMETERS: &str = "i: Atom, positions: &[Vec3; Atom], charges: &[Real; Atom], kinds: &[i32; Atom], cell: &[Mat3; \
     System], g: &Real, z: &[Real; Wave], cutoff: Real, n: i32, atoms: &Batch<Atom, System>, waves: &Batch<Wave, System>, \
     groups: &Batch<System, Group>, pairs: &Pairs<Atom>, energy: &mut [Real; Atom], force: &mut [Vec3; Atom], total: \
     &mut [Real; System], one: &mut Real";

/// Asserts that the source, with its marks « » taken out, is refused with a message that holds `message`, at the marked
/// place. Without marks the error has no place but the kernel's name.
fn refused(source: &str, message: &str) {
    let plain = source.replace(['«', '»'], "");
    let Some(Refusal { text, start, end, is_late }) = refusal(&plain) else { panic!("accepted: {plain}") };
    assert!(!(is_late && source.contains('«')), "too late, {text}: {plain}");
    assert!(text.contains(message), "{plain}\nsays: {text}\nnot: {message}");
    let Some((before, rest)) = source.split_once('«') else { return };
    let (marked, _) = rest.split_once('»').expect("marks come in pairs");
    let line_column = |text: &str| {
        let line = text.lines().count().max(1);
        (line, text.rsplit('\n').next().unwrap_or("").chars().count())
    };
    let expected = (line_column(before), line_column(&format!("{before}{marked}")));
    assert_eq!((start, end), expected, "{plain}\n{text}");
}

/// A kernel of these statements.
fn body(statements: &str, message: &str) {
    let end = if statements.contains("energy[i] =") { "" } else { "energy[i] = 0.0;" };
    refused(&format!("#[kernel] fn k({PARAMETERS}) {{ {statements} {end} }}"), message);
}

/// A kernel of these statements, in a loop over pairs with a sum `e` outside.
fn in_loop(statements: &str, message: &str) {
    body(
        &format!("let mut e = 0.0; for (j, shift) in pairs.row(i) {{ {statements} }} energy[i] = e;"),
        message,
    );
}

/// A kernel that returns after `let x = …` with this expression.
fn value(expression: &str, message: &str) {
    body(&format!("let x = {expression};"), message);
}

fn parameters(parameters: &str, message: &str) {
    refused(&format!("#[kernel] fn k({parameters}) {{ }}"), message);
}

#[test]
fn a_loop_carries_nothing_but_sums() {
    let carried = "is read inside the loop that adds to it";
    in_loop("e += 0.5 * «e» + charges[j];", carried);
    in_loop("e += charges[j]; let x = «e» * 2.0; if x > 0.0 { e -= x; }", carried);
    in_loop("if «e» < 1.0 { e += charges[j]; }", carried);
    in_loop("for m in 0..n { e += 1.0; } let x = «e»;", carried);
    body(
        "let mut e = 0.0; for m in 0..n { let x = «e»; for l in 0..m { e += 1.0; } } energy[i] = e;",
        carried,
    );
    body("let mut v = positions[i]; for m in 0..n { v += cross(«v», positions[i]); }", carried);
    body("for m in 0..n { let mut e = 0.0; for l in 0..m { e += «e» + 1.0; } }", carried);
    in_loop("let x = 1.0; «x» += 2.0;", "`x` is not a sum: declare it with `let mut x = 0.0`");
    in_loop("«e» = e + charges[j];", "assigning to a variable cannot be reversed");
    in_loop("«e *= charges[j]»;", "only `+=` and `-=` change a sum");
    in_loop("«e /= charges[j]»;", "sum the logarithms");
    in_loop("«e %= charges[j]»;", "only `+=` and `-=` change a sum");
    body("let mut m = «0»;", "`let mut` declares a sum, of reals, vectors or matrices");
    body("let mut m = «1.0 < 2.0»;", "an integer or condition that changes");
    body("let mut m = «i»;", "of reals, vectors or matrices");
}

#[test]
fn what_a_loop_looks_for_is_found_by_one_statement() {
    let where_ =
        "is found by a loop that stands in the block where `m` was declared, and by one statement in it";
    body("let mut m = 0.0; «m = max(m, charges[i])»;", where_);
    body("let mut m = 0.0; for k in 0..n { for l in 0..k { «m = max(m, charges[i])»; } }", where_);
    body("for k in 0..n { «x» = min(x, charges[i]); }", "`x` is not a Real that may change");
    body(
        "let mut v = positions[i]; for k in 0..n { «v» = max(v, positions[i]); }",
        "`v` is not a Real that may change",
    );
    body(
        "let mut m = 0.0; for k in 0..n { m = max(m, charges[i]); «m» = min(m, 1.0); }",
        "`m` is sought twice in this loop",
    );
    in_loop("e = max(e, «e» + charges[j]);", "is read inside the loop that adds to it");
}

#[test]
fn arrays_of_pairs() {
    let kernel = |list: &str, statements: &str| {
        format!(
            "#[kernel] fn k(i: Atom, x: &[Real; Atom], w: &[Real; Edge], n: i32, points: &Batch<Point, System>, pairs: \
             &Pairs<{list}>, out: &mut [Real; Atom], weight: &mut [Real; Edge]) {{ {statements} out[i] = 0.0; }}"
        )
    };
    refused(
        &kernel("Atom", "for «(j, shift, p)» in pairs.row(i) { }"),
        "this list does not name its entries",
    );
    let edges = |statements: &str| {
        kernel("Atom, Point, Edge", &format!("for (j, s, p) in pairs.row(i) {{ {statements} }}"))
    };
    refused(&edges("for k in 0..n { «weight[p] = 1.0»; }"), "is written in the loop over pairs itself");
    refused(&edges("weight[p] = 1.0; «weight[p] = 2.0»;"), "this output is written twice");
    refused(&edges("let y = x[«p»];"), "this array has an element per `Atom`, and the index is an `Edge`");
    refused(&edges("let y = w[«j»];"), "this array has an element per `Edge`, and the index is an `Point`");
    refused(
        &edges("let s = points.of(«j»);"),
        "a pair's system is that of its row: declare `&Batch<Atom, System>`",
    );
}

#[test]
fn loops_have_a_trip_count() {
    body("«while» cutoff > 1.0 { }", "use `for n in lo..hi`");
    body("«loop» { }", "use `for n in lo..hi`");
    in_loop("if charges[j] > 1.0 { «break»; }", "put what follows under an `if`");
    in_loop("«continue»;", "`continue` stands alone in an `if` without `else`");
    in_loop("if charges[j] > 1.0 { e += 1.0; «continue»; }", "`continue` stands alone");
    in_loop("if charges[j] > 1.0 { «continue»; } else { e += 1.0; }", "`continue` stands alone");
    in_loop(
        "if charges[j] > 1.0 { if charges[j] > 2.0 { «continue»; } e += 1.0; } e += 2.0;",
        "`continue` stands in the loop's own body",
    );
    in_loop(
        "if charges[j] > 1.0 { e += 1.0; } else if charges[j] > 0.5 { «continue»; }",
        "`continue` stands alone",
    );
    body("if cutoff > 1.0 { «continue»; }", "`continue` stands outside a loop");
    body("«'outer:» for m in 0..n { for l in 0..n { } }", "there are no labels");
    in_loop("if charges[j] > 1.0 { «continue 'outer»; }", "there are no labels");
    body("if cutoff > 1.0 { «return»; }", "put what follows under an `if`");
    for pattern in [
        "for «(m, l)» in 0..n { }",
        "for m in «0..=n» { }",
        "for m in «0..» { }",
        "for «[m]» in 0..n { }",
        "for («&j», shift) in pairs.row(i) { }",
        "for m in «charges» { }",
        "for j in «pairs.row(i)» { }",
        "for (j, shift) in «pairs.rows(i)» { }",
        "for (j, k) in «atoms.members(atoms.of(i))» { }",
        "for (j, shift) in «pairs.row()» { }",
    ] {
        body(
            pattern,
            "a loop is `for n in lo..hi`, `for (j, shift) in pairs.row(i)`, `for (j, shift, p) in pairs.row(i)`",
        );
    }
    body("for m in 0..«charges[i]» { }", "expected an integer");
    body("for m in «1.0»..n { }", "expected an integer");
    body("if cutoff > 1.0 { for (j, shift) in «pairs.row(i)» { } }", "move the condition into the loop");
    body(
        "for m in 0..n { if m < 1 { continue; } for k in «waves.members(atoms.of(i))» { } }",
        "move the condition into",
    );
    in_loop("for (k, t) in pairs.row(«j») { e += charges[k]; }", "those of the kernel's own row");
}

#[test]
fn outputs_are_written_once_and_never_read() {
    body("energy[i] = 0.0; «energy[i] = 1.0»;", "this output was already written");
    body("energy[i] = 0.0; «energy[i] += 1.0»;", "a row writes its own element once: `output[i] = …`");
    body("energy[i] = «energy»[i];", "an output cannot be read");
    body("energy[i] = 0.0; let x = «one» + 1.0;", "an output cannot be read");
    in_loop("«energy[i] = e»;", "an output is written once per row, at the end");
    body("if cutoff > 1.0 { «energy[i] = 1.0» }", "overwritten or missing");
    in_loop("«total[atoms.of(i)] += charges[j]»;", "sum into a `let mut` and add once after the loop");
    in_loop("«force[j] += positions[i]»;", "sum into a `let mut`");
    body("for m in 0..n { «*one += 1.0»; }", "sum into a `let mut`");
    body("energy[i] = 0.0; «charges»[i] = 1.0;", "this parameter is read-only: declare it `&mut`");
    body("«charges[i]» += 1.0;", "this parameter is read-only: declare it `&mut`");
    body("total[«atoms.of(i)»] = 1.0;", "a row stores to its own element only; add to shared ones with `+=`");
    body("«*one» = 1.0;", "`*output += …`");
    body("«one[i]» = 1.0;", "this output is one element: `*output += …`");
    body("«one[i]» += 1.0;", "this output is one element: `*output += …`");
    body("«*total» += 1.0;", "say which, `output[system] += …`");
    body("«2.0» += 1.0;", "the left side of `+=` is a sum (`let mut`) or an output");
    body("«f(1.0)» = 1.0;", "assigning to a variable cannot be reversed");
    body("energy[i] = «positions[i]»;", "expected a Real");
    body("force[i] = «charges[i]»;", "expected a Vec3");
    body("total[atoms.of(i)] += «1»;", "expected a Real");
    refused(
        "#[kernel] fn «k»(i: Atom, x: &[Real; Atom], out: &mut [Real; Atom]) { }",
        "this kernel writes nothing",
    );
}

#[test]
fn an_index_is_a_row_of_the_right_dimension() {
    value("cell[«i»]", "this array has an element per `System`, and the index is an `Atom`");
    value("charges[«atoms.of(i)»]", "an element per `Atom`, and the index is an `System`");
    value("waves.of(«i»)", "an element per `Wave`");
    body("energy[«atoms.of(i)»] = 0.0;", "an element per `Atom`");
    value("charges[«0»]", "(a computed number could be out of range)");
    value(
        "charges[«n + 1»]",
        "index it by the kernel's own row, a pair's column, a member, or `batch.of(row)`",
    );
    value("charges[«kinds[i]»]", "a computed number");
    value("charges[«positions[i]»]", "expected a row");
    body("for k in waves.members(«i») { }", "an element per `System`");
    value("«g»[i]", "`g` is not an array, batch or pair list");
    value("«atoms»[i]", "only arrays with rows are indexed");
    value("groups.of(«atoms.of(i)»)", "not a system: use two kernels");
    value("«i + 1»", "a row is not a number");
    in_loop("let x = «i == j»;", "a row is not a number");
    body("for j in atoms.members(atoms.of(i)) { let x = «j < i»; }", "compares with it by == and !=");
    body("for k in waves.members(atoms.of(i)) { let x = «k == i»; }", "a row is not a number");
}

#[test]
fn types_fit() {
    value("«charges[i] + n»", "(Real and i32 do not mix: write `n as Real`, `1.0`)");
    value("«charges[i] * 2»", "Real and i32 do not mix");
    value("«n / 2»", "the operands do not fit this operator");
    value("«charges[i] % 2.0»", "the operands do not fit this operator");
    value("«charges[i] != 2.0»", "< <= > >= == on Real");
    value("«n <= 2»", "+ - * < > == on i32");
    value("«positions[i] * positions[i]»", "their products");
    value("«positions[i] + charges[i]»", "the operands do not fit");
    value("«(n < 2) + (n < 3)»", "&& || on conditions");
    value("if «n» { 1.0 } else { 2.0 }", "expected a condition");
    value("!«n»", "expected a condition");
    value("-«n»", "write `0 - n` for an integer");
    value("«*g»", "an input of one element is read by its name, without `*`");
    value("«charges[i] as f64»", "`n as Real`");
    value("«charges[i]» as Real", "expected an integer");
    value("sqrt(«n»)", "an integer becomes one as `n as Real`");
    value("length(«charges[i]»)", "expected a vector");
    value("derivative(charges[i], «2.0»)", "a constant has no derivative by it");
    let of_sum = "let mut e = 0.0; for (j, shift) in pairs.row(i) { e += charges[j]; } let x = derivative(«e», charges[i]);";
    body(of_sum, "a sum of a loop has no derivative here");
    value("row(«positions[i]», 1)", "expected a matrix");
    value("row(cell[atoms.of(i)], «3»)", "index 3 is out of range: the elements are 0 to 2");
    value("«row(cell[atoms.of(i)], n)»", "there is no function `row` with 2 argument(s)");
    value("«pow(g, 100)»", "write `pow(x, 100.0)`");
    value("pow(g, «n»)", "expected a Real");
    value("«charges[i]».x", "only vectors have components");
    value("positions[i].«w»", "components of a Vec3 are .x, .y and .z");
    value("positions[i].«0»", "components of a Vec3 are .x, .y and .z");
    value("vec2(g, g).«z»", "components of a Vec2 are .x and .y");
    value("«vec2(g, g) + positions[i]»", "the operands do not fit");
    value("«vec2(g, g) * cell[atoms.of(i)]»", "the operands do not fit");
    value("dot(positions[i], «vec2(g, g)»)", "expected a Vec3");
    value("cross(«vec2(g, g)», positions[i])", "expected a Vec3");
    value("mat2(vec2(g, g), «positions[i]»)", "expected a Vec2");
    value("«vec4(g, g, g)»", "there is no function `vec4` with 3 argument(s)");
    body("force[i] = «vec2(g, g)»;", "expected a Vec3");
    value("«if g > 1.0 { 1.0 }»", "`if c { a } else { b }`");
    value("«if g > 1.0 { let x = 2.0; x } else { 1.0 }»", "has one expression in each branch");
    value(
        "«if g > 1.0 { 1.0 } else { positions[i] }»",
        "both branches must be reals, or vectors or matrices of one type",
    );
    value("«{ let x = 1.0; x }»", "a block used as a value holds one expression");
    body("let x: «i32» = g;", "this value is Real");
    body("let x: «Real» = 1;", "this value is i32");
    body("let x: «Vec3» = cell[atoms.of(i)];", "this value is Mat3");
    body("let mut x: «f64» = 1.0;", "this value is Real");
}

#[test]
fn names_are_known() {
    value(
        "«nothing»",
        "there is no `nothing` here: a kernel sees its parameters, its own names and `PI`, no globals",
    );
    value("«nothing»[i]", "there is no parameter `nothing`");
    value("«nothing(1.0)»", "there is no function `nothing` with 1 argument(s): builtins are sqrt exp log");
    value("«sqrt(1.0, 2.0)»", "there is no function `sqrt` with 2 argument(s)");
    value("«charges[i].sqrt()»", "functions are called as `sqrt(x)`");
    value("«pairs.of(i)»", "methods are `batch.of(row)`");
    value("«atoms.of()»", "methods are `batch.of(row)`");
    value("«(g)»(1.0)", "expected the name of a function");
    value("«positions[i]».of(i)", "expected the name of a parameter");
    value("«f64::sqrt»(g)", "expected this path to be an identifier");
    value("«std::f64::consts::PI»", "expected this path to be an identifier");
    value("«|x| x»", "this expression is not part of the kernel language");
    value("«(1.0, 2.0)»", "this expression is not part of the kernel language");
    value("«\"text\"»", "this expression is not part of the kernel language");
    body("«let x;»", "`let` needs a value");
    body("let «(x, y)» = 1.0;", "`let` binds one plain name");
    body("let x = 1.0 «else» { energy };", "there is nothing that could fail");
    body("«sqrt(g);»", "this statement is not part of the kernel language");
    body("«println!(\"x\");»", "this statement is not part of the kernel language");
    body("«fn f() {}»", "this statement is not part of the kernel language");
    body("«{ }»", "this statement is not part of the kernel language");
    in_loop("let x = charges[j]; } let y = «x»; for m in 0..n {", "there is no `x` here");
    body("if g > 1.0 { let mut x = 1.0; } «x» += 1.0;", "`x` is not a sum");
}

#[test]
fn parameters_have_types_that_kernels_know() {
    for ty in [
        "f64",
        "&f64",
        "&[f64; Atom]",
        "&mut [i32; Atom]",
        "&[Real]",
        "Vec3",
        "&Batch<Atom>",
        "&Pairs<Atom, Atom, Atom, Atom>",
        "&Map<Atom>",
        "&mut [Zero<Real>; Atom]",
        "&(Real, Real)",
        "&Option<Real>",
        "Vec<Real>",
        "&[Zero<i32>; Atom]",
    ] {
        parameters(
            &format!("i: Atom, x: «{ty}»"),
            "a kernel parameter is one of: `Real` or `i32` (attributes)",
        );
    }
    for ty in [
        "&mut [InOut<Real>; Atom]",
        "&mut InOut<Real>",
        "&mut [[InOut<Real>; Feature]; Atom]",
        "&InOut<Vec3>",
    ] {
        parameters(
            &format!("i: Atom, x: «{ty}»"),
            "a kernel with derivatives does not read what it writes: give the old values as an input",
        );
    }
    parameters("i: Atom, x: &[Real; «3»]", "expected the name of a dimension");
    parameters("i: Atom, «(x, y)»: &Real", "a parameter is a plain name");
    parameters("i: Atom, x: &Real, «x»: &Real", "there are two parameters `x`");
    parameters("i: Atom, «i»: &Real", "there are two parameters `i`");
    let many = |n: usize, ty: &str| (1..n).map(|k| format!("x{k}: {ty}, ")).collect::<String>();
    parameters(&format!("i: Atom, {}«x9»: Real", many(9, "Real")), "at most 8 real attributes");
    parameters(&format!("i: Atom, {}«x5»: i32", many(5, "i32")), "at most 4 integer attributes");
    let sum: String = (1..17).map(|k| format!(" + x{k}[i] * x{k}[i]")).collect();
    let arrays = many(17, "&[Real; Atom]");
    refused(
        &format!("#[kernel] fn k(i: Atom, {arrays} out: &mut [Real; Atom]) {{ out[i] = 0.0{sum}; }}"),
        "a launch has room for 64: split the kernel in two",
    );
    parameters(
        "i: Atom, a: &Batch<Atom, System>, b: «&Batch<Atom, Molecule>»",
        "`Atom` are in another batch already",
    );
    parameters("«i: &Atom»", "the first parameter of a kernel is its index: `i: Atom`");
    parameters("«(i, j): Atom»", "the first parameter of a kernel is its index");
    refused("#[kernel] «fn k()» { }", "the first parameter of a kernel is its index");
    refused("#[kernel] «fn k(self)» { }", "the first parameter of a kernel is its index");
    refused("#[kernel] fn k(i: Atom, out: &mut Real) -> «Real» { *out += 1.0; }", "a kernel returns nothing");
    let with = |attribute: &str| {
        format!(
            "#[kernel({attribute})] fn k(i: Atom, x: &[Real; Atom], n: &[i32; Atom], out: &mut \
        [Real; Atom]) {{ out[i] = x[i]; }}"
        )
    };
    refused(&with("fast(«n»)"), "`n` is not a differentiable parameter");
    refused(&with("fast(x), fast(«y»)"), "`y` is not a differentiable parameter");
    refused(&with("fast(«out»)"), "`out` is not a differentiable parameter");
    refused(&with("«slow»"), "expected `fast(input, …)`");
    for item in ["struct S;", "const X: f64 = 1.0;", "static X: f64 = 1.0;", "mod m {}"] {
        refused(&format!("«{item}»"), "`kernels!` holds functions only");
    }
    refused(
        "fn «f»(x: Real) -> Real { x }",
        "say what this is: `#[kernel]`, `#[func]` or `#[derivative(f)]`",
    );
    refused("#[inline] fn «f»(x: Real) -> Real { x }", "say what this is");
}

/// Errors of the derivative passes, which point at the kernel's name.
#[test]
fn some_patterns_have_no_transpose() {
    in_loop(
        "for (k, t) in pairs.row(i) { e += charges[j] * charges[k]; }",
        "a loop over pairs inside another loop has no transpose: put it outside, or ask for `scatter`",
    );
    body(
        "let mut e = 0.0; for m in 0..n { for k in waves.members(atoms.of(i)) { e += z[k]; } } energy[i] = e;",
        "a loop over members inside another loop has no transpose: put it outside",
    );
    refused(
        "#[kernel] fn k(i: Group, x: &[Real; Atom], supers: &Batch<System, Group>, atoms: &Batch<Atom, System>, out: &mut \
         [Real; Group]) { let mut e = 0.0; for b in supers.members(i) { for k in atoms.members(b) { e += x[k]; } } out[i] \
         = e; }",
        "a loop over members",
    );
}

#[test]
fn components_are_told_by_constants() {
    let range = "is out of range: the elements are 0 to";
    let known = "is indexed by constants and by the variables of loops with constant bounds";
    value("positions[i][«3»]", range);
    value("vec2(g, g)[«2»]", range);
    value("cell[atoms.of(i)][0][«3»]", range);
    value("positions[i][«n»]", known);
    value("«positions[i][0]»[0]", "this is a number");
    in_loop("e += shift[«3»];", range);
    in_loop("let d = positions[j]; for k in 0..n { e += d[«k»]; }", known);
    body("«force[i][0]» = g;", "components are not assigned one by one");
    body("let mut v = positions[i]; «v[0]» += g;", "added to by element (a vector as a whole)");
}

#[test]
fn local_arrays_are_small_and_their_indices_known() {
    let range = "is out of range: the elements are 0 to 3";
    let known = "is indexed by constants and by the variables of loops with constant bounds";
    body("let a = [0.0; 4]; let x = a[«4»];", range);
    body("let a = [0.0; 4]; let x = a[«2 - 3»];", range);
    body("let mut a = [0.0; 4]; for k in 0..4 { a[«k + 1»] += 1.0; }", range);
    body("let a = [0.0; 4]; let x = a[«n»];", known);
    body("let a = [0.0; 4]; for m in 0..n { let x = a[«m»]; }", known);
    body("let a = [0.0; 4]; let x = a[«i»];", "expected an integer");
    body("let a = [cutoff, 1.0]; let x = «a[0]»[1];", "this is a number");
    body("let a = [0.0; «n»];", "a local array has a constant number of elements, 1 to 64");
    body("let a = [0.0; «65»];", "1 to 64");
    body("let a = [0.0; «0»];", "1 to 64");
    for array in ["«[]»", "«[1.0, positions[i]]»", "«[1, 2]»", "«[cutoff < 1.0; 2]»", "«[i, i]»"] {
        body(&format!("let a = {array};"), "a local array has 1 to 64 elements of one type");
    }
    let unrolled = "a loop that indexes a local array is unrolled, with all loops around it that are: at most 64 iterations";
    body("let mut a = [0.0; 4]; for k in «0..65» { a[0] += 1.0; }", unrolled);
    body("let mut a = [0.0; 4]; for k in 0..9 { for l in «0..8» { a[0] += 1.0; } }", "not 72");
    body("let a = [0.0; 4]; «a[1]» += 1.0;", "this is not a sum: the array is declared `let mut`");
    body("let mut a = [0.0; 4]; «a» += 1.0;", "`a` is not a sum");
    body("let mut a = [0.0; 4]; «a[1]» = 1.0;", "assigning to an element cannot be reversed");
    body("let a = [0.0; 4]; let x = «a + a»;", "the operands do not fit this operator");
    body("let a: «[Real; 3]» = [0.0; 4];", "this value is [Real;4]");
    in_loop(
        "let mut a = [0.0; 2]; for m in 0..n { a[0] += «a»[1]; a[1] += 1.0; }",
        "is read inside the loop that adds to it",
    );
    body("let mut a = «[1; 2]»;", "a local array has 1 to 64 elements of one type");
}

const CHANNELS: &str = "i: Atom, f: &[[Real; Feature]; Atom], g: &[[Real; Wide]; Atom], w: &[Real; Feature], x: &[Real; \
     Atom], total: &mut [[Real; Feature]; System], n: i32, atoms: &Batch<Atom, System>, pairs: &Pairs<Atom>, norm: &mut \
     [Real; Feature], v: &[[Vec3; Feature]; Atom], u: &mut [[Vec3; Feature]; System], out: &mut [[Real; Feature]; Atom]";

/// A kernel with channels.
fn channels(statements: &str, message: &str) {
    let end = if statements.contains("out[i]") { "" } else { "for c in Feature { out[i][c] = 0.0; }" };
    refused(&format!("#[kernel] fn k({CHANNELS}) {{ {statements} {end} }}"), message);
}

#[test]
fn channels_are_indexed_by_their_loops() {
    let which = "this has a value for each channel: index it by the variable of `for c in Feature`";
    channels("let y = f[i][«0 - 1»];", "channel -1 is out of range");
    channels("let y = f[i][«99999»];", "channel 99999 is out of range: a number is 0 to 65535");
    channels(
        "for c in Feature { «u[atoms.of(i)][0] += vec3(1.0, 1.0, 1.0)»; }",
        "adding to an output inside a loop",
    );
    channels("«out[i][0] = 1.0»;", "an output is written once per row and channel");
    channels("for c in Feature { «out[i][0] = 1.0»; }", "an output is written once per row and channel");
    channels("let y = f[i][«i»];", which);
    channels("for c in Wide { let y = f[i][«c»]; }", which);
    channels("for c in Feature { let y = g[i][«c»]; }", "index it by the variable of `for c in Wide`");
    channels("for c in Feature { let y = f[«c»][c]; }", "this array has an element per `Atom`");
    channels(
        "for c in Feature { let y = «f[i]»; }",
        "this array has channels: `array[row][c]` in a loop `for c in Feature`",
    );
    channels("for c in Feature { let y = «x»[i][c]; }", "this array has no channels");
    channels("for c in Feature { let y = x[«c»]; }", "this array has an element per `Atom`");
    channels("for c in Feature { let y = «out[i][c]»; out[i][c] = 0.0; }", "an output cannot be read");
    channels("let mut s = [0.0; Feature]; let y = «s»;", "`s` has a sum for each channel");
    channels("let mut s = [0.0; Feature]; s[«0»] += 1.0;", which);
    channels("let mut s = [0.0; Feature]; «s» += 1.0;", "`s` is not a sum");
    channels("let s = «[0.0; Feature]»;", "a value for each channel is a sum");
    channels("let mut s = [«1.0»; Feature];", "sums over channels begin at 0.0");
    channels("let mut s = [«vec3(0.0, 1.0, 0.0)»; Feature];", "or at a vector or a matrix of zeros");
    channels("for c in Feature { let y = «f[i][c]»[0]; }", "this is a number");
    channels("for c in Feature { let y = v[i][c][«3»]; }", "index 3 is out of range");
    channels("for c in Feature { let y = «u[atoms.of(i)][c]»[0]; }", "an output cannot be read");
    channels("for c in Feature { «u[atoms.of(i)][c][0]» += 1.0; }", "components are not assigned one by one");
    channels("for c in Feature { u[atoms.of(i)][c] += «1.0»; }", "expected a Vec3");
    channels(
        "let mut s = [vec3(0.0, 0.0, 0.0); Feature]; for c in Feature { s[c] += «f[i][c]»; }",
        "expected a Vec3",
    );
    channels(
        "let mut s = [vec3(0.0, 0.0, 0.0); Feature]; for c in Feature { «s[c][0]» += 1.0; }",
        "added to by element (a vector as a whole)",
    );
    channels(
        "let mut s: «[Real; Feature]» = [0.0; Feature];",
        "the type of sums over channels is not written",
    );
    channels("for c in «Atom» { }", "a loop over channels goes over a dimension that is neither");
    channels("for c in «System» { }", "loop over pairs or members");
    channels("for «(c, d)» in Feature { }", "a loop is");
}

#[test]
fn tables_are_indexed_by_elements() {
    let table = |index: &str, message: &str| {
        let parameters = "i: Atom, t: &[[Real; Type]; Type], f: &[[Real; Type]; Atom], kind: &Map<Atom, Type>, other: \
                          &Map<Atom, Group>, out: &mut [Real; Atom]";
        refused(&format!("#[kernel] fn k({parameters}) {{ out[i] = {index}; }}"), message);
    };
    let elements = "a table is indexed by elements of maps: `table[kind.of(i)][kind.of(j)]`";
    table("«t[kind.of(i)][i]»", elements);
    table("«t[kind.of(i)][0]»", elements);
    table("«t[kind.of(i)]»", "this array has channels");
    table("t[«i»][kind.of(i)]", "this array has an element per `Type`");
    table("t[«other.of(i)»][kind.of(i)]", "this array has an element per `Type`");
    table("t[kind.of(i)][«other.of(i)»]", "this array has an element per `Type`");
    table("f[i][«kind.of(i)»]", "index it by the variable of `for c in Type`");
    refused(
        "#[kernel] fn k(i: Atom, t: &[«[Vec3; Type]»; Type], kind: &Map<Atom, Type>, out: &mut [Real; Atom]) { out[i] = 1.0; }",
        "a table over the elements of maps is of reals",
    );
    refused(
        "#[kernel] fn k(i: Atom, t: &[[Vec3; Type]; Group], kind: &Map<Atom, Type>, other: &Map<Atom, Group>, out: &mut [Real; \
         Atom]) { out[i] = length(t[other.of(i)][«kind.of(i)»]); }",
        "index it by the variable of `for c in Type`",
    );
}

#[test]
fn channels_are_the_innermost_loop() {
    let innermost = "a loop over channels holds no other loop over data";
    channels("for c in Feature { for d in «Wide» { } }", innermost);
    channels("for c in Feature { for (j, s) in «pairs.row(i)» { } }", innermost);
    let outside = "sums over channels are declared outside loops and branches";
    channels("for m in 0..n { let mut s = «[0.0; Feature]»; }", outside);
    channels("if n < 3 { let mut s = «[0.0; Feature]»; }", outside);
    let carried = "`s` is read inside the loop that adds to it";
    channels("let mut s = [0.0; Feature]; for c in Feature { s[c] += 0.5 * «s»[c]; }", carried);
    channels(
        "let mut s = [0.0; Feature]; let mut e = 0.0; for m in 0..n { for c in Feature { s[c] += 1.0; } for c in Feature { e += \
         «s»[c]; } }",
        carried,
    );
    channels(
        "let mut s = [0.0; Feature]; let mut e = 0.0; for c in Feature { e += s[c]; } for c in Feature { «s[c] += 1.0»; }",
        "`s` was read above: a sum over channels is whole before it is read",
    );
    let once = "an output is written once per row and channel";
    channels("for m in 0..n { for c in Feature { «out[i][c] = 1.0»; } }", once);
    channels("if n < 2 { for c in Feature { «out[i][c] = 1.0»; } }", once);
    channels("for c in Feature { if w[c] > 0.0 { continue; } «out[i][c] = 1.0»; }", once);
    channels("for c in Feature { out[i][c] = 1.0; «out[i][c] = 2.0»; }", "this output was already written");
    channels("for (j, s) in pairs.row(i) { for c in Feature { «out[j][c] = 1.0»; } }", once);
    channels("for c in Feature { «total[atoms.of(i)]»[c] = 1.0; }", "a row stores to its own element only");
    channels(
        "for c in Feature { «out[i][c] += 1.0»; }",
        "a row writes its own element once: `output[i][c] = …`",
    );
    channels("for c in Feature { «f[i][c]» = 1.0; out[i][c] = 1.0; }", "this parameter is read-only");
    channels("for c in Feature { «f[i][c]» += 1.0; }", "this parameter is read-only");
    channels("«out»[i] = 1.0;", "this output has channels: `output[row][c] = …`");
    channels("«total[atoms.of(i)]» += 1.0;", "this output has channels: `output[row][c] += …`");
    let inside = "adding to an output inside a loop";
    channels("for m in 0..n { for c in Feature { «norm[c] += 1.0»; } }", inside);
    channels("for m in 0..n { for c in Feature { «total[atoms.of(i)][c] += 1.0»; } }", inside);
    parameters(
        "i: Atom, x: &mut [«[Real; Atom]»; Atom], out: &mut [Real; Atom]",
        "an array with channels is `&[[T; Feature]; Atom]`",
    );
    parameters(
        "i: Atom, x: &[«[IVec3; Feature]»; Atom]",
        "with T = Real, Vec2, Vec3, Vec4, Mat2 or Mat3, in rows of another dimension",
    );
    parameters("i: Atom, x: &[[Real; «3»]; Atom]", "expected the name of a dimension");
    let many: String = ('B'..='P').map(|d| format!("{}: &[Real; {d}], ", d.to_ascii_lowercase())).collect();
    refused(
        &format!("#[kernel] fn «k»(i: A, {}) {{ }}", many.replace("i: &[Real; I], ", "ii: &[Real; I], ")),
        "a kernel has at most 15 dimensions, not 16",
    );
}

#[test]
fn functions_are_right_where_they_are_written() {
    let wrong = |source: &str, message: &str| {
        let file = syn::parse_str(source).expect("a file");
        let error = madelung_kernel::lower::lower_functions(&file).expect_err("a wrong function");
        assert!(error.to_string().contains(message), "{error}");
    };
    wrong("#[func] pub fn f(x: Real) -> Vec3 { x }", "this value is Real");
    wrong("#[func] pub fn f(x: Real) -> Real { x * y }", "there is no `y` here");
    wrong("#[func] pub fn f(x: Real) -> Real { f(x) }", "calls itself");
    wrong(
        "#[func] pub fn f(x: f64) -> Real { x }",
        "an argument is Real, i32, Vec2, Vec3, Vec4, Mat2 or Mat3",
    );
    wrong(
        "#[func] pub fn f(x: Real) -> Real { x } #[derivative(f)] fn d(x: Real) -> Real { y }",
        "there is no `y` here",
    );
}
