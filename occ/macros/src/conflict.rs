//! The annotated error enum, checked, and the implementation that asks its variants.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Field, Ident, Member, Path, Result, Type, Variant};

use crate::library;
use crate::model::once;

/// An enum of the errors that a unit of work ends with.
pub(crate) struct Errors {
    name: Ident,
    library: Path,
    /// Those that may be a conflict, each with the field that knows.
    asked: Vec<Asked>,
}

struct Asked {
    variant: Ident,
    field: Member,
    ty: Type,
}

impl Errors {
    /// Reads an enum, its `#[conflict(…)]` attributes, and the `#[from]` of whoever makes the conversions.
    pub(crate) fn parse(input: &DeriveInput) -> Result<Self> {
        let Data::Enum(data) = &input.data else {
            return Err(Error::new(input.ident.span(), "`MayConflict` is derived for an enum of errors"));
        };
        if !input.generics.params.is_empty() {
            return Err(Error::new(
                input.generics.span(),
                "`MayConflict` is derived for an enum without generics; write `impl MayConflict<DB>` by hand",
            ));
        }
        let asked: Vec<_> =
            data.variants.iter().map(asked).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        if asked.is_empty() {
            return Err(Error::new(
                input.ident.span(),
                "nothing in it can be a conflict: mark the field that may be one with `#[from]` or `#[conflict]`",
            ));
        }
        Ok(Self { name: input.ident.clone(), library: found_library(input)?, asked })
    }
}

fn found_library(input: &DeriveInput) -> Result<Path> {
    let mut library = None;
    for attribute in conflict(&input.attrs) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("expected `crate`"));
            }
            once(&meta, &mut library, meta.value()?.parse::<syn::LitStr>()?.parse()?)
        })?;
    }
    library.map_or_else(|| library::find(input.ident.span()), Ok)
}

/// The field of a variant that may be a conflict.
fn asked(variant: &Variant) -> Result<Option<Asked>> {
    let mut is_never = false;
    for attribute in conflict(&variant.attrs) {
        attribute.parse_nested_meta(|meta| {
            is_never = meta.path.is_ident("never");
            if is_never { Ok(()) } else { Err(meta.error("expected `never`")) }
        })?;
    }
    let mut found: Option<Asked> = None;
    for (field, member) in variant.fields.iter().zip(variant.fields.members()) {
        let is_marked = marks(field)?;
        if is_never && is_marked {
            return Err(Error::new(field.span(), "this variant is `#[conflict(never)]`"));
        }
        let is_asked = is_marked || field.attrs.iter().any(|attribute| attribute.path().is_ident("from"));
        if is_never || !is_asked {
            continue;
        }
        if found.is_some() {
            return Err(Error::new(field.span(), "only one field of a variant can say which conflict it is"));
        }
        found = Some(Asked { variant: variant.ident.clone(), field: member, ty: field.ty.clone() });
    }
    Ok(found)
}

/// Whether `#[conflict]` stands on the field.
fn marks(field: &Field) -> Result<bool> {
    conflict(&field.attrs).try_fold(false, |_, attribute| attribute.meta.require_path_only().map(|_| true))
}

fn conflict(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("conflict"))
}

/// `impl MayConflict<DB>`: on every engine, since the errors are the same on all.
pub(crate) fn expand(errors: &Errors) -> TokenStream {
    let Errors { name, library, asked } = errors;
    let answers = asked.iter().map(|Asked { variant, field, ty }| {
        // At the field's type, so that the compiler points there if that is no error which may be a conflict.
        let answer = quote_spanned!(ty.span()=> <#ty as #library::MayConflict<DB>>::conflict(inner));
        quote!(Self::#variant { #field: inner, .. } => #answer)
    });
    quote! {
        #[automatically_derived]
        impl<DB: #library::__private::Dialect> #library::MayConflict<DB> for #name {
            fn conflict(&self) -> ::core::option::Option<#library::ConflictClass> {
                #[allow(unreachable_patterns)]
                match self {
                    #(#answers,)*
                    _ => ::core::option::Option::None,
                }
            }
        }
    }
}
