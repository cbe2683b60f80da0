//! The contest of the HTTP layer: a bare axum handler against the same one behind an `IdempotencyLayer`, over sockets that are
//! kept alive.
//!
//! The load comes from wrk, another process, so that the clients' work is not the server's. What is needed it tells by
//! itself: requests, p50 and p99 through its `done` hook, and that no status was above 399. Statuses one by one would need
//! its `response` hook, which copies every header and body into Lua: whether an answer was a first or a replay is found in
//! the database instead. There is no second generator: without wrk this part is left out, and the report says so.

mod handlers;
mod server;
mod wrk;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use fastrand::Rng;
use leastlock_idempotency::http::IDEMPOTENCY_REPLAYED;
use tower_service::Service;

use self::handlers::Stack;
use self::server::Server;
use self::wrk::Sequence;
pub(super) use self::wrk::{MISSING, Wrk, whole_seconds};
use super::KeyEngine;
use super::order::Order;
use super::site::Site;
use crate::contest::{Claims, Contest, Done, Entrant, Round, Seat, Supply};
use crate::cpu::Cpu;
use crate::load::Load;
use crate::statistics::Quotient;

/// What is done, in the report.
pub(super) const MEASURE: &str = "HTTP request";

/// How many answers of each mode there are to replay.
const STORED_ANSWERS: u32 = 1000;
/// What the keys of these begin with.
const STORED_PREFIX: &str = "5707ed0000000000";

/// How a request is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The handler alone.
    Bare,
    /// The bare handler behind the layer in extract mode, of which it knows nothing: what the layer itself costs.
    PassedOn,
    ExtractFirst,
    ReplayFirst,
    ExtractAgain,
    ReplayAgain,
}

impl Way {
    pub(super) const ALL: [Self; 6] =
        [Self::Bare, Self::PassedOn, Self::ExtractFirst, Self::ReplayFirst, Self::ExtractAgain, Self::ReplayAgain];

    /// Its name in the report.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare handler",
            Self::PassedOn => "layer alone",
            Self::ExtractFirst => "first, extract mode",
            Self::ReplayFirst => "first, replay mode",
            Self::ExtractAgain => "replay, extract mode",
            Self::ReplayAgain => "replay, replay mode",
        }
    }

    const fn is_repeat(self) -> bool {
        matches!(self, Self::ExtractAgain | Self::ReplayAgain)
    }

    const fn has_record(self) -> bool {
        matches!(self, Self::ExtractFirst | Self::ReplayFirst)
    }
}

/// Requests over HTTP.
#[derive(Debug)]
pub(super) struct Requests<DB: KeyEngine> {
    site: Site<DB>,
    wrk: Arc<Wrk>,
}

impl<DB: KeyEngine> Requests<DB> {
    pub(super) async fn new(site: Site<DB>, wrk: Arc<Wrk>) -> anyhow::Result<Self> {
        site.reopen().await?;
        let stack = Stack::new(&site.pool(1).await?)?;
        for way in [Way::ExtractFirst, Way::ReplayFirst] {
            for number in 0..STORED_ANSWERS {
                let order = Order::numbered(STORED_PREFIX, number.into());
                ensure!(!ask(&stack, way, &order).await?, "a key was not free");
            }
        }
        stack.settle().await?;
        stack.pool.close().await;
        site.keep_answers().await;
        Ok(Self { site, wrk })
    }
}

/// Asks without a socket; answers whether it was a replay.
async fn ask<DB: KeyEngine>(stack: &Stack<DB>, way: Way, order: &Order) -> anyhow::Result<bool> {
    let request = Request::post("/orders")
        .header("content-type", "application/json")
        .header("idempotency-key", format!("\"{}\"", order.key))
        .body(Body::from(order.body()?))?;
    let Ok(answer) = stack.router(way).call(request).await;
    let (status, trouble) = (answer.status(), stack.trouble());
    ensure!(status == StatusCode::CREATED, "{} answered {status}: {trouble}", way.name());
    Ok(answer.headers().contains_key(IDEMPOTENCY_REPLAYED))
}

