//! A proxy to whatever server an address names.

use tokio::net::lookup_host;

use super::FaultProxy;

impl FaultProxy {
    /// A proxy to the server in an address with a scheme or without, such as `redis://user@127.0.0.1:6379/0`, and the same address
    /// by way of the proxy. Rules about statements are for the engines, which have functions of their own.
    ///
    /// # Errors
    /// What the look-up of the host says.
    ///
    /// # Panics
    /// When it cannot listen.
    pub async fn to_server_in(address: &str) -> std::io::Result<(Self, String)> {
        let server = authority(address);
        let found = lookup_host(server).await?.next();
        let proxy = Self::start(found.ok_or_else(|| std::io::Error::other("the host has no address"))?).await;
        let through = address.replacen(server, &proxy.address().to_string(), 1);
        Ok((proxy, through))
    }
}

/// Host and port of an address with a scheme or without.
fn authority(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or(rest);
    authority.rsplit('@').next().unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_in_an_address_is_found() {
        for (address, server) in [
            ("redis://127.0.0.1:6379/", "127.0.0.1:6379"),
            ("redis://user:secret@[::1]:6379/0", "[::1]:6379"),
            ("http://127.0.0.1:2379", "127.0.0.1:2379"),
            ("127.0.0.1:2181/chroot", "127.0.0.1:2181"),
        ] {
            assert_eq!(authority(address), server);
        }
    }
}
