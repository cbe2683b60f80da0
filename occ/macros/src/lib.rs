//! The derive macro of `leastlock-occ`; documented there, as `leastlock_occ::Versioned`.
//!
//! | module | concept |
//! |---|---|
//! | `model` | the annotated struct, checked |
//! | `sql` | the five statements of a versioned row |
//! | `expand` | the generated code |

mod expand;
mod model;
mod sql;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

use crate::model::Model;

/// Gives a struct `load`, `insert`, `update` and `delete`, each checked against its version column.
///
/// See the trait of the same name in `leastlock-occ` for the attributes, the guarantee and an example.
#[proc_macro_derive(Versioned, attributes(versioned))]
pub fn derive_versioned(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let expanded = Model::parse(&input).map(|model| expand::expand(&model));
    expanded.unwrap_or_else(syn::Error::into_compile_error).into()
}
