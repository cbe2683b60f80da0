//! The generated code: what the machine is, how its states are stored, and methods that hand over to the library.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

use super::sql::Statements;
use super::{Machine, Value};
use crate::sql::{MYSQL, STANDARD};

pub(crate) fn expand(machine: &Machine) -> TokenStream {
    let (edges, stored, methods) = (edges(machine), stored(machine), methods(machine));
    quote! {
        #edges
        #stored
        #methods
    }
}

/// `impl Transition`: what holds on every engine.
fn edges(machine: &Machine) -> TokenStream {
    let Machine { name, library, .. } = machine;
    let (title, table) = (name.to_string(), machine.table.parts.join("."));
    let states: Vec<_> = machine.states.iter().map(|state| &state.name).collect();
    let names = states.iter().map(|state| syn::ext::IdentExt::unraw(*state).to_string());
    let initial = machine.states.iter().map(|state| state.is_initial);
    let successors = machine.states.iter().map(|state| {
        let successors = &state.successors;
        quote!(&[#(Self::#successors),*])
    });
    let marker = machine.version.as_ref().map(|_| {
        quote! {
            #[automatically_derived]
            impl #library::transition::HasVersion for #name {}
        }
    });
    quote! {
        #[automatically_derived]
        impl #library::Transition for #name {
            const MACHINE: &'static str = #title;
            const TABLE: &'static str = #table;
            const STATES: &'static [Self] = &[#(Self::#states),*];

            fn name(self) -> &'static str {
                match self {
                    #(Self::#states => #names,)*
                }
            }

            fn is_initial(self) -> bool {
                match self {
                    #(Self::#states => #initial,)*
                }
            }

            fn successors(self) -> &'static [Self] {
                match self {
                    #(Self::#states => #successors,)*
                }
            }
        }

        #marker
    }
}

/// `impl StoredState<DB>`: the statements with their values bound.
fn stored(machine: &Machine) -> TokenStream {
    let Machine { name, library, .. } = machine;
    let private = quote!(#library::__private);
    let (standard, mysql) = (Statements::new(STANDARD, machine), Statements::new(MYSQL, machine));
    let sql = |standard: &str, mysql: &str| quote!(#private::sql::<DB>(#standard, #mysql));
    let advance = sql(&standard.advance, &mysql.advance);
    let advance_at = sql(&standard.advance_at, &mysql.advance_at);
    let history = sql(&standard.history, &mysql.history);
    let postgres_actual = format!("{} FOR NO KEY UPDATE", standard.actual);
    let mysql_actual = format!("{} FOR UPDATE", mysql.actual);
    let sqlite_actual = &standard.actual;
    let states: Vec<_> = machine.states.iter().map(|state| &state.name).collect();
    let has_version = machine.version.is_some();
    let version_column = machine.version.as_deref().unwrap_or_default();
    let query = quote!(#private::Query<'static, DB, <DB as #private::Database>::Arguments>);
    let values: Vec<_> = machine
        .states
        .iter()
        .map(|state| match &state.value {
            Value::Text(text) => quote!(#text),
            Value::Integer(number) => quote!(#number),
        })
        .collect();
    let (bound, value_type, read) = if machine.is_integer() {
        (quote!(i64), quote!(i64), quote!(row.optional_int(0)?))
    } else {
        (quote!(::std::string::String), quote!(&'static str), quote!(row.optional_text(0)?.as_deref()))
    };
    let recorded = machine.history.as_ref().map_or_else(
        || quote!(::core::option::Option::None),
        |_| {
            quote!(::core::option::Option::Some(
                #private::query(#history).bind(id).bind(#bound::from(value(from))).bind(#bound::from(value(to)))
            ))
        },
    );
    let bound_type = &bound;
    quote! {
        const _: () = {
            fn value(state: #name) -> #value_type {
                match state {
                    #(#name::#states => #values,)*
                }
            }

            #[automatically_derived]
            impl<DB> #library::StoredState<DB> for #name
            where
                DB: #private::Dialect,
                #bound_type: #library::Column<DB>,
                i64: #library::Column<DB>,
            {
                const HAS_VERSION: bool = #has_version;
                const VERSION_COLUMN: &'static str = #version_column;

                fn advance<K: #library::transition::RowKey<DB>>(
                    id: K,
                    from: Self,
                    to: Self,
                    expected: ::core::option::Option<#library::Version>,
                ) -> #query {
                    let text = if expected.is_some() { #advance_at } else { #advance };
                    let query = #private::query(text)
                        .bind(#bound::from(value(to)))
                        .bind(id)
                        .bind(#bound::from(value(from)));
                    match expected {
                        ::core::option::Option::Some(version) => query.bind(version.as_i64()),
                        ::core::option::Option::None => query,
                    }
                }

                fn actual<K: #library::transition::RowKey<DB>>(id: K) -> #query {
                    #private::query(#private::each_text::<DB>(#postgres_actual, #sqlite_actual, #mysql_actual)).bind(id)
                }

                #[allow(unused_variables)]
                fn record<K: #library::transition::RowKey<DB>>(
                    id: K,
                    from: Self,
                    to: Self,
                ) -> ::core::option::Option<#query> {
                    #recorded
                }

                fn read(
                    row: &#private::Row<DB>,
                ) -> ::core::result::Result<::core::option::Option<Self>, #private::SqlxError> {
                    ::core::result::Result::Ok(match #read {
                        #(::core::option::Option::Some(#values) => ::core::option::Option::Some(Self::#states),)*
                        _ => ::core::option::Option::None,
                    })
                }
            }
        };
    }
}

/// The methods that the application calls.
fn methods(machine: &Machine) -> TokenStream {
    let Machine { name, visibility, library, .. } = machine;
    let private = quote!(#library::__private);
    let transaction = Ident::new("transaction", Span::mixed_site());
    let result = quote!(::core::result::Result<#library::Transitioned<Self>, #library::Error>);
    let bounds = quote! {
        DB: #private::Dialect,
        Self: #library::StoredState<DB>,
    };
    let at = machine.version.as_ref().map(|_| {
        quote! {
            /// The same, if the row also has the version that was loaded. See `leastlock_occ::transition::transition_at`.
            #visibility async fn transition_at<DB>(
                #transaction: &mut #private::Transaction<'_, DB>,
                id: impl #library::transition::RowKey<DB>,
                expected: #library::Version,
                from: Self,
                to: Self,
            ) -> #result
            where
                #bounds
            {
                #library::transition::transition_at(#transaction, id, expected, from, to).await
            }
        }
    });
    quote! {
        #[automatically_derived]
        #[allow(dead_code)]
        impl #name {
            /// Moves the row from one state to another, if it is in the first and the edge is legal. See
            /// `leastlock_occ::transition::transition`.
            #visibility async fn transition<DB>(
                #transaction: &mut #private::Transaction<'_, DB>,
                id: impl #library::transition::RowKey<DB>,
                from: Self,
                to: Self,
            ) -> #result
            where
                #bounds
            {
                #library::transition::transition(#transaction, id, from, to).await
            }

            #at

            /// The machine as a Mermaid diagram. See `leastlock_occ::transition::mermaid`.
            #[must_use]
            #visibility fn mermaid() -> ::std::string::String {
                #library::transition::mermaid::<Self>()
            }
        }
    }
}
