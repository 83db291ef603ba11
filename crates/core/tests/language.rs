//! The macro reports what the language refuses where it stands. (Every rejection on its own: `rejections.rs` of
//! `madelung-kernel`.)

#[test]
fn errors_point_at_the_source() {
    trybuild::TestCases::new().compile_fail("tests/language/*.rs");
}
