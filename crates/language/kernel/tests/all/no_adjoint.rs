//! Errors of kernels without adjoint: the message, and its source position.

use madelung_kernel::lower::lower_block;

const PARAMETERS: &str = "i: Atom, positions: &[Vec3; Atom], charges: &[Real; Atom], kinds: &[i32; Atom], cell: &[Mat3; \
     System], shifts: &[IVec3; Atom], g: &Real, cutoff: Real, n: i32, atoms: &Batch<Atom, System>, pairs: &Pairs<Atom>, \
     of_kind: &Map<Atom, Kind>, radius: &[Real; Kind], energy: &mut [Real; Atom], force: &mut [Vec3; Atom], \
     counts: &mut [i32; Cell], total: &mut i64, one: &mut Real, held: &mut [InOut<Real>; Atom], held_force: &mut \
     [InOut<Vec3>; Atom], held_cell: &mut [InOut<Mat3>; Atom], held_counts: &mut [InOut<i32>; Cell], held_total: &mut \
     InOut<i64>, held_one: &mut InOut<Real>";

/// Asserts that the source, with its marks « » taken out, is refused with a message that holds `message`, at the marked
/// place.
fn refused(source: &str, message: &str) {
    let plain = source.replace(['«', '»'], "");
    let file = syn::parse_str(&plain).unwrap_or_else(|e| panic!("{e}\n{plain}"));
    let error = lower_block(&file).err().unwrap_or_else(|| panic!("accepted: {plain}"));
    let text = error.to_string();
    assert!(text.contains(message), "{plain}\nsays: {text}\nnot: {message}");
    let (before, rest) = source.split_once('«').expect("a mark");
    let (marked, _) = rest.split_once('»').expect("marks come in pairs");
    let column = |text: &str| text.chars().count();
    let (start, end) = (error.span().start(), error.span().end());
    let expected = (column(before), column(before) + column(marked));
    assert_eq!((start.column, end.column), expected, "{plain}\n{text}");
}

fn body(statements: &str, message: &str) {
    refused(
        &format!("#[kernel(no_adjoint)] fn k({PARAMETERS}) {{ {statements} energy[i] = 0.0; }}"),
        message,
    );
}

fn value(expression: &str, message: &str) {
    body(&format!("let x = {expression};"), message);
}

fn parameters(parameters: &str, message: &str) {
    refused(&format!("#[kernel(no_adjoint)] fn k({parameters}) {{ }}"), message);
}

fn accepted(statements: &str) {
    let source = format!("#[kernel(no_adjoint)] fn k({PARAMETERS}) {{ {statements} energy[i] = 0.0; }}");
    let lowered = lower_block(&syn::parse_str(&source).expect("source"));
    assert!(lowered.expect("a kernel")[0].kernel.body.in_order);
}

#[test]
fn what_is_written_elsewhere_is_written_otherwise() {
    value("positions[i][«n»]", "the components of a vector and the rows of a matrix are told by constants");
    value("positions[i][«3»]", "index 3 is out of range: the elements are 0 to 2");
    value("«norm(positions[i])»", "write `length(v)`");
    value("«positions[i].norm()»", "write `length(v)`");
    value("«g ** 6»", "`**` is not an operator: a power is `pow(x, 6)`");
    value("«g ^ 6»", "powers are `pow(x, 6)`");
    value("«g ^ 2.0»", "powers are `pow(x, 6)`");
    accepted("*one = 1.0; let a = n ^ 6; let b = g * *one;");
    accepted(
        "let mut d = positions[i]; d += positions[i]; let x = d[0] + positions[i][2] + cell[atoms.of(i)][1][2];",
    );
    accepted(
        "let k = shifts[i][0] + 1; let m = n + shifts[i].y; let v = (vec2(g, g) * mat2(vec2(g, g), vec2(g, g)))[1];",
    );
}

