//! A statement with its parameters, and the rows it answers with.
//!
//! Generic code over [`Dialect`] cannot state sqlx's `for<'q> &'q str: Encode<'q, DB>` bounds once and for all: a trait's
//! `where` clauses are not implied to its users. A closed set of parameter and column types, bound by the dialect, keeps
//! that noise out of every signature.

use sqlx::query::Query;
use sqlx::{SqlSafeStr, SqlStr};

use crate::dialect::Dialect;

/// A value to bind. Made with `From` from the types that the leastlock tables use.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Param<'a> {
    /// Text, or NULL.
    Text(Option<&'a str>),
    /// Bytes, or NULL.
    Bytes(Option<&'a [u8]>),
    /// A 64-bit integer, or NULL.
    Int(Option<i64>),
    /// An array of integers (PostgreSQL only).
    IntArray(&'a [i64]),
    /// An array of texts (PostgreSQL only).
    TextArray(&'a [String]),
}

/// One SQL statement and the values bound to it, in order.
///
/// No SQL is put together at call time: the text is `'static`, or was asserted to be safe when it was built once, from
/// checked identifiers.
#[derive(Debug, Clone)]
#[must_use = "a statement does nothing until it is run"]
pub struct Statement<'a> {
    pub(crate) sql: SqlStr,
    pub(crate) params: Vec<Param<'a>>,
}

impl<'a> Statement<'a> {
    /// A statement without parameters as yet.
    pub fn new(sql: impl SqlSafeStr) -> Self {
        Self { sql: sql.into_sql_str(), params: Vec::with_capacity(8) }
    }

    /// The text.
    #[must_use]
    pub fn sql(&self) -> &str {
        self.sql.as_str()
    }

    /// The parameters bound so far, in order.
    #[must_use]
    pub fn params(&self) -> &[Param<'a>] {
        &self.params
    }

    /// Binds the next parameter.
    pub fn bind(mut self, value: impl Into<Param<'a>>) -> Self {
        self.params.push(value.into());
        self
    }

    /// The statement as a query of sqlx's, for what takes one.
    ///
    /// # Errors
    /// When the engine has no such parameter: only PostgreSQL has arrays.
    pub fn into_query<DB: Dialect>(self) -> Result<Query<'static, DB, DB::Arguments>, sqlx::Error> {
        DB::query(self)
    }

    /// Runs the statement and answers the number of rows it changed.
    ///
    /// # Cancel safety
    /// As with any statement of sqlx: dropped half-way, the statement may or may not have run, and the transaction that
    /// it ran in rolls back when it is dropped.
    pub async fn execute<DB: Dialect>(self, connection: &mut DB::Connection) -> Result<u64, sqlx::Error> {
        DB::run(connection, self).await
    }

    /// Runs the statement and answers all its rows.
    ///
    /// # Cancel safety
    /// See [`execute`](Self::execute).
    pub async fn fetch_all<DB: Dialect>(self, connection: &mut DB::Connection) -> Result<Vec<Row<DB>>, sqlx::Error> {
        DB::fetch(connection, self).await
    }

    /// Runs the statement and answers its first row, if there is one.
    ///
    /// # Cancel safety
    /// See [`execute`](Self::execute).
    pub async fn fetch_optional<DB: Dialect>(
        self,
        connection: &mut DB::Connection,
    ) -> Result<Option<Row<DB>>, sqlx::Error> {
        Ok(DB::fetch(connection, self).await?.into_iter().next())
    }

    /// Runs the statement and answers its first row; having none is [`sqlx::Error::RowNotFound`].
    ///
    /// # Cancel safety
    /// See [`execute`](Self::execute).
    pub async fn fetch_one<DB: Dialect>(self, connection: &mut DB::Connection) -> Result<Row<DB>, sqlx::Error> {
        self.fetch_optional::<DB>(connection).await?.ok_or(sqlx::Error::RowNotFound)
    }
}

/// A row, read by column position.
#[derive(Debug)]
pub struct Row<DB: Dialect>(pub(crate) DB::Row);

impl<DB: Dialect> Row<DB> {
    /// The text in column `index`.
    pub fn text(&self, index: usize) -> Result<String, sqlx::Error> {
        self.optional_text(index)?.ok_or_else(|| unexpected_null(index))
    }

    /// The text in column `index`, or `None` for NULL.
    pub fn optional_text(&self, index: usize) -> Result<Option<String>, sqlx::Error> {
        DB::text(&self.0, index)
    }

    /// The integer in column `index`.
    pub fn int(&self, index: usize) -> Result<i64, sqlx::Error> {
        self.optional_int(index)?.ok_or_else(|| unexpected_null(index))
    }

    /// The integer in column `index`, or `None` for NULL.
    pub fn optional_int(&self, index: usize) -> Result<Option<i64>, sqlx::Error> {
        DB::int(&self.0, index)
    }

    /// The bytes in column `index`.
    pub fn bytes(&self, index: usize) -> Result<Vec<u8>, sqlx::Error> {
        self.optional_bytes(index)?.ok_or_else(|| unexpected_null(index))
    }

    /// The bytes in column `index`, or `None` for NULL.
    pub fn optional_bytes(&self, index: usize) -> Result<Option<Vec<u8>>, sqlx::Error> {
        DB::bytes(&self.0, index)
    }

    /// What stands in column `index`, as any type that sqlx can decode on `DB`.
    pub fn value<'r, T>(&'r self, index: usize) -> Result<T, sqlx::Error>
    where
        T: sqlx::Decode<'r, DB> + sqlx::Type<DB>,
    {
        DB::value(&self.0, index)
    }
}

fn unexpected_null(index: usize) -> sqlx::Error {
    sqlx::Error::ColumnDecode { index: index.to_string(), source: Box::new(sqlx::error::UnexpectedNullError) }
}

impl<'a> From<&'a str> for Param<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Some(value))
    }
}

impl<'a> From<&'a String> for Param<'a> {
    fn from(value: &'a String) -> Self {
        Self::Text(Some(value))
    }
}

impl<'a> From<Option<&'a str>> for Param<'a> {
    fn from(value: Option<&'a str>) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a [u8]> for Param<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Bytes(Some(value))
    }
}

impl<'a> From<Option<&'a [u8]>> for Param<'a> {
    fn from(value: Option<&'a [u8]>) -> Self {
        Self::Bytes(value)
    }
}

impl From<i64> for Param<'_> {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<Option<i64>> for Param<'_> {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl<'a> From<&'a [i64]> for Param<'a> {
    fn from(value: &'a [i64]) -> Self {
        Self::IntArray(value)
    }
}

impl<'a> From<&'a [String]> for Param<'a> {
    fn from(value: &'a [String]) -> Self {
        Self::TextArray(value)
    }
}
