//! What is asked of the server. Requests of a session are carried out in the order in which they were sent, so those that
//! belong together are sent at once.

use tokio::join;
use zookeeper_client::{Acls, Client, CreateMode, Error, OneshotWatcher, Stat};

use super::claims::Own;
use super::node::{Node, Queue, claim_data, prefix, release_data};
use super::session::{Failure, Session};
use crate::store::Claim;
use crate::token::OwnerNonce;

/// How often the lock's own node may vanish under an attempt: the server removes it when nobody has used the lock for a while.
const ATTEMPTS: u32 = 3;

/// What stands at the server.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) queue: Queue,
    pub(super) released: Vec<u8>,
    /// When that was written.
    pub(super) released_ms: i64,
}

impl Seen {
    fn new(children: Vec<String>, (released, stat): (Vec<u8>, Stat)) -> Self {
        Self { queue: Queue::new(children), released, released_ms: stat.mtime }
    }
}

/// Makes a node for the claim; answers it, and what there is beside it: where the lock's own node counts no other, nothing. Who knows of
/// others asks for them at once.
pub(super) async fn enter(
    session: &Session,
    lock: &str,
    claim: &Claim<'_>,
    acls: Acls<'_>,
    others: bool,
) -> Result<(Own, Seen), Failure> {
    let client = &session.client;
    let path = format!("{lock}/{}", prefix(claim.nonce));
    let data = claim_data(client.session_timeout(), claim.job);
    let options = CreateMode::EphemeralSequential.with_acls(acls);
    let mut left = ATTEMPTS;
    loop {
        let create = client.create(&path, data.as_bytes(), &options);
        let released = client.get_data(lock);
        let children = others.then(|| client.list_children(lock));
        let children = async {
            match children {
                Some(children) => Some(children.await),
                None => None,
            }
        };
        match join!(create, released, children) {
            (Ok((stat, sequence)), released, children) => {
                let own = own(session, format!("{}{sequence}", prefix(claim.nonce)), &stat)?;
                let released = released?;
                let children = match children {
                    Some(children) => children?,
                    None if released.1.num_children > 1 => client.list_children(lock).await?,
                    None => vec![own.node.name.clone()],
                };
                return Ok((own, Seen::new(children, released)));
            }
            (Err(Error::NoNode), ..) if left > 1 => {
                left -= 1;
                client.mkdir(lock, &CreateMode::Container.with_acls(acls)).await?;
            }
            (Err(error), ..) => return Err(error.into()),
        }
    }
}

/// The node, if it is this session's: of any other it would end with that one.
fn own(session: &Session, name: String, stat: &Stat) -> Result<Own, Failure> {
    if stat.is_invalid() {
        return Err(Failure::Unreliable("the server does not tell what it has created; from 3.5 on it does"));
    }
    let node =
        Node::parse(name).ok_or(Failure::Unreliable("the server has appended no number to a sequential node"))?;
    if stat.ephemeral_owner != session.id() {
        return Err(Failure::Unreliable("the server has created a node for another session"));
    }
    Ok(Own { node, token: stat.czxid, made_ms: stat.ctime })
}

/// Of the nodes of this claim, the oldest of this session; the others are removed: those of earlier sessions, which may end at
/// any moment, and those that attempts without an answer have made.
pub(super) async fn settle(
    session: &Session,
    lock: &str,
    nonce: OwnerNonce,
    newest: Own,
    seen: &Seen,
) -> Result<Own, Error> {
    let mut found = newest;
    for node in seen.queue.of(nonce) {
        if *node == found.node {
            continue;
        }
        let stat = session.client.check_stat(&path_of(lock, node)).await?;
        let Some(stat) = stat else { continue };
        let surplus = if stat.ephemeral_owner == session.id() && node.is_before(&found.node) {
            std::mem::replace(&mut found, Own { node: node.clone(), token: stat.czxid, made_ms: stat.ctime }).node
        } else {
            node.clone()
        };
        remove(&session.client, lock, &surplus).await?;
    }
    Ok(found)
}