#[test]
fn what_other_kernels_refuse_is_there() {
    accepted(
        "let mut k = 0; k = k + 1; k *= 3; k %= 2; let mut b = true; b = !b; let mut v = positions[i]; v -= v;",
    );
    accepted(
        "while g > 1.0 { break; } loop { if n > 3 { break; } else { continue; } } if n == 2 { return; }",
    );
    accepted(
        "let mut j = i; for (k, s) in pairs.row(i) { if k != i { j = k; } } energy[j] = 1.0; energy[n] = 2.0;",
    );
    accepted(
        "let old = atomic_add(counts[kinds[i]], 1); atomic_max(*total, old); if old == 3 { raise(CAPACITY); }",
    );
    accepted(
        "let c = if n > 0 { let t = n; t * 2 } else { 0 }; energy[i] = g; energy[i] = energy[i] + c as Real; *one = 1.0;",
    );
}

#[test]
fn numbers_have_one_type() {
    value("«1 + 1.0»", "this operator does not take i64 and Real");
    value("«g % 2.0»", "this operator does not take Real and Real");
    value("«g & g»", "% & | ^ << >> on integers");
    value("«i + 1»", "a row is not a number: the number of a row is `row as i64`");
    value("«i == atoms.of(i)»", "a row is not a number");
    value("«positions[i] == positions[i]»", "this operator does not take Vec3 and Vec3");
    value("«true < false»", "this operator does not take bool and bool");
    value("«positions[i] * positions[i]»", "this operator does not take Vec3 and Vec3");
    value("-«i»", "a Atom has no sign");
    value("g as «i32»", "integers are 64-bit here: write `as i64`");
    value("«g as Real»", "a Real does not become a Real by `as`");
    value("«positions[i] as i64»", "a Vec3 does not become a i64 by `as`");
    value("sqrt(«n»)", "expected a Real (an integer becomes one as `n as Real`");
    value("length(«shifts[i]»)", "three integers become one as `s as Vec3`");
    value("«1e999»", "beyond the range of f64");
    value("«'c'»", "there are numbers, `true` and `false`");
    body("let x: «i32» = n;", "integers are 64-bit here: write `i64`");
    body("let x: «Real» = n;", "this value is i64");
    body(
        "let mut k = 0; k = «1.5»;",
        "the variable is i64, and this is Real (a real without its fraction is `x as i64`",
    );
    body(
        "let mut x = 0.0; x = «1»;",
        "the variable is Real, and this is i64 (an integer becomes one as `n as Real`",
    );
    body("let mut b = true; b = «1»;", "the variable is bool, and this is i64");
    body("energy[i] = «1»;", "expected a Real, and this is a i64 (an integer becomes one");
    body(
        "counts[n] = «1.0»;",
        "expected a i64, and this is a Real (a real without its fraction is `x as i64`",
    );
    body("counts[n] = «i»;", "the number of a row is `row as i64`");
    body("force[i] = «1.0»;", "expected a Vec3, and this is a Real");
    body("if «n» { }", "expected a condition");
    body("while «g» { }", "expected a condition");
    body("for k in 0..«g» { }", "expected an integer");
    value("«if n > 0 { 1 } else { 1.0 }»", "both branches must be of one type, and these are i64 and Real");
    value("«if n > 0 { 1 }»", "an `if` used as a value has an `else`");
    value("«{ let y = 1; }»", "a block used as a value ends in an expression");
    value("positions[i].«w»", "components of a Vec3 are .x, .y and .z");
}

