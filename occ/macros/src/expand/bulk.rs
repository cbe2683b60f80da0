//! The generated code for many rows.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::Index;

use super::key_type;
use crate::bulk::{Sized, Statements};
use crate::model::Model;

/// Methods of `impl Stored<DB>`. `query` is their return type.
pub(super) fn stored(model: &Model, query: &TokenStream) -> TokenStream {
    let library = &model.library;
    let private = quote!(#library::__private);
    let [postgres, sqlite, mysql] = [Statements::postgres(model), Statements::sqlite(model), Statements::mysql(model)];
    let each = |statement: fn(&Statements) -> &Sized| {
        let [postgres, sqlite, mysql] = [&postgres, &sqlite, &mysql].map(|statements| literals(statement(statements)));
        quote!(#private::each::<DB>(#postgres, #sqlite, #mysql))
    };
    let select = each(|statements| &statements.select);
    let lock = each(|statements| &statements.lock);
    let raised = each(|statements| &statements.update);
    let kept = each(|statements| &statements.update_keeping_version);
    let parts = (0..model.key.len()).map(Index::from);
    let bind_key: TokenStream = parts.map(|n| quote!(.bind(::std::borrow::ToOwned::to_owned(key.#n)))).collect();
    let values: Vec<_> = model.values.iter().map(|column| &column.field).collect();
    let bind_values = bind_values(&private, &values);
    let read_key = (1..=model.key.len()).map(|index| quote!(row.value(#index)?));
    quote! {
        fn select_many(keys: &[Self::Key<'_>]) -> #query {
            let (sql, size) = #private::sized(#select, keys.len());
            let mut query = #private::query(sql);
            for key in #private::padded(keys, size) {
                query = query #bind_key;
            }
            query
        }

        fn lock_many(keys: &[Self::Key<'_>]) -> #query {
            let (sql, size) = #private::sized(#lock, keys.len());
            let mut query = #private::query(sql);
            for key in #private::padded(keys, size) {
                query = query #bind_key;
            }
            query
        }

        fn read_key(row: &#private::Row<DB>) -> ::core::result::Result<Self::OwnedKey, #private::SqlxError> {
            ::core::result::Result::Ok((#(#read_key,)*))
        }

        fn update_many(rows: &[&Self], versions: #private::Versions) -> #query {
            let texts = match versions {
                #private::Versions::Raised => #raised,
                #private::Versions::Kept => #kept,
            };
            let (sql, size) = #private::sized(texts, rows.len());
            let mut query = #private::query(sql);
            if #private::is_mysql::<DB>() {
                #(
                    for row in #private::padded(rows, size) {
                        let key = #library::Versioned::key(*row);
                        query = query #bind_key .bind(&row.#values);
                    }
                )*
            }
            for row in #private::padded(rows, size) {
                let key = #library::Versioned::key(*row);
                query = query #bind_key .bind(#library::Versioned::version(*row).as_i64());
                #bind_values
            }
            query
        }
    }
}

/// Inherent methods.
pub(super) fn methods(model: &Model) -> TokenStream {
    let (library, visibility) = (&model.library, &model.visibility);
    let private = quote!(#library::__private);
    let types: Vec<_> = model.key.iter().map(key_type).collect();
    // A key of one column needs no tuple around it.
    let (item, wrap) = match &types[..] {
        [ty] => (quote!(&'k #ty), quote!(.map(|key| (key,)))),
        types => (quote!((#(&'k #types,)*)), quote!()),
    };
    let connection = Ident::new("connection", Span::mixed_site());
    let transaction = Ident::new("transaction", Span::mixed_site());
    let result = quote!(::core::result::Result);
    let updates = quote!(#result<::std::vec::Vec<#library::Update<Self>>, #library::Error>);
    quote! {
        /// Reads the rows with these keys, each at the place of its key. See `leastlock_occ::bulk::load_many`.
        #visibility async fn load_many<'k, C>(
            #connection: &mut C,
            keys: impl ::core::iter::IntoIterator<Item = #item>,
        ) -> #result<::std::vec::Vec<::core::option::Option<Self>>, #library::Error>
        where
            C: #private::Connection<Database: #private::Dialect>,
            Self: #library::Stored<C::Database>,
        {
            let keys: ::std::vec::Vec<_> = keys.into_iter()#wrap.collect();
            #library::bulk::load_many(#connection, &keys).await
        }

        /// Writes a change of each of these values, as they were loaded, and answers row by row. See
        /// `leastlock_occ::bulk::update_many`.
        #visibility async fn update_many<DB>(
            #transaction: &mut #private::Transaction<'_, DB>,
            loaded: &[Self],
            change: impl ::core::ops::FnMut(&mut Self),
        ) -> #updates
        where
            DB: #private::Dialect,
            Self: #library::Stored<DB>,
        {
            #library::bulk::update_many(#transaction, loaded, change).await
        }

        /// The same without raising the versions. See `leastlock_occ::bulk::update_many_keeping_versions`.
        #visibility async fn update_many_keeping_versions<DB>(
            #transaction: &mut #private::Transaction<'_, DB>,
            loaded: &[Self],
            change: impl ::core::ops::FnMut(&mut Self),
        ) -> #updates
        where
            DB: #private::Dialect,
            Self: #library::Stored<DB>,
        {
            #library::bulk::update_many_keeping_versions(#transaction, loaded, change).await
        }
    }
}

/// A row of key and version only has nothing to bind, and `query = query` is a lint of clippy's.
fn bind_values(private: &TokenStream, values: &[&Ident]) -> Option<TokenStream> {
    (!values.is_empty()).then(|| {
        quote! {
            if !#private::is_mysql::<DB>() {
                query = query #(.bind(&row.#values))*;
            }
        }
    })
}

fn literals(texts: &Sized) -> TokenStream {
    let texts = texts.iter().map(|(size, text)| quote!((#size, #text)));
    quote!(&[#(#texts),*])
}
