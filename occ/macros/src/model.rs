//! The annotated struct, checked: every error that can be told from the source alone is found here, at its place.

use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Fields, Ident, LitStr, Path, Result, Token, Type, Visibility};

use crate::library;

/// A struct that stands for a row.
pub(crate) struct Model {
    pub(crate) name: Ident,
    pub(crate) visibility: Visibility,
    /// The crate in which the generated code finds the library.
    pub(crate) library: Path,
    /// The table, with its schema if it has one.
    pub(crate) table: Table,
    /// The fields of the key, in the order in which the attribute names them.
    pub(crate) key: Vec<Column>,
    pub(crate) version: Column,
    /// All other fields that are written, in the order of their declaration.
    pub(crate) values: Vec<Column>,
    /// The fields that the database makes, in the order of their declaration.
    pub(crate) read_only: Vec<Column>,
}

/// A field and the column that it stands for.
#[derive(Clone)]
pub(crate) struct Column {
    pub(crate) field: Ident,
    pub(crate) ty: Type,
    pub(crate) name: String,
    /// Where the attribute stands that says so.
    read_only: Option<Span>,
}

/// `table` or `schema.table`.
pub(crate) struct Table {
    pub(crate) parts: Vec<String>,
}

impl Model {
    /// Reads a struct and its `#[versioned(…)]` attributes.
    pub(crate) fn parse(input: &DeriveInput) -> Result<Self> {
        if !input.generics.params.is_empty() {
            return Err(Error::new(
                input.generics.span(),
                "a versioned struct stands for one table and has no generics",
            ));
        }
        let attributes = StructAttributes::parse(input)?;
        let mut columns = columns(input)?;
        let version = take(&mut columns, &attributes.version)?;
        let key = attributes.key.iter().map(|name| take(&mut columns, name)).collect::<Result<Vec<_>>>()?;
        if let Some(span) = key.iter().chain([&version]).find_map(|column| column.read_only) {
            return Err(Error::new(span, "the key and the version are written, so they cannot be `read_only`"));
        }
        let (read_only, values) = columns.into_iter().partition(|column| column.read_only.is_some());
        Ok(Self {
            name: input.ident.clone(),
            visibility: input.vis.clone(),
            library: attributes.library,
            table: Table::parse(&attributes.table)?,
            key,
            version,
            values,
            read_only,
        })
    }
}

impl Table {
    pub(crate) fn parse(literal: &LitStr) -> Result<Self> {
        let parts: Vec<_> = literal.value().split('.').map(str::to_owned).collect();
        if parts.len() > 2 {
            return Err(Error::new(literal.span(), "a table is written `table` or `schema.table`"));
        }
        for part in &parts {
            check_identifier(part, literal)?;
        }
        Ok(Self { parts })
    }
}

/// What the attribute on the struct says; complete.
struct StructAttributes {
    library: Path,
    table: LitStr,
    key: Vec<LitStr>,
    version: LitStr,
}

impl StructAttributes {
    fn parse(input: &DeriveInput) -> Result<Self> {
        let (mut library, mut table, mut version) = (None, None, None);
        let mut key = Vec::new();
        for attribute in versioned(&input.attrs) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("table") {
                    once(&meta, &mut table, meta.value()?.parse::<LitStr>()?)
                } else if meta.path.is_ident("version") {
                    once(&meta, &mut version, meta.value()?.parse::<LitStr>()?)
                } else if meta.path.is_ident("crate") {
                    let path = meta.value()?.parse::<LitStr>()?.parse()?;
                    once(&meta, &mut library, path)
                } else if meta.path.is_ident("key") && key.is_empty() {
                    key = key_fields(&meta)?;
                    Ok(())
                } else if meta.path.is_ident("key") {
                    Err(meta.error("`key` is given twice; write `key(\"a\", \"b\")` for a key of several columns"))
                } else {
                    Err(meta.error("expected `table`, `key`, `version` or `crate`"))
                }
            })?;
        }
        let missing = |what| Error::new(input.ident.span(), format!("missing `#[versioned({what})]`"));
        if key.is_empty() {
            return Err(missing("key = \"…\""));
        }
        Ok(Self {
            library: library.map_or_else(|| library::find(input.ident.span()), Ok)?,
            table: table.ok_or_else(|| missing("table = \"…\""))?,
            key,
            version: version.ok_or_else(|| missing("version = \"…\""))?,
        })
    }
}

/// `key = "id"` or `key("warehouse", "code")`.
fn key_fields(meta: &ParseNestedMeta<'_>) -> Result<Vec<LitStr>> {
    if meta.input.peek(Token![=]) {
        return Ok(vec![meta.value()?.parse()?]);
    }
    let list;
    syn::parenthesized!(list in meta.input);
    let fields = list.parse_terminated(<LitStr as syn::parse::Parse>::parse, Token![,])?;
    if fields.is_empty() {
        return Err(meta.error("a key has at least one field"));
    }
    Ok(fields.into_iter().collect())
}

fn columns(input: &DeriveInput) -> Result<Vec<Column>> {
    let unfit = |span: Span, what| {
        Error::new(
            span,
            format!("`Versioned` stands for a row, so it is for structs with named fields, not for {what}"),
        )
    };
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => fields,
            Fields::Unnamed(_) | Fields::Unit => return Err(unfit(input.ident.span(), "a tuple or unit struct")),
        },
        Data::Enum(data) => return Err(unfit(data.enum_token.span(), "an enum")),
        Data::Union(data) => return Err(unfit(data.union_token.span(), "a union")),
    };
    fields.named.iter().map(column).collect()
}

fn column(field: &syn::Field) -> Result<Column> {
    let ident = field.ident.clone().ok_or_else(|| Error::new(field.span(), "expected a named field"))?;
    let (mut renamed, mut read_only) = (None, None);
    for attribute in versioned(&field.attrs) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("column") {
                let literal = meta.value()?.parse::<LitStr>()?;
                check_identifier(&literal.value(), &literal)?;
                once(&meta, &mut renamed, literal.value())
            } else if meta.path.is_ident("read_only") {
                once(&meta, &mut read_only, meta.path.span())
            } else {
                Err(meta.error("expected `column` or `read_only`"))
            }
        })?;
    }
    let name = renamed.unwrap_or_else(|| syn::ext::IdentExt::unraw(&ident).to_string());
    Ok(Column { field: ident, ty: field.ty.clone(), name, read_only })
}

/// Removes the field that an attribute names, so that none has two roles.
fn take(columns: &mut Vec<Column>, field: &LitStr) -> Result<Column> {
    let name = field.value();
    let found = columns.iter().position(|column| syn::ext::IdentExt::unraw(&column.field) == name);
    let position = found.ok_or_else(|| {
        Error::new(field.span(), format!("there is no field `{name}`, or it is named twice as key or version"))
    })?;
    Ok(columns.remove(position))
}

pub(crate) fn once<T>(meta: &ParseNestedMeta<'_>, slot: &mut Option<T>, value: T) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error("given twice")),
    }
}

/// Names go into the statements in quotes, as they are; anything that could end the quotes is refused.
pub(crate) fn check_identifier(name: &str, literal: &LitStr) -> Result<()> {
    let plain = |c: char| c.is_alphanumeric() || c == '_' || c == '$' || c == '-';
    if name.is_empty() || !name.chars().all(plain) {
        return Err(Error::new(
            literal.span(),
            "an SQL name is made of letters, digits, `_`, `$` and `-`, without quotes",
        ));
    }
    Ok(())
}

fn versioned(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("versioned"))
}
