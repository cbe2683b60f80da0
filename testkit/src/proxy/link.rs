//! One connection through the proxy.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio_util::sync::CancellationToken;

use super::Then;
use super::conversation::{Conversation, Protocol};
use super::faults::{Faults, Lost, Maimed};

/// The largest piece that is forwarded at once.
const PIECE_BYTES: usize = 64 * 1024;

/// A connection that counts as open until its sockets are closed.
#[derive(Debug)]
pub(super) struct Open(Arc<Faults>);

impl Open {
    pub(super) fn new(faults: Arc<Faults>) -> Self {
        faults.open.send_modify(|open| *open += 1);
        faults.accepted.send_modify(|accepted| *accepted += 1);
        Self(faults)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}

/// Carries bytes both ways until both sides have ended or `ends` is cancelled.
pub(super) async fn carry(
    open: Open,
    client: TcpStream,
    upstream: SocketAddr,
    protocol: Protocol,
    ends: CancellationToken,
) {
    // Moved, so that the sockets are dropped before `open` is.
    let client = client;
    let link = Link {
        faults: Arc::clone(&open.0),
        maimed: Maimed::default(),
        conversation: Mutex::new(Conversation::in_protocol(protocol)),
        rule: Mutex::default(),
        ends: ends.child_token(),
    };
    let carried = async {
        if link.faults.swallows(&link.maimed) {
            return std::future::pending().await;
        }
        let server = TcpStream::connect(upstream).await?;
        link.join(client, server).await
    };
    tokio::select! {
        () = link.ends.cancelled() => {}
        () = link.faults.healed(&link.maimed) => {}
        // An end of either side is the other side's to see; there is nobody else to tell.
        _ = carried => {}
    }
}

#[derive(Debug)]
struct Link {
    faults: Arc<Faults>,
    maimed: Maimed,
    conversation: Mutex<Conversation>,
    /// What was lost here because a statement matched.
    rule: Mutex<Option<Loss>>,
    ends: CancellationToken,
}

#[derive(Debug, Clone, Copy)]
struct Loss {
    lost: Lost,
    then: Then,
    is_complete: bool,
}

impl Link {
    async fn join(&self, mut client: TcpStream, mut server: TcpStream) -> std::io::Result<()> {
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        let ((), ()) = tokio::try_join!(
            self.requests(&mut from_client, &mut to_server),
            self.replies(&mut from_server, &mut to_client),
        )?;
        Ok(())
    }

    async fn requests(&self, client: &mut ReadHalf<'_>, server: &mut WriteHalf<'_>) -> std::io::Result<()> {
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            let length = self.next(client, &mut buffer).await?;
            if self.faults.swallows(&self.maimed) {
                if length == 0 {
                    // The server must not notice, as with a cable that was pulled.
                    return std::future::pending().await;
                }
                continue;
            }
            if length == 0 {
                if self.maimed.is() {
                    self.ends.cancel();
                }
                return server.shutdown().await;
            }
            let piece = &buffer[..length];
            match self.judge(piece) {
                Some(loss) if loss.lost == Lost::Request => self.lose(loss),
                _ => server.write_all(piece).await?,
            }
        }
    }

    async fn replies(&self, server: &mut ReadHalf<'_>, client: &mut WriteHalf<'_>) -> std::io::Result<()> {
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            let length = self.next(server, &mut buffer).await?;
            if self.faults.swallows_replies(&self.maimed) || (length == 0 && self.maimed.is()) {
                if length == 0 {
                    return std::future::pending().await;
                }
                continue;
            }
            if length == 0 {
                return client.shutdown().await;
            }
            let piece = &mut buffer[..length];
            let answer = self.conversation().server_sends(piece);
            client.write_all(&piece[..answer.earlier]).await?;
            let loss = *self.rule();
            if let Some(loss) = loss.filter(|_| answer.complete) {
                self.lose(loss);
            }
        }
    }

    async fn next(&self, from: &mut ReadHalf<'_>, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = from.read(buffer).await?;
        let delay = self.faults.delay();
        if delay > Duration::ZERO {
            tokio::time::sleep(delay).await;
        }
        Ok(length)
    }

    /// Whether what the client sends is, or follows, something that a rule wants lost. Decided before the piece goes on,
    /// so that no answer can overtake the decision.
    fn judge(&self, piece: &[u8]) -> Option<Loss> {
        let mut rule = self.rule();
        let mut verdict = None;
        let is_whole = rule.is_none();
        self.conversation().client_sends(piece, |sql| {
            verdict = if is_whole { self.faults.judge(sql, &self.maimed) } else { None };
            verdict.is_some()
        });
        if let Some((lost, then)) = verdict {
            *rule = Some(Loss { lost, then, is_complete: false });
        }
        *rule
    }

    /// Counts a loss once it has happened.
    fn lose(&self, loss: Loss) {
        if loss.is_complete {
            return;
        }
        *self.rule() = Some(Loss { is_complete: true, ..loss });
        self.faults.fire();
        if loss.then == Then::Cut {
            self.ends.cancel();
        }
    }

    fn rule(&self) -> MutexGuard<'_, Option<Loss>> {
        self.rule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn conversation(&self) -> MutexGuard<'_, Conversation> {
        self.conversation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
