//! Reads the slot: fills a cursor on the server, fetches from it, and advances the slot behind what is published.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use leastlock_core::Statement;
use sqlx::{PgConnection, Pool, Postgres};

use crate::error::Error;
use crate::relay::connection::Lent;
use crate::sink::LoggedEvent;
use crate::sql::found::ReadLimit;
use crate::wal::content::{self, Content};
use crate::wal::error::WalError;
use crate::wal::fault;
use crate::wal::lsn::Lsn;
use crate::wal::name::SlotName;
use crate::wal::pgoutput::{self, Row};
use crate::wal::progress::{Place, Progress};
use crate::wal::session::{self, Owner, Pause};
use crate::wal::slot::{self, State};

const CLOCK: &str = include_str!("../../sql/postgres/wal/clock.sql");
const DECLARE: &str = include_str!("../../sql/postgres/wal/declare.sql");
const FETCH_FEW: &str = include_str!("../../sql/postgres/wal/fetch_few.sql");
const FETCH_MANY: &str = include_str!("../../sql/postgres/wal/fetch_many.sql");
const CLOSE: &str = include_str!("../../sql/postgres/wal/close.sql");
const ADVANCE: &str = include_str!("../../sql/postgres/wal/advance.sql");

/// Log decoded at a time. Each read decodes from the slot's restart position on, so a backlog is cheaper in large
/// pieces; a piece waits in a file of the server.
const WINDOW_BYTES: u64 = 64 << 20;
/// Rows larger than this on average are fetched few at a time.
const LARGE_ROW_BYTES: usize = 16 << 10;
/// The slot is moved where a note is waited for if it took no longer than this.
const QUICK: Duration = Duration::from_millis(200);
/// A log without events is confirmed this often, or when it is so long: without it, the server would keep it.
const QUIET_CONFIRM: Duration = Duration::from_secs(5);
const QUIET_BYTES: u64 = 16 << 20;

/// What one owner of the slot reads.
#[derive(Debug)]
pub(super) struct Reading {
    owner: Owner,
    progress: Progress,
    connection: Option<Lent<Postgres>>,
    /// Whether the session that the open cursor was in is gone.
    is_torn: bool,
    window: Option<Window>,
    /// The time of the transaction being read, and what was decoded and not handed out yet.
    committed_at_us: i64,
    decoded: VecDeque<LoggedEvent>,
    handed_out: i64,
    large_rows: bool,
    clock: (i64, Instant),
    pause: Pause,
    /// How long it took to move the slot, and until when it is left where it is.
    moved_in: Duration,
    move_pause: Pause,
    confirmed_at: Instant,
    /// Messages that the operator wants to be passed over.
    skipped: Vec<Lsn>,
    /// A message that is no event, and why: it is reported once everything before it is published.
    malformed: Option<(Lsn, String)>,
}

/// A cursor on the server.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// Every transaction whose commit's record lies before it is in the cursor, or was read before.
    upto: Lsn,
    /// Whether that was the end of the log.
    is_last: bool,
    /// How long it took to fill.
    took: Duration,
    /// Whether there was an event in it.
    found: bool,
}

impl Reading {
    pub(super) fn new(owner: Owner, confirmed: Lsn, skipped: Vec<Lsn>) -> Self {
        let now = Instant::now();
        Self {
            owner,
            progress: Progress::new(confirmed),
            connection: None,
            is_torn: true,
            window: None,
            committed_at_us: 0,
            decoded: VecDeque::new(),
            handed_out: 0,
            large_rows: true,
            clock: (0, now),
            pause: Pause::default(),
            moved_in: Duration::ZERO,
            move_pause: Pause::default(),
            confirmed_at: now,
            skipped,
            malformed: None,
        }
    }

    /// The next events behind the event `after`, within the limit. What was decoded besides stays in memory for the next time.
    pub(super) async fn next(
        &mut self,
        pool: &Pool<Postgres>,
        name: &SlotName,
        after: i64,
        limit: ReadLimit,
    ) -> Result<Vec<LoggedEvent>, Error> {
        let most = usize::try_from(limit.events).unwrap_or(usize::MAX);
        // Taken, so that a future that is dropped half-way leaves no session whose answer is still to come.
        let mut kept = self.connection.take();
        if self.is_torn || after != self.handed_out {
            // A session that was opened since has no cursor.
            kept = kept.filter(|_| self.is_torn || self.window.is_none());
            self.rewind(after);
        }
        self.is_torn = true;
        let mut connection = match kept {
            Some(connection) => connection,
            None => session::reader(pool, name, &self.owner).await?,
        };
        if let Err(error) = self.fill(&mut connection, name, most, limit.bytes).await {
            return Err(fault::explain(error, connection, name, &self.owner).await);
        }
        (self.connection, self.is_torn) = (Some(connection), false);
        if let Some((at, reason)) = &self.malformed
            && self.progress.is_settled_but(*at)
        {
            return Err(WalError::Malformed { at: *at, reason: reason.clone() }.into());
        }
        let mut bytes = 0;
        let fits = self.decoded.iter().take(most).take_while(|event| {
            let is_first = bytes == 0;
            bytes += event.bytes();
            is_first || bytes <= limit.bytes
        });
        let fits = fits.count();
        let page: Vec<_> = self.decoded.drain(..fits).collect();
        self.handed_out = page.last().map_or(self.handed_out, |event| event.id);
        Ok(page)
    }

