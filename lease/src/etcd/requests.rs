//! The keys of a lock, and what is asked of the server.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use etcd_client::{
    Client, Compare, CompareOp, Error, GetOptions, KeyValue, PutOptions, SortOrder, SortTarget, Txn, TxnOp,
    TxnOpResponse, TxnResponse,
};

use super::claims::{EtcdLease, Known, Place};
use super::connection::is_not_found;
use crate::clock::{BootClock, Clock};
use crate::lock_name::LockName;
use crate::store::{Claim, Holder};
use crate::token::{FencingToken, OwnerHash, OwnerNonce};

/// The keys of one lock. No part of a lock's name has a `/`.
pub(super) struct Keys {
    /// Every claim on the lock has a key with this prefix; the oldest is the owner's.
    pub(super) queue: String,
    /// Who has released last. It lives as long as the lease of its writer does.
    pub(super) released: String,
}

impl Keys {
    pub(super) fn new(namespace: &str, name: &LockName) -> Self {
        Self { queue: format!("{namespace}/{name}/queue/"), released: format!("{namespace}/{name}/released") }
    }

    /// The key of a claim of the store with this number.
    pub(super) fn of_slot(&self, store: u64, slot: usize) -> String {
        format!("{}{store:016x}-{slot}", self.queue)
    }

    /// The own key, the oldest and the last release, all at one revision.
    fn gets(&self, own: &str) -> Vec<TxnOp> {
        vec![TxnOp::get(own, None), self.get_oldest(), TxnOp::get(&*self.released, None)]
    }

    fn get_oldest(&self) -> TxnOp {
        let oldest = GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend).with_limit(1);
        TxnOp::get(&*self.queue, Some(oldest))
    }

    /// The youngest two claims: of who has just put its own, that and the one before it.
    fn get_youngest(&self) -> TxnOp {
        let youngest = GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Descend).with_limit(2);
        TxnOp::get(&*self.queue, Some(youngest.with_keys_only()))
    }
}

/// What stands at the server, at one revision.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) own: Option<KeyValue>,
    pub(super) oldest: Option<KeyValue>,
    released: Option<KeyValue>,
    /// Where the claim stands in the queue, if it has just entered.
    pub(super) place: Option<Place>,
}

impl Seen {
    fn read(response: &TxnResponse) -> Self {
        let mut gets = response.op_responses().into_iter().filter_map(|answer| match answer {
            TxnOpResponse::Get(mut get) => Some(get.take_kvs()),
            _ => None,
        });
        let mut next = || gets.next().and_then(|kvs| kvs.into_iter().next());
        let (own, oldest, released) = (next(), next(), next());
        let place =
            gets.next().map(|youngest| Place { predecessor: youngest.into_iter().nth(1).map(place_of), beside: false });
        Self { own, oldest, released, place }
    }

    /// Whether the own key is there and another claim's: a key's name says nothing of whose it is.
    pub(super) fn is_anothers(&self, nonce: OwnerNonce) -> bool {
        self.own.as_ref().is_some_and(|own| owner(own) != Some(nonce))
    }

    /// Whether the own key is the oldest.
    pub(super) fn is_owner(&self) -> bool {
        self.own.is_some() && self.own.as_ref().map(KeyValue::key) == self.oldest.as_ref().map(KeyValue::key)
    }

    /// Whether this nonce has released last.
    pub(super) fn is_spent(&self, nonce: OwnerNonce) -> bool {
        let released = self.released.as_ref().and_then(|released| Record::read(released.value()));
        released.is_some_and(|released| released.text.split(' ').next() == Some(&*hex(nonce)))
    }

    /// Who has released last, or has taken the lock away: its token is the revision of that.
    pub(super) fn last(&self) -> Option<Holder> {
        let key = self.released.as_ref()?;
        let released = Record::read(key.value())?;
        let (owner, token) = released.text.split_once(' ').unwrap_or((released.text, ""));
        let owner = OwnerHash::of(&u128::from_str_radix(owner, 16).ok()?.to_be_bytes());
        let since = Duration::from_millis(unix_ms().saturating_sub(released.at_ms));
        let mut holder = Holder::new(owner, since, Duration::ZERO);
        holder.token = FencingToken::new(token.parse().unwrap_or(key.mod_revision()));
        Some(holder)
    }