/// Looks again for a claim that has its node; `None` if that is gone. `sync` goes by way of the leader, so that a server which
/// has lost touch with it does not answer for it.
pub(super) async fn look(session: &Session, lock: &str, own: &Own) -> Result<Option<Seen>, Error> {
    let client = &session.client;
    let path = path_of(lock, &own.node);
    let (synced, stat) = (client.sync(lock), client.check_stat(&path));
    let (children, released) = (client.list_children(lock), client.get_data(lock));
    let (synced, stat, children, released) = join!(synced, stat, children, released);
    if !stands(session, stat?.as_ref(), own.token) {
        return Ok(None);
    }
    synced?;
    Ok(Some(Seen::new(children?, released?)))
}

/// Whether the node is there, with this token, in this session.
pub(super) fn stands(session: &Session, stat: Option<&Stat>, token: i64) -> bool {
    stat.is_some_and(|stat| stat.czxid == token && stat.ephemeral_owner == session.id())
}

/// The probe of a renewal.
pub(super) async fn probe(session: &Session, path: &str, token: i64) -> Result<bool, Error> {
    let (synced, stat) = (session.client.sync(path), session.client.check_stat(path));
    let (synced, stat) = join!(synced, stat);
    synced?;
    Ok(stands(session, stat?.as_ref(), token))
}

/// What stands at the lock, whoever asks.
pub(super) async fn survey(client: &Client, lock: &str) -> Result<Seen, Error> {
    let (synced, children, released) = (client.sync(lock), client.list_children(lock), client.get_data(lock));
    let (synced, children, released) = join!(synced, children, released);
    match (children, released) {
        (Ok(children), Ok(released)) => {
            synced?;
            Ok(Seen::new(children, released))
        }
        (Err(Error::NoNode), _) | (_, Err(Error::NoNode)) => Ok(Seen::default()),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

/// The owner's node, and a watch on the one before the own. Each may be gone by now.
pub(super) async fn ahead(
    client: &Client,
    lock: &str,
    owner: &Node,
    predecessor: &Node,
) -> Result<(Option<(Vec<u8>, Stat)>, Option<(Stat, OneshotWatcher)>), Error> {
    let (owner, before) = (path_of(lock, owner), path_of(lock, predecessor));
    let (owner, watched) = (client.get_data(&owner), client.get_and_watch_data(&before));
    let (owner, watched) = join!(owner, watched);
    let watched = there(watched)?.map(|(_, stat, watcher)| (stat, watcher));
    Ok((there(owner)?, watched))
}

pub(super) fn there<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes the node and notes the release, in one step; `None` if the node is not there. Answers what there is after that, if it is asked for
/// others.
pub(super) async fn leave(
    client: &Client,
    lock: &str,
    nonce: OwnerNonce,
    own: &Own,
    others: bool,
) -> Result<Option<Queue>, Error> {
    let mut both = client.new_multi_writer();
    both.add_delete(&path_of(lock, &own.node), None)?;
    both.add_set_data(lock, release_data(nonce, own.token).as_bytes(), None)?;
    let left = both.commit();
    let children = others.then(|| client.list_children(lock));
    let left = left.await.map_err(Error::from);
    let children = match children {
        // It only spares the next one a trip.
        Some(children) => children.await.unwrap_or_default(),
        None => Vec::new(),
    };
    Ok(there(left)?.map(|_| Queue::new(children)))
}

/// Removes the node, if it is there.
pub(super) async fn remove(client: &Client, lock: &str, node: &Node) -> Result<bool, Error> {
    Ok(there(client.delete(&path_of(lock, node), None).await)?.is_some())
}

pub(super) fn path_of(lock: &str, node: &Node) -> String {
    format!("{lock}/{}", node.name)
}
