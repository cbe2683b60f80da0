//! The engines whose connections can be read along, for cases that run on each of them.

use super::{FaultProxy, mysql, postgres};
use crate::database::{MySql, Postgres, TestEngine};

/// An engine behind a [`FaultProxy`].
///
/// # Contract
/// Rules about statements match on connections to the URL that [`through`](Self::through) answers.
pub trait Proxied: TestEngine {
    /// A proxy to the server at `url`.
    fn proxy(url: &str) -> impl Future<Output = FaultProxy> + Send;

    /// The same database, reached through the proxy.
    fn through(proxy: &FaultProxy, url: &str) -> String;
}

impl Proxied for Postgres {
    async fn proxy(url: &str) -> FaultProxy {
        FaultProxy::to_postgres(url).await
    }

    fn through(proxy: &FaultProxy, url: &str) -> String {
        postgres::through(proxy, url)
    }
}

impl Proxied for MySql {
    async fn proxy(url: &str) -> FaultProxy {
        FaultProxy::to_mysql(url).await
    }

    fn through(proxy: &FaultProxy, url: &str) -> String {
        mysql::through(proxy, url)
    }
}