    /// The oldest claim, as others are shown it; its lease has this left.
    pub(super) fn holder(&self, remaining: Duration) -> Holder {
        let Some(oldest) = &self.oldest else {
            return Holder::new(OwnerHash::of(&[]), Duration::ZERO, Duration::ZERO);
        };
        let claimed = Record::read(oldest.value()).unwrap_or_default();
        let owner = owner(oldest).map_or(OwnerHash::of(&[]), |nonce| nonce.hash());
        // Who has waited has held the lock since it was released, which is no event that is written down.
        let released = self.released.as_ref().and_then(|released| Record::read(released.value())).unwrap_or_default();
        let age = unix_ms().saturating_sub(claimed.at_ms.max(released.at_ms));
        let mut holder = Holder::new(owner, Duration::from_millis(age), remaining);
        holder.token = FencingToken::new(oldest.create_revision());
        let job = claimed.text.split_once(' ').map_or("", |(_, job)| job);
        holder.job = Some(job).filter(|job| !job.is_empty()).map(Into::into);
        holder
    }
}

/// Whose claim stands at a key.
pub(super) fn owner(claim: &KeyValue) -> Option<OwnerNonce> {
    let hex = Record::read(claim.value())?.text.split(' ').next()?;
    u128::from_str_radix(hex, 16).ok().map(|nonce| OwnerNonce::from_bytes(nonce.to_be_bytes()))
}

/// What is written beside a key: when, by the clock of its writer, which is only shown, and whose it is.
#[derive(Debug, Default)]
pub(super) struct Record<'a> {
    at_ms: u64,
    text: &'a str,
}

impl<'a> Record<'a> {
    pub(super) fn write(text: &str) -> String {
        format!("{} {text}", unix_ms())
    }

    fn read(value: &'a [u8]) -> Option<Self> {
        let (at_ms, text) = std::str::from_utf8(value).ok()?.split_once(' ')?;
        Some(Self { at_ms: at_ms.parse().ok()?, text })
    }
}

/// Puts the own key unless it is there, with this lease; `None` if there is no such lease any more.
pub(super) async fn enter(
    client: &Client,
    keys: &Keys,
    own: &str,
    claim: &Claim<'_>,
    lease: EtcdLease,
) -> Result<Option<Seen>, Error> {
    let put = PutOptions::new().with_lease(lease.id);
    let record = Record::write(&format!("{} {}", hex(claim.nonce), claim.job.unwrap_or_default()));
    let put = TxnOp::put(own, record, Some(put));
    let absent = Compare::version(own, CompareOp::Equal, 0);
    let (mut entering, gets) = (vec![put], keys.gets(own));
    entering.extend(gets.clone());
    entering.push(keys.get_youngest());
    let enter = Txn::new().when([absent]).and_then(entering).or_else(gets);
    match client.kv_client().txn(enter).await {
        Ok(response) => Ok(Some(Seen::read(&response))),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads only, and so costs the cluster no write. For who has no claim, the name of the queue itself is no key's.
pub(super) async fn look(client: &Client, keys: &Keys, own: Option<&str>) -> Result<Seen, Error> {
    let gets = keys.gets(own.unwrap_or(&keys.queue));
    client.kv_client().txn(Txn::new().and_then(gets)).await.map(|response| Seen::read(&response))
}

/// Looks through the whole queue for a claim of which this process knows no key, from the oldest on and so many at a time.
pub(super) async fn find(client: &Client, keys: &Keys, nonce: OwnerNonce) -> Result<Option<KeyValue>, Error> {
    const PAGE: i64 = 256;
    let page = GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend).with_limit(PAGE);
    let mut from = 0;
    loop {
        let page = page.clone().with_min_create_revision(from);
        let mut found = client.kv_client().get(&*keys.queue, Some(page)).await?;
        let (found, more) = (found.take_kvs(), found.more());
        // One transaction creates one claim, so that no two have the same.
        let last = found.last().map(KeyValue::create_revision);
        let own = found.into_iter().find(|claim| owner(claim) == Some(nonce));
        match last.filter(|_| more) {
            Some(last) if own.is_none() => from = last + 1,
            _ => return Ok(own),
        }
    }
}

/// How a claim has left the queue.
#[derive(Debug)]
pub(super) enum Left {
    /// It was the oldest, and the release is noted. Whose turn it is now, if somebody waits.
    AsOwner(Option<Box<KeyValue>>),
    AsWaiter,
    /// It was not there any more.
    NotThere(Box<Seen>),
}

/// Deletes the own key of this token; if it is the oldest, notes the release in the same step.
pub(super) async fn leave(client: &Client, keys: &Keys, nonce: OwnerNonce, own: &Known) -> Result<Left, Error> {
    let Known { key, lease, token } = own;
    let mine = Compare::create_revision(&**key, CompareOp::Equal, *token);
    // Holds for every key of the queue.
    let oldest = Compare::create_revision(&*keys.queue, CompareOp::Greater, token - 1).with_prefix();
    let delete = TxnOp::delete(&**key, None);
    let note = PutOptions::new().with_lease(lease.id);
    let note = TxnOp::put(&*keys.released, Record::write(&format!("{} {token}", hex(nonce))), Some(note));
    let mut otherwise = vec![TxnOp::txn(Txn::new().when([mine.clone()]).and_then([delete.clone()]))];
    otherwise.extend(keys.gets(key));
    let both = Txn::new().when([mine, oldest]).and_then([delete, note, keys.get_oldest()]).or_else(otherwise);
    match client.kv_client().txn(both).await {
        Ok(response) if response.succeeded() => Ok(Left::AsOwner(next(&response).map(Box::new))),
        Ok(response) => {
            let waited =
                matches!(response.op_responses().first(), Some(TxnOpResponse::Txn(inner)) if inner.succeeded());
            Ok(if waited { Left::AsWaiter } else { Left::NotThere(Box::new(Seen::read(&response))) })
        }
        // The lease has run out, and its key with it.
        Err(error) if is_not_found(&error) => {
            look(client, keys, Some(key)).await.map(|seen| Left::NotThere(Box::new(seen)))
        }
        Err(error) => Err(error),
    }
}

/// Whether the key of this token is there.
pub(super) async fn stands(client: &Client, key: &[u8], token: i64) -> Result<bool, Error> {
    let mut found = client.kv_client().get(key, Some(GetOptions::new().with_keys_only())).await?;
    Ok(found.take_kvs().iter().any(|found| found.create_revision() == token))
}

fn place_of(key: KeyValue) -> (Vec<u8>, i64) {
    let token = key.create_revision();
    (key.into_key_value().0, token)
}

/// The one claim that is read there.
fn next(response: &TxnResponse) -> Option<KeyValue> {
    response.op_responses().into_iter().find_map(|answer| match answer {
        TxnOpResponse::Get(mut get) => get.take_kvs().into_iter().next(),
        _ => None,
    })
}

/// Deletes a key, unless it is another claim's by now.
pub(super) async fn remove(client: &Client, own: &Known) -> Result<(), Error> {
    let mine = Compare::create_revision(&*own.key, CompareOp::Equal, own.token);
    let delete = Txn::new().when([mine]).and_then([TxnOp::delete(&*own.key, None)]);
    client.kv_client().txn(delete).await.map(drop)
}

/// The key before the own one, which has this token.
pub(super) async fn predecessor(client: &Client, keys: &Keys, token: i64) -> Result<Place, Error> {
    let youngest = GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Descend).with_limit(1);
    let before = youngest.with_max_create_revision(token - 1).with_keys_only();
    let mut response = client.kv_client().get(&*keys.queue, Some(before)).await?;
    let before = response.take_kvs().into_iter().next();
    Ok(Place { predecessor: before.map(place_of), beside: false })
}

