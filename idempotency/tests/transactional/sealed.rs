//! Answers that are encrypted, with a real AEAD.

use std::sync::Arc;

use chacha20poly1305::aead::{Aead, AeadCore, KeyInit, OsRng, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Nonce};
use leastlock_core::Statement;
use leastlock_idempotency::response::BoxError;
use leastlock_idempotency::{Begin, Cipher, Error, HttpResponse, IdempotencySql, Keys, Response};
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::keeper::{Call, fingerprint, key, tables};

const NONCE_BYTES: usize = 12;

struct ChaCha {
    name: &'static str,
    also_opens: Option<&'static str>,
    key: [u8; 32],
    /// The double leaves it out, so that an answer opens wherever it is put.
    binds: bool,
}

impl ChaCha {
    fn named(name: &'static str) -> Self {
        Self { name, also_opens: None, key: [7; 32], binds: true }
    }

    fn payload<'a>(&self, msg: &'a [u8], associated: &'a [u8]) -> Payload<'a, 'a> {
        Payload { msg, aad: if self.binds { associated } else { b"" } }
    }
}

impl Cipher for ChaCha {
    fn name(&self) -> &str {
        self.name
    }

    fn opens(&self, name: &str) -> bool {
        name == self.name || Some(name) == self.also_opens
    }

    fn seal(&self, plain: &[u8], associated: &[u8]) -> Result<Vec<u8>, BoxError> {
        let nonce = ChaCha20Poly1305::generate_nonce(&mut OsRng);
        let cipher = ChaCha20Poly1305::new(&self.key.into());
        let sealed = cipher.encrypt(&nonce, self.payload(plain, associated)).map_err(|error| error.to_string())?;
        Ok([&nonce[..], &sealed].concat())
    }

    fn open(&self, _: &str, sealed: &[u8], associated: &[u8]) -> Result<Vec<u8>, BoxError> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or("too short")?;
        let cipher = ChaCha20Poly1305::new(&self.key.into());
        let opened = cipher.decrypt(&Nonce::from(*nonce), self.payload(sealed, associated));
        Ok(opened.map_err(|error| error.to_string())?)
    }
}

fn keys(cipher: ChaCha) -> Keys {
    Keys::builder().cipher(Arc::new(cipher)).build().unwrap()
}

fn secret() -> HttpResponse {
    HttpResponse::new(201, vec![("X-Token".into(), b"hush-in-a-header".to_vec())], b"hush-in-a-body".to_vec()).unwrap()
}

async fn begin<DB: IdempotencySql + TestEngine, R: Response>(
    database: &TestDatabase<DB>,
    keys: &Keys,
    name: &str,
) -> Result<Begin<DB, R>, Error> {
    keys.begin(&database.pool, &key(&Call::new(name, "lamp")), &fingerprint("lamp")).await
}

async fn store<DB: IdempotencySql + TestEngine, R: Response>(
    database: &TestDatabase<DB>,
    keys: &Keys,
    name: &str,
    response: R,
) {
    let Begin::First(unit) = begin(database, keys, name).await.unwrap() else { panic!("the key is free") };
    unit.complete(response).await.unwrap();
}

/// Whether a word of the secret can be read in the table.
async fn is_legible<DB: TestEngine>(database: &TestDatabase<DB>) -> bool {
    let mut connection = database.pool.acquire().await.unwrap();
    let select = Statement::new("SELECT response_headers, response_body FROM leastlock_idempotency");
    let rows = select.fetch_all::<DB>(&mut connection).await.unwrap();
    assert!(!rows.is_empty());
    rows.iter().any(|row| {
        [0, 1].into_iter().any(|column| row.bytes(column).unwrap().windows(4).any(|window| window == b"hush"))
    })
}

