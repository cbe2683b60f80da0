//! The contest of the transactional mode: a key around a conditional UPDATE, for the first time and again.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use fastrand::Rng;
use leastlock_idempotency::{Begin, Fingerprint, Key, Keys, Scope};
use sqlx::Pool;

use super::order::{Order, Placed, Receipt};
use super::site::Site;
use super::{KeyEngine, by_hand};
use crate::contest::{Claims, Contest, Done, Entrant, Round, Seat, Supply};
use crate::cpu::Cpu;
use crate::load::Load;
use crate::statistics::Quotient;

/// What is done, in the report.
pub(super) const MEASURE: &str = "request";

/// How many answers of each way there are to replay.
const STORED_ANSWERS: usize = 1000;

/// How a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The effect alone.
    Bare,
    ByHand,
    Leastlock,
    /// The answer of a request that came before.
    ByHandAgain,
    LeastlockAgain,
}

impl Way {
    pub(super) const ALL: [Self; 5] =
        [Self::Bare, Self::ByHand, Self::Leastlock, Self::ByHandAgain, Self::LeastlockAgain];

    /// Its name in the report.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare transaction",
            Self::ByHand => "first, by hand",
            Self::Leastlock => "first, leastlock",
            Self::ByHandAgain => "replay, by hand",
            Self::LeastlockAgain => "replay, leastlock",
        }
    }

    const fn base(self) -> Option<Self> {
        match self {
            Self::Bare | Self::ByHandAgain => None,
            Self::ByHand => Some(Self::Bare),
            Self::Leastlock => Some(Self::ByHand),
            Self::LeastlockAgain => Some(Self::ByHandAgain),
        }
    }

    const fn is_repeat(self) -> bool {
        matches!(self, Self::ByHandAgain | Self::LeastlockAgain)
    }
}

/// The service that answers requests, in each way.
#[derive(Debug)]
pub(super) struct Shop<DB: KeyEngine> {
    pub(super) pool: Pool<DB>,
    keys: Keys,
}

impl<DB: KeyEngine> Shop<DB> {
    pub(super) fn new(pool: Pool<DB>) -> Self {
        Self { pool, keys: Keys::default() }
    }

    pub(super) async fn place(&self, way: Way, order: &Order) -> anyhow::Result<Placed> {
        match way {
            Way::Bare => by_hand::bare(&self.pool, order).await.map(Placed::First),
            Way::ByHand | Way::ByHandAgain => by_hand::place(&self.pool, order).await,
            Way::Leastlock | Way::LeastlockAgain => self.place_with_leastlock(order).await,
        }
    }

    async fn place_with_leastlock(&self, order: &Order) -> anyhow::Result<Placed> {
        let key = Key::new(&Scope::new("tenant-7", "user-3", "place-orders-keys")?, &order.key)?;
        let fingerprint = Fingerprint::request("POST", "/orders", "").json(&order.body()?);
        match self.keys.begin(&self.pool, &key, &fingerprint).await? {
            Begin::First(mut unit) => {
                let receipt = by_hand::effect::<DB>(&mut *unit.tx(), order).await?;
                Ok(Placed::First(unit.complete(receipt).await?))
            }
            Begin::Replay(receipt) => Ok(Placed::Replay(receipt)),
            Begin::Mismatch => bail!("the key was used for another request"),
            Begin::InFlight { .. } => bail!("the first is still running"),
        }
    }
}

/// Requests, first and repeated.
#[derive(Debug)]
pub(super) struct Requests<DB: KeyEngine> {
    site: Site<DB>,
    answered_by_leastlock: Vec<(Order, Receipt)>,
    answered_by_hand: Vec<(Order, Receipt)>,
}

