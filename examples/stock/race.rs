//! Buyers at the same time, and what came of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What every way has to cope with.
#[derive(Debug)]
pub(crate) struct Race {
    pub(crate) stock: i64,
    /// Attempts to buy one unit, over all buyers.
    pub(crate) attempts: i64,
    pub(crate) clients: u32,
}

/// What one attempt came to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bought {
    pub(crate) is_sold: bool,
    /// How often somebody else came between, and it had to be tried again.
    pub(crate) conflicts: i64,
}

/// What a way came to.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    pub(crate) way: &'static str,
    pub(crate) is_wrong_by_design: bool,
    pub(crate) sold: i64,
    pub(crate) refused: i64,
    pub(crate) conflicts: i64,
    pub(crate) left: i64,
    /// Units that were sold without the stock going down.
    pub(crate) oversold: i64,
    pub(crate) took: Duration,
}

/// One way to buy a unit.
pub(crate) trait Way: Send + Sync + 'static {
    const NAME: &'static str;
    /// Whether it is there to be seen failing.
    const IS_WRONG_BY_DESIGN: bool;

    fn buy(&self) -> impl Future<Output = Result<Bought, BoxError>> + Send;
}

/// What the buyers were told, added up.
#[derive(Debug, Default)]
struct Told {
    sold: AtomicI64,
    refused: AtomicI64,
    conflicts: AtomicI64,
}

impl Race {
    /// Lets the buyers go, all at the same moment; each begins its next attempt when its last has ended. `count` answers
    /// what is left in the end.
    pub(crate) async fn run<W: Way>(
        &self,
        way: W,
        count: impl Future<Output = Result<i64, BoxError>>,
    ) -> Result<Ran, BoxError> {
        let progress = self.progress(W::NAME);
        let (way, next, told) = (Arc::new(way), Arc::new(AtomicI64::new(0)), Arc::new(Told::default()));
        let start = Arc::new(Barrier::new(self.clients as usize + 1));
        let mut buyers = JoinSet::new();
        for _ in 0..self.clients {
            let (way, next, told) = (Arc::clone(&way), Arc::clone(&next), Arc::clone(&told));
            let (start, attempts, progress) = (Arc::clone(&start), self.attempts, progress.clone());
            buyers.spawn(async move {
                start.wait().await;
                while next.fetch_add(1, Relaxed) < attempts {
                    told.add(way.buy().await?);
                    progress.inc(1);
                }
                Ok::<_, BoxError>(())
            });
        }
        start.wait().await;
        let begun = Instant::now();
        while let Some(buyer) = buyers.join_next().await {
            buyer??;
        }
        let took = begun.elapsed();
        progress.finish_and_clear();
        Ok(told.counted::<W>(self, count.await?, took))
    }

    /// Hidden where stderr is not a terminal.
    fn progress(&self, way: &'static str) -> ProgressBar {
        let style = ProgressStyle::with_template("{msg:>24} {wide_bar} {pos:>7}/{len:7}");
        let bar = ProgressBar::new(self.attempts.unsigned_abs()).with_message(way);
        bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }
}

impl Told {
    fn add(&self, bought: Bought) {
        let sum = if bought.is_sold { &self.sold } else { &self.refused };
        sum.fetch_add(1, Relaxed);
        self.conflicts.fetch_add(bought.conflicts, Relaxed);
    }

    /// Compares what buyers were told with what is left.
    fn counted<W: Way>(&self, race: &Race, left: i64, took: Duration) -> Ran {
        let sold = self.sold.load(Relaxed);
        Ran {
            way: W::NAME,
            is_wrong_by_design: W::IS_WRONG_BY_DESIGN,
            sold,
            refused: self.refused.load(Relaxed),
            conflicts: self.conflicts.load(Relaxed),
            left,
            oversold: sold - (race.stock - left),
            took,
        }
    }
}

impl Ran {
    pub(crate) fn per_second(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "attempts are far below 2^53")]
        let attempts = (self.sold + self.refused) as f64;
        attempts / self.took.as_secs_f64()
    }

    /// Whether exactly what was there was sold, as far as it was asked for, and everybody else was refused.
    pub(crate) fn is_exact(&self, race: &Race) -> bool {
        let to_sell = race.stock.min(race.attempts);
        self.sold == to_sell
            && self.refused == race.attempts - to_sell
            && self.left == race.stock - to_sell
            && self.oversold == 0
    }
}
