//! What is done to processes, and to their ways to the servers.

use std::fmt;
use std::time::Duration;

use leastlock_testkit::proxy::{Then, statement};

use crate::fleet::Member;
use crate::ground::{Ground, Server};
use crate::part::{CLOCK, GO, KILL_AT, STAND, STOP_AT};

mod site;

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
    /// The clock of the process is an hour ahead.
    Clock,
    /// No network to a lock store, and a clock that stands still meanwhile: it goes on believing in what it holds.
    Believe(Server),
    /// Every session in the scenario's database is ended.
    Terminate(Server),
    /// At its end the locks are what they were at its beginning.
    Restore,
    /// The clock of the lock store is an hour ahead at once.
    StepServer,
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
            Self::Clock => f.write_str("its clock an hour ahead"),
            Self::Believe(server) => write!(f, "no network to {}, and its clock stands still", server.name()),
            Self::Terminate(server) => write!(f, "sessions ended by {}", server.name()),
            Self::Restore => f.write_str("locks restored from an older copy"),
            Self::StepServer => f.write_str("the lock store's clock an hour ahead"),
        }
    }
}

/// How much longer every piece of data takes.
const DELAY: Duration = Duration::from_millis(150);
/// By how much a clock is wrong.
const STEP_MS: i64 = 3_600_000;

impl Blow {
    /// Begins it. Whether the process was there to meet it.
    pub(crate) async fn strike(self, member: &mut Member, ground: &Ground) -> anyhow::Result<bool> {
        match self {
            Self::Kill => return Ok(member.kill()),
            Self::Stop => return Ok(member.stop()),
            Self::KillAt(point) => return Ok(member.tell(&format!("{KILL_AT}{point}"))),
            Self::StopAt(point) => return Ok(member.tell(&format!("{STOP_AT}{point}"))),
            Self::Clock => return Ok(member.tell(&format!("{CLOCK}{STEP_MS}"))),
            Self::Terminate(server) => return site::terminate(ground, server).await.map(|()| true),
            Self::Restore => return site::copy(ground).await.map(|()| true),
            Self::StepServer => return site::step(ground).await.map(|()| true),
            Self::Believe(_) if !member.tell(STAND) => return Ok(false),
            _ => {}
        }
        let Some(proxy) = self.server().and_then(|server| member.network.proxy(server)) else { return Ok(false) };
        match self {
            Self::Delay(_) => proxy.delay(DELAY),
            Self::BlackHole(_) | Self::Believe(_) => proxy.black_hole(),
            Self::Mute(_) => proxy.swallow_replies(),
            Self::Cut(_) => proxy.cut().await,
            Self::SwallowCommit(_) => {
                proxy.swallow_reply_to(statement::once(statement::is_commit()), Then::Cut);
            }
            Self::LoseCommit(_) => proxy.lose_request(statement::once(statement::is_commit()), Then::Cut),
            Self::Swallow(_, text) => {
                proxy.swallow_reply_to(statement::once(move |sql| sql.contains(text)), Then::Cut);
            }
            _ => unreachable!("these have no proxy"),
        }
        Ok(true)
    }

    /// Ends it.
    pub(crate) async fn relieve(self, member: &mut Member, ground: &Ground) -> anyhow::Result<()> {
        match self {
            Self::Kill | Self::Terminate(_) | Self::StepServer => {}
            Self::KillAt(_) | Self::StopAt(_) | Self::Stop => member.resume(),
            Self::Clock => drop(member.tell(&format!("{CLOCK}0"))),
            Self::Restore => site::restore(ground).await?,
            _ => {
                if let Some(proxy) = self.server().and_then(|server| member.network.proxy(server)) {
                    proxy.heal();
                }
                if matches!(self, Self::Believe(_)) {
                    member.tell(GO);
                }
            }
        }
        Ok(())
    }

    /// Whether it means nothing to a process that holds nothing.
    pub(crate) const fn needs_a_holder(self) -> bool {
        matches!(self, Self::Believe(_))
    }

    /// To which server the way leads that it is about.
    const fn server(self) -> Option<Server> {
        match self {
            Self::Delay(server)
            | Self::BlackHole(server)
            | Self::Believe(server)
            | Self::Mute(server)
            | Self::Cut(server)
            | Self::SwallowCommit(server)
            | Self::LoseCommit(server)
            | Self::Swallow(server, _) => Some(server),
            _ => None,
        }
    }
}
