//! The annotated enum, checked: a state machine whose states stand in a column.

use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, Fields, Ident, Lit, LitStr, Path, Result, Token, Variant,
};

use crate::library;
use crate::model::{Table, check_identifier, once};

mod expand;
mod sql;

pub(crate) use expand::expand;

/// An enum that stands for the states of a row.
pub(crate) struct Machine {
    pub(crate) name: Ident,
    pub(crate) visibility: syn::Visibility,
    /// The crate in which the generated code finds the library.
    pub(crate) library: Path,
    pub(crate) table: Table,
    pub(crate) key: String,
    pub(crate) state: String,
    pub(crate) version: Option<String>,
    pub(crate) history: Option<Table>,
    pub(crate) states: Vec<State>,
}

pub(crate) struct State {
    pub(crate) name: Ident,
    pub(crate) value: Value,
    pub(crate) is_initial: bool,
    pub(crate) successors: Vec<Ident>,
    at: Span,
}

/// What stands in the column.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
}

impl Machine {
    /// Reads an enum and its `#[transition(…)]` attributes.
    pub(crate) fn parse(input: &DeriveInput) -> Result<Self> {
        let Data::Enum(data) = &input.data else {
            return Err(Error::new(input.ident.span(), "`Transition` is for an enum, whose variants are the states"));
        };
        if !input.generics.params.is_empty() {
            return Err(Error::new(input.generics.span(), "the states of a column are one type without generics"));
        }
        let attributes = EnumAttributes::parse(input)?;
        let states: Vec<_> =
            data.variants.iter().map(|variant| state(variant, attributes.is_integer)).collect::<Result<_>>()?;
        check(&states, input.ident.span())?;
        let missing = |what| Error::new(input.ident.span(), format!("missing `#[transition({what})]`"));
        Ok(Self {
            name: input.ident.clone(),
            visibility: input.vis.clone(),
            library: attributes.library.map_or_else(|| library::find(input.ident.span()), Ok)?,
            table: attributes.table.ok_or_else(|| missing("table = \"…\""))?,
            key: attributes.key.ok_or_else(|| missing("key = \"…\""))?,
            state: attributes.state.ok_or_else(|| missing("state = \"…\""))?,
            version: attributes.version,
            history: attributes.history,
            states,
        })
    }

    pub(crate) fn is_integer(&self) -> bool {
        matches!(self.states.first(), Some(State { value: Value::Integer(_), .. }))
    }
}

#[derive(Default)]
struct EnumAttributes {
    library: Option<Path>,
    table: Option<Table>,
    key: Option<String>,
    state: Option<String>,
    version: Option<String>,
    history: Option<Table>,
    is_integer: bool,
}

impl EnumAttributes {
    fn parse(input: &DeriveInput) -> Result<Self> {
        let mut found = Self::default();
        for attribute in transition(&input.attrs) {
            attribute.parse_nested_meta(|meta| {
                let is = |name| meta.path.is_ident(name);
                if is("table") {
                    once(&meta, &mut found.table, Table::parse(&literal(&meta)?)?)
                } else if is("history") {
                    once(&meta, &mut found.history, Table::parse(&literal(&meta)?)?)
                } else if is("key") {
                    once(&meta, &mut found.key, column(&meta)?)
                } else if is("state") {
                    once(&meta, &mut found.state, column(&meta)?)
                } else if is("version") {
                    once(&meta, &mut found.version, column(&meta)?)
                } else if is("crate") {
                    once(&meta, &mut found.library, literal(&meta)?.parse()?)
                } else if is("integer") {
                    found.is_integer = true;
                    Ok(())
                } else {
                    Err(meta.error("expected `table`, `key`, `state`, `version`, `history`, `integer` or `crate`"))
                }
            })?;
        }
        Ok(found)
    }
}

fn state(variant: &Variant, is_integer: bool) -> Result<State> {
    if !matches!(variant.fields, Fields::Unit) {
        return Err(Error::new(variant.span(), "a state stands in one column, so it has no fields"));
    }
    let (mut value, mut is_initial, mut successors) = (None, false, Vec::new());
    for attribute in transition(&variant.attrs) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("initial") {
                is_initial = true;
                Ok(())
            } else if meta.path.is_ident("to") {
                let list;
                syn::parenthesized!(list in meta.input);
                successors.extend(list.parse_terminated(<Ident as syn::parse::Parse>::parse, Token![,])?);
                Ok(())
            } else if meta.path.is_ident("value") {
                once(&meta, &mut value, meta.value()?.parse::<Lit>()?)
            } else {
                Err(meta.error("expected `initial`, `to(…)` or `value`"))
            }
        })?;
    }
    let discriminant = variant.discriminant.as_ref().map(|(_, expression)| expression);
    let value = match (is_integer, value) {
        (false, None) => Value::Text(snake_case(&variant.ident)),
        (false, Some(Lit::Str(text))) => Value::Text(text.value()),
        (true, Some(Lit::Int(number))) => Value::Integer(number.base10_parse()?),
        (true, None) => Value::Integer(discriminant_of(variant, discriminant)?),
        (false, Some(other)) => {
            return Err(Error::new(other.span(), "states are stored as text; for numbers write `integer` on the enum"));
        }
        (true, Some(other)) => return Err(Error::new(other.span(), "states are stored as integers")),
    };
    Ok(State { name: variant.ident.clone(), value, is_initial, successors, at: variant.ident.span() })
}

fn discriminant_of(variant: &Variant, discriminant: Option<&Expr>) -> Result<i64> {
    match discriminant {
        Some(Expr::Lit(ExprLit { lit: Lit::Int(number), .. })) => number.base10_parse(),
        _ => Err(Error::new(
            variant.ident.span(),
            "a state stored as an integer says which: `Name = 1`, or `#[transition(value = 1)]`",
        )),
    }
}

/// What can be told of the whole machine.
fn check(states: &[State], at: Span) -> Result<()> {
    if !states.iter().any(|state| state.is_initial) {
        return Err(Error::new(at, "no state is `#[transition(initial)]`: say with which a row begins"));
    }
    for (n, state) in states.iter().enumerate() {
        if states[..n].iter().any(|earlier| earlier.value == state.value) {
            return Err(Error::new(state.at, "two states are stored as the same value"));
        }
        for (m, successor) in state.successors.iter().enumerate() {
            if !states.iter().any(|other| other.name == *successor) {
                return Err(Error::new(successor.span(), format!("there is no state `{successor}`")));
            }
            if state.successors[..m].contains(successor) {
                return Err(Error::new(successor.span(), "this edge is declared twice"));
            }
        }
        let leads_here = |other: &State| other.name != state.name && other.successors.contains(&state.name);
        if !state.is_initial && !states.iter().any(leads_here) {
            return Err(Error::new(
                state.at,
                "no edge leads to this state; name it in another's `to(…)`, or mark it `initial`",
            ));
        }
    }
    Ok(())
}

fn literal(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    meta.value()?.parse()
}

fn column(meta: &ParseNestedMeta<'_>) -> Result<String> {
    let literal = literal(meta)?;
    check_identifier(&literal.value(), &literal)?;
    Ok(literal.value())
}

fn snake_case(name: &Ident) -> String {
    let mut snake = String::new();
    for letter in syn::ext::IdentExt::unraw(name).to_string().chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

fn transition(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("transition"))
}
