//! The next events of several shards.

use std::sync::LazyLock;

use leastlock_core::{Row, Statement};
use serde_json::json;
use sqlx::{MySql, MySqlConnection};

use super::gathering::Gathering;
use crate::error::Error;
use crate::relay::cursor::{Page, ReadFrom};
use crate::sink::LoggedEvent;
use crate::sql::found::{Found, ReadLimit, keep_what_fits, put, to_bring};

const READ: &str = include_str!("../../../sql/mysql/read.sql");
const IDS: &str = include_str!("../../../sql/mysql/ids.sql");
const BY_ID: &str = include_str!("../../../sql/mysql/by_id.sql");

/// How often a read asks what was committed meanwhile. Under writers that never pause it need not come to an end otherwise;
/// the next read goes on.
const ROUNDS: usize = 3;

/// Shards that one statement reads.
const SHARDS_A_STATEMENT: usize = 16;

/// Texts for 1, 2, 3, … shards.
type Texts = LazyLock<[String; SHARDS_A_STATEMENT]>;

static READS: Texts = LazyLock::new(|| joined(READ));
static ID_READS: Texts = LazyLock::new(|| joined(IDS));

/// The next page of each shard: see [`gathering`](super::gathering).
pub(super) async fn read(
    connection: &mut MySqlConnection,
    from: &[ReadFrom],
    limit: ReadLimit,
) -> Result<Vec<Page>, Error> {
    let each = limit.of_each(from.len());
    let most = usize::try_from(each.0).unwrap_or(0);
    let mut shards: Vec<_> = from.iter().map(|from| Gathering::new(from, most)).collect();
    for some in shards.chunks_mut(SHARDS_A_STATEMENT) {
        read_on(connection, some, each).await?;
        for _ in 0..ROUNDS {
            let late = late(connection, some).await?;
            if late.is_empty() {
                break;
            }
            for (event, bytes) in by_id(connection, &late, each.1).await? {
                add(some, event, bytes, each.1);
            }
        }
    }
    let mut found: Vec<Found> = shards.into_iter().map(Gathering::handed_out).collect();
    keep_what_fits(&mut found, limit.bytes);
    let wanted = to_bring(&found);
    if !wanted.is_empty() {
        let brought = by_id(connection, &wanted, i64::MAX).await?;
        put(&mut found, brought.into_iter().map(|(event, _)| event).collect());
    }
    Ok(from.iter().zip(found).map(|(from, found)| Page::of_cursor(&from.cursor, found.events)).collect())
}

/// The next events behind the highest id known of each shard.
async fn read_on(
    connection: &mut MySqlConnection,
    shards: &mut [Gathering<'_>],
    (most, whole): (i64, i64),
) -> Result<(), Error> {
    let mut read = Statement::new(text(&READS, shards.len()));
    for shard in shards.iter() {
        read = read.bind(whole).bind(whole).bind(shard.shard()).bind(shard.behind()).bind(most);
    }
    for row in &read.fetch_all::<MySql>(connection).await.map_err(Error::database::<MySql>)? {
        let (event, bytes) = event_in(row)?;
        add(shards, event, bytes, whole);
    }
    Ok(())
}

/// Shards with ids that were committed late.
async fn late(connection: &mut MySqlConnection, shards: &mut [Gathering<'_>]) -> Result<Vec<(i64, i64)>, Error> {
    let asks = |shard: &Gathering<'_>| Some((shard.shard(), shard.asks_up_to()?, shard.asks_for()));
    let asked: Vec<_> = shards.iter().filter_map(asks).collect();
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let mut ids = Statement::new(text(&ID_READS, asked.len()));
    for &(shard, up_to, most) in &asked {
        ids = ids.bind(shard).bind(up_to).bind(i64::try_from(most).unwrap_or(i64::MAX));
    }
    let rows = ids.fetch_all::<MySql>(connection).await.map_err(Error::database::<MySql>)?;
    let there = rows.iter().map(|row| Ok((row.int(0)?, row.int(1)?))).collect::<Result<Vec<_>, _>>();
    let mut there = there.map_err(Error::database::<MySql>)?;
    there.sort_unstable();
    let mut late = Vec::new();
    for shard in shards.iter_mut().filter(|shard| shard.asks_up_to().is_some()) {
        let number = shard.shard();
        let first = there.partition_point(|&(other, _)| other < number);
        let end = there.partition_point(|&(other, _)| other <= number);
        let ids: Vec<_> = there[first..end].iter().map(|&(_, id)| id).collect();
        late.extend(shard.settle(&ids).into_iter().map(|id| (number, id)));
    }
    Ok(late)
}

/// The events of these ids, whole if they take no more than `whole` bytes; with the bytes of each.
async fn by_id(
    connection: &mut MySqlConnection,
    wanted: &[(i64, i64)],
    whole: i64,
) -> Result<Vec<(LoggedEvent, i64)>, Error> {
    let wanted = json!(wanted).to_string();
    let rows = Statement::new(BY_ID).bind(whole).bind(whole).bind(&wanted).fetch_all::<MySql>(connection).await;
    rows.map_err(Error::database::<MySql>)?.iter().map(event_in).collect()
}

fn event_in(row: &Row<MySql>) -> Result<(LoggedEvent, i64), Error> {
    let database = Error::database::<MySql>;
    let shard = row.int(0).map_err(database)?;
    Ok((LoggedEvent::found_in(row, shard, 1)?, row.int(9).map_err(database)?))
}

fn add(shards: &mut [Gathering<'_>], event: LoggedEvent, bytes: i64, whole: i64) {
    if let Some(shard) = shards.iter_mut().find(|shard| shard.shard() == event.shard) {
        shard.add(event, bytes, whole);
    }
}

/// The parts of a text that reads several shards.
fn joined(part: &str) -> [String; SHARDS_A_STATEMENT] {
    let sql: Vec<_> = part.lines().filter(|line| !line.starts_with("--")).collect();
    let part = format!("({})", sql.join("\n"));
    std::array::from_fn(|more| format!("{part}{}", format!("\nUNION ALL\n{part}").repeat(more)))
}

fn text(texts: &'static Texts, shards: usize) -> &'static str {
    &texts[shards - 1]
}
