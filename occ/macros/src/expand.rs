//! The generated code: two trait implementations that say what the row is made of, and inherent methods that hand over to
//! the library, where all behaviour lives.

use std::collections::BTreeSet;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Type, parse_quote};

use crate::model::{Column, Model};
use crate::sql::Statements;

mod bulk;

pub(crate) fn expand(model: &Model) -> TokenStream {
    let (row, stored, methods) = (row(model), stored(model), methods(model));
    quote! {
        #row
        #stored
        #methods
    }
}

/// `impl Versioned`: what holds on every engine.
fn row(model: &Model) -> TokenStream {
    let Model { name, library, .. } = model;
    let table = model.table.parts.join(".");
    let fields: Vec<_> = model.key.iter().map(|column| &column.field).collect();
    let types: Vec<_> = model.key.iter().map(key_type).collect();
    let lifetimes = types.iter().map(|ty| quote!(&'k #ty));
    let owned = model.key.iter().map(|column| &column.ty);
    let indices = (0..model.key.len()).map(syn::Index::from);
    let read_only: Vec<_> = model.read_only.iter().map(|column| &column.field).collect();
    let has_read_only = !model.read_only.is_empty();
    let version = &model.version.field;
    let version_column = &model.version.name;
    let version_type = &model.version.ty;
    let into = quote_spanned!(version_type.span()=> <#version_type as ::core::convert::Into<#library::Version>>::into);
    let from = quote_spanned!(version_type.span()=> <#version_type as ::core::convert::From<#library::Version>>::from);
    quote! {
        #[automatically_derived]
        impl #library::Versioned for #name {
            type Key<'k> = (#(#lifetimes,)*);
            type OwnedKey = (#(#owned,)*);

            const TABLE: &'static str = #table;
            const VERSION_COLUMN: &'static str = #version_column;
            const HAS_READ_ONLY: bool = #has_read_only;

            fn key(&self) -> Self::Key<'_> {
                (#(&self.#fields,)*)
            }

            fn borrowed(key: &Self::OwnedKey) -> Self::Key<'_> {
                (#(&key.#indices,)*)
            }

            fn is_same_key(one: Self::Key<'_>, other: Self::Key<'_>) -> bool {
                one == other
            }

            fn version(&self) -> #library::Version {
                #into(::core::clone::Clone::clone(&self.#version))
            }

            #[allow(unused_variables)]
            fn adopt(&mut self, made: Self) {
                #(self.#read_only = made.#read_only;)*
            }

            fn set_version(&mut self, version: #library::Version) {
                self.#version = #from(version);
            }
        }
    }
}

/// `impl Stored<DB>`: the statements with their values bound, on every engine that has the fields' types.
fn stored(model: &Model) -> TokenStream {
    let Model { name, library, .. } = model;
    let private = quote!(#library::__private);
    let (standard, mysql) = (Statements::standard(model), Statements::mysql(model));
    let sql = |standard: &String, mysql: &String| quote!(#private::sql::<DB>(#standard, #mysql));
    let select = sql(&standard.select, &mysql.select);
    let insert = sql(&standard.insert, &mysql.insert);
    let update = sql(&standard.update, &mysql.update);
    let delete = sql(&standard.delete, &mysql.delete);
    let actual = sql(&standard.actual, &mysql.actual);
    let query = quote!(#private::Query<'static, DB, <DB as #private::Database>::Arguments>);
    let bounds = bounds(model);
    let bind_key: Vec<_> = (0..model.key.len())
        .map(syn::Index::from)
        .map(|n| quote!(.bind(::std::borrow::ToOwned::to_owned(key.#n))))
        .collect();
    let value_fields = model.values.iter().map(|column| &column.field);
    let bind_values: Vec<_> = value_fields.map(|field| quote!(.bind(&self.#field))).collect();
    let columns = model.key.iter().chain(&model.values).chain(&model.read_only);
    let read = columns.enumerate().map(|(n, column)| {
        let (field, index) = (&column.field, n + 1);
        quote!(#field: row.value(#index)?)
    });
    let version = &model.version.field;
    let locks = locks(model, &[standard, mysql], &query, &bind_key);
    let bulk = bulk::stored(model, &query);
    quote! {
        #[automatically_derived]
        impl<DB> #library::Stored<DB> for #name
        where
            DB: #private::Dialect,
            #(#bounds,)*
        {
            fn select(key: Self::Key<'_>) -> #query {
                #private::query(#select) #(#bind_key)*
            }

            fn insert(&self, version: #library::Version) -> #query {
                let key = #library::Versioned::key(self);
                #private::query(#insert) #(#bind_key)* #(#bind_values)* .bind(version.as_i64())
            }

            fn update(&self, expected: #library::Version) -> #query {
                let key = #library::Versioned::key(self);
                #private::query(#update) #(#bind_values)* #(#bind_key)* .bind(expected.as_i64())
            }

            fn delete(key: Self::Key<'_>, expected: #library::Version) -> #query {
                #private::query(#delete) #(#bind_key)* .bind(expected.as_i64())
            }

            fn actual(key: Self::Key<'_>) -> #query {
                #private::query(#actual) #(#bind_key)*
            }

            fn read(
                row: &#private::Row<DB>,
                version: #library::Version,
            ) -> ::core::result::Result<Self, #private::SqlxError> {
                ::core::result::Result::Ok(Self {
                    #(#read,)*
                    #version: ::core::convert::From::from(version),
                })
            }

            #locks

            #bulk
        }
    }
}

/// Methods of `impl Stored<DB>` that lock: as an `UPDATE` does which leaves the key alone. SQLite has its file locked first.
fn locks(
    model: &Model,
    [standard, mysql]: &[Statements; 2],
    query: &TokenStream,
    bind_key: &[TokenStream],
) -> TokenStream {
    let library = &model.library;
    let private = quote!(#library::__private);
    let (sqlite_row, file) = (&standard.select, &standard.touch);
    let [postgres_row, mysql_row] =
        [format!("{} FOR NO KEY UPDATE", standard.select), format!("{} FOR UPDATE", mysql.select)];
    quote! {
        fn lock(key: Self::Key<'_>) -> #query {
            #private::query(#private::each_text::<DB>(#postgres_row, #sqlite_row, #mysql_row)) #(#bind_key)*
        }

        fn lock_file() -> #query {
            #private::query(#file)
        }
    }
}

/// The methods that the application calls.
fn methods(model: &Model) -> TokenStream {
    let Model { name, visibility, library, .. } = model;
    let private = quote!(#library::__private);
    let fields: Vec<_> = model.key.iter().map(|column| &column.field).collect();
    let types: Vec<_> = model.key.iter().map(key_type).collect();
    // Hygiene of its own, so that a key field may have the same name.
    let connection = Ident::new("connection", Span::mixed_site());
    let bounds = quote! {
        C: #private::Connection<Database: #private::Dialect>,
        Self: #library::Stored<C::Database>,
    };
    let result = quote!(::core::result::Result);
    let writes = writes(model, &bounds);
    let bulk = bulk::methods(model);
    quote! {
        #[automatically_derived]
        #[allow(dead_code)]
        impl #name {
            /// Reads the row with this key; `None` if there is none. See `leastlock_occ::row::load`.
            #visibility async fn load<C>(
                #connection: &mut C,
                #(#fields: &#types,)*
            ) -> #result<::core::option::Option<Self>, #library::Error>
            where
                #bounds
            {
                #library::row::load(#connection, (#(#fields,)*)).await
            }

            /// Reads the row with this key and locks it until the transaction ends; `None` if there is none. See
            /// `leastlock_occ::row::lock_row`.
            #visibility async fn lock_row<DB>(
                #connection: &mut #private::Transaction<'_, DB>,
                #(#fields: &#types,)*
            ) -> #result<::core::option::Option<Self>, #library::Error>
            where
                DB: #private::Dialect,
                Self: #library::Stored<DB>,
            {
                #library::row::lock_row(#connection, (#(#fields,)*)).await
            }

            #writes

            #bulk
        }
    }
}

/// The methods that write one row.
fn writes(model: &Model, bounds: &TokenStream) -> TokenStream {
    let Model { visibility, library, .. } = model;
    let connection = Ident::new("connection", Span::mixed_site());
    let result = quote!(::core::result::Result);
    quote! {
        /// Inserts the row with version 1 and answers it. See `leastlock_occ::row::insert`.
        #visibility async fn insert<C>(&self, #connection: &mut C) -> #result<Self, #library::Error>
        where
            #bounds
        {
            #library::row::insert(#connection, self).await
        }

        /// Writes a change of this value, as it was loaded, and answers the new value; this one stays as it is.
        /// See `leastlock_occ::row::update`.
        #visibility async fn update<C>(
            &self,
            #connection: &mut C,
            change: impl ::core::ops::FnOnce(&mut Self),
        ) -> #result<#library::Update<Self>, #library::Error>
        where
            #bounds
        {
            #library::row::update(#connection, self, change).await
        }

        /// Deletes the row if it still has the version that was loaded. See `leastlock_occ::row::delete`.
        #visibility async fn delete<C>(&self, #connection: &mut C) -> #result<#library::Delete, #library::Error>
        where
            #bounds
        {
            #library::row::delete(#connection, self).await
        }
    }
}

/// `Type: Column<DB>` once for each type, at the place where the field has it, so that the compiler points there.
fn bounds(model: &Model) -> Vec<TokenStream> {
    let library = &model.library;
    let version: Type = parse_quote!(i64);
    let columns = model.key.iter().chain(&model.values).chain(&model.read_only).map(|column| &column.ty);
    let mut seen = BTreeSet::new();
    let types = columns.chain([&version]).filter(|ty| seen.insert(ty.to_token_stream().to_string()));
    types.map(|ty| quote_spanned!(ty.span()=> #ty: #library::Column<DB>)).collect()
}

/// A key of text is taken as `&str`, so that literals need no allocation.
fn key_type(column: &Column) -> Type {
    match &column.ty {
        Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "String") => parse_quote!(str),
        other => other.clone(),
    }
}
