//! The contests: requests that come for the first time, and requests that were answered before.

use std::sync::Arc;

use anyhow::bail;
use fastrand::Rng;

use super::{KeyEngine, Order, Placed, Receipt, Shop, Site, Way};
use crate::contest::{Claims, Contest, Done, Entrant, Seat, Supply};
use crate::statistics::Quotient;

/// How many answers there are to replay.
const STORED_ANSWERS: usize = 1000;

/// Requests that come for the first time.
#[derive(Debug)]
pub(super) struct First<DB: KeyEngine>(pub(super) Site<DB>);

impl<DB: KeyEngine> Contest for First<DB> {
    type Contender = Way;
    type Arena = Shop<DB>;
    type Client = Rng;

    fn measure(&self) -> &'static str {
        "first request"
    }

    fn entrants(&self) -> Vec<Entrant<Way>> {
        entrants([("leastlock", Way::Leastlock), ("by hand", Way::ByHand), ("effect alone", Way::Bare)])
    }

    fn can_run_out(&self) -> bool {
        false
    }

    async fn open(&self, clients: u32) -> anyhow::Result<Shop<DB>> {
        self.0.open(clients).await
    }

    fn connections(&self, arena: &Shop<DB>) -> u32 {
        arena.pool.size()
    }

    async fn close(&self, arena: Arc<Shop<DB>>) -> anyhow::Result<()> {
        arena.pool.close().await;
        Ok(())
    }

    async fn prepare(&self, _contender: Way, _supply: Supply) -> anyhow::Result<()> {
        self.0.empty().await;
        Ok(())
    }

    fn client(&self, _contender: Way, seat: Seat) -> Rng {
        seat.rng
    }

    async fn call(&self, arena: &Shop<DB>, contender: Way, rng: &mut Rng) -> anyhow::Result<Done> {
        match arena.place(contender, &Order::random(rng)).await? {
            Placed::First(_) => Ok(Done::at_once(true)),
            Placed::Replay(receipt) => bail!("a request that was never sent before was answered with {receipt:?}"),
        }
    }

    async fn verify(&self, contender: Way, _supply: Supply, claims: Claims) -> anyhow::Result<u64> {
        let records = if matches!(contender, Way::Bare) { 0 } else { claims.effects };
        self.0.holds(claims.effects, records).await?;
        Ok(0)
    }
}

/// Requests that were answered before.
#[derive(Debug)]
pub(super) struct Replay<DB: KeyEngine> {
    site: Site<DB>,
    by_leastlock: Vec<(Order, Receipt)>,
    by_hand: Vec<(Order, Receipt)>,
}

impl<DB: KeyEngine> Replay<DB> {
    pub(super) async fn new(site: Site<DB>, seed: u64) -> anyhow::Result<Self> {
        site.empty().await;
        let shop = site.open(1).await?;
        let by_leastlock = first_answers(&shop, Way::Leastlock, Rng::with_seed(seed)).await?;
        let by_hand = first_answers(&shop, Way::ByHand, Rng::with_seed(!seed)).await?;
        shop.pool.close().await;
        Ok(Self { site, by_leastlock, by_hand })
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

impl<DB: KeyEngine> Contest for Replay<DB> {
    type Contender = Way;
    type Arena = Shop<DB>;
    type Client = Rng;

    fn measure(&self) -> &'static str {
        "replay"
    }

    fn entrants(&self) -> Vec<Entrant<Way>> {
        entrants([("leastlock", Way::Leastlock), ("by hand", Way::ByHand), ("SELECT alone", Way::LookUp)])
    }

    fn can_run_out(&self) -> bool {
        false
    }

    async fn open(&self, clients: u32) -> anyhow::Result<Shop<DB>> {
        self.site.open(clients).await
    }

    fn connections(&self, arena: &Shop<DB>) -> u32 {
        arena.pool.size()
    }

    async fn close(&self, arena: Arc<Shop<DB>>) -> anyhow::Result<()> {
        arena.pool.close().await;
        Ok(())
    }

    /// Replays change nothing, so the answers stay as they are.
    async fn prepare(&self, _contender: Way, _supply: Supply) -> anyhow::Result<()> {
        Ok(())
    }

    fn client(&self, _contender: Way, seat: Seat) -> Rng {
        seat.rng
    }

    async fn call(&self, arena: &Shop<DB>, contender: Way, rng: &mut Rng) -> anyhow::Result<Done> {
        let answers = if matches!(contender, Way::Leastlock) { &self.by_leastlock } else { &self.by_hand };
        let (order, expected) = &answers[rng.usize(..answers.len())];
        match arena.place(contender, order).await? {
            Placed::Replay(receipt) if receipt == *expected => Ok(Done::at_once(false)),
            other => bail!("the first answer was {expected:?}, the repeat got {other:?}"),
        }
    }

    async fn verify(&self, _contender: Way, _supply: Supply, claims: Claims) -> anyhow::Result<u64> {
        let stored = (self.by_leastlock.len() + self.by_hand.len()) as u64;
        self.site.holds(stored + claims.effects, stored).await?;
        Ok(0)
    }
}

/// The product first: its throughput is divided by that of each other.
fn entrants(ways: [(&'static str, Way); 3]) -> Vec<Entrant<Way>> {
    let product = ways[0].0;
    let entrant = |(name, contender)| {
        let quotient = (name != product).then_some(Quotient { of: product, by: name });
        Entrant { name, contender, quotient, retries: false, is_wrong_on_purpose: false }
    };
    ways.map(entrant).into()
}