pub(super) async fn grant(client: &Client, asked: i64) -> Result<EtcdLease, Error> {
    let confirmed = BootClock.now();
    let granted = client.lease_client().grant(asked, None).await?;
    Ok(EtcdLease { id: granted.id(), asked, ttl: seconds(granted.ttl()), confirmed })
}

/// Extends the lease; `None` if there is no such lease any more. It asks on a stream of its own, so that none can come to
/// stall unnoticed between two times.
pub(super) async fn keep_alive(client: &Client, lease: EtcdLease) -> Result<Option<EtcdLease>, Error> {
    let confirmed = BootClock.now();
    match client.lease_client().keep_alive(lease.id).await {
        // Answered already: it waits for the first answer.
        Ok(_stream) => Ok(Some(EtcdLease { confirmed, ..lease })),
        // What an answer with a TTL of zero is made to; the way that it goes first cannot fail.
        Err(Error::LeaseKeepAliveError(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// How long the lease of a key lasts, unless it is renewed. The server tells whole seconds, rounded down.
pub(super) async fn remaining(client: &Client, key: Option<&KeyValue>) -> Result<Duration, Error> {
    let lease = key.map_or(0, KeyValue::lease);
    let told = client.lease_client().time_to_live(lease, None).await?;
    // One that has just run out tells −1, and its key's end is an event.
    Ok(seconds(told.ttl().saturating_add(1).clamp(1, told.granted_ttl().max(1))))
}

pub(super) async fn revoke(client: &Client, lease: EtcdLease) -> Result<(), Error> {
    match client.lease_client().revoke(lease.id).await {
        Err(error) if !is_not_found(&error) => Err(error),
        _ => Ok(()),
    }
}

pub(super) fn seconds(whole: i64) -> Duration {
    Duration::from_secs(u64::try_from(whole).unwrap_or(0))
}

pub(super) fn hex(nonce: OwnerNonce) -> String {
    format!("{:032x}", u128::from_be_bytes(*nonce.as_bytes()))
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
