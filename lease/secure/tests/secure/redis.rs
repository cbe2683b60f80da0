//! Redis: a user of its own over TLS, with and without certificates of the clients.

use std::process::Command;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::cmd;
use leastlock_lease::{Error, Hold, LeaseStatus, Leases, RedisLeaseStore, RedlockStore, Released};
use leastlock_lease_secure::{Identity, choose_cryptography, redis_client};
use leastlock_testkit::process::Child;
use leastlock_testkit::until;

use crate::authority::{Authority, Files};
use crate::world::{
    HOST, LIMIT, OTHER_HOST, OTHER_NAME, SECRET, UNKNOWN_AUTHORITY, free_ports, has_secret, lock, refuses, serves, tell,
};

/// What the guide says that a user needs, in operations.md.
const RIGHTS: &str = "resetchannels &leastlock:freed ~leastlock:* -@all +eval +evalsha +script|load +time \
    +get +set +del +pexpire +pttl +hget +hmget +hset +hdel +hincrby +publish +subscribe \
    +config|get +info +pubsub|numsub +ping +hello";

/// A server that speaks nothing but TLS, and knows nobody but its users.
struct Server {
    port: u16,
    authority: Authority,
    _process: Child,
    _folder: tempfile::TempDir,
}

impl Server {
    async fn start(certificate: impl FnOnce(&Authority) -> Identity, asks_clients: &str) -> Self {
        choose_cryptography();
        let (folder, [port], authority) =
            (tempfile::tempdir().unwrap(), free_ports(), Authority::new("Redis of the test"));
        let files = Files::write(folder.path(), &authority, &certificate(&authority));
        let users = [
            "user default off".to_owned(),
            format!("user admin on >{SECRET} ~* &* +@all"),
            format!("user leases on >{SECRET} {RIGHTS}"),
            format!("user elsewhere on >{SECRET} {RIGHTS} resetkeys ~other:*"),
            format!("user unscripted on >{SECRET} {RIGHTS} -eval -evalsha"),
            format!("user unasked on >{SECRET} {RIGHTS} -config|get"),
        ];
        let acl = folder.path().join("users.acl");
        std::fs::write(&acl, users.join("\n") + "\n").unwrap();
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", "0", "--tls-port", &port.to_string(), "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"]);
        command.arg("--dir").arg(folder.path()).arg("--aclfile").arg(acl);
        command.arg("--tls-cert-file").arg(files.certificate).arg("--tls-key-file").arg(files.key);
        command.arg("--tls-ca-cert-file").arg(files.authority).args(["--tls-auth-clients", asks_clients]);
        let process = Child::spawn(command);
        until("the Redis of the test listens", LIMIT, async || {
            tokio::net::TcpStream::connect((OTHER_HOST, port)).await.is_ok()
        })
        .await;
        Self { port, authority, _process: process, _folder: folder }
    }

    fn url(&self, user: &str, password: &str, host: &str) -> String {
        format!("rediss://{user}:{password}@{host}:{}/", self.port)
    }

    fn store(&self, user: &str) -> RedisLeaseStore {
        store(&self.url(user, SECRET, HOST), &self.authority, None)
    }

    async fn admin(&self) -> MultiplexedConnection {
        let client = redis_client(&self.url("admin", SECRET, HOST), &self.authority.pem(), None).unwrap();
        client.get_multiplexed_async_connection().await.unwrap()
    }

    /// Gives the user another password, and cuts its connections.
    async fn change_password(&self, password: &str) {
        let mut admin = self.admin().await;
        let change = cmd("ACL").arg(&["SETUSER", "leases", "resetpass", &format!(">{password}")]).clone();
        change.exec_async(&mut admin).await.unwrap();
        cmd("CLIENT").arg(&["KILL", "USER", "leases"]).exec_async(&mut admin).await.unwrap();
    }

    /// Waits until somebody listens for releases; the server has no port but that of TLS.
    async fn is_heard(&self) {
        let mut admin = self.admin().await;
        until("the waiter listens", LIMIT, async || {
            let command = cmd("PUBSUB").arg(&["NUMSUB", "leastlock:freed"]).clone();
            let (_, listeners): (String, u64) = command.query_async(&mut admin).await.unwrap();
            listeners == 1
        })
        .await;
    }
}

