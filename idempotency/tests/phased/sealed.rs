//! Steps and answers that are sealed before they are stored.

use std::sync::Arc;

use chacha20poly1305::aead::{Aead, AeadCore, KeyInit, OsRng, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Nonce};
use leastlock_core::Statement;
use leastlock_idempotency::cipher::Cipher;
use leastlock_idempotency::phased::{External, Hold, Phased, PhasedBegin, PhasedSql};
use leastlock_idempotency::response::BoxError;
use leastlock_idempotency::{Error, Key};
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::payer::{Call, end_leases, fingerprint, key, tables};

struct ChaCha([u8; 32]);

impl Cipher for ChaCha {
    fn name(&self) -> &'static str {
        "chacha-1"
    }

    fn opens(&self, name: &str) -> bool {
        name == self.name()
    }

    fn seal(&self, plain: &[u8], associated: &[u8]) -> Result<Vec<u8>, BoxError> {
        let nonce = ChaCha20Poly1305::generate_nonce(&mut OsRng);
        let payload = Payload { msg: plain, aad: associated };
        let sealed =
            ChaCha20Poly1305::new(&self.0.into()).encrypt(&nonce, payload).map_err(|error| error.to_string())?;
        Ok([&nonce[..], &sealed].concat())
    }

    fn open(&self, _: &str, sealed: &[u8], associated: &[u8]) -> Result<Vec<u8>, BoxError> {
        let (nonce, sealed) = sealed.split_first_chunk::<12>().ok_or("too short")?;
        let payload = Payload { msg: sealed, aad: associated };
        let opened = ChaCha20Poly1305::new(&self.0.into()).decrypt(&Nonce::from(*nonce), payload);
        Ok(opened.map_err(|error| error.to_string())?)
    }
}

/// Whether `word` can be read in the record.
async fn can_be_read<DB: TestEngine>(database: &TestDatabase<DB>, word: &str) -> bool {
    let select = Statement::new("SELECT step_data, response_body FROM leastlock_idempotency");
    let mut connection = database.pool.acquire().await.unwrap();
    let rows = select.fetch_all::<DB>(&mut connection).await.unwrap();
    let columns = rows.iter().flat_map(|row| [row.optional_bytes(0).unwrap(), row.optional_bytes(1).unwrap()]);
    columns.flatten().any(|stored| stored.windows(word.len()).any(|window| window == word.as_bytes()))
}

async fn begin<DB: TestEngine + PhasedSql>(
    phased: &Phased,
    database: &TestDatabase<DB>,
    key: &Key,
) -> Result<PhasedBegin<DB, String>, Error> {
    phased.begin(&database.pool, key, &fingerprint("lamp")).await
}

pub(crate) async fn sealed_steps_and_answers_are_read_by_their_cipher_only<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, _bank) = tables(database).await;
    let key = key(&Call::new("k1", "lamp"));
    let sealed = Phased::builder().renewed(false).cipher(Arc::new(ChaCha([7; 32]))).build().unwrap();
    let plain = Phased::builder().renewed(false).build().unwrap();

    let PhasedBegin::First(mut run) = begin(&sealed, &database, &key).await.unwrap() else { panic!("a first") };
    let External::Todo(attempt) = run.external::<String, _>("charge", Hold).await.unwrap() else { panic!("a call") };
    attempt.done("hush-in-a-step".to_owned()).await.unwrap();
    assert!(!can_be_read(&database, "hush").await);
    drop(run);
    end_leases(&database).await;
    assert!(matches!(begin(&plain, &database, &key).await, Err(Error::SealedByAnother { name }) if name == "chacha-1"));

    // And it is left to them.
    let PhasedBegin::First(mut run) = begin(&sealed, &database, &key).await.unwrap() else { panic!("resumed") };
    let charge = run.external::<String, _>("charge", Hold).await.unwrap();
    assert!(matches!(charge, External::Done(receipt) if receipt == "hush-in-a-step"));
    run.complete("hush-in-an-answer".to_owned()).await.unwrap();
    assert!(!can_be_read(&database, "hush").await);
    let replay = begin(&sealed, &database, &key).await.unwrap();
    assert!(matches!(replay, PhasedBegin::Replay(answer) if answer == "hush-in-an-answer"));
    assert!(matches!(begin(&plain, &database, &key).await, Err(Error::SealedByAnother { .. })));

    // The double seals nothing.
    database.execute("DELETE FROM leastlock_idempotency").await;
    let PhasedBegin::First(run) = begin(&plain, &database, &key).await.unwrap() else { panic!("a first") };
    run.complete("hush-in-an-answer".to_owned()).await.unwrap();
    assert!(can_be_read(&database, "hush").await);
    let replay = begin(&sealed, &database, &key).await.unwrap();
    assert!(matches!(replay, PhasedBegin::Replay(_)), "what was stored before there was a cipher is read");
}
