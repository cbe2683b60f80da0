//! The next events of several shards.

use std::sync::LazyLock;

use leastlock_core::{Row, Statement};
use serde_json::json;
use sqlx::{MySql, MySqlConnection};

use super::gathering::Gathering;
use crate::error::Error;
use crate::relay::cursor::{Page, ReadFrom};
use crate::sink::LoggedEvent;

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
pub(super) async fn read(connection: &mut MySqlConnection, from: &[ReadFrom], limit: i64) -> Result<Vec<Page>, Error> {
    let most = usize::try_from(limit).unwrap_or(0);
    let mut shards: Vec<_> = from.iter().map(|from| Gathering::new(from, most)).collect();
    for some in shards.chunks_mut(SHARDS_A_STATEMENT) {
        read_on(connection, some, limit).await?;
        for _ in 0..ROUNDS {
            let late = late(connection, some).await?;
            if late.is_empty() {
                break;
            }
            read_late(connection, some, &late).await?;
        }
    }
    Ok(shards.into_iter().map(|shard| Page::of_cursor(&shard.from.cursor, shard.handed_out())).collect())
}

/// The next events behind the highest id known of each shard.
async fn read_on(connection: &mut MySqlConnection, shards: &mut [Gathering<'_>], limit: i64) -> Result<(), Error> {
    let mut read = Statement::new(text(&READS, shards.len()));
    for shard in shards.iter() {
        read = read.bind(shard.shard()).bind(shard.behind()).bind(limit);
    }
    let rows = read.fetch_all::<MySql>(connection).await.map_err(Error::database::<MySql>)?;
    add(shards, &rows)
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

/// The events of these ids.
async fn read_late(
    connection: &mut MySqlConnection,
    shards: &mut [Gathering<'_>],
    late: &[(i64, i64)],
) -> Result<(), Error> {
    let late = json!(late).to_string();
    let rows = Statement::new(BY_ID).bind(&late).fetch_all::<MySql>(connection).await;
    add(shards, &rows.map_err(Error::database::<MySql>)?)
}

fn add(shards: &mut [Gathering<'_>], rows: &[Row<MySql>]) -> Result<(), Error> {
    for row in rows {
        let number = row.int(0).map_err(Error::database::<MySql>)?;
        let event = LoggedEvent::found_in(row, number, 1)?;
        if let Some(shard) = shards.iter_mut().find(|shard| shard.shard() == number) {
            shard.add(event);
        }
    }
    Ok(())
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