fn store(url: &str, authority: &Authority, identity: Option<&Identity>) -> RedisLeaseStore {
    RedisLeaseStore::new(redis_client(url, &authority.pem(), identity).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_user_with_no_more_rights_than_it_needs_has_leases_over_tls() {
    let server = Server::start(|authority| authority.server(&[HOST]), "no").await;
    serves(|| server.store("leases"), async || server.is_heard().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_client_without_a_certificate_is_refused_where_the_server_asks_for_one() {
    let server = Server::start(|authority| authority.server(&[HOST]), "yes").await;
    let (own, url) = (&server.authority, server.url("leases", SECRET, HOST));
    let identity = own.client("leases");
    serves(|| store(&url, own, Some(&identity)), async || {}).await;
    refuses(store(&url, own, None), "received fatal alert: CertificateRequired").await;
    let strangers = Authority::new("somebody else").client("leases");
    refuses(store(&url, own, Some(&strangers)), "received fatal alert: UnknownCA").await;
    let unsafe_key = Identity { key: SECRET.to_owned(), ..identity };
    let unread = redis_client(&url, &own.pem(), Some(&unsafe_key)).map(drop).unwrap_err();
    assert!(!has_secret(&tell(&unread)), "{unread}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_wrong_authority_name_password_or_permission_is_refused_and_named() {
    let server = Server::start(|authority| authority.server(&[HOST]), "no").await;
    let (own, url) = (&server.authority, |password, host| server.url("leases", password, host));
    refuses(store(&url(SECRET, HOST), &Authority::new("somebody else"), None), UNKNOWN_AUTHORITY).await;
    refuses(store(&url(SECRET, OTHER_HOST), own, None), OTHER_NAME).await;
    refuses(store(&url("wrong", HOST), own, None), "Password authentication failed").await;
    refuses(server.store("elsewhere"), "no permissions to access one of the keys").await;
    refuses(server.store("unscripted"), "no permissions to run the 'evalsha' command").await;
    // The double accepts that nobody can tell what the server loses.
    refuses(server.store("unasked"), "it refuses CONFIG").await;
    let url = server.url("unasked", SECRET, HOST);
    let accepts = || RedisLeaseStore::best_effort(redis_client(&url, &own.pem(), None).unwrap());
    accepts().check().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_certificate_that_has_run_out_is_refused() {
    let server = Server::start(|authority| authority.expired_server(&[HOST]), "no").await;
    refuses(server.store("leases"), "certificate expired").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_password_that_is_changed_under_a_holder_leaves_it_unconfirmed_while_there_is_time() {
    let server = Server::start(|authority| authority.server(&[HOST]), "no").await;
    let leases = Leases::new(server.store("leases"));
    let lease = leases.acquire(&lock(), Hold::renewed(Duration::from_secs(6))).await.unwrap();
    server.change_password("another").await;
    until("a renewal is refused", LIMIT, async || matches!(lease.status(), LeaseStatus::Unconfirmed { .. })).await;
    assert!(matches!(lease.permit(), Err(Error::Unconfirmed { .. })));
    server.change_password(SECRET).await;
    until("the next one is not", LIMIT, async || matches!(lease.status(), LeaseStatus::Held { .. })).await;
    assert!(lease.permit().is_ok());
    assert_eq!(lease.release().await, Released::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redlock_goes_over_tls_and_says_why_a_majority_does_not_answer() {
    let mut servers = Vec::new();
    for _ in 0..RedlockStore::MIN_NODES {
        servers.push(Server::start(|authority| authority.server(&[HOST]), "no").await);
    }
    // As many of the first as have this password.
    let leases = |passwords: &[&str]| {
        let clients = servers.iter().zip(passwords).map(|(server, password)| {
            redis_client(&server.url("leases", password, HOST), &server.authority.pem(), None).unwrap()
        });
        Leases::new(RedlockStore::new(clients).unwrap().node_limit(LIMIT))
    };
    let hold = Hold::renewed(4 * LIMIT);
    for passwords in [[SECRET; 3], [SECRET, SECRET, "wrong"]] {
        let lease = leases(&passwords).acquire_efficiency(&lock(), hold).await;
        assert_eq!(lease.unwrap_or_else(|error| panic!("{}", tell(&error))).release().await, Released::Released);
    }
    let refused = leases(&[SECRET, "wrong", "wrong"]).acquire_efficiency(&lock(), hold).await.map(drop).unwrap_err();
    assert!(matches!(refused, Error::Store { .. }), "{refused:?}");
    assert!(tell(&refused).contains("Password authentication failed"), "{}", tell(&refused));
    assert!(!has_secret(&format!("{refused:?}")));
}
