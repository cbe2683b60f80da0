//! The classic mistakes. Each is caught by the case that names it.

use std::sync::{Arc, Mutex};

use leastlock_core::Dialect;
use leastlock_occ::combiner::CombinerSql;
use sqlx::{Pool, Transaction};
use tokio::sync::oneshot;

use super::append::{Gate, Place, append};
use super::suite::{Batches, Submits, Told};

/// O13: one transaction for all, and one error for all.
pub(crate) struct FailsTogether;

impl<DB: CombinerSql> Batches<DB> for FailsTogether {
    async fn answers(pool: &Pool<DB>, operations: Vec<i64>) -> Vec<Told> {
        let gate = Gate::closed();
        let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
        let mut answers = Vec::new();
        for &amount in &operations {
            match append::<DB>(&mut tx, amount, &gate).await {
                Ok(place) => answers.push(Told::Answer(place)),
                Err(_) => return operations.iter().map(|_| Told::Failed).collect(),
            }
        }
        tx.commit().await.expect("the commit");
        answers
    }
}

/// O13: tries the others again, but those before the failure after those behind it.
pub(crate) struct ForgetsTheOrder;

impl<DB: CombinerSql> Batches<DB> for ForgetsTheOrder {
    async fn answers(pool: &Pool<DB>, operations: Vec<i64>) -> Vec<Told> {
        let gate = Gate::closed();
        let mut answers: Vec<_> = operations.iter().map(|_| Told::Failed).collect();
        for (index, amount) in operations.into_iter().enumerate().rev() {
            let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
            if let Ok(place) = append::<DB>(&mut tx, amount, &gate).await {
                tx.commit().await.expect("the commit");
                answers[index] = Told::Answer(place);
            }
        }
        answers
    }
}

type Waiting = (i64, oneshot::Sender<Place>);

/// O14: whoever comes first applies everybody's operations in its own future.
pub(crate) struct FirstCallerCommits<DB: Dialect> {
    pool: Pool<DB>,
    gate: Gate,
    queue: Arc<Mutex<(bool, Vec<Waiting>)>>,
}

impl<DB: CombinerSql> Submits<DB> for FirstCallerCommits<DB> {
    fn open(pool: &Pool<DB>, gate: &Gate) -> Self {
        Self { pool: pool.clone(), gate: gate.clone(), queue: Arc::default() }
    }

    fn queue(&self, amount: i64) -> impl Future<Output = Option<Place>> + Send + 'static {
        let (sender, mut answer) = oneshot::channel();
        let is_first = {
            let mut queue = self.queue.lock().expect("no panic");
            queue.1.push((amount, sender));
            !std::mem::replace(&mut queue.0, true)
        };
        let (pool, gate, queue) = (self.pool.clone(), self.gate.clone(), Arc::clone(&self.queue));
        async move {
            if is_first {
                loop {
                    let batch = {
                        let mut queue = queue.lock().expect("no panic");
                        queue.0 = !queue.1.is_empty();
                        std::mem::take(&mut queue.1)
                    };
                    if batch.is_empty() {
                        break;
                    }
                    let mut tx: Transaction<'_, DB> = pool.begin_with(DB::BEGIN_WRITE).await.ok()?;
                    let mut places = Vec::new();
                    for (amount, sender) in batch {
                        places.push((append::<DB>(&mut tx, amount, &gate).await.ok()?, sender));
                    }
                    tx.commit().await.ok()?;
                    for (place, sender) in places {
                        let _ = sender.send(place);
                    }
                }
            }
            (&mut answer).await.ok()
        }
    }
}
