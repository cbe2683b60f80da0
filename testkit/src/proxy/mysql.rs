//! Reading along in a MySQL or MariaDB connection (the "classic" protocol, as both manuals describe it under "Client/Server
//! Protocol"), without changing a byte.
//!
//! The server answers commands in their order, and nothing in an answer says to which it belongs or that it is over: its
//! packets have to be followed from the first to the last. Counting the answers tells which bytes answer which command, whatever
//! the client has pipelined (sqlx queues the `ROLLBACK` of a dropped transaction).

use std::str::FromStr;

use sqlx::ConnectOptions;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};

use super::FaultProxy;
use super::conversation::Answer;
use answer::{Answers, Command, Prepared};
use packet::Packets;

pub use super::statement::{is_commit, once};

mod answer;
mod packet;

/// Capabilities (client and server must both have one for it to hold).
const COMPRESS: u32 = 1 << 5;
const PROTOCOL_41: u32 = 1 << 9;
const SSL: u32 = 1 << 11;
const DEPRECATE_EOF: u32 = 1 << 24;
const ZSTD_COMPRESSION: u32 = 1 << 26;
const QUERY_ATTRIBUTES: u32 = 1 << 27;
/// What changes the shape of queries, of answers or of everything. No client in here asks for any of it.
const UNREADABLE: u32 = COMPRESS | SSL | ZSTD_COMPRESSION | QUERY_ATTRIBUTES;

/// The database at `url`, reached through `proxy`, without encryption so that the proxy can read along.
///
/// # Panics
/// When `url` is not a MySQL URL.
#[must_use]
pub fn through(proxy: &FaultProxy, url: &str) -> String {
    let options = MySqlConnectOptions::from_str(url).expect("a MySQL URL");
    let address = proxy.address();
    let options = options.host(&address.ip().to_string()).port(address.port()).ssl_mode(MySqlSslMode::Disabled);
    options.to_url_lossy().to_string()
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The server speaks first.
    #[default]
    Greeting,
    Login,
    Commands,
    Opaque,
}

/// What is known of one connection.
#[derive(Debug)]
pub(super) struct Conversation {
    phase: Phase,
    capabilities: u32,
    requests: Packets,
    replies: Packets,
    answers: Answers,
    prepared: Prepared,
    /// The number of the answer to be lost.
    lost: Option<u64>,
}

impl Default for Conversation {
    fn default() -> Self {
        Self {
            phase: Phase::default(),
            capabilities: 0,
            requests: Packets::whole(),
            replies: Packets::beginnings(),
            answers: Answers::default(),
            prepared: Prepared::default(),
            lost: None,
        }
    }
}

impl Conversation {
    /// Reads what the client sends; answers whether `matches` holds for a statement whose execution it asks for.
    pub(super) fn client_sends(&mut self, bytes: &[u8], mut matches: impl FnMut(&str) -> bool) -> bool {
        let mut found = None;
        let mut rest = bytes;
        while self.phase != Phase::Opaque
            && let Some((packet, after)) = self.requests.next(rest)
        {
            rest = after;
            match self.phase {
                Phase::Commands => {
                    let executed = self.command(&packet.payload);
                    if found.is_none() && executed.is_some_and(|sql| matches(&sql)) {
                        found = Some(self.answers.asked());
                    }
                }
                _ => self.login(&packet.payload),
            }
        }
        self.lost = self.lost.or(found);
        found.is_some()
    }

    /// Reads what the server sends.
    pub(super) fn server_sends(&mut self, bytes: &[u8]) -> Answer {
        let lost = self.lost.unwrap_or(u64::MAX);
        let mut earlier = if self.answers.given() + 1 < lost { bytes.len() } else { 0 };
        let mut rest = bytes;
        while self.phase != Phase::Opaque
            && let Some((packet, after)) = self.replies.next(rest)
        {
            rest = after;
            if self.phase != Phase::Commands {
                self.greeting(&packet.payload);
                continue;
            }
            match self.answers.packet(&packet, &mut self.prepared) {
                Some(is_over) if is_over && self.answers.given() + 1 == lost => earlier = bytes.len() - rest.len(),
                Some(_) => {}
                None => self.phase = Phase::Opaque,
            }
        }
        Answer { earlier, complete: self.answers.given() >= lost }
    }

    /// Answers the text of a statement that is executed.
    fn command(&mut self, payload: &[u8]) -> Option<String> {
        let (code, body) = payload.split_first()?;
        let text = || String::from_utf8_lossy(body).into_owned();
        let (command, executed) = match code {
            // COM_QUIT, COM_STMT_SEND_LONG_DATA and COM_STMT_CLOSE have no answer.
            0x01 | 0x18 => return None,
            0x19 => {
                self.prepared.forget(body);
                return None;
            }
            0x03 => (Command::Query, Some(text())),
            0x16 => (Command::Prepare(text()), None),
            0x17 => (Command::Query, self.prepared.text(body)),
            0x1c => (Command::Fetch, None),
            // COM_INIT_DB, COM_STATISTICS, COM_DEBUG, COM_PING, COM_STMT_RESET, COM_SET_OPTION, COM_RESET_CONNECTION
            0x02 | 0x09 | 0x0d | 0x0e | 0x1a | 0x1b | 0x1f => (Command::Simple, None),
            _ => {
                self.phase = Phase::Opaque;
                return None;
            }
        };
        self.answers.ask(command);
        executed
    }

    fn greeting(&mut self, payload: &[u8]) {
        match (self.phase, payload.first()) {
            (Phase::Greeting, Some(10)) => {
                self.capabilities = capabilities_of_server(payload).unwrap_or_default();
                self.phase = Phase::Login;
            }
            (Phase::Login, Some(0x00)) => self.phase = Phase::Commands,
            // An exchange of the authentication method's goes on.
            (Phase::Login, Some(0x01 | 0xfe)) => {}
            _ => self.phase = Phase::Opaque,
        }
    }

    /// The client's first packet; what else it sends before it is let in is the authentication method's.
    fn login(&mut self, payload: &[u8]) {
        if self.phase == Phase::Greeting {
            self.phase = Phase::Opaque;
        } else if !self.answers.is_told() {
            let asked = payload.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            if asked & PROTOCOL_41 == 0 || asked & UNREADABLE != 0 {
                self.phase = Phase::Opaque;
            }
            self.answers.tell(asked & self.capabilities & DEPRECATE_EOF != 0);
        }
    }
}

/// Behind the protocol's version: a text up to NUL, four bytes, eight and NUL of a nonce; then the lower half of the
/// capabilities, a byte, two, and the upper half.
fn capabilities_of_server(greeting: &[u8]) -> Option<u32> {
    let version = greeting.iter().position(|byte| *byte == 0)?;
    let fixed = greeting.get(version + 1 + 4 + 9..)?;
    let lower = u16::from_le_bytes(*fixed.first_chunk()?);
    let upper = u16::from_le_bytes(*fixed.get(5..)?.first_chunk()?);
    Some(u32::from(upper) << 16 | u32::from(lower))
}

#[cfg(test)]
mod tests;
