//! Buyers at the same time, and what came of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::BoxError;

/// What every way has to cope with.
#[derive(Debug)]
pub(crate) struct Race {
    pub(crate) stock: i64,
    pub(crate) attempts: i64,
    pub(crate) clients: u32,
}

/// What one attempt came to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bought {
    pub(crate) is_sold: bool,
    /// How often somebody else came between, and it had to be tried again.
    pub(crate) conflicts: i64,
}

/// What a way came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) way: &'static str,
    pub(crate) is_wrong_by_design: bool,
    pub(crate) sold: i64,
    pub(crate) refused: i64,
    pub(crate) conflicts: i64,
    pub(crate) left: i64,
    /// Units that were sold beyond what the stock went down by.
    pub(crate) oversold: i64,
    pub(crate) took: Duration,
}

/// One way to buy a unit.
pub(crate) trait Way: Send + Sync + 'static {
    fn buy(&self) -> impl Future<Output = Result<Bought, BoxError>> + Send;
}

impl Race {
    /// Lets the buyers go; each begins its next attempt when its last has ended.
    pub(crate) async fn run<W: Way>(&self, name: &'static str, way: W) -> Result<Ran, BoxError> {
        let (way, next) = (Arc::new(way), Arc::new(AtomicI64::new(0)));
        let begun = Instant::now();
        let mut buyers = JoinSet::new();
        for _ in 0..self.clients {
            let (way, next, attempts) = (Arc::clone(&way), Arc::clone(&next), self.attempts);
            buyers.spawn(async move {
                let mut all = (0, 0, 0);
                while next.fetch_add(1, Relaxed) < attempts {
                    let bought = way.buy().await?;
                    all = (
                        all.0 + i64::from(bought.is_sold),
                        all.1 + i64::from(!bought.is_sold),
                        all.2 + bought.conflicts,
                    );
                }
                Ok::<_, BoxError>(all)
            });
        }
        let (mut sold, mut refused, mut conflicts) = (0, 0, 0);
        while let Some(buyer) = buyers.join_next().await {
            let all = buyer??;
            (sold, refused, conflicts) = (sold + all.0, refused + all.1, conflicts + all.2);
        }
        let took = begun.elapsed();
        Ok(Ran { way: name, is_wrong_by_design: false, sold, refused, conflicts, left: 0, oversold: 0, took })
    }
}

impl Ran {
    /// Compares what buyers were told with what is left.
    pub(crate) const fn counted(mut self, race: &Race, left: i64) -> Self {
        self.left = left;
        self.oversold = self.sold - (race.stock - left);
        self
    }

    pub(crate) fn per_second(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "attempts are far below 2^53")]
        let attempts = (self.sold + self.refused) as f64;
        attempts / self.took.as_secs_f64()
    }

    /// Whether exactly what was there was sold, as far as it was asked for.
    pub(crate) fn is_exact(&self, race: &Race) -> bool {
        self.oversold == 0 && self.left >= 0 && self.sold == race.stock.min(race.attempts)
    }
}
