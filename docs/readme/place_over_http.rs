use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use leastlock_idempotency::http::{Problem, replayed, stored};
use leastlock_idempotency::{Begin, Fingerprint, Key, Keys};
use sqlx::SqlitePool;

async fn place_order(
    State(pool): State<SqlitePool>,
    Extension(key): Extension<Key>,
    Extension(fingerprint): Extension<Fingerprint>,
    item: String,
) -> Result<Response<Body>, Response<Body>> {
    let failed = |_| Problem::StoreFailed { retry_after: None };
    match Keys::default().begin(&pool, &key, &fingerprint).await.map_err(Problem::from)? {
        Begin::First(mut unit) => {
            let insert = sqlx::query("INSERT INTO orders (item) VALUES ($1)").bind(&item);
            insert.execute(&mut **unit.tx()).await.map_err(failed)?;
            let mut made = Response::new(format!("{item} is yours"));
            *made.status_mut() = StatusCode::CREATED;
            let answer = stored(&made).map_err(|_| Problem::AnswerUnreadable)?;
            unit.complete(answer).await.map_err(Problem::from)?; // stores the answer and commits
            Ok(made.map(Body::from))
        }
        Begin::Replay(answer) => Ok(replayed(answer)?), // marked `Idempotency-Replayed: true`
        Begin::Mismatch => Err(Problem::Mismatch.into()),
        Begin::InFlight { retry_after } => Err(Problem::InFlight { retry_after }.into()),
    }
}

// Runs what the guide and the crate's README show.

#[tokio::test]
async fn order_is_placed_once_however_often_it_is_sent() {
    use axum::Router;
    use axum::http::Request;
    use axum::routing::post;
    use leastlock_idempotency::Scope;
    use leastlock_idempotency::http::IdempotencyLayer;
    use tower_service::Service;

    let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
    leastlock_idempotency::MIGRATIONS.run(&pool).await.unwrap();
    sqlx::raw_sql("CREATE TABLE orders (item TEXT)").execute(&pool).await.unwrap();
    let idempotency = IdempotencyLayer::extract(|_| Ok(Scope::new("tenant-7", "user-3", "place-order")?));
    let app: Router =
        Router::new().route("/orders", post(place_order)).layer(idempotency.build().unwrap()).with_state(pool.clone());
    let ask = async |item: &'static str| {
        let request =
            Request::post("/orders").header("idempotency-key", "\"8e03978e\"").body(Body::from(item)).unwrap();
        app.clone().into_service().call(request).await.unwrap()
    };
    let first = ask("a lamp").await;
    assert!(first.status() == StatusCode::CREATED && !first.headers().contains_key("idempotency-replayed"));
    let repeat = ask("a lamp").await;
    assert!(repeat.status() == StatusCode::CREATED && repeat.headers()["idempotency-replayed"] == "true");
    assert_eq!(ask("a rug").await.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let placed: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&pool).await.unwrap();
    assert_eq!(placed, 1);
}
