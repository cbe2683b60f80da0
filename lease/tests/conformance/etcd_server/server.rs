//! An etcd of the test's own, which it may kill and set back.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, Permission};
use leastlock_testkit::process::Child;

use crate::world::eventually;

/// A server on free ports, with its data in a folder of its own; killed and removed with the value.
pub(super) struct Server {
    folder: tempfile::TempDir,
    ports: [u16; 2],
    /// Whether its tokens are JWT: every change of a user or a role makes those worthless that were given out before.
    signs_tokens: bool,
    process: Option<Child>,
}

const PASSWORD: &str = "secret";

impl Server {
    pub(super) async fn start() -> Self {
        Self::on_free_ports(false).await
    }

    /// One that asks everybody who they are. Its users are `root` and `leases`.
    pub(super) async fn with_users() -> Self {
        let server = Self::on_free_ports(true).await;
        let mut root = Client::connect([server.endpoint()], None).await.unwrap().auth_client();
        for user in ["root", "leases"] {
            root.user_add(user, PASSWORD, None).await.unwrap();
        }
        root.role_add("leases").await.unwrap();
        root.role_grant_permission("leases", Permission::read_write("leastlock/").with_prefix()).await.unwrap();
        for user in ["root", "leases"] {
            root.user_grant_role(user, user).await.unwrap();
        }
        root.auth_enable().await.unwrap();
        server
    }

    /// Who has the role for leases.
    pub(super) fn user() -> ConnectOptions {
        ConnectOptions::new().with_user("leases", PASSWORD)
    }

    /// A user more, who has nothing to do with leases.
    pub(super) async fn change_users(&self) {
        let options = ConnectOptions::new().with_user("root", PASSWORD);
        let mut root = Client::connect([self.endpoint()], Some(options)).await.unwrap().auth_client();
        root.user_add(format!("user-{:016x}", fastrand::u64(..)), PASSWORD, None).await.unwrap();
    }

    async fn on_free_ports(signs_tokens: bool) -> Self {
        let listeners = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let ports = listeners.map(|listener| listener.local_addr().unwrap().port());
        let mut server = Self { folder: tempfile::tempdir().unwrap(), ports, signs_tokens, process: None };
        server.restart().await;
        server
    }

    pub(super) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    /// Starts it, with what is left of its data.
    pub(super) async fn restart(&mut self) {
        let peer = format!("http://127.0.0.1:{}", self.ports[1]);
        let mut command = Command::new("etcd");
        command.args(["--name", "test", "--logger", "zap", "--log-level", "error"]).arg("--data-dir").arg(self.data());
        command.args(["--listen-client-urls", &self.endpoint(), "--advertise-client-urls", &self.endpoint()]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.arg("--initial-cluster").arg(format!("test={peer}"));
        if self.signs_tokens {
            let key = self.folder.path().join("key");
            std::fs::write(&key, "of the test").unwrap();
            command.args(["--bcrypt-cost", "4", "--auth-token"]);
            command.arg(format!("jwt,sign-method=HS256,ttl=10m,priv-key={}", key.display()));
        }
        // For what etcd calls unsupported and runs on nevertheless.
        if cfg!(target_arch = "aarch64") {
            command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
        }
        self.process = Some(Child::spawn(command));
        let endpoint = self.endpoint();
        eventually("the etcd of the test answers", async || {
            let patience = ConnectOptions::new().with_timeout(Duration::from_secs(1));
            let Ok(client) = Client::connect([&endpoint], Some(patience)).await else { return false };
            client.kv_client().get("any", None).await.is_ok()
        })
        .await;
    }

    pub(super) fn kill(&mut self) {
        self.process.take().expect("it runs").kill();
    }

    /// A copy of what the killed server has on disk.
    pub(super) fn copy(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_all(&self.data(), &copy.path().join("data"));
        copy
    }

    pub(super) fn restore(&self, copy: &tempfile::TempDir) {
        std::fs::remove_dir_all(self.data()).unwrap();
        copy_all(&copy.path().join("data"), &self.data());
    }

    fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }
}

fn copy_all(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success(), "{copied}");
}
