//! Hand-written readers and writers of the log, each with one mistake.

use std::time::Duration;

use leastlock_outbox::wal::Lsn;
use sqlx::{PgPool, Postgres, Row, Transaction};

use super::Shop;
use crate::readers::{PATIENCE, Reading, Values};

const OPTIONS: &str = "'proto_version', '1', 'publication_names', current_database()::text, 'messages', 'true'";
/// The value of an event is what lies between its length and that of the headers, `[]`.
const VALUE: &str = "convert_from(substring(data FROM position('value:'::bytea IN data) + 6 \
    FOR octet_length(data) - position('value:'::bytea IN data) - 11), 'UTF8')";

/// What the doubles can read: an event whose value begins with `value:`.
pub(crate) async fn commit(shop: &Shop, value: &str) {
    shop.commit("k", &marked(value)).await;
}

pub(crate) fn marked(value: &str) -> String {
    format!("value:{value}")
}

/// `lsn > last`: messages that lie before the last one read and commit later are lost.
pub(crate) fn by_place_cursor(shop: &Shop, slot: &str) -> Reading {
    let (pool, name) = (shop.pool().clone(), slot.to_owned());
    let sql = format!(
        "SELECT lsn::text AS lsn, {VALUE} AS value FROM pg_logical_slot_peek_binary_changes($1::text::name, NULL, NULL, {OPTIONS}) \
         WHERE get_byte(data, 0) = 77 AND lsn > $2::text::pg_lsn ORDER BY lsn"
    );
    Reading::start(|values| async move {
        let mut last = "0/0".to_owned();
        loop {
            // Another reader may have the slot.
            if let Ok(rows) =
                sqlx::query(sqlx::AssertSqlSafe(sql.clone())).bind(&name).bind(&last).fetch_all(&pool).await
            {
                for row in rows {
                    last = row.get("lsn");
                    push(&values, row.get("value"));
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
}

/// A slot for a double, which nobody moves.
pub(crate) async fn copy_of_the_slot(shop: &Shop) -> String {
    let copy =
        "SELECT (pg_copy_logical_replication_slot($1::text::name, ($1::text || '_double')::name)).slot_name::text";
    sqlx::query_scalar(copy).bind(&shop.name).fetch_one(shop.pool()).await.expect("there is a slot left")
}

/// In the order of the messages' places instead of the commits'; answers what it read.
pub(crate) async fn in_place_order(shop: &Shop) -> Vec<String> {
    let sql = format!(
        "SELECT {VALUE} FROM pg_logical_slot_peek_binary_changes($1::text::name, NULL, NULL, {OPTIONS}) \
         WHERE get_byte(data, 0) = 77 ORDER BY lsn"
    );
    sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).bind(&shop.name).fetch_all(shop.pool()).await.expect("it reads")
}

/// `pg_logical_slot_get_binary_changes`: the slot moves when it is read, not when the events are published. Answers
/// what it read.
pub(crate) async fn reads_and_confirms_at_once(shop: &Shop) -> Vec<String> {
    let sql = format!(
        "SELECT {VALUE} FROM pg_logical_slot_get_binary_changes($1::text::name, NULL, NULL, {OPTIONS}) WHERE get_byte(data, 0) = 77"
    );
    shop.comes_to("NOT active").await;
    sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).bind(&shop.name).fetch_all(shop.pool()).await.expect("it reads")
}

/// A message that is not transactional: it is in the log whatever becomes of the transaction.
pub(crate) async fn append_not_transactional(shop: &Shop, tx: &mut Transaction<'_, Postgres>, value: &str) -> Lsn {
    let emit = "SELECT pg_logical_emit_message(false, $1, \
        leastlock_wal_content(gen_random_uuid(), 'moves', 'k', convert_to($2, 'UTF8'), '[]', NULL))::text";
    let at: String =
        sqlx::query_scalar(emit).bind(&shop.name).bind(value).fetch_one(&mut **tx).await.expect("it appends");
    Lsn::parse(&at).expect("it answers where")
}

/// Takes the lock as a relay does, but in a session that may be silent for ever. The session is left open.
pub(crate) async fn claim_without_a_limit(pool: &PgPool, name: &str) -> sqlx::PgConnection {
    let mut connection = pool.acquire().await.expect("a connection").detach();
    let claim = "SELECT pg_try_advisory_lock(1819505783, hashtext($1))";
    // The session of a relay that was crashed takes a moment to end.
    let claiming = async {
        let claim = || sqlx::query_scalar::<_, bool>(claim).bind(name);
        while !claim().fetch_one(&mut connection).await.expect("it answers") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, claiming).await.expect("the lock comes free");
    connection
}

fn push(values: &Values, value: String) {
    values.lock().expect("no panic").push(value);
}
