//! Reading along in a PostgreSQL connection (protocol 3, "Message Formats" in the manual), without changing a byte.
//!
//! The server ends its answer to each `Query`, and to each group of extended messages up to a `Sync`, with exactly one
//! `ReadyForQuery`. Counting both sides tells which bytes answer which statement, whatever the client has pipelined.

use std::collections::HashMap;
use std::str::FromStr;

use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use super::FaultProxy;
use super::conversation::Answer;

pub use super::statement::{is_commit, once};

/// Codes in the place of a protocol version.
const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;

/// PostgreSQL's own limit for a message before the client is known.
const MAX_STARTUP_LENGTH: usize = 10_000;

/// The database at `url`, reached through `proxy`, without encryption so that the proxy can read along.
///
/// # Panics
/// When `url` is not a PostgreSQL URL.
#[must_use]
pub fn through(proxy: &FaultProxy, url: &str) -> String {
    let options = PgConnectOptions::from_str(url).expect("a PostgreSQL URL");
    let address = proxy.address();
    let options = options.host(&address.ip().to_string()).port(address.port()).ssl_mode(PgSslMode::Disable);
    options.to_url_lossy().to_string()
}

/// What is known of one connection. Anything that is not PostgreSQL in the clear is passed and never matched.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    client: Client,
    server: Server,
    /// The number of the `ReadyForQuery` that ends the answer to be lost.
    lost: Option<u64>,
}

impl Conversation {
    /// Reads what the client sends; answers whether `matches` holds for a statement whose execution it asks for.
    pub(super) fn client_sends(&mut self, bytes: &[u8], mut matches: impl FnMut(&str) -> bool) -> bool {
        let mut found = None;
        self.client.read(bytes, |sql, ready_at| {
            if found.is_none() && matches(sql) {
                found = Some(ready_at);
            }
        });
        self.server.unframed_answers += std::mem::take(&mut self.client.encryption_requests);
        self.lost = self.lost.or(found);
        found.is_some()
    }

    /// Reads what the server sends.
    pub(super) fn server_sends(&mut self, bytes: &[u8]) -> Answer {
        let lost = self.lost.unwrap_or(u64::MAX);
        let mut earlier = if self.server.ready + 1 < lost { bytes.len() } else { 0 };
        self.server.read(bytes, |ready, offset| {
            if ready + 1 == lost {
                earlier = offset;
            }
        });
        if self.server.encrypted {
            self.client.phase = Phase::Opaque;
        }
        Answer { earlier, complete: self.server.ready >= lost }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Startup,
    Messages,
    Opaque,
}

#[derive(Debug, Default)]
struct Client {
    phase: Phase,
    /// The beginning of a message whose end has not come yet.
    partial: Vec<u8>,
    /// The text of each prepared statement by its name, and of each portal's.
    statements: HashMap<Vec<u8>, String>,
    portals: HashMap<Vec<u8>, String>,
    /// How many `ReadyForQuery` the messages so far ask for; the end of the start-up is the first.
    ready_asked: u64,
    encryption_requests: u32,
}

impl Client {
    /// Calls `executed` with each statement and the number of the `ReadyForQuery` that ends its answer.
    fn read(&mut self, bytes: &[u8], mut executed: impl FnMut(&str, u64)) {
        if self.phase == Phase::Opaque {
            return;
        }
        let mut pending = std::mem::take(&mut self.partial);
        pending.extend_from_slice(bytes);
        let mut rest = &pending[..];
        while let Some(length) = self.message_length(rest) {
            if length > rest.len() {
                break;
            }
            let (message, after) = rest.split_at(length);
            rest = after;
            self.message(message, &mut executed);
        }
        if self.phase != Phase::Opaque {
            self.partial = rest.to_vec();
        }
    }

