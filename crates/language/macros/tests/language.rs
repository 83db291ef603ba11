//! Errors of what the macro alone decides: imports of functions and their macros. (What the language refuses, with the
//! place in the source: `rejections` of `madelung-kernel`.)
//!
//! A binary of its own, which links nothing of Madelung: its Cargo builds this crate once more, and that takes longer than
//! the test.

#[test]
fn errors_point_at_the_source() {
    trybuild::TestCases::new().compile_fail("tests/language/*.rs");
}
