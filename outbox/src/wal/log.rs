//! The write-ahead log as a relay sees it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::{Pool, Postgres};
use tokio::sync::Mutex;

use crate::error::Error;
use crate::lag::Lag;
use crate::parked::{ParkedLog, Queue, Tried};
use crate::relay::balance::{Seen, Survey};
use crate::relay::connection::Lent;
use crate::relay::cursor::{Cursor, Note, Page, Position, ReadFrom};
use crate::relay::log::Log;
use crate::sink::LoggedEvent;
use crate::sql::found::ReadLimit;
use crate::wal::error::WalError;
use crate::wal::lsn::Lsn;
use crate::wal::name::SlotName;
use crate::wal::reading::Reading;
use crate::wal::session::{self, Holder};
use crate::wal::slot::State;

/// A slot is one shard: it is decoded in one piece, by one reader.
const SHARD: i64 = 0;
/// How long another relay's session may last.
const UNKNOWN: Duration = Duration::from_hours(1);

/// The messages of an outbox in the write-ahead log, read through a replication slot.
///
/// # Why several relays do no harm
/// - *One reader*: the holder of an advisory lock of a session that ends when it is silent for the lease.
/// - *A relay that lost the lock and does not know* publishes what it has read, in order, from a position at or behind
///   which everything is acknowledged; so does the next holder. Whichever is first with an event was also first with,
///   or began behind the acknowledgement of, each earlier one of its key: repeats, and no first occurrence out of
///   order.
/// - *It moves the slot* only while its session has the lock on that very server, and then only over what the sink
///   acknowledged to it. Over that, moving the slot loses nothing whoever does it.
#[derive(Debug)]
pub struct WalLog {
    pool: Pool<Postgres>,
    name: SlotName,
    skipped: Vec<Lsn>,
    claims: AtomicI64,
    // Where both are locked, this one first.
    holder: Mutex<Option<Holder>>,
    reading: Mutex<Option<Reading>>,
    /// How far everything is published, if the slot was not moved there yet.
    noted: std::sync::Mutex<Option<Cursor>>,
}

impl WalLog {
    pub(super) fn new(pool: &Pool<Postgres>, name: &SlotName, skipped: &[Lsn]) -> Self {
        Self {
            pool: pool.clone(),
            name: name.clone(),
            skipped: skipped.to_vec(),
            claims: AtomicI64::new(0),
            holder: Mutex::default(),
            reading: Mutex::default(),
            noted: std::sync::Mutex::default(),
        }
    }

    /// Takes what is to be noted.
    fn take_note(&self, reading: &mut Reading) {
        if let Some(cursor) = self.noted().take().filter(|cursor| self.is_current(cursor.epoch)) {
            reading.published(cursor.position.last_id);
        }
    }

    /// Gives the slot back, once it is moved over what is published.
    async fn let_go(&self) -> Result<(), Error> {
        let mut holder = self.holder.lock().await;
        let mut reading = self.reading.lock().await;
        let moved = match &mut *reading {
            Some(reading) => {
                self.take_note(reading);
                reading.move_slot(&self.pool, &self.name).await
            }
            None => Ok(false),
        };
        *reading = None;
        if let Some(holder) = holder.take() {
            holder.release(&self.name).await?;
        }
        moved.map(drop)
    }

    fn noted(&self) -> MutexGuard<'_, Option<Cursor>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_current(&self, epoch: i64) -> bool {
        self.claims.load(Ordering::SeqCst) == epoch
    }
}

impl Log for WalLog {
    const POSITIONS: bool = true;

    /// Others cannot say that they are there, nor need they: there is one shard, and whoever finds it free takes it.
    async fn survey(&self, owner: &str, _stay_ms: i64) -> Result<Survey, Error> {
        let own = self.holder.lock().await.as_ref().map(|holder| holder.owner().session);
        let mut connection = Lent::from(&self.pool).await?;
        let session = session::owner(&mut connection, &self.name).await?;
        connection.give_back();
        let name = |session| if Some(session) == own { owner.to_owned() } else { session.to_string() };
        // It ends when its session ends, and that may be now: the next look is as soon as it ever is.
        let seen = Seen { shard: SHARD, generation: 0, owner: session.map(name), lease_left: UNKNOWN };
        Ok(Survey { shards: vec![seen], ..Survey::default() })
    }

    async fn claim(&self, _owner: &str, among: &[i64], most: i64, lease_ms: i64) -> Result<Vec<Cursor>, Error> {
        if !among.contains(&SHARD) || most < 1 {
            return Ok(Vec::new());
        }
        let mut holder = self.holder.lock().await;
        // What this relay gave up, or whose claim it lost the answer of, ends with its session.
        *self.reading.lock().await = None;
        if let Some(former) = holder.take() {
            former.release(&self.name).await?;
        }
        let mut connection = Lent::from(&self.pool).await?;
        let confirmed = State::read(&mut connection, &self.name).await?.check(&self.name)?;
        let Some(claimed) = Holder::claim(connection, &self.name, lease_ms).await? else { return Ok(Vec::new()) };
        *self.reading.lock().await = Some(Reading::new(claimed.owner().clone(), confirmed, self.skipped.clone()));
        *holder = Some(claimed);
        let epoch = self.claims.fetch_add(1, Ordering::SeqCst) + 1;
        let position = Position { done: String::new(), target: None, last_id: 0 };
        Ok(vec![Cursor { shard: SHARD, epoch, position }])
    }

