//! I11: which outcomes are stored is the handler's to say.

use std::future::Future;

use leastlock_idempotency::{Begin, HttpResponse, IdempotencySql, Keys, Unit};
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::keeper::{Call, fingerprint, key, tables};

/// What becomes of a refusal that the handler wants stored, or not.
trait Settles<DB: TestEngine + IdempotencySql> {
    fn settle(
        &self,
        unit: Unit<DB, HttpResponse>,
        refusal: HttpResponse,
        is_stored: bool,
    ) -> impl Future<Output = HttpResponse> + Send;
}

/// The product: `complete` stores, `release` does not.
struct AsTheHandlerSays;

impl<DB: TestEngine + IdempotencySql> Settles<DB> for AsTheHandlerSays {
    async fn settle(&self, unit: Unit<DB, HttpResponse>, refusal: HttpResponse, is_stored: bool) -> HttpResponse {
        if is_stored {
            return unit.complete(refusal).await.unwrap();
        }
        unit.release().await.unwrap();
        refusal
    }
}

/// The doubles: the status decides.
enum ByStatus {
    StoresSuccessOnly,
    StoresAll,
}

impl<DB: TestEngine + IdempotencySql> Settles<DB> for ByStatus {
    async fn settle(&self, unit: Unit<DB, HttpResponse>, refusal: HttpResponse, _: bool) -> HttpResponse {
        match self {
            Self::StoresSuccessOnly => AsTheHandlerSays.settle(unit, refusal, false).await,
            Self::StoresAll => AsTheHandlerSays.settle(unit, refusal, true).await,
        }
    }
}

/// A request that is refused, then repeated; answers how often its handler ran.
async fn runs<DB: TestEngine + IdempotencySql>(
    database: &TestDatabase<DB>,
    settles: &impl Settles<DB>,
    is_stored: bool,
) -> u32 {
    database.execute("DELETE FROM leastlock_idempotency").await;
    let (keys, key, lamp) = (Keys::default(), key(&Call::new("k1", "lamp")), fingerprint("lamp"));
    let refusal = HttpResponse::new(422, vec![("X-Why".into(), b"sold out".to_vec())], b"sold out".to_vec()).unwrap();
    let mut runs = 0;
    for _ in 0..2 {
        let answer = match keys.begin(&database.pool, &key, &lamp).await.unwrap() {
            Begin::First(unit) => {
                runs += 1;
                settles.settle(unit, refusal.clone(), is_stored).await
            }
            Begin::Replay(response) => response,
            other => panic!("{other:?}"),
        };
        assert_eq!(answer, refusal);
    }
    runs
}

pub(crate) async fn i11_stored_refusal_is_replayed_and_a_released_one_leaves_the_key_free<
    DB: TestEngine + IdempotencySql,
>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    assert_eq!(runs(&database, &AsTheHandlerSays, true).await, 1);
    assert_eq!(runs(&database, &AsTheHandlerSays, false).await, 2);
    assert_eq!(runs(&database, &ByStatus::StoresSuccessOnly, true).await, 2, "the double runs it again");
    assert_eq!(runs(&database, &ByStatus::StoresAll, false).await, 1, "the double keeps what was released");
}
