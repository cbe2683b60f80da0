//! Redlocks that make the classic mistakes, on the real nodes.

use std::time::Duration;

use leastlock_lease::{Capabilities, Claim, Grant, LeaseStore, Polling, Release, Renewal, StoreError};
use redis::{Client, FromRedisValue, Script};
use tokio::time::timeout;

/// Which mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mistake {
    /// Content with the nodes that it can reach.
    TakesAMinority,
    /// Gives nothing back after a failure.
    KeepsItsVotes,
    /// Does not look how long the votes took.
    ForgetsTheTime,
}

/// Asks one node after the other.
pub(super) struct Careless {
    pub(super) nodes: Vec<Client>,
    pub(super) key: String,
    pub(super) mistake: Mistake,
}

impl Careless {
    /// How many nodes have said yes.
    async fn ask(&self, script: &str, claim: Claim<'_>) -> usize {
        let (script, mut votes) = (Script::new(script), 0);
        for node in &self.nodes {
            let ask = async {
                let mut connection = node.get_multiplexed_async_connection().await?;
                let mut asked = script.key(&self.key);
                asked.arg(&claim.nonce.as_bytes()[..]).arg(claim.ttl.as_secs() + 10);
                i64::from_redis_value(asked.invoke_async(&mut connection).await?).map_err(redis::RedisError::from)
            };
            if matches!(timeout(Duration::from_secs(5), ask).await, Ok(Ok(1))) {
                votes += 1;
            }
        }
        votes
    }
}

impl LeaseStore for Careless {
    type Token = ();
    type Waiter = Polling;

    const CAPABILITIES: Capabilities = Capabilities::PLAIN;

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<()>, StoreError> {
        const SET: &str = "if redis.call('HSETNX', KEYS[1], 'nonce', ARGV[1]) == 1 then \
                           return redis.call('EXPIRE', KEYS[1], ARGV[2]) end return 0";
        let votes = self.ask(SET, claim).await;
        let enough = if self.mistake == Mistake::TakesAMinority { 1 } else { self.nodes.len() / 2 + 1 };
        if votes >= enough {
            return Ok(Grant::Granted { token: (), ttl: claim.ttl });
        }
        if self.mistake != Mistake::KeepsItsVotes {
            let _ = self.release(claim).await?;
        }
        Err(StoreError::retryable("too few"))
    }

    fn waiter(&self, _claim: Claim<'_>) -> Polling {
        Polling
    }

    async fn renew(&self, claim: Claim<'_>, (): ()) -> Result<Renewal, StoreError> {
        Ok(Renewal::Renewed { ttl: claim.ttl })
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        const DELETE: &str =
            "if redis.call('HGET', KEYS[1], 'nonce') == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
        self.ask(DELETE, claim).await;
        Ok(Release::Released)
    }

    fn let_expire(&self, _claim: Claim<'_>, _remaining: Duration) {}
}
