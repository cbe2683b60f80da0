//! Kafka's protocol, as far as clients must be kept from going round the proxy.

use std::net::SocketAddr;

/// Where brokers tell clients to connect to, and where clients are to connect instead.
///
/// A client is told each broker's address by the broker itself. In every version of the protocol that is a host and, right
/// behind it, a port of four bytes, so the port can be exchanged without changing a length. Answers that tell addresses are
/// small and come in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Advertised {
    pub(super) broker: SocketAddr,
    pub(super) proxy: SocketAddr,
}

impl Advertised {
    /// Exchanges the broker's address in what it sends.
    pub(super) fn exchange(&self, piece: &mut [u8]) {
        let place = |port: u16| [self.broker.ip().to_string().as_bytes(), &u32::from(port).to_be_bytes()].concat();
        let (told, instead) = (place(self.broker.port()), place(self.proxy.port()));
        let mut from = 0;
        while let Some(found) = piece[from..].windows(told.len()).position(|window| window == told) {
            from += found;
            piece[from..from + told.len()].copy_from_slice(&instead);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_of_the_broker_becomes_the_proxys_and_nothing_else_changes() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let advertised = Advertised { broker: address(9092), proxy: address(0x1234) };
        let mut piece =
            b"\x00\x09127.0.0.1\x00\x00\x23\x84x127.0.0.1\x00\x00\x23\x85\x0a127.0.0.1\x00\x00\x23\x84".to_vec();
        advertised.exchange(&mut piece);
        let expected = b"\x00\x09127.0.0.1\x00\x00\x12\x34x127.0.0.1\x00\x00\x23\x85\x0a127.0.0.1\x00\x00\x12\x34";
        assert_eq!(piece, expected);
    }
}
