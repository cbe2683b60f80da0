//! What must not compile and what the compiler says about it, and that it does compile once the mistake is taken out.

/// Compiled with this test: `trybuild` would have to build every dependency to its end for what passes.
#[allow(dead_code, reason = "that it compiles is what is shown")]
mod compile {
    mod lease {
        mod efficiency_used;
        mod permit_used;
    }
    mod occ {
        mod derive;
    }
}

#[test]
fn l19_permits_kinds_and_fenced_stores_cannot_be_forged() {
    let tests = trybuild::TestCases::new();
    tests.compile_fail("tests/ui/lease/permit_cloned.rs");
    tests.compile_fail("tests/ui/lease/permit_by_hand.rs");
    tests.compile_fail("tests/ui/lease/unfenced_store.rs");
    tests.compile_fail("tests/ui/lease/token_instead_of_permit.rs");
    tests.compile_fail("tests/ui/lease/efficiency_permit.rs");
    tests.compile_fail("tests/ui/lease/efficiency_protected.rs");
    tests.compile_fail("tests/ui/lease/kind_by_hand.rs");
}

#[test]
fn wrong_use_is_explained_where_it_stands() {
    let tests = trybuild::TestCases::new();
    tests.compile_fail("tests/ui/occ/derive/*.rs");
    tests.compile_fail("tests/ui/occ/transition/*.rs");
    tests.compile_fail("tests/ui/occ/conflict/*.rs");
    tests.compile_fail("tests/ui/occ/engine/*.rs");
}
