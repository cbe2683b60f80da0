//! The binary of an example, for the tests that run it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the examples' binaries, where they were built together with the tests.
pub const EXAMPLES: &str = "LEASTLOCK_EXAMPLES";

/// The binary of the facade's example `name`.
///
/// If [`EXAMPLES`] names a folder, it is there already. If not, cargo builds it, with `features` beside the default
/// ones: those of the test that asks, so that nothing is built twice.
///
/// # Panics
///
/// If it does not build, or is not there.
#[must_use]
pub fn example(name: &str, features: &[&str]) -> PathBuf {
    let built = env::var_os(EXAMPLES).map_or_else(|| build(name, features), PathBuf::from);
    let binary = built.join(name);
    assert!(binary.exists(), "{} is not there", binary.display());
    binary
}

fn build(name: &str, features: &[&str]) -> PathBuf {
    let test = env::current_exe().expect("the test's own path");
    let profile = test.ancestors().nth(2).expect("target/<profile>/deps/<test>");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "leastlock", "--example", name, "--features"]).arg(features.join(","));
    let built = cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).status();
    assert!(built.expect("cargo runs").success(), "the example {name} does not build");
    profile.join("examples")
}
