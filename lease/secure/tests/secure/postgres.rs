//! PostgreSQL: `verify-full`, with a password (SCRAM) or with the client's certificate.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use leastlock_lease::{Hold, Leases, MIGRATIONS, Released, SqlLeaseStore};
use leastlock_lease_secure::{Identity, postgres_pool};
use leastlock_testkit::cluster::PostgresCluster;
use leastlock_testkit::until;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::{AssertSqlSafe, PgPool, Postgres};

use crate::authority::{Authority, Files};
use crate::world::{HOST, LIMIT, OTHER_HOST, OTHER_NAME, SECRET, UNKNOWN_AUTHORITY, lock, refuses, serves, tell};

/// Who may come how. The first is the superuser of the test.
const HBA: &str = "\
host    all leastlock 127.0.0.1/32 trust
hostssl all leases    127.0.0.1/32 scram-sha-256
hostssl all reader    127.0.0.1/32 scram-sha-256
hostssl all service   127.0.0.1/32 cert
";

struct Server {
    port: u16,
    authority: Authority,
    cluster: PostgresCluster,
    _folder: tempfile::TempDir,
}

impl Server {
    async fn start() -> Self {
        let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new("PostgreSQL of the test"));
        let files = Files::write(folder.path(), &authority, &authority.server(&[HOST]));
        let hba = folder.path().join("hba.conf");
        std::fs::write(&hba, HBA).unwrap();
        give_to_the_server(folder.path(), &files.key);
        let setting = |name: &str, path: &Path| format!("{name}={}", path.display());
        let settings = [
            "ssl=on".to_owned(),
            setting("ssl_cert_file", &files.certificate),
            setting("ssl_key_file", &files.key),
            setting("ssl_ca_file", &files.authority),
            setting("hba_file", &hba),
        ];
        let cluster = PostgresCluster::start_with(&settings.each_ref().map(String::as_str)).await;
        let pool = PgPool::connect(&cluster.url).await.unwrap();
        MIGRATIONS.run(&pool).await.unwrap();
        for statement in [
            &format!("CREATE ROLE leases LOGIN PASSWORD '{SECRET}'"),
            &format!("CREATE ROLE reader LOGIN PASSWORD '{SECRET}'"),
            "CREATE ROLE service LOGIN",
            "GRANT SELECT, INSERT, UPDATE ON leastlock_lease TO leases, service",
            "GRANT SELECT ON leastlock_lease TO reader",
        ] {
            sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&pool).await.unwrap();
        }
        pool.close().await;
        let port = cluster.url.parse::<PgConnectOptions>().unwrap().get_port();
        Self { port, authority, cluster, _folder: folder }
    }

    /// Waits until a waiter of this user listens for releases, over TLS.
    async fn is_heard(&self, user: &str) {
        let pool = PgPool::connect(&self.cluster.url).await.unwrap();
        let listeners = "SELECT count(*) FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)
            WHERE ssl AND usename = $1 AND query LIKE 'LISTEN %'";
        until("the waiter listens", LIMIT, async || {
            sqlx::query_scalar::<_, i64>(listeners).bind(user).fetch_one(&pool).await.unwrap() == 1
        })
        .await;
    }

    fn url(&self, user: &str, password: &str, host: &str) -> String {
        format!("postgres://{user}:{password}@{host}:{}/postgres", self.port)
    }
}

/// It reads a key only if nobody else can, and runs as another user where the tests run as root.
fn give_to_the_server(folder: &Path, key: &Path) {
    std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o600)).unwrap();
    if rustix::process::geteuid().is_root() {
        let given = Command::new("chown").args(["-R", "postgres"]).arg(folder).status().unwrap();
        assert!(given.success(), "{given}");
    }
}

fn store(url: &str, authority: &Authority, identity: Option<&Identity>) -> SqlLeaseStore<Postgres> {
    SqlLeaseStore::new(&postgres_pool(url, &authority.pem(), identity).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_user_with_a_password_or_a_certificate_has_leases_where_the_server_is_verified_in_full() {
    let server = Server::start().await;
    let by_password = server.url("leases", SECRET, HOST);
    serves(|| store(&by_password, &server.authority, None), async || server.is_heard("leases").await).await;
    let (by_certificate, own) = (server.url("service", "", HOST), server.authority.client("service"));
    serves(|| store(&by_certificate, &server.authority, Some(&own)), async || server.is_heard("service").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_impostor_or_a_wrong_password_certificate_or_privilege_is_refused_and_named() {
    let server = Server::start().await;
    let (own, stranger) = (&server.authority, Authority::new("somebody else"));
    let url = |user, password, host| server.url(user, password, host);
    refuses(store(&url("leases", SECRET, HOST), &stranger, None), UNKNOWN_AUTHORITY).await;
    refuses(store(&url("leases", SECRET, OTHER_HOST), own, None), OTHER_NAME).await;
    refuses(store(&url("leases", "wrong", HOST), own, None), "password authentication failed").await;
    refuses(store(&url("service", "", HOST), own, None), "requires a valid client certificate").await;
    let other = own.client("leases");
    refuses(store(&url("service", "", HOST), own, Some(&other)), "certificate authentication failed").await;
    refuses(store(&url("reader", SECRET, HOST), own, None), "permission denied for table leastlock_lease").await;
    let plain = url("leases", SECRET, HOST).parse::<PgConnectOptions>().unwrap().ssl_mode(PgSslMode::Disable);
    refuses(SqlLeaseStore::new(&PgPool::connect_lazy_with(plain)), "no encryption").await;

    // The double encrypts, and does not ask for whom: it has a lease from the impostor.
    let trusting = url("leases", SECRET, HOST).parse::<PgConnectOptions>().unwrap().ssl_mode(PgSslMode::Require);
    let pool = PgPoolOptions::new().connect_lazy_with(trusting.ssl_root_cert_from_pem(stranger.pem().into()));
    let lease = Leases::new(SqlLeaseStore::new(&pool)).acquire(&lock(), Hold::renewed(LIMIT)).await;
    assert_eq!(lease.unwrap_or_else(|error| panic!("{}", tell(&error))).release().await, Released::Released);
}