impl<DB: KeyEngine> Contest for Requests<DB> {
    type Contender = Way;
    type Arena = Stack<DB>;
    type Client = Rng;

    fn measure(&self) -> &'static str {
        MEASURE
    }

    fn entrants(&self) -> Vec<Entrant<Way>> {
        let entrant = |way: Way| {
            let quotient = (way != Way::Bare).then_some(Quotient { of: way.name(), by: Way::Bare.name() });
            Entrant { name: way.name(), contender: way, quotient, retries: false, is_wrong_on_purpose: false }
        };
        Way::ALL.map(entrant).into()
    }

    fn can_run_out(&self) -> bool {
        false
    }

    async fn open(&self, clients: u32) -> anyhow::Result<Stack<DB>> {
        Stack::new(&self.site.pool(clients).await?)
    }

    fn connections(&self, arena: &Stack<DB>) -> u32 {
        arena.pool.size()
    }

    async fn close(&self, arena: Arc<Stack<DB>>) -> anyhow::Result<()> {
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

    /// Without a socket, which is how the pool is warmed.
    async fn call(&self, arena: &Stack<DB>, contender: Way, rng: &mut Rng) -> anyhow::Result<Done> {
        let order = if contender.is_repeat() {
            Order::numbered(STORED_PREFIX, rng.u32(..STORED_ANSWERS).into())
        } else {
            Order::random(rng)
        };
        let is_replay = ask(arena, contender, &order).await?;
        ensure!(is_replay == contender.is_repeat(), "{} was answered as the other", contender.name());
        Ok(Done::at_once(!is_replay))
    }

    /// Warms the pool without sockets, then hands over to wrk, which measures whole seconds.
    async fn run(&self, load: &Load<'_, Self>, time: Duration, cpu: Cpu) -> anyhow::Result<(Round, Claims)> {
        let mut claims = load.warm_up().await?;
        let (stack, way) = (load.arena, load.contender);
        let sequence = if way.is_repeat() {
            Sequence { prefix: STORED_PREFIX.to_owned(), repeats: STORED_ANSWERS }
        } else {
            Sequence { prefix: format!("{:016x}", load.seed), repeats: 0 }
        };
        let server = Server::start(stack.router(way)).await?;
        let before = cpu.seconds();
        let loaded = self.wrk.load(server.address(), load.clients, time, &sequence).await;
        let cpu_seconds = cpu.seconds().zip(before).map(|(after, before)| after - before);
        let accepted = server.stop().await?;
        stack.settle().await?;
        let loaded = loaded.with_context(|| stack.trouble())?;
        // One more, with which wrk looks whether there is a server.
        let most = u64::from(load.clients) + 1;
        ensure!(accepted <= most, "{accepted} connections were opened: they were not kept alive");

        let answered = Claims { effects: loaded.requests, ..Claims::default() };
        claims.add(if way.is_repeat() {
            Claims { effects: 0, without_effect: loaded.requests, ..answered }
        } else {
            // wrk goes away when its time is over, whatever it has asked for.
            Claims { unanswered: u64::from(load.clients), ..answered }
        });
        Ok((loaded.round(cpu_seconds)?, claims))
    }

    /// Effects and records are exactly as many as each other, and as many as were answered, beside those that nobody waited
    /// for.
    async fn verify(&self, contender: Way, _supply: Supply, claims: Claims) -> anyhow::Result<u64> {
        ensure!(claims.effects == 0 || !contender.is_repeat(), "{} repeats had an effect", claims.effects);
        let effects = claims.effects..=claims.effects + claims.unanswered;
        let records = if contender.is_repeat() {
            2 * u64::from(STORED_ANSWERS)
        } else if contender.has_record() {
            self.site.taken().await?
        } else {
            0
        };
        self.site.holds(effects, records..=records).await?;
        Ok(0)
    }
}

#[cfg(test)]
mod tests;