#[test]
fn places_are_elements_of_arrays() {
    body("«charges[i]» = 1.0;", "this parameter is read-only: declare it `&mut`");
    body("charges[i] = «nothing»;", "there is no `nothing` here");
    body("«g» = 1.0;", "`g` does not change: declare it with `let mut g = …`");
    body("let x = 1.0; «x» = 2.0;", "`x` does not change: declare it with `let mut x = …`");
    body("«x» += 2.0;", "there is no `x` here: declare it with `let mut x = …`");
    body("«energy» = 2.0;", "say which element of it: `energy[row] = …`");
    body("«total» += 2;", "say which element of it");
    body("let mut v = positions[i]; «v.x» = 1.0;", "components are not assigned one by one");
    body("let mut v = positions[i]; «v[0]» = 1.0;", "components are not assigned one by one");
    body("«force[i][0]» = 1.0;", "components are not assigned one by one");
    body("«energy[n] += 1.0»;", "another row may change this element in between");
    body("«counts[n] += 1»;", "`atomic_add(array[k], n)` for integers");
    body("«*total += 1»;", "another row may change this element in between");
    body("«*energy» = 1.0;", "this has rows: say which, `array[row]`");
    body("«one[0]» = 1.0;", "this is one element");
    value("energy[«atoms.of(i)»]", "this has an element per `Atom`, and the index is an `System`");
    value("energy[«g»]", "expected a row, or an integer");
    value("«energy»", "say which element of it: `energy[row]`");
    value("«pairs»", "batches, maps and pair lists are used as `batch.of(row)`");
    value("«pairs»[i]", "batches, maps and pair lists are not indexed");
    value("«nothing»[i]", "there is no parameter `nothing`");
    value("«g»[i]", "`g` is not an array, batch or pair list");
    value("«one.len()»", "only an array with rows has a number of them");
    value("«atoms.len(i)»", "methods are `batch.of(row)`, `map.of(row)` and `array.len()`");
    value("«charges.sum()»", "methods are `batch.of(row)`, `map.of(row)` and `array.len()`");
    value("atoms.of(«g»)", "expected a row, or an integer");
}

