//! Hearing of releases on a channel.

use futures_util::StreamExt;
use redis::Client;

use crate::lock_name::LockName;
use crate::store::{Pause, Waiter};
use crate::wake::{Bell, Bells};

/// A waiter on Redis: it hears of a release on the channel of its store.
#[derive(Debug)]
pub struct RedisWaiter {
    client: Client,
    channel: String,
    bell: Bell,
    /// Whether an attempt was made since this hears.
    looked: bool,
}

impl RedisWaiter {
    pub(super) fn new(client: &Client, channel: String, bells: &Bells, name: &LockName) -> Self {
        Self { client: client.clone(), channel, bell: bells.hang(name), looked: false }
    }
}

impl Waiter for RedisWaiter {
    async fn wait(&mut self, pause: Pause) {
        let (client, channel) = (self.client.clone(), self.channel.clone());
        if !self.bell.is_heard(pause.poll, move |bells| listen(client, channel, bells)).await {
            return;
        }
        // What came before this could hear shows in the next attempt.
        if std::mem::replace(&mut self.looked, true) {
            self.bell.rung(pause.relying).await;
        }
    }
}

/// Ends when it fails, or when nobody waits.
async fn listen(client: Client, channel: String, bells: Bells) {
    let Ok(mut pubsub) = client.get_async_pubsub().await else { return };
    if pubsub.subscribe(&channel).await.is_err() {
        return;
    }
    bells.listening();
    let mut released = pubsub.into_on_message();
    let mut unused = std::pin::pin!(bells.unused());
    loop {
        tokio::select! {
            message = released.next() => match message {
                Some(message) => bells.ring(&String::from_utf8_lossy(message.get_payload_bytes())),
                // The connection was lost.
                None => return,
            },
            () = &mut unused => return,
        }
    }
}
