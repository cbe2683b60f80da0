//! How a service connects to its lock store over TLS, and as whom: what the guide's page *Secure connections* shows.
//!
//! This crate stands where an application would. `leastlock-lease` has no feature for TLS and takes no password: the client of
//! a store is the caller's own, and with it the TLS library, the cryptography, and whom it trusts. So what is to be written for it is
//! this crate's `Cargo.toml` and the functions below; its tests connect by them, with certificates that they make themselves.

use std::fmt;
use std::time::Duration;

use etcd_client::{Certificate, ConnectOptions, TlsOptions};
use redis::{ClientTlsConfig, TlsCertificates};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use zookeeper_client::{Acl, AuthId, Client, Connector, Permission};

/// The certificate of this service and its key, each as PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate, with those of intermediate authorities behind it.
    pub certificate: String,
    /// The key, which nothing prints.
    pub key: String,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// Says which cryptography the process uses; the first line of `main`.
///
/// rustls finds it by itself as long as one alone is compiled in. A dependency that brings another one would make the first
/// connect panic.
pub fn choose_cryptography() {
    // Whoever came first has chosen.
    let _chosen = rustls::crypto::ring::default_provider().install_default();
}

/// A client of Redis by a URL such as `rediss://leases:…@redis.example:6379/`.
///
/// With two `s`: `redis://` would send the password in the clear. Only `authority` is trusted.
///
/// # Errors
/// A URL or a certificate that cannot be read.
pub fn redis_client(
    url: &str,
    authority: &str,
    identity: Option<&Identity>,
) -> Result<redis::Client, redis::RedisError> {
    let client_tls = identity.map(|own| ClientTlsConfig {
        client_cert: own.certificate.clone().into_bytes(),
        client_key: own.key.clone().into_bytes(),
    });
    redis::Client::build_with_tls(url, TlsCertificates { client_tls, root_cert: Some(authority.into()) })
}

/// A pool on PostgreSQL by a URL such as `postgres://leases:…@db.example/shop`.
///
/// `VerifyFull`: the default encrypts if the server happens to, and compares neither authority nor name. sqlx trusts `authority`
/// *besides* those of the system (or, by another of its features, of Mozilla).
///
/// # Errors
/// A URL that cannot be read.
pub fn postgres_pool(url: &str, authority: &str, identity: Option<&Identity>) -> Result<PgPool, sqlx::Error> {
    let options = url.parse::<PgConnectOptions>()?.ssl_mode(PgSslMode::VerifyFull);
    let options = options.ssl_root_cert_from_pem(authority.into());
    let options = match identity {
        Some(own) => options.ssl_client_cert_from_pem(&own.certificate).ssl_client_key_from_pem(&own.key),
        None => options,
    };
    Ok(PgPoolOptions::new().acquire_timeout(Duration::from_secs(5)).connect_lazy_with(options))
}

/// What a client of etcd is to go by, for endpoints such as `https://etcd-1.example:2379`.
///
/// Only `authority` is trusted. Where the server has `--client-cert-auth`, the common name of the client's certificate is its user,
/// unless one is named. Do not log the options: their `Debug` has the password in it.
#[must_use]
pub fn etcd_options(user: Option<(&str, &str)>, authority: &str, identity: Option<&Identity>) -> ConnectOptions {
    let tls = TlsOptions::new().ca_certificate(Certificate::from_pem(authority));
    let tls = match identity {
        Some(own) => tls.identity(etcd_client::Identity::from_pem(&own.certificate, &own.key)),
        None => tls,
    };
    let options = ConnectOptions::new().with_tls(tls);
    match user {
        Some((name, password)) => options.with_user(name, password),
        None => options,
    }
}

/// What sessions of ZooKeeper begin with, and whose the nodes are: the user's alone.
///
/// The password goes over the wire as it is, so take this over TLS only (`Connector::with_tls`, feature `tls` of zookeeper-client).
#[must_use]
pub fn zookeeper_connector(user: &str, password: &str, session: Duration) -> (Connector, [Acl; 1]) {
    let connector = Client::connector().with_session_timeout(session);
    let connector = connector.with_auth("digest", format!("{user}:{password}").as_bytes());
    (connector, [Acl::new(Permission::ALL, AuthId::authed())])
}
