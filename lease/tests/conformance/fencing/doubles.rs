//! Guards that make the classic mistakes.

use leastlock_core::Statement;
use leastlock_lease::{Error, Fence, LeaseSql, Permit};
use leastlock_testkit::database::sql;
use sqlx::{Pool, Transaction};

/// What stands between a late writer and the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    Right,
    /// None: the row is unprotected.
    Absent,
    /// Compares before the transaction, not in it.
    BesideTheTransaction,
    /// Compares the number only.
    NumberOnly,
    /// Reads the guard row without locking it.
    #[cfg(feature = "postgres")]
    WithoutLock,
    /// Compares and locks, and does not ask wherein.
    #[cfg(feature = "postgres")]
    LockOnly,
}

impl Guard {
    pub(crate) async fn passes<DB: LeaseSql>(
        self,
        fence: &Fence,
        pool: &Pool<DB>,
        tx: &mut Transaction<'_, DB>,
        permit: &Permit,
    ) -> bool {
        let compare = Statement::new(sql::<DB>(
            "SELECT 1 FROM leastlock_fence WHERE generation = $1",
            "SELECT 1 FROM leastlock_fence WHERE generation = ?",
        ))
        .bind(permit.token().value());
        match self {
            Self::Right => match fence.check(tx, permit).await {
                Ok(()) => true,
                Err(Error::Refused { .. }) => false,
                // A deadlock with another writer, most likely: it is not let through.
                Err(error) if error.is_retryable() => {
                    eprintln!("{error}");
                    false
                }
                Err(error) => panic!("{error:?}"),
            },
            Self::Absent => true,
            Self::BesideTheTransaction => {
                compare.fetch_optional::<DB>(&mut pool.acquire().await.unwrap()).await.unwrap().is_some()
            }
            Self::NumberOnly => compare.fetch_optional::<DB>(tx).await.unwrap().is_some(),
            #[cfg(feature = "postgres")]
            Self::WithoutLock => compare.fetch_optional::<DB>(tx).await.unwrap().is_some(),
            #[cfg(feature = "postgres")]
            Self::LockOnly => {
                let lock = Statement::new("SELECT 1 FROM leastlock_fence WHERE generation = $1 FOR SHARE");
                lock.bind(permit.token().value()).fetch_optional::<DB>(tx).await.unwrap().is_some()
            }
        }
    }
}
