//! L19: what must not compile, and that it does compile once the mistake is taken out.

#[test]
fn l19_permits_kinds_and_fenced_stores_cannot_be_forged() {
    let tests = trybuild::TestCases::new();
    tests.pass("tests/ui/permit_used.rs");
    tests.pass("tests/ui/efficiency_used.rs");
    tests.compile_fail("tests/ui/permit_cloned.rs");
    tests.compile_fail("tests/ui/permit_by_hand.rs");
    tests.compile_fail("tests/ui/unfenced_store.rs");
    tests.compile_fail("tests/ui/token_instead_of_permit.rs");
    tests.compile_fail("tests/ui/efficiency_permit.rs");
    tests.compile_fail("tests/ui/efficiency_protected.rs");
    tests.compile_fail("tests/ui/kind_by_hand.rs");
}
