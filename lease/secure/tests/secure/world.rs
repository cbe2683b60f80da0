//! What a lease must do over any connection, and how it is refused.

use std::error::Error as StdError;
use std::fmt;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use leastlock_lease::{Acquire, Error, FencedStore, Hold, Leases, LockName, Released};
use leastlock_testkit::until;
use tokio::time::timeout;

/// The password of every user here; nothing may print it.
pub(crate) const SECRET: &str = "correct-horse-battery";
/// The name by which every server is reached, and the only one in its certificate.
pub(crate) const HOST: &str = "localhost";
/// The same server, by what is not in its certificate.
pub(crate) const OTHER_HOST: &str = "127.0.0.1";
/// What is told of a certificate that nobody who is trusted has signed.
pub(crate) const UNKNOWN_AUTHORITY: &str = "invalid peer certificate: UnknownIssuer";
/// What is told of one for another name.
pub(crate) const OTHER_NAME: &str = "certificate not valid for name";
/// How long anything may take, far below what is waited for a lock.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
/// Renewed after a third of it.
const TTL: Duration = Duration::from_secs(3);

pub(crate) fn lock() -> LockName {
    LockName::new("report:tenant-7:2026-09").unwrap()
}

/// A lease is acquired, renewed and released, and then its waiter's; `waits_well` waits until that one is as it should be.
pub(crate) async fn serves<S: FencedStore>(store: impl Fn() -> S, waits_well: impl AsyncFnOnce()) {
    let lease = Leases::new(store()).acquire(&lock(), Hold::renewed(TTL)).await;
    let lease = lease.unwrap_or_else(|error| panic!("{}", tell(&error)));
    let waits = Leases::new(store());
    let waiter =
        tokio::spawn(async move { waits.acquire_with(&lock(), Hold::renewed(TTL), Acquire::waiting(LIMIT)).await });
    let mut before = lease.remaining().unwrap();
    until("it is renewed", LIMIT, async || {
        let remaining = lease.remaining().expect("it is held");
        std::mem::replace(&mut before, remaining) < remaining
    })
    .await;
    waits_well().await;
    let token = lease.token();
    assert_eq!(lease.release().await, Released::Released);
    let next = waiter.await.unwrap().unwrap_or_else(|error| panic!("{}", tell(&error)));
    assert!(next.token() > token);
    assert_eq!(next.release().await, Released::Released);
}

/// No lease is to be had: the acquisition ends with an error that says `reason`, and does not have the secret in it.
///
/// It is not waited for: it would have had minutes.
pub(crate) async fn refuses<S: FencedStore + fmt::Debug>(store: S, reason: &str) {
    let shown = format!("{store:?}");
    let (leases, lock) = (Leases::new(store), lock());
    let acquire = leases.acquire_with(&lock, Hold::renewed(TTL), Acquire::waiting(20 * LIMIT));
    let acquired = timeout(LIMIT, acquire).await.unwrap_or_else(|_| panic!("{reason}: it is waited for"));
    let error = acquired.map(drop).expect_err(reason);
    let told = tell(&error);
    assert!(matches!(error, Error::Store { .. }) && !error.is_retryable(), "{told}");
    assert!(told.contains(reason), "{reason}: {told}");
    for text in [&shown, &told, &format!("{error:?}"), &format!("{leases:?}")] {
        assert!(!has_secret(text), "{text}");
    }
}

/// What an operator sees: the error and all its sources.
pub(crate) fn tell(error: &dyn StdError) -> String {
    let sources = std::iter::successors(error.source(), |&source| source.source());
    sources.fold(error.to_string(), |told, source| format!("{told}: {source}"))
}

pub(crate) fn has_secret(text: &str) -> bool {
    text.contains(SECRET) || text.contains("PRIVATE KEY")
}

/// As many ports that nobody listens on.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}
