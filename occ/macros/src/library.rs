//! Where the generated code finds the library: the application's `Cargo.toml` says under which name.

use proc_macro_crate::{Error as LookupError, FoundCrate, crate_name};
use proc_macro2::Span;
use syn::{Error, Ident, Path, Result, parse_quote};

/// The path of the library in the crate that is being compiled; an error at `at` if it cannot be told.
pub(crate) fn find(at: Span) -> Result<Path> {
    find_with(crate_name, at)
}

/// Whoever depends on both has a name for each, and both lead to the same.
fn find_with(lookup: impl Fn(&str) -> std::result::Result<FoundCrate, LookupError>, at: Span) -> Result<Path> {
    for (package, module) in [("leastlock-occ", None), ("leastlock", Some("occ"))] {
        let name = match lookup(package) {
            Ok(FoundCrate::Name(name)) => name,
            // Also said to its examples and documentation tests, which are crates of their own and know it by its name.
            Ok(FoundCrate::Itself) => package.replace('-', "_"),
            Err(LookupError::CrateNotFound { .. }) => continue,
            // Without a `Cargo.toml` to read (other build systems) there is nothing to rename a crate in.
            Err(_) => return Ok(parse_quote!(::leastlock_occ)),
        };
        let krate = Ident::new(&name, Span::call_site());
        let module = module.map(|module| Ident::new(module, Span::call_site())).into_iter();
        return Ok(parse_quote!(::#krate #(::#module)*));
    }
    Err(Error::new(
        at,
        "neither `leastlock-occ` nor `leastlock` is a dependency of this package; \
         say through which path the library is seen here: `crate = \"…\"`",
    ))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use quote::ToTokens;

    use super::*;

    fn found(names: &[(&str, FoundCrate)]) -> String {
        let lookup = |package: &str| {
            let found = names.iter().find(|(name, _)| *name == package).map(|(_, found)| found.clone());
            found.ok_or_else(|| LookupError::CrateNotFound { crate_name: package.to_owned(), path: PathBuf::new() })
        };
        find_with(lookup, Span::call_site())
            .map_or_else(|error| error.to_string(), |path| path.to_token_stream().to_string().replace(' ', ""))
    }

    fn named(name: &str) -> FoundCrate {
        FoundCrate::Name(name.to_owned())
    }

    #[test]
    fn library_is_found_by_itself_or_through_the_facade_whatever_it_is_called() {
        assert_eq!(found(&[("leastlock-occ", named("leastlock_occ"))]), "::leastlock_occ");
        assert_eq!(found(&[("leastlock-occ", named("versions"))]), "::versions");
        assert_eq!(found(&[("leastlock", named("leastlock"))]), "::leastlock::occ");
        assert_eq!(found(&[("leastlock", named("locks"))]), "::locks::occ");
        assert_eq!(found(&[("leastlock", named("locks")), ("leastlock-occ", named("versions"))]), "::versions");
    }

    #[test]
    fn examples_and_documentation_tests_of_the_packages_name_them_from_outside() {
        assert_eq!(found(&[("leastlock-occ", FoundCrate::Itself)]), "::leastlock_occ");
        assert_eq!(found(&[("leastlock", FoundCrate::Itself)]), "::leastlock::occ");
    }

    #[test]
    fn who_depends_on_neither_is_told_to_say_where() {
        let told = found(&[]);
        assert!(told.contains("neither `leastlock-occ` nor `leastlock`") && told.contains("`crate = "), "{told}");
    }

    #[test]
    fn without_a_manifest_the_usual_name_is_taken() {
        let path = find_with(|_| Err(LookupError::CargoManifestDirNotSet), Span::call_site()).unwrap();
        assert_eq!(path.to_token_stream().to_string().replace(' ', ""), "::leastlock_occ");
    }
}
