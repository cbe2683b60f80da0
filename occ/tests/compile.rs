//! What must not compile, and what the compiler says about it.

#[test]
fn wrong_use_is_explained_where_it_stands() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/derive.rs");
    cases.compile_fail("tests/ui/derive/*.rs");
    cases.compile_fail("tests/ui/transition/*.rs");
    cases.compile_fail("tests/ui/conflict/*.rs");
    #[cfg(feature = "sqlite")]
    cases.compile_fail("tests/ui/sqlite/*.rs");
}
