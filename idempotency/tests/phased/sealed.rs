//! Steps and answers that are sealed before they are stored.

use std::sync::Arc;
use std::time::Duration;

use chacha20poly1305::aead::{Aead, AeadCore, KeyInit, OsRng, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Nonce};
use leastlock_core::Statement;
use leastlock_idempotency::cipher::Cipher;
use leastlock_idempotency::phased::{
    External, Hold, Inquiry, Phased, PhasedBegin, PhasedSql, Reconciler, Resolution, Resolved, UnknownStep, Verdict,
};
use leastlock_idempotency::response::BoxError;
use leastlock_idempotency::{Error, Key, Keys, SettingError};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use serde_json::Value;

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
    let select =
        "SELECT step_data, response_body, response_headers, fingerprint, owner_token FROM leastlock_idempotency";
    let texts = "SELECT scope, idempotency_key, state, recovery_point, hold_reason FROM leastlock_idempotency";
    let mut connection = database.pool.acquire().await.unwrap();
    let rows = Statement::new(select).fetch_all::<DB>(&mut connection).await.unwrap();
    let bytes = rows.iter().flat_map(|row| (0..5).map(|column| row.optional_bytes(column).unwrap()));
    let rows = Statement::new(texts).fetch_all::<DB>(&mut connection).await.unwrap();
    let texts =
        rows.iter().flat_map(|row| (0..5).map(|column| row.optional_text(column).unwrap().map(String::into_bytes)));
    bytes.chain(texts).flatten().any(|stored| stored.windows(word.len()).any(|window| window == word.as_bytes()))
}

async fn begin<DB: TestEngine + PhasedSql>(
    phased: &Phased,
    database: &TestDatabase<DB>,
    key: &Key,
) -> Result<PhasedBegin<DB, String>, Error> {
    phased.begin(&database.pool, key, &fingerprint("lamp")).await
}

/// Says that everything was done.
#[derive(Debug)]
struct Sure;

impl Inquiry for Sure {
    async fn ask(&self, _: &Key, _: &UnknownStep) -> Verdict<Value> {
        Verdict::Done(Value::from("receipt"))
    }
}

/// The double of a listing: each row is read with `?`.
async fn lists_all_or_nothing<DB: TestEngine + PhasedSql>(
    database: &TestDatabase<DB>,
) -> Result<Vec<String>, serde_json::Error> {
    #[derive(serde::Deserialize)]
    struct Steps {
        #[serde(rename = "steps")]
        _steps: Vec<Value>,
    }

    let rows = Statement::new(DB::UNKNOWN).bind(0).bind(0).bind(10);
    let rows = rows.fetch_all::<DB>(&mut database.pool.acquire().await.unwrap()).await.unwrap();
    let listed = rows.iter().map(|row| {
        serde_json::from_slice::<Steps>(&row.bytes(5).unwrap())?;
        Ok(row.text(15).unwrap())
    });
    listed.collect()
}

