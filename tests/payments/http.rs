//! The service over real sockets.

use std::time::{Duration, Instant};

use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};

use crate::program::Server;

const PATIENCE: Duration = Duration::from_mins(1);

/// A provider and a service on a database of their own.
struct Shop {
    _provider: Server,
    service: Server,
    _folder: tempfile::TempDir,
    client: Client,
}

impl Shop {
    fn open(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ledger = folder.path().join("ledger.sqlite").display().to_string();
        let provider = Server::start(&["provider", "--ledger", &ledger]);
        let database = format!("sqlite://{}", folder.path().join("payments.sqlite").display());
        let serve = ["serve", "--database", &database, "--provider", &provider.address, "--lease-ms", "1000"];
        let service = Server::start(&[&serve, more].concat());
        Self { _provider: provider, service, _folder: folder, client: Client::new() }
    }

    async fn pay(&self, key: Option<&str>, body: &Value) -> Response {
        let request = self.client.post(format!("{}/payments", self.service.address)).header("x-customer", "c1");
        let request = key.into_iter().fold(request, |request, key| request.header("idempotency-key", key));
        request.json(body).send().await.expect("the service answers")
    }

    /// Asks again with the same key until there is a receipt.
    async fn receipt(&self, key: &str, body: &Value) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let response = self.pay(Some(key), body).await;
            match response.status() {
                StatusCode::CREATED => return response.json().await.expect("a receipt"),
                StatusCode::SERVICE_UNAVAILABLE | StatusCode::CONFLICT => assert!(Instant::now() < deadline),
                other => panic!("{other}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn order(&self, id: &str) -> (StatusCode, String) {
        let request = self.client.get(format!("{}/orders/{id}", self.service.address)).header("x-customer", "c1");
        let response = request.send().await.expect("the service answers");
        (response.status(), response.text().await.expect("a text"))
    }
}

fn order(order: &str, card: &str) -> Value {
    json!({"order": order, "item": "item-0", "units": 2, "card": card})
}

async fn problem(response: Response) -> Value {
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    response.json().await.expect("a problem")
}

#[tokio::test(flavor = "multi_thread")]
async fn declined_payment_is_402_cancels_the_order_and_is_replayed_byte_for_byte() {
    let shop = Shop::open(&[]);
    let first = shop.pay(Some("\"k1\""), &order("o1", "tok_declined")).await;
    assert_eq!(first.status(), StatusCode::PAYMENT_REQUIRED);
    assert_eq!(first.headers()["content-type"], "application/problem+json");
    assert!(!first.headers().contains_key("idempotency-replayed"));
    let first = first.bytes().await.unwrap();
    let again = shop.pay(Some("\"k1\""), &order("o1", "tok_declined")).await;
    assert_eq!(again.status(), StatusCode::PAYMENT_REQUIRED);
    assert_eq!(again.headers()["content-type"], "application/problem+json");
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    assert_eq!(again.bytes().await.unwrap(), first);
    assert_eq!(shop.order("o1").await, (StatusCode::OK, "cancelled".to_owned()));
    // The order is over: another key does not bring it back.
    let other = shop.pay(Some("\"k2\""), &order("o1", "tok_ok")).await;
    assert_eq!(other.status(), StatusCode::CONFLICT);
    assert!(problem(other).await["type"].as_str().unwrap().ends_with("/order-taken"));
    assert_eq!(shop.order("o1").await.1, "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_may_not_run_do_not() {
    let shop = Shop::open(&[]);
    let paid = shop.pay(Some("\"k1\""), &order("o1", "tok_ok")).await;
    assert_eq!(paid.status(), StatusCode::CREATED);
    assert_eq!(paid.json::<Value>().await.unwrap()["state"], "paid");
    for (key, body, status) in [
        (None, order("o2", "tok_ok"), StatusCode::BAD_REQUEST),
        (Some("\"k1\""), order("o2", "tok_ok"), StatusCode::UNPROCESSABLE_ENTITY),
        (Some("\"k2\""), json!({"order": "o2"}), StatusCode::BAD_REQUEST),
        (
            Some("\"k2\""),
            json!({"order": "o2", "item": "item-0", "units": 0, "card": "tok_ok"}),
            StatusCode::BAD_REQUEST,
        ),
    ] {
        let response = shop.pay(key, &body).await;
        assert_eq!(response.status(), status, "{key:?} {body}");
        assert_eq!(problem(response).await["status"], status.as_u16());
    }
    let nobody = shop.client.post(format!("{}/payments", shop.service.address)).header("idempotency-key", "\"k3\"");
    assert_eq!(nobody.json(&order("o2", "tok_ok")).send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    assert_eq!(shop.order("o2").await.0, StatusCode::NOT_FOUND);
    // What was refused without having begun has left nothing behind the key.
    assert_eq!(shop.pay(Some("\"k2\""), &order("o2", "tok_ok")).await.status(), StatusCode::CREATED);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_charge_is_503_with_retry_after_until_the_reconciler_has_asked() {
    let shop = Shop::open(&["--policy", "hold", "--call-limit-ms", "500"]);
    // Charged, and nobody was told.
    let unknown = shop.pay(Some("\"k1\""), &order("o1", "tok_hang_up_after")).await;
    assert_eq!(unknown.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(unknown.headers().contains_key("retry-after"));
    assert!(problem(unknown).await["type"].as_str().unwrap().ends_with("/outcome-unknown"));
    assert_eq!(shop.order("o1").await.1, "reserved", "neither paid nor given back by guess");
    // The one charge, found by the reconciler.
    assert_eq!(shop.receipt("\"k1\"", &order("o1", "tok_hang_up_after")).await["charge"], "ch_1");
    assert_eq!(shop.order("o1").await.1, "paid");
}

#[tokio::test(flavor = "multi_thread")]
async fn client_that_hangs_up_does_not_stop_its_payment() {
    let shop = Shop::open(&["--call-limit-ms", "20000"]);
    // The answer comes late, so that the client is gone before it.
    let body = order("o1", "tok_slow_after");
    let request = shop.client.post(format!("{}/payments", shop.service.address)).header("x-customer", "c1");
    let request = request.header("idempotency-key", "\"k1\"").timeout(Duration::from_millis(300)).json(&body);
    assert!(request.send().await.is_err(), "the client has hung up");
    let deadline = Instant::now() + PATIENCE;
    while shop.order("o1").await.1 != "paid" {
        assert!(Instant::now() < deadline, "{:?}", shop.order("o1").await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(shop.receipt("\"k1\"", &body).await["charge"], "ch_1");
}
