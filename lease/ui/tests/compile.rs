//! L19: what must not compile, and that it does compile once the mistake is taken out.

/// Compiled with this test: `trybuild` would have to build every dependency to its end for what passes.
#[allow(dead_code, reason = "that it compiles is what is shown")]
mod compile {
    mod efficiency_used;
    mod permit_used;
}

#[test]
fn l19_permits_kinds_and_fenced_stores_cannot_be_forged() {
    let tests = trybuild::TestCases::new();
    tests.compile_fail("tests/ui/permit_cloned.rs");
    tests.compile_fail("tests/ui/permit_by_hand.rs");
    tests.compile_fail("tests/ui/unfenced_store.rs");
    tests.compile_fail("tests/ui/token_instead_of_permit.rs");
    tests.compile_fail("tests/ui/efficiency_permit.rs");
    tests.compile_fail("tests/ui/efficiency_protected.rs");
    tests.compile_fail("tests/ui/kind_by_hand.rs");
}
