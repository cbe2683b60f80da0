//! Packages that depend on the library under several names, each compiled by cargo, without a network.

mod packages;

use packages::Package;

/// The facade without any engine: the names are what counts here.
const FACADE: &str = r#"package = "leastlock", path = "<root>", default-features = false, features = ["occ"]"#;
const OCC: &str = r#"package = "leastlock-occ", path = "<root>/occ""#;

#[test]
fn derive_finds_the_library_under_whatever_name_the_manifest_gives_it() {
    let it = |name, dependencies, library| Package { name, dependencies, library, attribute: None };
    let found = [
        it("occ", format!("leastlock-occ = {{ {OCC} }}"), "leastlock_occ"),
        it("occ-renamed", format!("row-versions = {{ {OCC} }}"), "row_versions"),
        it("facade", format!("leastlock = {{ {FACADE} }}"), "leastlock::occ"),
        it("facade-renamed", format!("least = {{ {FACADE} }}"), "least::occ"),
        it("facade-for-a-target", format!("[target.'cfg(unix)'.dependencies]\nleast = {{ {FACADE} }}"), "least::occ"),
        it("of-the-workspace", "inherited.workspace = true".to_owned(), "inherited::occ"),
        it("both", format!("least = {{ {FACADE} }}\nversions = {{ {OCC} }}"), "least::occ"),
    ];
    packages::write("found", &format!("inherited = {{ {FACADE} }}"), &found).check().expect("each of them compiles");
}

#[test]
fn attribute_says_where_the_library_is_if_the_manifest_does_not() {
    let prelude = |attribute| Package {
        name: "prelude-only",
        dependencies: r#"prelude = { path = "../prelude" }"#.to_owned(),
        library: "prelude::rows",
        attribute,
    };
    let reexports = [("prelude", format!("versions = {{ {OCC} }}"), "pub use versions as rows;")];
    let with = packages::write("told", "", &[prelude(Some("prelude::rows"))]).beside(&reexports);
    with.check().expect("it was told");

    let without = packages::write("untold", "", &[prelude(None)]).beside(&reexports);
    let said = without.check().expect_err("nothing says where it is");
    assert_eq!(said.matches("neither `leastlock-occ` nor `leastlock` is a dependency").count(), 3, "{said}");
}

/// What the derive did before it looked: it took the library's own name for the one that it has here.
#[test]
fn name_that_is_taken_for_granted_is_caught() {
    for (name, dependencies, library) in [
        ("occ-renamed", format!("row-versions = {{ {OCC} }}"), "row_versions"),
        ("facade", format!("leastlock = {{ {FACADE} }}"), "leastlock::occ"),
    ] {
        let double = Package { name, dependencies, library, attribute: Some("leastlock_occ") };
        let said = packages::write(&format!("double-{name}"), "", &[double]).check().expect_err("the double is caught");
        assert!(said.contains("leastlock_occ"), "{said}");
    }
}