impl<DB: KeyEngine> Requests<DB> {
    pub(super) async fn new(site: Site<DB>, seed: u64) -> anyhow::Result<Self> {
        site.reopen().await?;
        let shop = Shop::new(site.pool(1).await?);
        let answered_by_leastlock = first_answers(&shop, Way::Leastlock, Rng::with_seed(seed)).await?;
        let answered_by_hand = first_answers(&shop, Way::ByHand, Rng::with_seed(!seed)).await?;
        shop.pool.close().await;
        site.keep_answers().await;
        Ok(Self { site, answered_by_leastlock, answered_by_hand })
    }
}

async fn first_answers<DB: KeyEngine>(
    shop: &Shop<DB>,
    way: Way,
    mut rng: Rng,
) -> anyhow::Result<Vec<(Order, Receipt)>> {
    let mut answers = Vec::with_capacity(STORED_ANSWERS);
    for _ in 0..STORED_ANSWERS {
        let order = Order::random(&mut rng);
        let Placed::First(receipt) = shop.place(way, &order).await? else { bail!("a key was not free") };
        answers.push((order, receipt));
    }
    Ok(answers)
}

impl<DB: KeyEngine> Contest for Requests<DB> {
    type Contender = Way;
    type Arena = Shop<DB>;
    type Client = Rng;

    fn measure(&self) -> &'static str {
        MEASURE
    }

    fn entrants(&self) -> Vec<Entrant<Way>> {
        let entrant = |way: Way| {
            let quotient = way.base().map(|base| Quotient { of: way.name(), by: base.name() });
            Entrant { name: way.name(), contender: way, quotient, retries: false, is_wrong_on_purpose: false }
        };
        Way::ALL.map(entrant).into()
    }

    fn can_run_out(&self) -> bool {
        false
    }

    async fn open(&self, clients: u32) -> anyhow::Result<Shop<DB>> {
        Ok(Shop::new(self.site.pool(clients).await?))
    }

    fn connections(&self, arena: &Shop<DB>) -> u32 {
        arena.pool.size()
    }

    async fn close(&self, arena: Arc<Shop<DB>>) -> anyhow::Result<()> {
        arena.pool.close().await;
        Ok(())
    }

    async fn prepare(&self, contender: Way, _supply: Supply) -> anyhow::Result<()> {
        self.site.reopen().await?;
        if contender.is_repeat() {
            self.site.restore_answers().await;
        }
        Ok(())
    }

    fn client(&self, _contender: Way, seat: Seat) -> Rng {
        seat.rng
    }

    async fn call(&self, arena: &Shop<DB>, contender: Way, rng: &mut Rng) -> anyhow::Result<Done> {
        let answers = match contender {
            Way::LeastlockAgain => &self.answered_by_leastlock,
            Way::ByHandAgain => &self.answered_by_hand,
            _ => {
                return match arena.place(contender, &Order::random(rng)).await? {
                    Placed::First(_) => Ok(Done::at_once(true)),
                    Placed::Replay(receipt) => bail!("a request that never came before was answered with {receipt:?}"),
                };
            }
        };
        let (order, expected) = &answers[rng.usize(..answers.len())];
        match arena.place(contender, order).await? {
            Placed::Replay(receipt) if receipt == *expected => Ok(Done::at_once(false)),
            other => bail!("the first answer was {expected:?}, the repeat got {other:?}"),
        }
    }

    async fn run(&self, load: &Load<'_, Self>, time: Duration, cpu: Cpu) -> anyhow::Result<(Round, Claims)> {
        load.run_for(time, cpu).await
    }

    /// Each order is of one unit, so there are as many effects as units gone.
    async fn verify(&self, contender: Way, _supply: Supply, claims: Claims) -> anyhow::Result<u64> {
        let effects = claims.effects;
        ensure!(effects == 0 || !contender.is_repeat(), "{effects} repeats had an effect");
        let records = match contender {
            Way::Bare => 0,
            Way::ByHand | Way::Leastlock => effects,
            Way::ByHandAgain | Way::LeastlockAgain => {
                (self.answered_by_leastlock.len() + self.answered_by_hand.len()) as u64
            }
        };
        self.site.holds(effects..=effects, records..=records).await?;
        Ok(0)
    }
}

#[cfg(test)]
mod tests;