#[test]
fn a_row_reads_of_outputs_what_it_wrote() {
    let own = "is read before this row writes it on every path, and outputs start as zeros: write it first, give the old \
         values as an input, or mark it `InOut` to read what the array holds";
    body("energy[i] = g * charges[i] + «energy[i]»;", own);
    body("«energy[i]» += g;", own);
    body("«energy[i]» *= g;", own);
    body("force[i] = positions[i]; «energy[i]» -= g;", own);
    body("*one = «*one» + 1.0;", own);
    body("if g > 0.0 { energy[i] = g; } let x = «energy[i]»;", own);
    body("if g > 0.0 { energy[i] = g; } else { let x = «energy[i]»; }", own);
    body("if g > 0.0 && «energy[i]» > 1.0 { }", own);
    body("if g > 0.0 || atomic_add(*total, 1) > 0 { } let x = «*total»;", own);
    body("let x = if g > 0.0 { energy[i] = g; 1.0 } else { 2.0 }; «energy[i]» += x;", own);
    body("for k in 0..n { energy[i] = g; } «energy[i]» += g;", own);
    body("while g > 1.0 { energy[i] = g; break; } «energy[i]» += g;", own);
    body("for (j, s) in pairs.row(i) { «energy[i]» += charges[j]; }", own);
    body("loop { if n > 3 { break; } energy[i] = g; if n > 2 { break; } } «energy[i]» += g;", own);
    let others = "other than the row's own is read before this row writes one: rows run in any order";
    body("let x = «energy[n]»;", others);
    body("energy[n] = «energy[n]» * g;", others);
    body("energy[i] = g; for (j, s) in pairs.row(i) { let x = «energy[j]»; }", others);
    body("for (j, s) in pairs.row(i) { energy[i] = g; let x = «energy[j]»; }", others);
    body("for k in 0..n { counts[k] = «counts[k]» + 1; }", others);
    body("for k in 0..n { if k > 0 { let x = «counts[k]»; } counts[k] = 1; }", others);
    body("if n > 0 { counts[n] = 1; return; } let x = «counts[n]»;", others);
    body("if «counts[n]» < 3 { atomic_add(counts[n], 1); }", others);

    let held = "rows run in any order, and its old value may be gone (read an input, write to another array)";
    body("let x = «held[n]»;", held);
    body("held[n] = «held[n]» * g;", held);
    body("held[i] += g; for (j, s) in pairs.row(i) { let x = «held[j]»; }", held);
    body("if «held_counts[n]» < 3 { atomic_add(held_counts[n], 1); }", held);
    body("«held[n] += 1.0»;", "another row may change this element in between");
    body("«*held_total += 1»;", "another row may change this element in between");

    accepted("energy[i] = g; energy[i] += g; energy[i] *= 2.0; *one = 1.0; *one = *one + 1.0;");
    accepted("if g > 0.0 { energy[i] = g; } else { energy[i] = 1.0; } energy[i] += g;");
    accepted("if g > 0.0 { return; } else { energy[i] = 1.0; } energy[i] += g;");
    accepted("let x = if g > 0.0 { energy[i] = g; 1.0 } else { energy[i] = 2.0; 2.0 }; energy[i] += x;");
    accepted(
        "energy[i] = 0.0; for (j, s) in pairs.row(i) { if j == i { continue; } energy[i] += g; } let x = energy[i];",
    );
    accepted("loop { energy[i] = g; if g > 1.0 { break; } energy[i] += 1.0; } energy[i] *= g;");
    accepted("return; energy[i] += g;");
    accepted("energy[i as i64] = g; energy[i] += g;");
    accepted("atomic_add(counts[n], 1); let x = counts[n]; atomic_add(*total, 1); let y = *total;");
    accepted("counts[kinds[i]] = 1; let x = counts[kinds[i]] + counts[0];");
    accepted("for k in 0..n { counts[k] = 0; } for k in 1..n { counts[k] = counts[k - 1] + 1; }");
    accepted("for k in 0..n { counts[k] = 0; if k > 2 { continue; } } let x = counts[n];");
    accepted(
        "held[i] = g * charges[i] + held[i]; held[i] += g; held_force[i] -= positions[i]; *held_one = 2.0 * *held_one;",
    );
    accepted(
        "if g > held[i] { held[i] = g; return; } let k = *held_total; atomic_add(held_counts[kinds[i]], k);",
    );
    accepted("for (j, s) in pairs.row(i) { if j != i { held[i] += charges[j]; } } held_cell[i] *= 2.0;");
    accepted("held[n] = g; let x = held[n]; atomic_add(held_counts[n], 1); let y = held_counts[n];");
}

#[test]
fn atomics_count_integers() {
    body("atomic_add(«energy[i]», 1);", "their sum would depend on the order of rows");
    body("atomic_max(«*one», 1);", "reals are not counted atomically");
    body("atomic_add(«kinds[i]», 1);", "this parameter is read-only");
    body("atomic_add(counts[n], «1.0»);", "expected an integer");
    body("atomic_add(«n», 1);", "expected an element of an array");
    body("«atomic_sub(counts[n], 1)»;", "a function's value is used: `let x = …`");
    body("raise(«FULL»);", "a reason is one of CAPACITY, INDEX, COINCIDENT, NOT_FINITE, OVERFLOW");
    body("«raise()»;", "`raise(REASON)`, or `raise(REASON, array)`");
    value("«raise(CAPACITY)»", "is a statement and has no value");
}

#[test]
fn control_flow_is_plain() {
    body("«break»;", "there is no loop here to leave or go on with: `return` ends the row");
    body("if g > 1.0 { «continue»; }", "there is no loop here");
    body("«'outer:» loop { break; }", "there are no labels");
    body("loop { break «'outer»; }", "there are no labels");
    body("loop { break «1»; }", "a loop has no value");
    body("return «1»;", "a kernel returns nothing");
    body("for k in «0..=n» { }", "a loop is `for n in lo..hi`");
    body("for «mut k» in 0..n { }", "a loop is `for n in lo..hi`");
    body("for k in «pairs.row(i)» { }", "a loop is `for n in lo..hi`");
    body("«match n { _ => 1 }»;", "this statement is not part of the kernel language");
    body("«sqrt(g)»;", "a function's value is used");
    body("«let x;»", "`let` needs a value");
    body("let «(x, y)» = 1.0;", "`let` binds one plain name");
    body("let x = 1.0 «else» { return; };", "there is nothing that could fail");
}