    /// The length of the message that begins here, once enough of it is there to tell.
    fn message_length(&mut self, bytes: &[u8]) -> Option<usize> {
        let (tag_length, least) = match self.phase {
            Phase::Startup => (0, 8),
            Phase::Messages => (1, 4),
            Phase::Opaque => return None,
        };
        let length = tag_length + usize::try_from(be_u32(bytes.get(tag_length..)?)?).ok()?;
        let is_sane = match self.phase {
            Phase::Startup => (8..=MAX_STARTUP_LENGTH).contains(&length),
            _ => length > least,
        };
        if !is_sane {
            self.phase = Phase::Opaque;
        }
        is_sane.then_some(length)
    }

    fn message(&mut self, message: &[u8], executed: &mut impl FnMut(&str, u64)) {
        if self.phase == Phase::Startup {
            return self.startup(be_u32(&message[4..]).unwrap_or_default());
        }
        let body = &message[5..];
        match message[0] {
            b'Q' => {
                self.ready_asked += 1;
                executed(&String::from_utf8_lossy(until_zero(body).0), self.ready_asked);
            }
            b'P' => {
                let (name, rest) = until_zero(body);
                self.statements.insert(name.to_vec(), String::from_utf8_lossy(until_zero(rest).0).into_owned());
            }
            b'B' => {
                let (portal, rest) = until_zero(body);
                let text = self.statements.get(until_zero(rest).0).cloned().unwrap_or_default();
                self.portals.insert(portal.to_vec(), text);
            }
            b'E' => {
                if let Some(sql) = self.portals.get(until_zero(body).0) {
                    executed(sql, self.ready_asked + 1);
                }
            }
            b'C' => match body.split_first() {
                Some((b'S', name)) => drop(self.statements.remove(until_zero(name).0)),
                Some((_, name)) => drop(self.portals.remove(until_zero(name).0)),
                None => {}
            },
            // Sync and FunctionCall.
            b'S' | b'F' => self.ready_asked += 1,
            _ => {}
        }
    }

    fn startup(&mut self, code: u32) {
        match code {
            SSL_REQUEST | GSS_REQUEST => self.encryption_requests += 1,
            CANCEL_REQUEST => self.phase = Phase::Opaque,
            version if version >> 16 == 3 => {
                self.phase = Phase::Messages;
                self.ready_asked = 1;
            }
            _ => self.phase = Phase::Opaque,
        }
    }
}

#[derive(Debug, Default)]
struct Server {
    /// Single bytes without a frame that answer requests for encryption.
    unframed_answers: u32,
    encrypted: bool,
    /// The first bytes of a message: its tag and length.
    header: Vec<u8>,
    /// How much of the message's body is still to come.
    body_left: usize,
    /// How many `ReadyForQuery` there have been.
    ready: u64,
}

impl Server {
    /// Calls `is_ready` at the end of each `ReadyForQuery` with its number and the offset behind it.
    fn read(&mut self, bytes: &[u8], mut is_ready: impl FnMut(u64, usize)) {
        let mut offset = 0;
        while offset < bytes.len() && !self.encrypted {
            if self.unframed_answers > 0 {
                self.unframed_answers -= 1;
                self.encrypted = bytes[offset] != b'N';
                offset += 1;
                continue;
            }
            if self.header.len() < 5 {
                self.header.push(bytes[offset]);
                offset += 1;
                if self.header.len() < 5 {
                    continue;
                }
                let length = be_u32(&self.header[1..]).and_then(|length| length.checked_sub(4));
                let Some(length) = length.and_then(|length| usize::try_from(length).ok()) else {
                    self.encrypted = true;
                    return;
                };
                self.body_left = length;
            }
            let here = self.body_left.min(bytes.len() - offset);
            self.body_left -= here;
            offset += here;
            if self.body_left == 0 {
                if self.header[0] == b'Z' {
                    self.ready += 1;
                    is_ready(self.ready, offset);
                }
                self.header.clear();
            }
        }
    }
}

fn be_u32(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.first_chunk::<4>()?))
}

fn until_zero(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

#[cfg(test)]
mod tests;