    /// Everything up to the event `last` is published.
    pub(super) fn published(&mut self, last: i64) {
        self.progress.published(last);
    }

    /// Whether the slot can be moved, and moving it did not take as long as it is ago.
    pub(super) fn is_move_due(&self) -> bool {
        self.progress.safe() > self.progress.confirmed() && self.move_pause.is_over()
    }

    /// Whether moving the slot took no time the last time. Behind a long transaction it takes as long as a read.
    pub(super) fn moves_quickly(&self) -> bool {
        self.moved_in < QUICK
    }

    /// Moves the slot as far as what is published allows. Answers whether the slot is still this owner's.
    pub(super) async fn move_slot(&mut self, pool: &Pool<Postgres>, name: &SlotName) -> Result<bool, Error> {
        if self.progress.safe() <= self.progress.confirmed() {
            return Ok(true);
        }
        let was_torn = std::mem::replace(&mut self.is_torn, true);
        let (mut connection, is_torn) = match self.connection.take() {
            Some(connection) => (connection, was_torn),
            None => (session::reader(pool, name, &self.owner).await?, true),
        };
        match self.confirm(&mut connection, name).await {
            Ok(held) => {
                (self.connection, self.is_torn) = (Some(connection), is_torn);
                Ok(held)
            }
            Err(error) => Err(fault::explain(error, connection, name, &self.owner).await),
        }
    }

    /// A session that is gone took its cursor with it.
    fn rewind(&mut self, after: i64) {
        self.progress.rewind(after);
        self.decoded.clear();
        (self.window, self.malformed) = (None, None);
        self.handed_out = after;
    }

    /// Decodes until there are `most` events, or `bytes` of them, or no more.
    async fn fill(
        &mut self,
        connection: &mut PgConnection,
        name: &SlotName,
        most: usize,
        bytes: usize,
    ) -> Result<(), Error> {
        let mut is_at_the_end = false;
        let is_full = |decoded: &VecDeque<LoggedEvent>| {
            decoded.len() >= most || decoded.iter().map(LoggedEvent::bytes).sum::<usize>() >= bytes
        };
        while !is_full(&self.decoded) && self.malformed.is_none() {
            if self.window.is_none() {
                if is_at_the_end || !self.open(connection, name).await? {
                    break;
                }
                is_at_the_end = self.window.is_some_and(|window| window.is_last);
            }
            self.fetch(connection).await?;
        }
        Ok(())
    }

    /// Fills a cursor with what was committed since the last one, if the log has grown.
    async fn open(&mut self, connection: &mut PgConnection, name: &SlotName) -> Result<bool, Error> {
        let row = Statement::new(CLOCK).fetch_one::<Postgres>(&mut *connection).await;
        let clock = row.and_then(|row| Ok((row.text(0)?, row.int(1)?)));
        let (end, now_us) = clock.map_err(Error::database::<Postgres>)?;
        let end = Lsn::parse(&end).ok_or_else(|| Error::database::<Postgres>(sqlx::Error::Decode(end.into())))?;
        self.clock = (now_us, Instant::now());
        self.confirm_quiet(connection, name).await?;
        if end <= self.progress.scanned() || !self.pause.is_over() {
            return Ok(false);
        }
        let upto = end.min(Lsn(self.progress.scanned().0.saturating_add(WINDOW_BYTES)));
        let (upto_text, prefix, began) = (upto.to_string(), name.ended(), Instant::now());
        let declare = Statement::new(DECLARE).bind(name.as_str()).bind(&upto_text).bind(&prefix[..]);
        declare.execute::<Postgres>(connection).await.map_err(|error| slot::refused(error, name))?;
        self.window = Some(Window { upto, is_last: upto == end, took: began.elapsed(), found: false });
        Ok(true)
    }

