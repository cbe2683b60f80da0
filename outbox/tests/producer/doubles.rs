//! Ways to append and to mark: the product's, and those that the suite must catch.

use leastlock_core::Statement;
use leastlock_outbox::{Arrival, ConsumerName, EventId, Inbox, InboxSql};
use leastlock_testkit::database::sql;
use sqlx::{Pool, Transaction};

/// Marks an event and says whether it is new: with a step before the handler's transaction, and one inside.
pub(crate) trait Marks: Copy + Send + Sync + 'static {
    fn before<DB: InboxSql>(
        &self,
        pool: &Pool<DB>,
        consumer: &ConsumerName,
        event_id: EventId,
    ) -> impl Future<Output = Option<Arrival>> + Send;

    fn inside<DB: InboxSql>(
        &self,
        tx: &mut Transaction<'_, DB>,
        consumer: &ConsumerName,
        event_id: EventId,
        told_before: Option<Arrival>,
    ) -> impl Future<Output = Arrival> + Send;
}

/// The product.
#[derive(Clone, Copy)]
pub(crate) struct Product;

impl Marks for Product {
    async fn before<DB: InboxSql>(&self, _: &Pool<DB>, _: &ConsumerName, _: EventId) -> Option<Arrival> {
        None
    }

    async fn inside<DB: InboxSql>(
        &self,
        tx: &mut Transaction<'_, DB>,
        consumer: &ConsumerName,
        event_id: EventId,
        _: Option<Arrival>,
    ) -> Arrival {
        Inbox::default().first_time(tx, consumer, event_id).await.expect("an answer")
    }
}

/// The double: marks in a transaction of its own, which stays when the handler fails.
#[derive(Clone, Copy)]
pub(crate) struct Beside;

impl Marks for Beside {
    async fn before<DB: InboxSql>(
        &self,
        pool: &Pool<DB>,
        consumer: &ConsumerName,
        event_id: EventId,
    ) -> Option<Arrival> {
        let mut tx = leastlock_core::begin(pool).await.expect("a transaction");
        let arrival = Inbox::default().first_time(&mut tx, consumer, event_id).await.expect("an answer");
        tx.commit().await.expect("the commit");
        Some(arrival)
    }

    async fn inside<DB: InboxSql>(
        &self,
        _: &mut Transaction<'_, DB>,
        _: &ConsumerName,
        _: EventId,
        told_before: Option<Arrival>,
    ) -> Arrival {
        told_before.expect("it was asked before")
    }
}

/// The double: looks whether the event is there, and then marks it without looking at what became of that.
#[derive(Clone, Copy)]
pub(crate) struct LooksFirst;

impl Marks for LooksFirst {
    async fn before<DB: InboxSql>(&self, _: &Pool<DB>, _: &ConsumerName, _: EventId) -> Option<Arrival> {
        None
    }

    async fn inside<DB: InboxSql>(
        &self,
        tx: &mut Transaction<'_, DB>,
        consumer: &ConsumerName,
        event_id: EventId,
        _: Option<Arrival>,
    ) -> Arrival {
        let look = Statement::new(sql::<DB>(
            "SELECT count(*) FROM leastlock_inbox WHERE CAST(event_id AS text) = $1",
            "SELECT count(*) FROM leastlock_inbox WHERE event_id = UNHEX(REPLACE(?, '-', ''))",
        ));
        let found = look.bind(&event_id.to_string()).fetch_one::<DB>(tx).await.expect("a count");
        let _ = Inbox::default().first_time(tx, consumer, event_id).await.expect("an answer");
        if found.int(0).expect("a count") == 0 { Arrival::FirstTime } else { Arrival::Repeat }
    }
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod locks {
    use leastlock_outbox::{Error, Event, Outbox, OutboxSql};
    use sqlx::Transaction;

    /// A way to append that locks keys, or does not.
    pub(crate) trait Locking: Copy + Send + Sync + 'static {
        fn of(&self, outbox: Outbox) -> Outbox;

        fn append<DB: OutboxSql>(
            &self,
            outbox: &Outbox,
            tx: &mut Transaction<'_, DB>,
            events: &[Event],
        ) -> impl Future<Output = Result<(), Error>> + Send {
            outbox.append_all(tx, events)
        }
    }

    /// The product in strict mode.
    #[derive(Clone, Copy)]
    pub(crate) struct Strict;

    impl Locking for Strict {
        fn of(&self, outbox: Outbox) -> Outbox {
            outbox.strict()
        }
    }

    /// The double: no lock.
    #[derive(Clone, Copy)]
    pub(crate) struct NoLock;

    impl Locking for NoLock {
        fn of(&self, outbox: Outbox) -> Outbox {
            outbox
        }
    }

    /// The double: locks keys in the order in which they come.
    #[derive(Clone, Copy)]
    pub(crate) struct AsTheyCome;

    impl Locking for AsTheyCome {
        fn of(&self, outbox: Outbox) -> Outbox {
            outbox.strict()
        }

        async fn append<DB: OutboxSql>(
            &self,
            outbox: &Outbox,
            tx: &mut Transaction<'_, DB>,
            events: &[Event],
        ) -> Result<(), Error> {
            for event in events {
                outbox.append(tx, event.clone()).await?;
            }
            Ok(())
        }
    }
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) use locks::{AsTheyCome, Locking, NoLock, Strict};