pub(crate) async fn key_whose_steps_cannot_be_read_hides_no_other<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, _bank) = tables(database).await;
    let pool = &database.pool;
    let sealed = Phased::builder().renewed(false).cipher(Arc::new(ChaCha([7; 32]))).build().unwrap();
    let plain = Phased::builder().renewed(false).build().unwrap();
    for (name, phased) in [("retired", &sealed), ("later", &plain), ("plain", &plain)] {
        let key = key(&Call::new(name, "lamp"));
        let PhasedBegin::First(mut run) = begin(phased, &database, &key).await.unwrap() else { panic!("a first") };
        assert!(matches!(run.external::<String, _>("charge", Hold).await.unwrap(), External::Todo(_)));
        assert!(matches!(run.external::<String, _>("charge", Hold).await.unwrap(), External::Held(_)));
    }
    // As a later version might write it.
    let bytes = r#"{"steps":{}}"#;
    let later = sql::<DB>(
        "UPDATE leastlock_idempotency SET step_data = $1 WHERE idempotency_key = $2",
        "UPDATE leastlock_idempotency SET step_data = ? WHERE idempotency_key = ?",
    );
    let later = Statement::new(later).bind(bytes.as_bytes()).bind("later");
    later.execute::<DB>(&mut pool.acquire().await.unwrap()).await.unwrap();

    let listed = plain.list_unknown(pool, Duration::ZERO, 10).await.unwrap();
    let mut names: Vec<_> = listed
        .iter()
        .map(|unknown| (unknown.key.as_str(), unknown.step.is_some(), unknown.unreadable.is_some()))
        .collect();
    names.sort_unstable();
    assert_eq!(names, [("later", false, true), ("plain", true, false), ("retired", false, true)]);
    let told = begin(&plain, &database, &key(&Call::new("retired", "lamp"))).await.unwrap();
    assert!(matches!(told, PhasedBegin::Unknown(_)), "{told:?}");
    // The double collects what it can read, or nothing: one key that it cannot read hides the others.
    assert!(lists_all_or_nothing(&database).await.is_err(), "the double must be seen to list nothing");
    database.execute("UPDATE leastlock_idempotency SET state = 'asleep' WHERE idempotency_key <> 'plain'").await;
    assert_eq!(lists_all_or_nothing(&database).await.unwrap(), ["plain"], "it reads what is there to be read");
    database.execute("UPDATE leastlock_idempotency SET state = 'held' WHERE state = 'asleep'").await;

    let reconciler = Reconciler::builder(plain.clone(), pool.clone(), Sure).older_than(Duration::ZERO).build().unwrap();
    let summary = reconciler.once().await.unwrap();
    assert_eq!((summary.asked, summary.resolved), (1, 1), "{summary:?}");

    // What needs their steps is refused; what does not is in force.
    for unknown in listed.iter().filter(|unknown| unknown.unreadable.is_some()) {
        let not_done = plain.resolve(pool, unknown, Resolution::step_not_done(), "ops", "seen").await;
        assert!(not_done.is_err(), "{not_done:?}");
        let completed = Resolution::completed(&"by hand".to_owned()).unwrap();
        assert_eq!(plain.resolve(pool, unknown, completed, "ops", "seen").await.unwrap(), Resolved::Applied);
        let replay = begin(&plain, &database, &unknown.key).await.unwrap();
        assert!(matches!(replay, PhasedBegin::Replay(answer) if answer == "by hand"));
    }
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

    // A compensation that failed says why to its caller, and in no column.
    let back = crate::payer::key(&Call::new("k2", "lamp"));
    let PhasedBegin::First(mut run) = begin(&sealed, &database, &back).await.unwrap() else { panic!("a first") };
    let charge = run.external::<String, _>("charge", Hold).compensated_by("refund").await.unwrap();
    let External::Todo(attempt) = charge else { panic!("a call: {charge:?}") };
    attempt.done("receipt".to_owned()).await.unwrap();
    run.compensate("hush-in-why").await.unwrap();
    let External::Todo(refund) = run.external::<(), _>("refund", Hold).await.unwrap() else { panic!("a call") };
    let failure = refund.failed(&"hush-of-the-bank").await.unwrap();
    assert_eq!(failure.reason::<String>().unwrap(), "hush-of-the-bank");
    assert!(!can_be_read(&database, "hush").await);
    assert!(can_be_read(&database, "refund").await, "what is not secret is found, so the search reads the columns");

    // The double seals nothing.
    database.execute("DELETE FROM leastlock_idempotency").await;
    let PhasedBegin::First(run) = begin(&plain, &database, &key).await.unwrap() else { panic!("a first") };
    run.complete("hush-in-an-answer".to_owned()).await.unwrap();
    assert!(can_be_read(&database, "hush").await);
    let replay = begin(&sealed, &database, &key).await.unwrap();
    assert!(matches!(replay, PhasedBegin::Replay(_)), "what was stored before there was a cipher is read");
}

/// A cipher of which only the name matters.
struct Named(&'static str);

impl Cipher for Named {
    fn name(&self) -> &str {
        self.0
    }

    fn opens(&self, _: &str) -> bool {
        false
    }

    fn seal(&self, _: &[u8], _: &[u8]) -> Result<Vec<u8>, BoxError> {
        Err("it only has a name".into())
    }

    fn open(&self, _: &str, _: &[u8], _: &[u8]) -> Result<Vec<u8>, BoxError> {
        Err("it only has a name".into())
    }
}

pub(crate) async fn settings_that_make_no_sense_are_refused_by_name<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let long: &'static str = "x".repeat(256).leak();
    let refused = |built: Result<Phased, SettingError>| built.map(|_| ()).unwrap_err().setting;
    assert_eq!(refused(Phased::builder().lease(Duration::from_millis(99)).build()), "lease");
    assert_eq!(refused(Phased::builder().max_steps(0).build()), "max_steps");
    assert_eq!(refused(Phased::builder().max_step_bytes(0).build()), "max_step_bytes");
    assert_eq!(refused(Phased::builder().max_response_bytes(usize::MAX).build()), "max_response_bytes");
    assert_eq!(refused(Phased::builder().call_limit(Duration::ZERO).build()), "call_limit");
    for name in ["", long] {
        assert_eq!(refused(Phased::builder().cipher(Arc::new(Named(name))).build()), "cipher");
        assert_eq!(Keys::builder().cipher(Arc::new(Named(name))).build().unwrap_err().setting, "cipher");
    }
    let retry_after = Keys::builder().retry_after(Duration::ZERO).build().unwrap_err();
    assert_eq!(retry_after.setting, "retry_after");
    assert_eq!(retry_after.to_string(), "retry_after must be at least 1ms and at most 86400s");
    let reconciler = || Reconciler::builder(Phased::default(), database.pool.clone(), Sure);
    assert_eq!(reconciler().max_asks(0).build().unwrap_err().setting, "max_asks");
    assert_eq!(reconciler().older_than(Duration::MAX).build().unwrap_err().setting, "older_than");
    // The double takes whatever it is given: the least that makes sense is taken here too.
    let least = Phased::builder().max_steps(1).max_step_bytes(1).max_response_bytes(1);
    assert!(least.cipher(Arc::new(Named("x"))).build().is_ok());
}
