//! Packages in a workspace of their own, below the target folder.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const DERIVES: &str = include_str!("derives.rs");

/// A package that derives.
pub(crate) struct Package {
    pub(crate) name: &'static str,
    /// Lines of `[dependencies]`, and tables after it; `<root>` stands for the repository.
    pub(crate) dependencies: String,
    /// The path through which its source sees the library.
    pub(crate) library: &'static str,
    /// What it tells the derive.
    pub(crate) attribute: Option<&'static str>,
}

/// A workspace on disk. All share a target folder, in which cargo tells packages apart by name and by place within their
/// workspace; so a member's name has its workspace's in front.
pub(crate) struct Workspace(PathBuf);

/// Writes a workspace of these packages and dependencies.
pub(crate) fn write(name: &str, dependencies: &str, packages: &[Package]) -> Workspace {
    let workspace = Workspace(Path::new(env!("CARGO_TARGET_TMPDIR")).join("renamed").join(name));
    let mut manifest = "[workspace]\nresolver = \"3\"\nmembers = [".to_owned();
    for package in packages {
        let attribute = package.attribute.map_or_else(String::new, |path| format!(r#", crate = "{path}""#));
        let derives =
            DERIVES.replace(" /* where */", &attribute).replace("/* only where */", attribute.trim_start_matches(", "));
        let source = format!("use {} as library;\n{derives}", package.library);
        let member = format!("{name}-{}", package.name);
        workspace.add(&member, &package.dependencies, "main.rs", &source);
        write!(manifest, "\"{member}\", ").expect("a String takes everything");
    }
    write!(manifest, "]\n[workspace.dependencies]\n{}\n", rooted(dependencies)).expect("a String takes everything");
    put(&workspace.0.join("Cargo.toml"), &manifest);
    // The versions that are here already.
    fs::copy(root().join("Cargo.lock"), workspace.0.join("Cargo.lock")).expect("the lock file");
    workspace
}

impl Workspace {
    /// With libraries beside the members: name, dependencies, source.
    pub(crate) fn beside(self, libraries: &[(&str, String, &str)]) -> Self {
        for (name, dependencies, source) in libraries {
            self.add(name, dependencies, "lib.rs", source);
        }
        self
    }

    /// Compiles every member.
    ///
    /// # Errors
    /// What the compiler said.
    pub(crate) fn check(&self) -> Result<(), String> {
        let cargo = env::var_os("CARGO").expect("cargo runs this test");
        let output = Command::new(cargo)
            .args(["check", "--workspace", "--offline", "--quiet", "--color", "never", "--target-dir"])
            .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("renamed-target"))
            .current_dir(&self.0)
            .output()
            .expect("cargo can be run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(said) }
    }

    fn add(&self, name: &str, dependencies: &str, file: &str, source: &str) {
        let folder = self.0.join(name);
        let package = format!("[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n");
        put(&folder.join("Cargo.toml"), &format!("{package}[dependencies]\n{}\n", rooted(dependencies)));
        put(&folder.join("src").join(file), source);
    }
}

fn rooted(dependencies: &str) -> String {
    dependencies.replace("<root>", root().to_str().expect("a path of UTF-8"))
}

fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("the repository, two folders up")
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a file in a folder")).expect("the folder");
    // What has not changed need not be compiled again.
    if fs::read_to_string(path).ok().as_deref() != Some(text) {
        fs::write(path, text).expect("the file");
    }
}