    /// Fetches some rows of the cursor; at its end closes it.
    async fn fetch(&mut self, connection: &mut PgConnection) -> Result<(), Error> {
        let database = Error::database::<Postgres>;
        let Some(mut window) = self.window else { return Ok(()) };
        let (fetch, wanted) = if self.large_rows { (FETCH_FEW, 16) } else { (FETCH_MANY, 600) };
        let rows = Statement::new(fetch).fetch_all::<Postgres>(&mut *connection).await.map_err(database)?;
        let mut bytes = 0;
        for row in &rows {
            let data: &[u8] = row.value(0).map_err(database)?;
            bytes += data.len();
            self.take(data);
        }
        self.large_rows = bytes > rows.len() * LARGE_ROW_BYTES;
        window.found |= !self.decoded.is_empty();
        self.window = Some(window);
        if rows.len() < wanted && self.malformed.is_none() {
            Statement::new(CLOSE).execute::<Postgres>(connection).await.map_err(database)?;
            self.window = None;
            self.progress.scanned_to(window.upto);
            if window.is_last && !window.found {
                self.pause = Pause::after(window.took);
            }
        }
        Ok(())
    }

    /// Takes a row of the slot. Behind a message that is no event nothing counts as read.
    fn take(&mut self, data: &[u8]) {
        if self.malformed.is_some() {
            return;
        }
        match pgoutput::parse(data) {
            Some(Row::Begin { commit, committed_at_us }) => {
                self.progress.begin(commit);
                self.committed_at_us = committed_at_us;
            }
            Some(Row::Message { at, is_transactional, content }) => self.take_message(at, is_transactional, content),
            // The statement asks for these two only.
            None => self.malformed = Some((Lsn(0), "the server answered with something else".to_owned())),
        }
    }

    fn take_message(&mut self, at: Lsn, is_transactional: bool, content: &[u8]) {
        if self.skipped.contains(&at) {
            tracing::warn!(%at, "a message of the outbox is passed over, as was asked for");
            if is_transactional {
                self.progress.pass(at);
            }
            return;
        }
        if !is_transactional {
            self.malformed = Some((at, "it belongs to no transaction".to_owned()));
            return;
        }
        let Some(place) = self.progress.message(at) else { return };
        match content::decode(content) {
            Ok(content) => self.decoded.push_back(self.event(place, content)),
            Err(error) => self.malformed = Some((at, error.to_string())),
        }
    }

    fn event(&self, place: Place, content: Content) -> LoggedEvent {
        let (now_us, read_at) = self.clock;
        let since = i64::try_from(read_at.elapsed().as_micros()).unwrap_or(i64::MAX);
        LoggedEvent {
            shard: 0,
            id: place.id(),
            event_id: content.event_id,
            topic: content.topic,
            key: content.key,
            value: content.value,
            headers: content.headers,
            partition: content.partition,
            age_ms: now_us.saturating_add(since).saturating_sub(self.committed_at_us) / 1000,
            unreadable: None,
        }
    }

    /// Now and then, while there is nothing to publish: moves the slot behind the log that had no events, and looks how
    /// the slot is.
    async fn confirm_quiet(&mut self, connection: &mut PgConnection, name: &SlotName) -> Result<(), Error> {
        let unconfirmed = self.progress.safe().0.saturating_sub(self.progress.confirmed().0);
        if self.confirmed_at.elapsed() < QUIET_CONFIRM && unconfirmed < QUIET_BYTES {
            return Ok(());
        }
        self.confirmed_at = Instant::now();
        let state = State::read(&mut *connection, name).await?;
        state.check(name)?;
        if state.is_about_to_be_lost() {
            tracing::error!(
                slot = name.as_str(),
                "the replication slot is lost at the next checkpoint unless the relay catches up"
            );
        }
        // A relay that lost the slot learns it from its heartbeat.
        if unconfirmed > 0 && self.progress.is_settled() {
            self.confirm(connection, name).await?;
        }
        Ok(())
    }

    async fn confirm(&mut self, connection: &mut PgConnection, name: &SlotName) -> Result<bool, Error> {
        let database = Error::database::<Postgres>;
        let (safe, began) = (self.progress.safe(), Instant::now());
        let target = safe.to_string();
        let advance = Statement::new(ADVANCE).bind(name.as_str()).bind(&target).bind(self.owner.session);
        let row = advance.fetch_one::<Postgres>(connection).await.map_err(|error| slot::refused(error, name))?;
        self.moved_in = began.elapsed();
        self.move_pause = Pause::after(self.moved_in);
        let (held, exists): (bool, bool) = (row.value(0).map_err(database)?, row.value(1).map_err(database)?);
        if !exists {
            return Err(WalError::Missing { slot: name.as_str().to_owned() }.into());
        }
        if held {
            self.progress.confirm(safe);
            self.confirmed_at = Instant::now();
        }
        Ok(held)
    }
}
