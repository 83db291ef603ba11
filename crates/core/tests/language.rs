//! Errors of the macro at the place in the source that the language refuses. (Every rejection on its own: `rejections` of
//! `madelung-kernel`.)
//!
//! A binary of its own, which links nothing of Madelung: its Cargo compiles the crate once more, and that takes longer than
//! all other tests.

#[test]
fn errors_point_at_the_source() {
    trybuild::TestCases::new().compile_fail("tests/language/*.rs");
}
