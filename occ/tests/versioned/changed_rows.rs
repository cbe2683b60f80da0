//! A connection that counts changed rows, as MySQL does for clients that do not ask for matched ones.

use std::str::FromStr;

use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::MySql;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use sqlx::{ConnectOptions, MySqlConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

/// `CLIENT_FOUND_ROWS`, in the first byte of the client's capabilities (`Protocol::HandshakeResponse41`).
const FOUND_ROWS: u8 = 2;
/// Of a packet: three bytes of length, one of sequence.
const HEADER: usize = 4;

/// sqlx always asks for matched rows, so a proxy takes the flag out of its handshake.
pub(crate) async fn connection(database: &TestDatabase<MySql>) -> MySqlConnection {
    let options = MySqlConnectOptions::from_str(&database.url).expect("a MySQL URL");
    let server = (options.get_host().to_owned(), options.get_port());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.expect("a client");
        let mut server = TcpStream::connect(server).await.expect("the server");
        forward_packet(&mut server, &mut client, |_| {}).await;
        forward_packet(&mut client, &mut server, |packet| {
            assert!(packet[HEADER] & FOUND_ROWS != 0, "sqlx no longer asks for matched rows");
            packet[HEADER] &= !FOUND_ROWS;
        })
        .await;
        // Ends when either side does.
        let _ = copy_bidirectional(&mut client, &mut server).await;
    });
    let through = options.host("127.0.0.1").port(port).ssl_mode(MySqlSslMode::Disabled);
    through.connect().await.expect("a connection through the proxy")
}

async fn forward_packet(from: &mut TcpStream, to: &mut TcpStream, change: impl FnOnce(&mut [u8])) {
    let mut packet = vec![0; HEADER];
    from.read_exact(&mut packet).await.expect("a header");
    let length = u32::from_le_bytes([packet[0], packet[1], packet[2], 0]);
    packet.resize(HEADER + usize::try_from(length).expect("a length"), 0);
    from.read_exact(&mut packet[HEADER..]).await.expect("a packet");
    change(&mut packet);
    to.write_all(&packet).await.expect("the other side");
}
