//! What a backend brings: its store, and the two commands by hand.

use std::sync::Arc;

use leastlock_lease::{FencedStore, LockName};

/// How long a lock is held at most, if its owner dies: longer than a turn.
pub(super) const TTL_MS: i64 = 30_000;

/// A server with a lock store on it.
///
/// # Contract
/// The store and the two commands use one driver with as many connections, and their writes are equally durable.
pub(super) trait Locks: Sized + Send + Sync + 'static {
    /// leastlock's.
    type Store: FencedStore;
    /// The connections of a turn's clients.
    type Driver: Send + Sync + 'static;

    /// The environment's variable that says where the server is; `None` if it needs none.
    const SERVER: Option<&'static str>;

    /// Makes what the locks need.
    fn create() -> impl Future<Output = anyhow::Result<Self>> + Send;

    /// The server's name and version.
    fn about(&self) -> impl Future<Output = anyhow::Result<String>> + Send;

    /// Connections for so many clients, all of them open.
    fn open(&self, clients: u32) -> impl Future<Output = anyhow::Result<Self::Driver>> + Send;

    /// A store of its own on these connections, which shares nothing else with another.
    fn store(&self, driver: &Self::Driver) -> Self::Store;

    /// The first command: takes the lock if it is free.
    fn take(driver: &Self::Driver, name: &LockName, owner: &[u8]) -> impl Future<Output = anyhow::Result<bool>> + Send;

    /// The second command: gives it up, if it is this owner's; answers whether it was.
    fn give_up(
        driver: &Self::Driver,
        name: &LockName,
        owner: &[u8],
    ) -> impl Future<Output = anyhow::Result<bool>> + Send;

    /// Closes the connections.
    fn close(&self, driver: Arc<Self::Driver>) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Removes what was made.
    fn end(self) -> impl Future<Output = anyhow::Result<()>> + Send;
}
