//! The part of a run that has to do with who holds which shard.

use std::time::Instant;

use super::{Claimed, LONGEST_READ, Run};
use crate::error::Error;
use crate::relay::connection::within;
use crate::relay::log::Log;
use crate::relay::ownership::Ownership;
use crate::sink::Sink;

/// What a look at who is there came to: what was taken, and when to look again.
pub(super) struct Look {
    claimed: Vec<Claimed>,
    look_at: Instant,
}

impl<L: Log, S: Sink> Run<'_, L, S> {
    pub(super) fn have_claimed(&mut self, look: Result<Look, Error>) -> Result<(), Error> {
        let at_first = self.relay.settings.lease / 3;
        self.claim_limit = match &look {
            // Where many keys are blocked, reading them takes its time. The lease is renewed meanwhile.
            Err(Error::NoAnswer { .. }) => (self.claim_limit * 2).min(LONGEST_READ),
            _ => at_first,
        };
        match look {
            Ok(Look { claimed, look_at }) => {
                self.claim_at = look_at;
                self.pipeline.drain(&self.ownership.draining(), Instant::now());
                if !claimed.is_empty() {
                    let own = |(cursor, blocked): Claimed| {
                        self.gate.own(cursor.shard, blocked);
                        cursor
                    };
                    let cursors = claimed.into_iter().map(own).collect();
                    self.pipeline.own(cursors);
                    self.relay.stats.hold(self.pipeline.lanes(), 0);
                    // A round may be under way that was of a shard's earlier epoch.
                    self.look_at = Instant::now();
                    self.look_for_events();
                }
                Ok(())
            }
            Err(error) => {
                // What was claimed and is not known whole is claimed again.
                let cursors: Vec<_> = self.pipeline.cursors().cloned().collect();
                self.ownership.keep_only(&cursors);
                self.fail(error)?;
                self.claim_at = self.resume_at;
                Ok(())
            }
        }
    }

    /// Forgets what has had no answer for the length of a lease, of what is to be another relay's: on a partition without a leader, say.
    /// That relay sends it again, as it would after a crash of this one, and what this one has sent of it may still land.
    pub(super) fn give_up_what_is_overdue(&mut self, now: Instant) {
        let overdue = self.pipeline.overdue(self.relay.settings.lease, now);
        if !overdue.is_empty() {
            tracing::warn!(
                shards = ?overdue,
                "shards are to be another relay's, and the sink did not answer for all that was sent of them; it is sent again there"
            );
            self.abandon();
        }
    }

    /// Hands over what is to be another relay's and of which nothing is on its way any more.
    pub(super) fn start_giving_up(&mut self) {
        let drained = self.pipeline.give_up();
        if !drained.is_empty() {
            let cursors: Vec<_> = self.pipeline.cursors().cloned().collect();
            self.gate.keep_only(&cursors);
            self.relay.stats.hold(self.pipeline.lanes(), drained.len());
            let (relay, ownership) = (self.relay, self.ownership);
            let limit = relay.settings.lease / 3;
            let give_up = async move { ownership.give_up(&*relay.log, &drained).await };
            self.giving_up.start(within(limit, "handing shards over", give_up));
        }
    }

    /// Where that got no answer, the shards are free when their lease is over.
    pub(super) fn have_given_up(&mut self, given_up: Result<(), Error>) -> Result<(), Error> {
        given_up.or_else(|error| self.fail(error))
    }
}

/// Looks who is there, takes what is free of this relay's share, and asks which keys are blocked in it.
pub(super) async fn look(ownership: &Ownership, log: &impl Log, to_load: i64) -> Result<Look, Error> {
    let balanced = ownership.balance(log).await?;
    let mut claimed = Vec::with_capacity(balanced.claimed.len());
    for cursor in balanced.claimed {
        let blocked = log.blocked(cursor.shard, to_load).await?;
        claimed.push((cursor, blocked));
    }
    Ok(Look { claimed, look_at: balanced.look_at })
}
