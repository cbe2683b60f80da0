//! What is carried as bytes, whatever they mean: to a server that is no database.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use leastlock_testkit::proxy::FaultProxy;
use leastlock_testkit::until;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_answers_is_still_asked_until_healed() {
    let heard = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let proxy = FaultProxy::start(listener.local_addr().expect("it listens")).await;
    let counter = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut bytes = [0; 16];
            while let Ok(length @ 1..) = client.read(&mut bytes).await {
                counter.fetch_add(length, Ordering::SeqCst);
                client.write_all(&bytes[..length]).await.expect("carried");
            }
        }
    });
    let mut client = TcpStream::connect(proxy.address()).await.expect("it listens");
    proxy.swallow_replies();
    client.write_all(b"hello").await.expect("carried");
    let limit = Duration::from_secs(20);
    until("the server has heard it", limit, async || heard.load(Ordering::SeqCst) == 5).await;
    let mut answer = [0; 5];
    let silence = tokio::time::timeout(Duration::from_millis(200), client.read_exact(&mut answer)).await;
    silence.expect_err("its answer is lost");
    proxy.heal();
    let ended = tokio::time::timeout(limit, client.read_exact(&mut answer)).await.expect("it does not hang");
    ended.expect_err("what was lost does not come later");
    let mut client = TcpStream::connect(proxy.address()).await.expect("it listens");
    client.write_all(b"again").await.expect("carried");
    client.read_exact(&mut answer).await.expect("carried");
    assert_eq!(&answer, b"again");
}