#[test]
fn kernels_are_declared_alike() {
    for ty in [
        "f64",
        "&[Real]",
        "Vec3",
        "&Batch<Atom>",
        "&mut Batch<Atom, System>",
        "&mut [IVec3; Atom]",
        "&IVec3",
        "u8",
        "InOut<Real>",
        "&mut InOut<Real, Atom>",
        "&mut [InOut<IVec3>; Atom]",
        "&mut [[InOut<Real>; Feature]; Atom]",
        "&mut InOut<Batch<Atom, System>>",
    ] {
        parameters(&format!("i: Atom, x: «{ty}»"), "a parameter of a kernel without adjoint is one of");
    }
    parameters("i: Atom, x: &[«Zero<Mat3>»; Atom]", "a zero is there for its derivatives");
    parameters("i: Atom, x: &mut [InOut<«Zero<Mat3>»>; Atom]", "a zero is there for its derivatives");
    parameters(
        "i: Atom, x: «&[InOut<Real>; Atom]»",
        "an in-out array is written, too: declare it `&mut`, as an output",
    );
    parameters(
        "i: Atom, x: «&InOut<i64>»",
        "an in-out array is written, too: declare it `&mut`, as an output",
    );
    parameters("i: Atom, x: &[Real; «3»]", "expected the name of a dimension");
    parameters("i: Atom, x: &Real, «x»: &Real", "there are two parameters `x`");
    parameters("i: Atom, «(x, y)»: &Real", "a parameter is a plain name");
    parameters("«i: &Atom»", "the first parameter of a kernel is its index");
    refused("#[kernel(no_adjoint)] fn k(i: Atom) -> «Real» { }", "a kernel returns nothing");
    refused("#[kernel(no_adjoint)] fn «k»(i: Atom, x: &mut Real) { }", "this kernel writes nothing");
    let both = "#[kernel(no_adjoint, «fast»(x))] fn k(i: Atom, x: &[Real; Atom]) { }";
    refused(both, "`no_adjoint` stands alone");
    refused(
        "#[kernel(no_adjoint «=» 3)] fn k(i: Atom, x: &mut [Real; Atom]) { x[i] = 1.0; }",
        "expected `,`",
    );
    value("g * («g += 1.0»)", "this operator does not take Real and Real");
    accepted(
        "let k = of_kind.of(i); energy[i] = radius[k]; if k == of_kind.of(0) { energy[i] = radius[of_kind.of(n)]; }",
    );
    let f = "#[func] fn f(x: Real) -> Real { x }";
    let with = |call: &str| format!("{f} #[kernel(no_adjoint)] fn k({PARAMETERS}) {{ energy[i] = {call}; }}");
    refused(&with("«f(1.0, 2.0)»"), "`f` takes 1 argument(s), not 2");
    refused(&with("f(«1»)"), "`f` takes a Real here");
    refused(&with("«f2(1.0)»"), "there is no function `f2`");
    refused(
        &format!(
            "#[func] fn f(x: Real) -> «Vec3» {{ x }} #[kernel(no_adjoint)] fn k({PARAMETERS}) {{ force[i] = f(g); }}"
        ),
        "this value is Real",
    );
    refused(
        &format!(
            "#[func] fn f(x: Real) -> Real {{ «f(x)» }} #[kernel(no_adjoint)] fn k({PARAMETERS}) {{ energy[i] = f(g); }}"
        ),
        "recursion has no end",
    );
}
