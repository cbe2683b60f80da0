//! Where the answer to a command ends.

use std::collections::{HashMap, VecDeque};

use super::packet::Packet;

/// Another answer to the same command follows this one.
const MORE_RESULTS: u16 = 1 << 3;
/// A packet with the header of an end is one only if it is shorter: a row can begin with that byte too.
const MAX_END: usize = 0xff_ffff;

/// A command that is answered.
#[derive(Debug)]
pub(super) enum Command {
    /// By a count of rows, or by rows, or several of these.
    Query,
    /// By a number for the statement, and what it takes and gives.
    Prepare(String),
    /// By rows without a heading.
    Fetch,
    /// By one packet.
    Simple,
}

/// The text of each prepared statement by its number.
#[derive(Debug, Default)]
pub(super) struct Prepared(HashMap<[u8; 4], String>);

impl Prepared {
    /// The text of the statement whose number stands here first.
    pub(super) fn text(&self, body: &[u8]) -> Option<String> {
        self.0.get(body.first_chunk()?).cloned()
    }

    pub(super) fn forget(&mut self, body: &[u8]) {
        if let Some(number) = body.first_chunk::<4>() {
            self.0.remove(number);
        }
    }
}

/// What the next packet of the present answer is.
#[derive(Debug, Default, Clone, Copy)]
enum Next {
    #[default]
    First,
    /// So many that describe columns and end their list, and then rows.
    Columns(u64),
    Rows,
    /// So many, and nothing behind them.
    Last(u64),
}

/// The answers of a connection, in the order of their commands.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Whether lists of columns have an end of their own; known once the client has said what it can.
    lists_end: Option<bool>,
    commands: VecDeque<Command>,
    asked: u64,
    given: u64,
    next: Next,
}

impl Answers {
    pub(super) const fn is_told(&self) -> bool {
        self.lists_end.is_some()
    }

    pub(super) fn tell(&mut self, deprecates_eof: bool) {
        self.lists_end = Some(!deprecates_eof);
    }

    pub(super) fn ask(&mut self, command: Command) {
        self.commands.push_back(command);
        self.asked += 1;
    }

    /// How many answers the commands so far ask for.
    pub(super) const fn asked(&self) -> u64 {
        self.asked
    }

    /// How many answers were given to their end.
    pub(super) const fn given(&self) -> u64 {
        self.given
    }

    /// Follows a packet of the server's; answers whether an answer ends with it, and `None` if it cannot be understood.
    pub(super) fn packet(&mut self, packet: &Packet, prepared: &mut Prepared) -> Option<bool> {
        let command = self.commands.front_mut()?;
        let lists_end = self.lists_end?;
        let ending = u64::from(lists_end);
        let next = match (self.next, command) {
            (Next::First, Command::Prepare(sql)) => match packet.payload[..] {
                [0x00, a, b, c, d, columns_low, columns_high, params_low, params_high, ..] => {
                    prepared.0.insert([a, b, c, d], std::mem::take(sql));
                    let list = |low, high| match u16::from_le_bytes([low, high]) {
                        0 => 0,
                        count => u64::from(count) + ending,
                    };
                    match list(params_low, params_high) + list(columns_low, columns_high) {
                        0 => None,
                        count => Some(Next::Last(count)),
                    }
                }
                [0xff, ..] => None,
                _ => return None,
            },
            (Next::First, Command::Query) => match packet.payload.first()? {
                0x00 if has_more(status_of_ok(&packet.payload)?) => Some(Next::First),
                0x00 | 0xff => None,
                // LOAD DATA LOCAL: the client would send a file next.
                0xfb => return None,
                _ => Some(Next::Columns(lenenc(&packet.payload)?.0 + ending)),
            },
            (Next::Columns(1), _) => Some(Next::Rows),
            (Next::Columns(left), _) => Some(Next::Columns(left - 1)),
            (Next::First, Command::Simple) | (Next::Last(1), _) => None,
            (Next::Last(left), _) => Some(Next::Last(left - 1)),
            (Next::Rows, _) | (Next::First, Command::Fetch) => match packet.payload.first() {
                Some(0xff) => None,
                Some(0xfe) if packet.length < MAX_END => {
                    has_more(status_of_end(&packet.payload, lists_end)?).then_some(Next::First)
                }
                _ => Some(Next::Rows),
            },
        };
        self.next = next.unwrap_or_default();
        if next.is_none() {
            self.commands.pop_front();
            self.given += 1;
        }
        Some(next.is_none())
    }
}

/// The end of rows: an OK packet with another header where lists have no end of their own, else warnings and status.
fn status_of_end(payload: &[u8], lists_end: bool) -> Option<u16> {
    if lists_end { Some(u16::from_le_bytes(*payload.get(3..)?.first_chunk()?)) } else { status_of_ok(payload) }
}

fn has_more(status: u16) -> bool {
    status & MORE_RESULTS != 0
}

/// Behind the header and two numbers: rows affected, and the last id.
fn status_of_ok(payload: &[u8]) -> Option<u16> {
    let (_, rest) = lenenc(payload.get(1..)?)?;
    let (_, rest) = lenenc(rest)?;
    Some(u16::from_le_bytes(*rest.first_chunk()?))
}

/// A number of one to nine bytes, and what stands behind it.
fn lenenc(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let width = match first {
        0..=0xfa => return Some((u64::from(*first), rest)),
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        0xfb | 0xff => return None,
    };
    let (number, rest) = rest.split_at_checked(width)?;
    Some((number.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)), rest))
}
