//! I13: what a client sees of a replay is what the first one saw.

use leastlock_idempotency::{Begin, Error, HttpResponse, IdempotencySql, Keys, Response};
use leastlock_testkit::{TestDatabase, TestEngine};
use serde::{Deserialize, Serialize};

use crate::keeper::{Call, fingerprint, key, tables};

/// The double: the response as most would store it, headers as a map and body as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct AsJson {
    status: u16,
    headers: std::collections::BTreeMap<String, String>,
    body: String,
}

impl From<&HttpResponse> for AsJson {
    fn from(response: &HttpResponse) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers = response.headers().iter().map(|(name, value)| (name.to_ascii_lowercase(), text(value)));
        Self { status: response.status(), headers: headers.collect(), body: text(response.body()) }
    }
}

impl From<AsJson> for HttpResponse {
    fn from(json: AsJson) -> Self {
        let headers = json.headers.into_iter().map(|(name, value)| (name, value.into_bytes()));
        Self::new(json.status, headers.collect(), json.body.into_bytes()).unwrap()
    }
}

/// A 201 with what is easily lost: order and spelling of names, repeats, bytes that are no text.
fn created() -> HttpResponse {
    let fields = [
        ("Location", &b"/orders/7"[..]),
        ("Set-Cookie", b"a=1"),
        ("Link", b"</orders>; rel=up"),
        ("set-cookie", b"b=2"),
        ("X-Note", b"caf\xe9"),
        ("X-Empty", b""),
    ];
    let headers = fields.map(|(name, value)| (name.to_owned(), value.to_vec()));
    let body: Vec<u8> = (0..=255).chain([0xff, 0x00, b'\r', b'\n']).collect();
    HttpResponse::new(201, headers.to_vec(), body).unwrap()
}

pub(crate) async fn i13_replayed_http_response_is_the_same_byte_for_byte<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    // Bodies that begin with each byte there is, since what is stored may be told apart by its first.
    let starting_with = |first: u8| HttpResponse::new(200, Vec::new(), vec![first, 1, 2]).unwrap();
    let responses: Vec<_> = [created(), HttpResponse::new(204, Vec::new(), Vec::new()).unwrap()]
        .into_iter()
        .chain((0..=255).step_by(51).map(starting_with))
        .collect();
    for (number, response) in responses.iter().enumerate() {
        assert_eq!(&replayed(&database, &format!("k{number}"), response.clone()).await, response);
    }
    let double: HttpResponse = replayed(&database, "double", AsJson::from(&created())).await.into();
    assert_ne!(double, created(), "the double must be seen to lose something");
}

/// Stores a response as a first's answer and asks for it again.
async fn replayed<DB: TestEngine + IdempotencySql, R: Response + Clone + std::fmt::Debug>(
    database: &TestDatabase<DB>,
    name: &str,
    response: R,
) -> R {
    let (keys, key, lamp) = (Keys::default(), key(&Call::new(name, "lamp")), fingerprint("lamp"));
    let Begin::First(unit) = keys.begin::<DB, R>(&database.pool, &key, &lamp).await.unwrap() else { panic!("a first") };
    unit.complete(response).await.unwrap();
    match keys.begin::<DB, R>(&database.pool, &key, &lamp).await.unwrap() {
        Begin::Replay(response) => response,
        other => panic!("a replay, not {other:?}"),
    }
}

pub(crate) async fn an_answer_of_another_kind_is_an_error_and_not_run_again<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    replayed(&database, "http", created()).await;
    replayed(&database, "json", 7_u32).await;
    let (keys, lamp) = (Keys::default(), fingerprint("lamp"));
    let json = keys.begin::<DB, u32>(&database.pool, &key(&Call::new("http", "lamp")), &lamp).await;
    assert!(matches!(json, Err(Error::Deserialize { .. })), "{json:?}");
    let http = keys.begin::<DB, HttpResponse>(&database.pool, &key(&Call::new("json", "lamp")), &lamp).await;
    assert!(matches!(http, Err(Error::Deserialize { .. })), "{http:?}");
}

pub(crate) async fn headers_and_body_count_towards_the_limit<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    let response = created();
    let bytes = response.to_parts().unwrap().bytes();
    assert!(bytes > response.body().len() + 50, "the headers count");
    for (limit, fits) in [(bytes, true), (bytes - 1, false)] {
        let keys = Keys::builder().max_response_bytes(limit).build().unwrap();
        let key = key(&Call::new(&format!("k{limit}"), "lamp"));
        let begun = keys.begin(&database.pool, &key, &fingerprint("lamp")).await.unwrap();
        let Begin::First(unit) = begun else { panic!("a first") };
        let stored = unit.complete(response.clone()).await;
        match stored {
            Ok(_) => assert!(fits),
            Err(Error::ResponseTooLarge { bytes: found, .. }) => assert!(!fits && found == bytes),
            Err(error) => panic!("{error}"),
        }
    }
}
