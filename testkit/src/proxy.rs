//! A TCP proxy on loopback that can be told to misbehave.
//!
//! "A timeout is not an answer" is only tested when a reply is lost *after* its statement took effect, at a moment that
//! the test chooses:
//!
//! ```no_run
//! # async fn example(database_url: &str) -> Result<(), sqlx::Error> {
//! use std::time::Duration;
//! use leastlock_testkit::proxy::{FaultProxy, Then, postgres};
//! use sqlx::Connection;
//!
//! let proxy = FaultProxy::to_postgres(database_url).await;
//! let mut connection = sqlx::PgConnection::connect(&postgres::through(&proxy, database_url)).await?;
//! proxy.swallow_reply_to(postgres::is_commit(), Then::Cut);
//! let mut tx = connection.begin().await?;
//! sqlx::query("INSERT INTO effect VALUES (1)").execute(&mut *tx).await?;
//! assert!(tx.commit().await.is_err(), "the client cannot know");
//! proxy.fired(1, Duration::from_secs(20)).await;
//! // … and in the database the row is there.
//! # Ok(())
//! # }
//! ```
//!
//! Faults hold for the connections that are open and for those to come, until [`heal`](FaultProxy::heal). Everything
//! ends with the value.

use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use tokio::net::{TcpListener, lookup_host};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use conversation::Protocol;
use faults::{Faults, Lost, Rule};
use kafka::Advertised;
use link::Open;

pub use server::Proxied;

mod authority;
mod conversation;
mod faults;
mod kafka;
mod link;
pub mod mysql;
pub mod postgres;
mod server;
pub mod statement;

/// What becomes of a connection once a message on it was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It is cut: the client meets an error at once.
    Cut,
    /// It stays open and silent: the client waits until its own time-out.
    Hang,
}

/// A TCP proxy on loopback with faults that are switched at run time.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    faults: Arc<Faults>,
    _accepting: DropGuard,
}

impl FaultProxy {
    /// Listens on a free port of loopback and carries every connection to `upstream`. Of what it carries it reads PostgreSQL's
    /// protocol only; for a server of another kind, rules about statements never match.
    ///
    /// # Panics
    /// When it cannot listen.
    pub async fn start(upstream: SocketAddr) -> Self {
        Self::reading(|_| Protocol::Postgres, upstream).await
    }

    async fn reading(protocol: impl FnOnce(SocketAddr) -> Protocol, upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let faults = Arc::new(Faults::new());
        let accepting = CancellationToken::new();
        let accept = accept(listener, upstream, protocol(address), Arc::clone(&faults));
        let ended = accepting.clone();
        tokio::spawn(async move { ended.run_until_cancelled(accept).await });
        Self { address, faults, _accepting: accepting.drop_guard() }
    }

    /// A proxy to the server in a PostgreSQL URL; see [`postgres::through`] for the URL that leads through it.
    ///
    /// # Panics
    /// When `url` names no server that can be found.
    pub async fn to_postgres(url: &str) -> Self {
        let options = PgConnectOptions::from_str(url).expect("a PostgreSQL URL");
        let mut found = lookup_host((options.get_host(), options.get_port())).await.expect("the host has an address");
        Self::start(found.next().expect("the host has an address")).await
    }

    /// A proxy to the server in a MySQL URL; see [`mysql::through`] for the URL that leads through it.
    ///
    /// # Panics
    /// When `url` names no server that can be found.
    pub async fn to_mysql(url: &str) -> Self {
        let options = MySqlConnectOptions::from_str(url).expect("a MySQL URL");
        let mut found = lookup_host((options.get_host(), options.get_port())).await.expect("the host has an address");
        Self::reading(|_| Protocol::MySql, found.next().expect("the host has an address")).await
    }

