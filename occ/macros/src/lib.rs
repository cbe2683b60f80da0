//! The derive macros of `leastlock-occ`; documented there, as `leastlock_occ::Versioned`,
//! `leastlock_occ::Transition` and `leastlock_occ::MayConflict`.
//!
//! | module | concept |
//! |---|---|
//! | `model` | the annotated struct, checked |
//! | `sql` | the statements of one versioned row |
//! | `bulk` | the statements for many of them |
//! | `expand` | the generated code |
//! | `library` | where the generated code finds the library |
//! | `transition` | the same three for the state machine in an enum |
//! | `conflict` | the errors of a unit of work, of which some are conflicts |

mod bulk;
mod conflict;
mod expand;
mod library;
mod model;
mod sql;
mod transition;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

use crate::conflict::Errors;
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

/// Has an enum of errors say which of them are conflicts, as the errors in its variants do.
///
/// See the trait of the same name in `leastlock-occ` for the attributes and an example.
#[proc_macro_derive(MayConflict, attributes(conflict))]
pub fn derive_may_conflict(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let expanded = Errors::parse(&input).map(|errors| conflict::expand(&errors));
    expanded.unwrap_or_else(syn::Error::into_compile_error).into()
}