pub(crate) async fn sealed_answer_is_replayed_and_cannot_be_read_in_the_table<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    let sealing = keys(ChaCha::named("first"));
    store(&database, &sealing, "k1", secret()).await;
    assert!(!is_legible(&database).await);
    let replayed = begin::<DB, HttpResponse>(&database, &sealing, "k1").await.unwrap();
    assert!(matches!(replayed, Begin::Replay(response) if response == secret()));
    store(&database, &Keys::default(), "double", secret()).await;
    assert!(is_legible(&database).await, "without a cipher it must be seen to be legible");
}

pub(crate) async fn sealed_answer_does_not_open_under_another_key_or_column<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    let bound = keys(ChaCha::named("first"));
    let double = keys(ChaCha { binds: false, ..ChaCha::named("first") });
    for (keys, opens) in [(&bound, false), (&double, true)] {
        database.execute("DELETE FROM leastlock_idempotency").await;
        for (name, answer) in [("mine", "my balance"), ("yours", "your balance")] {
            store(&database, keys, name, answer.to_owned()).await;
        }
        // An attacker who can write to the table gives one record's answer to another.
        let mut connection = database.pool.acquire().await.unwrap();
        let select = "SELECT response_body FROM leastlock_idempotency WHERE idempotency_key = 'yours'";
        let stolen = Statement::new(select).fetch_one::<DB>(&mut connection).await.unwrap().bytes(0).unwrap();
        let update = leastlock_testkit::database::sql::<DB>(
            "UPDATE leastlock_idempotency SET response_body = $1 WHERE idempotency_key = 'mine'",
            "UPDATE leastlock_idempotency SET response_body = ? WHERE idempotency_key = 'mine'",
        );
        Statement::new(update).bind(stolen.as_slice()).execute::<DB>(&mut connection).await.unwrap();
        match begin::<DB, String>(&database, keys, "mine").await {
            Ok(Begin::Replay(answer)) => assert!(opens && answer == "your balance", "{answer}"),
            Err(Error::Cipher { .. }) => assert!(!opens, "the double must be seen to open it"),
            other => panic!("{other:?}"),
        }
    }
    // The same between the columns of one record.
    store(&database, &bound, "columns", secret()).await;
    database.execute("UPDATE leastlock_idempotency SET response_body = response_headers").await;
    let opened = begin::<DB, HttpResponse>(&database, &bound, "columns").await;
    assert!(matches!(opened, Err(Error::Cipher { .. })), "{opened:?}");
}

pub(crate) async fn reader_without_the_cipher_is_told_which_one_it_was<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    store(&database, &keys(ChaCha::named("first")), "k1", 7_u32).await;
    for other in [Keys::default(), keys(ChaCha::named("second"))] {
        match begin::<DB, u32>(&database, &other, "k1").await {
            Err(error @ Error::SealedByAnother { .. }) => assert!(error.to_string().contains("\"first\""), "{error}"),
            other => panic!("{other:?}"),
        }
    }
    let wrong_key = keys(ChaCha { key: [8; 32], ..ChaCha::named("first") });
    let opened = begin::<DB, u32>(&database, &wrong_key, "k1").await;
    assert!(matches!(opened, Err(Error::Cipher { .. })), "{opened:?}");
    let successor = keys(ChaCha { also_opens: Some("first"), ..ChaCha::named("second") });
    assert!(matches!(begin::<DB, u32>(&database, &successor, "k1").await, Ok(Begin::Replay(7))));
}

pub(crate) async fn answers_of_before_the_cipher_are_still_replayed<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    store(&database, &Keys::default(), "json", 7_u32).await;
    let photo = HttpResponse::new(200, Vec::new(), vec![0xff, 0xd8, 0xff]).unwrap();
    store(&database, &Keys::default(), "photo", photo.clone()).await;
    let sealing = keys(ChaCha::named("first"));
    assert!(matches!(begin::<DB, u32>(&database, &sealing, "json").await, Ok(Begin::Replay(7))));
    let replayed = begin::<DB, HttpResponse>(&database, &sealing, "photo").await.unwrap();
    assert!(matches!(replayed, Begin::Replay(response) if response == photo));
}
