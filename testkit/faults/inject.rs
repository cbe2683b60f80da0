//! What is done to processes, and to their ways to the servers.

use std::fmt;
use std::time::Duration;

use leastlock_testkit::proxy::{Then, statement};

use crate::fleet::Member;
use crate::ground::Server;

/// What happens to one process, or to its way to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Blow {
    /// SIGKILL at any time; it is started again afterwards.
    Kill,
    /// SIGKILL at the named point.
    KillAt(&'static str),
    /// SIGSTOP at any time, and SIGCONT afterwards.
    Stop,
    /// SIGSTOP at the named point, and SIGCONT afterwards.
    StopAt(&'static str),
    /// Every piece of data takes a while longer.
    Delay(Server),
    /// Every byte is lost, either way; nobody is told.
    BlackHole(Server),
    /// What it sends arrives, and no answer does.
    Mute(Server),
    /// Connections are closed, and new ones refused.
    Cut(Server),
    /// A commit takes effect, and its reply is lost.
    SwallowCommit(Server),
    /// A commit is lost on its way; who sent it cannot tell that from the other.
    LoseCommit(Server),
    /// The reply to a statement with these words is lost.
    Swallow(Server, &'static str),
    /// The clock of the process is wrong.
    Clock,
}

impl fmt::Display for Blow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill => f.write_str("kill"),
            Self::KillAt(point) => write!(f, "kill at {point}"),
            Self::Stop => f.write_str("stop"),
            Self::StopAt(point) => write!(f, "stop at {point}"),
            Self::Delay(server) => write!(f, "delay to {}", server.name()),
            Self::BlackHole(server) => write!(f, "no network to {}", server.name()),
            Self::Mute(server) => write!(f, "no answer from {}", server.name()),
            Self::Cut(server) => write!(f, "cut from {}", server.name()),
            Self::SwallowCommit(server) => write!(f, "lost reply of a commit in {}", server.name()),
            Self::LoseCommit(server) => write!(f, "lost commit to {}", server.name()),
            Self::Swallow(server, text) => write!(f, "lost reply of {text} in {}", server.name()),
            Self::Clock => f.write_str("step of its clock"),
        }
    }
}

/// How much longer every piece of data takes.
const DELAY: Duration = Duration::from_millis(150);
/// By how much a clock is wrong.
const STEP_MS: i64 = 3_600_000;

impl Blow {
    /// Begins it. Whether the process was there to meet it.
    pub(crate) fn strike(self, member: &mut Member) -> anyhow::Result<bool> {
        use crate::part::{CLOCK, KILL_AT, STOP_AT};
        match self {
            Self::Kill => return Ok(member.kill()),
            Self::Stop => return Ok(member.stop()),
            Self::KillAt(point) => return Ok(member.tell(&format!("{KILL_AT}{point}"))),
            Self::StopAt(point) => return Ok(member.tell(&format!("{STOP_AT}{point}"))),
            Self::Clock => return Ok(member.tell(&format!("{CLOCK}{STEP_MS}"))),
            _ => {}
        }
        let Some(proxy) = self.server().and_then(|server| member.network.proxy(server)) else { return Ok(false) };
        match self {
            Self::Delay(_) => proxy.delay(DELAY),
            Self::BlackHole(_) => proxy.black_hole(),
            Self::Mute(_) => proxy.swallow_replies(),
            Self::Cut(_) => {
                let cut = proxy.cut();
                tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(cut));
            }
            Self::SwallowCommit(_) => {
                proxy.swallow_reply_to(statement::once(statement::is_commit()), Then::Cut);
            }
            Self::LoseCommit(_) => proxy.lose_request(statement::once(statement::is_commit()), Then::Cut),
            Self::Swallow(_, text) => {
                proxy.swallow_reply_to(statement::once(move |sql| sql.contains(text)), Then::Cut);
            }
            Self::Kill | Self::KillAt(_) | Self::Stop | Self::StopAt(_) | Self::Clock => {}
        }
        Ok(true)
    }

    /// Ends it.
    pub(crate) fn relieve(self, member: &mut Member) {
        match self {
            Self::Kill => {}
            Self::KillAt(_) | Self::StopAt(_) | Self::Stop => member.resume(),
            Self::Clock => drop(member.tell(&format!("{}0", crate::part::CLOCK))),
            _ => {
                if let Some(proxy) = self.server().and_then(|server| member.network.proxy(server)) {
                    proxy.heal();
                }
            }
        }
    }

    /// To which server the way leads.
    const fn server(self) -> Option<Server> {
        match self {
            Self::Delay(server)
            | Self::BlackHole(server)
            | Self::Mute(server)
            | Self::Cut(server)
            | Self::SwallowCommit(server)
            | Self::LoseCommit(server)
            | Self::Swallow(server, _) => Some(server),
            Self::Kill | Self::KillAt(_) | Self::Stop | Self::StopAt(_) | Self::Clock => None,
        }
    }
}
