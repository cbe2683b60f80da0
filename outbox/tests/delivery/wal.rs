//! The same guarantees where the log is the server's own, and no table: what the other suites ask of the tables is
//! asked of the slot here, with doubles of its own.

use std::sync::LazyLock;
use std::time::Duration;

use leastlock_outbox::{Batch, Event, LoggedEvent, Refusal, Sink, WalOutbox};
use leastlock_testkit::TestDatabase;
use sqlx::{PgPool, Postgres, Transaction};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::readers::{LEASE, PATIENCE, Reading, Values};

mod clusters;
mod content;
mod doubles;
mod lost_answers;
mod order;
mod owners;
mod random;
mod slots;
mod suite;

leastlock_testkit::mount!(
    suite on postgres: b1_message_that_commits_later_is_delivered,
    b2_open_writer_elsewhere_stalls_nothing,
    b3_events_leave_in_commit_order_whatever_their_place_in_the_log,
    b1_b2_b3_hold_under_random_transactions,
    b13_rolled_back_events_never_leave,
    b14_event_of_a_transaction_that_a_trigger_holds_up_is_delivered_when_it_commits,
    b15_slot_is_moved_by_the_acknowledged_prefix_only,
    one_huge_transaction_is_paged,
    events_from_rust_and_from_plain_sql_are_the_same,
    event_of_plain_sql_without_an_id_is_not_lost,
    plain_sql_refuses_what_the_relay_cannot_read,
    events_that_would_be_lost_are_refused,
    crashed_relay_is_followed_by_another_at_once,
    b4_stopped_relay_is_followed_within_its_lease_and_only_repeats,
    session_left_over_from_another_relay_is_ended,
    relay_that_lost_its_lock_moves_no_slot,
    position_that_was_passed_is_no_error,
    quiet_log_does_not_pile_up,
    slot_that_cannot_be_read_stops_the_relay,
    message_that_is_no_event_stops_the_relay_behind_what_came_before,
    lag_says_how_far_behind_and_in_which_danger,
    setup_and_teardown_can_be_repeated,
    refused_event_stops_the_relay_before_it,
    lost_answers_stall_no_event,
    database_that_is_silent_for_a_while_is_waited_for,
    shutdown_is_served_while_the_database_is_silent,
    pool_of_one_connection_is_refused_and_of_two_is_enough,
    slot_that_the_server_cut_off_stops_the_relay_and_the_producers,
    server_crash_loses_and_turns_round_nothing,
    prepared_transaction_leaves_when_it_is_committed,
    server_that_does_not_decode_is_named,
);

/// A server has ten slots by default, and others use it too.
static SLOTS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(3));

/// A database with an outbox in the log, called like the database. Its slot ends with it.
pub(crate) struct Shop {
    pub(crate) database: TestDatabase<Postgres>,
    pub(crate) outbox: WalOutbox,
    pub(crate) name: String,
    _slot: SemaphorePermit<'static>,
}

impl Shop {
    pub(crate) async fn open(database: TestDatabase<Postgres>) -> Self {
        let slot = SLOTS.acquire().await.expect("it is never closed");
        let name = sqlx::query_scalar("SELECT current_database()::text").fetch_one(&database.pool).await;
        let name: String = name.expect("it has a name");
        let outbox = WalOutbox::new(&name).expect("a database of a test has such a name");
        outbox.setup(&database.pool).await.expect("there is a slot left");
        Self { database, outbox, name, _slot: slot }
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.database.pool
    }

    pub(crate) async fn append(&self, tx: &mut Transaction<'_, Postgres>, key: &str, value: &str) {
        self.outbox.append(tx, Event::new("moves", key).bytes(value)).await.expect("it appends");
    }

    pub(crate) async fn commit(&self, key: &str, value: &str) {
        let mut tx = self.pool().begin().await.expect("a transaction");
        self.append(&mut tx, key, value).await;
        tx.commit().await.expect("it commits");
    }

    pub(crate) fn product(&self) -> Reading {
        self.reading(self.pool(), 200)
    }

    pub(crate) fn reading(&self, pool: &PgPool, page: u32) -> Reading {
        Reading::start(|values| {
            let relay = self.outbox.relay(pool, Recorder(values)).lease(LEASE).page(page);
            let relay = relay.build().expect("valid settings");
            async move {
                relay.run(CancellationToken::new()).await.expect("the relay runs");
            }
        })
    }

    /// Whether the slot comes to stand at or behind where the log is now.
    pub(crate) async fn catches_up(&self) -> bool {
        let now = sqlx::query_scalar("SELECT pg_current_wal_lsn()::text").fetch_one(self.pool()).await;
        let now: String = now.expect("the log has an end");
        self.comes_to(&format!("confirmed_flush_lsn >= '{now}'")).await
    }

    /// Whether the slot comes to be so.
    pub(crate) async fn comes_to(&self, condition: &str) -> bool {
        let sql = format!("SELECT {condition} FROM pg_replication_slots WHERE slot_name = $1");
        let holds = async || -> bool {
            let query = sqlx::query_scalar(sqlx::AssertSqlSafe(sql.clone())).bind(&self.name);
            query.fetch_one(self.pool()).await.expect("the slot is there")
        };
        let waiting = async {
            while !holds().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.is_ok()
    }
}

/// Keeps the values of the events.
pub(crate) struct Recorder(pub(crate) Values);

impl Sink for Recorder {
    async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
        Vec::new()
    }

    async fn send(&self, batch: Batch) {
        self.0.lock().expect("no panic").extend(batch.events().iter().map(value_of));
        batch.published();
    }

    fn abandon(&self) {}
}

pub(crate) fn value_of(event: &LoggedEvent) -> String {
    String::from_utf8(event.value.clone().expect("a value")).expect("text")
}