    async fn renew(&self, held: &[(i64, i64)], _lease_ms: i64) -> Result<Vec<i64>, Error> {
        let mut holder = self.holder.lock().await;
        let is_held = held.iter().any(|&(shard, epoch)| shard == SHARD && self.is_current(epoch));
        // An attempt that was dropped half-way leaves its answer behind; the driver passes over it before the next
        // one's.
        let renewed = match holder.as_mut() {
            Some(current) if is_held => current.renew().await?,
            _ => false,
        };
        Ok(if renewed { vec![SHARD] } else { Vec::new() })
    }

    /// There is no sequence to be remembered.
    async fn see(&self, _held: &[(i64, i64)]) -> Result<(), Error> {
        Ok(())
    }

    async fn give_up(&self, held: &[(i64, i64)]) -> Result<(), Error> {
        if held.iter().any(|&(shard, epoch)| shard == SHARD && self.is_current(epoch)) {
            self.let_go().await?;
        }
        Ok(())
    }

    /// What is published is gone from the log, by the server's own doing.
    async fn mark(&self, _shards: &[i64], _every_ms: i64, _keep_ms: i64) -> Result<(), Error> {
        Ok(())
    }

    async fn sweep(&self, _shard: i64, _keep_ms: i64, from: &str, _limit: i64) -> Result<(u64, String), Error> {
        Ok((0, from.to_owned()))
    }

    /// In bytes of log, not in events: see [`WalOutbox::lag`](crate::WalOutbox::lag).
    async fn lag(&self) -> Result<Option<Lag>, Error> {
        Ok(None)
    }

    async fn release(&self, _owner: &str) -> Result<(), Error> {
        self.let_go().await
    }

    async fn read(&self, from: &[ReadFrom], limit: ReadLimit) -> Result<Vec<Page>, Error> {
        let mut reading = self.reading.lock().await;
        let mut pages = Vec::with_capacity(from.len());
        for ReadFrom { cursor, .. } in from {
            let events = match &mut *reading {
                Some(reading) if self.is_current(cursor.epoch) => {
                    self.take_note(reading);
                    if reading.is_move_due() {
                        // A relay that lost the slot learns it from its heartbeat.
                        reading.move_slot(&self.pool, &self.name).await?;
                    }
                    reading.next(&self.pool, &self.name, cursor.position.last_id, limit).await?
                }
                _ => Vec::new(),
            };
            pages.push(Page::of_cursor(cursor, events));
        }
        Ok(pages)
    }

    async fn note(&self, notes: &[Note]) -> Result<Vec<i64>, Error> {
        let Some(note) = notes.iter().find(|note| note.cursor.shard == SHARD && self.is_current(note.cursor.epoch))
        else {
            return Ok(Vec::new());
        };
        if let Some(parked) = note.parked.first() {
            let (event, reason) = (parked.event.event_id, parked.cause.reason().to_owned());
            return Err(WalError::NoParking { event, reason }.into());
        }
        *self.noted() = Some(note.cursor.clone());
        // Decoding may take longer than a lease while a long transaction is open, and moving the slot too. A note cannot
        // wait for that: the next read moves the slot, and a crash before repeats more.
        let Ok(mut reading) = self.reading.try_lock() else { return Ok(vec![SHARD]) };
        let Some(reading) = &mut *reading else { return Ok(Vec::new()) };
        self.take_note(reading);
        let waits = !reading.is_move_due() || !reading.moves_quickly();
        let own = waits || reading.move_slot(&self.pool, &self.name).await?;
        Ok(if own { vec![SHARD] } else { Vec::new() })
    }
}

/// Nothing is ever parked: there is no table for it.
impl ParkedLog for WalLog {
    async fn blocked(&self, _shard: i64, _limit: i64) -> Result<Vec<Queue>, Error> {
        Ok(Vec::new())
    }

    async fn blocked_among(&self, _queues: &[Queue]) -> Result<Vec<Queue>, Error> {
        Ok(Vec::new())
    }

    async fn asked(&self, _shards: &[i64], _after: Option<Queue>, _limit: i64) -> Result<Vec<(i64, Queue)>, Error> {
        Ok(Vec::new())
    }

    async fn head(&self, _shard: i64, _queue: Queue, _limit: ReadLimit) -> Result<Vec<LoggedEvent>, Error> {
        Ok(Vec::new())
    }

    async fn settle(&self, _shard: i64, _epoch: i64, _tried: &[Tried]) -> Result<Option<Vec<Queue>>, Error> {
        Ok(Some(Vec::new()))
    }
}
