//! What is carried as bytes, whatever they mean: to a server that is no database.

use std::time::{Duration, Instant};

use leastlock_testkit::proxy::FaultProxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The server: answers with what it is sent.
async fn echo() -> FaultProxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it listens");
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = client.split();
                tokio::io::copy(&mut from, &mut to).await
            });
        }
    });
    FaultProxy::start(address).await
}

#[tokio::test(flavor = "multi_thread")]
async fn delay_holds_back_both_directions() {
    let proxy = echo().await;
    let mut client = TcpStream::connect(proxy.address()).await.expect("it listens");
    let delay = Duration::from_millis(40);
    proxy.delay(delay);
    let began = Instant::now();
    client.write_all(b"hello").await.expect("carried");
    let mut answer = [0; 5];
    client.read_exact(&mut answer).await.expect("carried");
    assert!(began.elapsed() >= 2 * delay, "there and back");
    assert_eq!(&answer, b"hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_carried_whole_with_their_ends() {
    let proxy = echo().await;
    let sent: Vec<u8> = (0..1_000_000_u32).map(|n| u8::try_from(n % 251).expect("small")).collect();
    let client = TcpStream::connect(proxy.address()).await.expect("it listens");
    let (mut from, mut to) = client.into_split();
    let bytes = sent.clone();
    tokio::spawn(async move {
        to.write_all(&bytes).await.expect("carried");
        to.shutdown().await.expect("carried");
    });
    let mut received = Vec::new();
    from.read_to_end(&mut received).await.expect("carried");
    assert!(received == sent, "{} bytes of {}", received.len(), sent.len());
}
