//! The derive macros of `leastlock-occ`; documented there, as `leastlock_occ::Versioned` and `leastlock_occ::Transition`.
//!
//! | module | concept |
//! |---|---|
//! | `model` | the annotated struct, checked |
//! | `sql` | the statements of one versioned row |
//! | `bulk` | the statements for many of them |
//! | `expand` | the generated code |
//! | `library` | where the generated code finds the library |
//! | `transition` | the same three for the state machine in an enum |

mod bulk;
mod expand;
mod library;
mod model;
mod sql;
mod transition;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

use crate::model::Model;
use crate::transition::Machine;

/// Gives a struct `load`, `insert`, `update`, `delete`, and `load_many` and `update_many`, each write checked against its
/// version column.
///
/// See the trait of the same name in `leastlock-occ` for the attributes, the guarantee and an example.
#[proc_macro_derive(Versioned, attributes(versioned))]
pub fn derive_versioned(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let expanded = Model::parse(&input).map(|model| expand::expand(&model));
    expanded.unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes an enum the states of a column, with the legal edges between them.
///
/// See the trait of the same name in `leastlock-occ` for the attributes, the guarantee and an example.
#[proc_macro_derive(Transition, attributes(transition))]
pub fn derive_transition(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let expanded = Machine::parse(&input).map(|machine| transition::expand(&machine));
    expanded.unwrap_or_else(syn::Error::into_compile_error).into()
}
