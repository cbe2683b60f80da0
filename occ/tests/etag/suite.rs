//! A resource over HTTP, without the HTTP: headers in, status out.

use leastlock_occ::etag::{IfMatch, IfNoneMatch, Read, Rejected, etag};
use leastlock_occ::{Stored, Version, Versioned};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::{Connection, Pool};

#[derive(Debug, Clone, PartialEq, Eq, Versioned)]
#[versioned(table = "page", key = "id", version = "version")]
pub(crate) struct Page {
    id: String,
    body: String,
    /// Not part of what a client reads.
    is_locked: i64,
    version: Version,
}

async fn pages<DB: TestEngine>(database: &TestDatabase<DB>) {
    let table = sql::<DB>(
        "CREATE TABLE page (id VARCHAR(9) PRIMARY KEY, body TEXT NOT NULL, is_locked BIGINT NOT NULL, version BIGINT NOT NULL)",
        "CREATE TABLE page (id VARBINARY(9) PRIMARY KEY, body TEXT NOT NULL, is_locked BIGINT NOT NULL, version BIGINT NOT NULL)",
    );
    database.execute(table).await;
    database.execute("INSERT INTO page VALUES ('a', 'first', 0, 1)").await;
}

/// How the entity tag is made and checked.
pub(crate) trait Tags {
    fn tag(page: &Page) -> String;
    fn check(if_match: &str, current: &Page) -> Result<(), Rejected>;
}

/// From the version column, both times.
pub(crate) struct OfVersion;

impl Tags for OfVersion {
    fn tag(page: &Page) -> String {
        etag(page.version)
    }

    fn check(if_match: &str, current: &Page) -> Result<(), Rejected> {
        IfMatch::required([if_match])?.check(Some(current.version()))
    }
}

/// The double: from a hash of the body, as a middleware that knows no columns does it.
pub(crate) struct OfBody;

impl Tags for OfBody {
    fn tag(page: &Page) -> String {
        // FNV-1a; any hash makes the mistake.
        let hash = page
            .body
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        format!("\"{hash:x}\"")
    }

    fn check(if_match: &str, current: &Page) -> Result<(), Rejected> {
        if if_match == Self::tag(current) { Ok(()) } else { Err(Rejected::Stale) }
    }
}

async fn get<DB: TestEngine>(pool: &Pool<DB>) -> Page
where
    Page: Stored<DB>,
{
    let mut connection = pool.acquire().await.expect("a connection");
    Page::load(&mut *connection, "a").await.expect("a read").expect("the page")
}

async fn put<DB: TestEngine, T: Tags>(pool: &Pool<DB>, if_match: &str, body: &str) -> u16
where
    Page: Stored<DB>,
{
    let mut connection = pool.acquire().await.expect("a connection");
    let mut tx = connection.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let page = Page::load(&mut *tx, "a").await.expect("a read").expect("the page");
    if let Err(rejected) = T::check(if_match, &page) {
        return rejected.status();
    }
    let written = page.update(&mut *tx, |page| body.clone_into(&mut page.body)).await.expect("an outcome");
    match written.into_result().map_err(Rejected::from) {
        Ok(_) => {
            tx.commit().await.expect("the commit");
            204
        }
        Err(rejected) => rejected.status(),
    }
}

/// A client reads; others write, and the body comes to be what it was; the client writes.
async fn written_after_others<DB: TestEngine, T: Tags>(database: &TestDatabase<DB>) -> Result<(), String>
where
    Page: Stored<DB>,
{
    let read = T::tag(&get(&database.pool).await);
    let first = put::<DB, T>(&database.pool, &read, "second").await;
    if first != 204 {
        return Err(format!("the first write of what was read: {first}"));
    }
    let between = T::tag(&get(&database.pool).await);
    let back = put::<DB, T>(&database.pool, &between, "first").await;
    if back != 204 {
        return Err(format!("a write of what was read again: {back}"));
    }
    database.execute("UPDATE page SET is_locked = 1, version = version + 1").await;
    match put::<DB, T>(&database.pool, &read, "third").await {
        412 => Ok(()),
        status => Err(format!("a write of what was read long ago: {status}")),
    }
}

pub(crate) async fn o12_a_write_with_the_tag_of_an_older_read_is_refused<DB: TestEngine>(database: TestDatabase<DB>)
where
    Page: Stored<DB>,
{
    pages(&database).await;
    assert_eq!(written_after_others::<DB, OfVersion>(&database).await, Ok(()));
    database.execute("UPDATE page SET is_locked = 0").await;
    let double = written_after_others::<DB, OfBody>(&database).await;
    println!("the double: {double:?}");
    assert!(double.is_err(), "the double is not caught");
    let page = get(&database.pool).await;
    let condition = IfNoneMatch::parse([etag(page.version)]).expect("our own tag").expect("it is there");
    assert_eq!(condition.read(Some(page.version)), Read::NotModified);
}

/// The condition held when it was checked, and somebody came before the write.
pub(crate) async fn o12_a_conflict_found_by_the_write_itself_is_refused_alike<DB: TestEngine>(
    database: TestDatabase<DB>,
) where
    Page: Stored<DB>,
{
    pages(&database).await;
    let page = get(&database.pool).await;
    assert_eq!(OfVersion::check(&etag(page.version), &page), Ok(()));
    database.execute("UPDATE page SET version = version + 1").await;
    let mut connection = database.pool.acquire().await.expect("a connection");
    let written = page.update(&mut *connection, |page| page.body.clear()).await.expect("an outcome");
    assert_eq!(written.into_result().map_err(|conflict| Rejected::from(conflict).status()), Err(412));
}