    /// A proxy to a Kafka cluster of one broker: clients whose `bootstrap.servers` is the proxy's address go on using it, though
    /// the broker tells them its own.
    ///
    /// # Panics
    /// When `bootstrap` is not the address of a broker.
    pub async fn to_kafka(bootstrap: &str) -> Self {
        let broker = bootstrap.parse().expect("host and port");
        Self::reading(|proxy| Protocol::Kafka(Advertised { broker, proxy }), broker).await
    }

    /// Where the proxy listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Holds back each piece of data, either way, for `delay`; zero ends it.
    pub fn delay(&self, delay: Duration) {
        self.faults.set_delay(delay);
    }

    /// Closes the present connections and, until [`heal`](Self::heal), every new one as soon as it is made. When this
    /// returns, nothing more of the present ones reaches the server.
    ///
    /// # Cancel safety
    /// The connections are cut even if the wait for their end is dropped.
    pub async fn cut(&self) {
        self.faults.cut();
        self.faults.open.subscribe().wait_for(|open| *open == 0).await.expect("the sender is in self");
    }

    /// Loses every byte either way, as a network without a route does: connections stay open, new ones are accepted,
    /// neither side learns of the other's end.
    pub fn black_hole(&self) {
        self.faults.swallow_all();
    }

    /// Loses every byte that the server sends, whatever its protocol is: what clients ask for takes effect, and they are not told.
    pub fn swallow_replies(&self) {
        self.faults.mute_server();
    }

    /// When a client asks the server to execute a statement for whose text `predicate` holds: lets it take effect and
    /// loses the reply, and all that follows it. Replies to statements before it arrive. At most one such rule holds at a
    /// time; a connection meets it once. PostgreSQL and MySQL or MariaDB, each without encryption, only: anything else never
    /// matches.
    pub fn swallow_reply_to(&self, predicate: impl FnMut(&str) -> bool + Send + 'static, then: Then) {
        self.faults.set_rule(Rule { predicate: Box::new(predicate), lost: Lost::Reply, then });
    }

    /// The counterpart of [`swallow_reply_to`](Self::swallow_reply_to) that a client cannot tell from it: the matching
    /// statement never reaches the server, nor does what was sent with it in one piece or follows it.
    pub fn lose_request(&self, predicate: impl FnMut(&str) -> bool + Send + 'static, then: Then) {
        self.faults.set_rule(Rule { predicate: Box::new(predicate), lost: Lost::Request, then });
    }

    /// Ends every fault. A connection that lost bytes cannot go on, and is cut.
    pub fn heal(&self) {
        self.faults.heal();
    }

    /// How many connections were accepted.
    #[must_use]
    pub fn connections(&self) -> u64 {
        *self.faults.accepted.borrow()
    }

    /// How many replies or requests were lost to a rule. A reply counts once the server has sent it to its end, that is
    /// when the statement has taken effect.
    #[must_use]
    pub fn losses(&self) -> u64 {
        *self.faults.fired.borrow()
    }

    /// Waits until the rules have lost `count` replies or requests in all.
    ///
    /// # Panics
    /// When they have not within `limit`: the fault that the test is about never happened.
    pub async fn fired(&self, count: u64, limit: Duration) {
        reaches(&self.faults.fired, count, limit).await.unwrap_or_else(|fired| {
            panic!("within {limit:?} the fault struck {fired} times on {} connections, not {count}", self.connections())
        });
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.faults.cut();
    }
}

async fn reaches(counter: &watch::Sender<u64>, count: u64, limit: Duration) -> Result<(), u64> {
    let mut receiver = counter.subscribe();
    let reached = tokio::time::timeout(limit, receiver.wait_for(|now| *now >= count)).await;
    reached.map(|_| ()).map_err(|_| *counter.borrow())
}

async fn accept(listener: TcpListener, upstream: SocketAddr, protocol: Protocol, faults: Arc<Faults>) {
    loop {
        // Out of file descriptors, or a client that is gone again: the next may fare better.
        let Ok((client, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let open = Open::new(Arc::clone(&faults));
        if let Some(ends) = faults.admit() {
            tokio::spawn(link::carry(open, client, upstream, protocol, ends));
        }
    }
}
