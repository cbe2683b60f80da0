//! What is read along of a connection, whatever its protocol is.

use super::kafka::Advertised;
use super::{mysql, postgres};

/// What the proxy takes a connection to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Postgres,
    MySql,
    Kafka(Advertised),
}

/// What is known of one connection. Anything that is not its protocol in the clear is passed and never matched.
#[derive(Debug)]
pub(super) enum Conversation {
    Postgres(postgres::Conversation),
    MySql(mysql::Conversation),
    Kafka(Advertised),
}

/// What the server's bytes mean while an answer is being lost.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// How many of the bytes still belong to earlier answers.
    pub(super) earlier: usize,
    /// Whether the lost answer has now been seen to its end.
    pub(super) complete: bool,
}

impl Conversation {
    pub(super) fn in_protocol(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Postgres => Self::Postgres(postgres::Conversation::default()),
            Protocol::MySql => Self::MySql(mysql::Conversation::default()),
            Protocol::Kafka(advertised) => Self::Kafka(advertised),
        }
    }

    /// Reads what the client sends; answers whether `matches` holds for a statement whose execution it asks for.
    pub(super) fn client_sends(&mut self, bytes: &[u8], matches: impl FnMut(&str) -> bool) -> bool {
        match self {
            Self::Postgres(conversation) => conversation.client_sends(bytes, matches),
            Self::MySql(conversation) => conversation.client_sends(bytes, matches),
            Self::Kafka(_) => false,
        }
    }

    /// Reads what the server sends, and changes what would lead the client round the proxy.
    pub(super) fn server_sends(&mut self, bytes: &mut [u8]) -> Answer {
        match self {
            Self::Postgres(conversation) => conversation.server_sends(bytes),
            Self::MySql(conversation) => conversation.server_sends(bytes),
            Self::Kafka(advertised) => {
                advertised.exchange(bytes);
                Answer { earlier: bytes.len(), complete: false }
            }
        }
    }
}
