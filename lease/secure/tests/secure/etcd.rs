//! etcd: a user with a role, known by its password or by its certificate.

use std::process::Command;

use etcd_client::{Client, ConnectOptions, Permission, UserAddOptions};
use leastlock_lease::EtcdLeaseStore;
use leastlock_lease_secure::{Identity, choose_cryptography, etcd_options};
use leastlock_testkit::process::Child;
use leastlock_testkit::until;

use crate::authority::{Authority, Files};
use crate::world::{
    HOST, LIMIT, OTHER_HOST, OTHER_NAME, SECRET, UNKNOWN_AUTHORITY, free_ports, has_secret, refuses, serves,
};

/// How the server knows who asks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Password,
    Certificate,
}

/// A server that speaks TLS to its clients, with users and their roles.
struct Server {
    port: u16,
    authority: Authority,
    by: By,
    _process: Child,
    _folder: tempfile::TempDir,
}

impl Server {
    async fn start(by: By) -> Self {
        choose_cryptography();
        let (folder, ports) = (tempfile::tempdir().unwrap(), free_ports::<2>());
        let authority = Authority::new("etcd of the test");
        let files = Files::write(folder.path(), &authority, &authority.server(&[HOST]));
        let (client, peer) = (format!("https://127.0.0.1:{}", ports[0]), format!("http://127.0.0.1:{}", ports[1]));
        let mut command = Command::new("etcd");
        command.args(["--name", "test", "--logger", "zap", "--log-level", "error"]);
        command.arg("--data-dir").arg(folder.path().join("data"));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.arg("--initial-cluster").arg(format!("test={peer}"));
        command.arg("--cert-file").arg(files.certificate).arg("--key-file").arg(files.key);
        if by == By::Certificate {
            command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(files.authority);
        }
        // For what etcd calls unsupported and runs on nevertheless.
        if cfg!(target_arch = "aarch64") {
            command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
        }
        let process = Child::spawn(command);
        let server = Self { port: ports[0], authority, by, _process: process, _folder: folder };
        server.prepare().await;
        server
    }

    /// Makes the users, and asks everybody who they are from then on.
    async fn prepare(&self) {
        let (root, endpoint) = (self.authority.client("root"), self.endpoint(HOST));
        let options = etcd_options(None, &self.authority.pem(), (self.by == By::Certificate).then_some(&root));
        let mut answers = None;
        until("the etcd of the test answers", LIMIT, async || {
            let Ok(client) = Client::connect([&endpoint], Some(options.clone())).await else { return false };
            let there = client.kv_client().get("any", None).await.is_ok();
            answers = there.then_some(client);
            there
        })
        .await;
        let mut auth = answers.unwrap().auth_client();
        for (user, range) in [("root", None), ("leases", Some("leastlock/")), ("elsewhere", Some("other/"))] {
            let (password, options) = match self.by {
                By::Password => (SECRET, None),
                By::Certificate => ("", Some(UserAddOptions::new().with_no_pwd())),
            };
            auth.user_add(user, password, options).await.unwrap();
            if let Some(range) = range {
                auth.role_add(user).await.unwrap();
                auth.role_grant_permission(user, Permission::read_write(range).with_prefix()).await.unwrap();
            }
            auth.user_grant_role(user, user).await.unwrap();
        }
        auth.auth_enable().await.unwrap();
    }

    fn endpoint(&self, host: &str) -> String {
        format!("https://{host}:{}", self.port)
    }

    fn store_by<const N: usize>(&self, hosts: [&str; N], options: ConnectOptions) -> EtcdLeaseStore {
        EtcdLeaseStore::new(hosts.map(|host| self.endpoint(host)), options)
    }

    /// A store of this user's.
    fn store(&self, user: &str) -> EtcdLeaseStore {
        let authority = self.authority.pem();
        let options = match self.by {
            By::Password => etcd_options(Some((user, SECRET)), &authority, None),
            By::Certificate => etcd_options(None, &authority, Some(&self.authority.client(user))),
        };
        self.store_by([HOST], options)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_user_with_a_certificate_has_leases_and_a_client_without_one_is_refused() {
    let server = Server::start(By::Certificate).await;
    serves(|| server.store("leases"), async || {}).await;
    refuses(server.store("elsewhere"), "permission denied").await;
    let bare = etcd_options(None, &server.authority.pem(), None);
    refuses(server.store_by([HOST], bare), "received fatal alert").await;
    let own = Identity { key: SECRET.to_owned(), ..server.authority.client("leases") };
    let unread = etcd_options(None, &server.authority.pem(), Some(&own));
    refuses(server.store_by([HOST], unread), "Error parsing TLS private key").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_user_with_a_password_has_leases_and_a_wrong_one_or_a_role_without_the_range_has_not() {
    let server = Server::start(By::Password).await;
    serves(|| server.store("leases"), async || {}).await;
    refuses(server.store("elsewhere"), "permission denied").await;
    let options = |user| etcd_options(user, &server.authority.pem(), None);
    refuses(server.store_by([HOST], options(Some(("leases", "wrong")))), "authentication failed").await;
    refuses(server.store_by([HOST], options(None)), "user name is empty").await;
    // What a store that showed its options would print.
    assert!(has_secret(&format!("{:?}", options(Some(("leases", SECRET))))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_member_that_cannot_be_trusted_is_left_for_the_next_one_and_is_refused_if_it_is_the_last() {
    let server = Server::start(By::Password).await;
    let options = |authority: &Authority| etcd_options(Some(("leases", SECRET)), &authority.pem(), None);
    let (own, stranger) = (options(&server.authority), options(&Authority::new("somebody else")));
    serves(|| server.store_by([OTHER_HOST, HOST], own.clone()), async || {}).await;
    refuses(server.store_by([OTHER_HOST], own.clone()), OTHER_NAME).await;
    refuses(server.store_by([OTHER_HOST, OTHER_HOST], own), OTHER_NAME).await;
    refuses(server.store_by([OTHER_HOST, HOST], stranger), UNKNOWN_AUTHORITY).await;
}
