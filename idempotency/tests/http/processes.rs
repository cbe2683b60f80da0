//! A server's process that is killed, or stopped, while a handler runs.

use std::net::SocketAddr;
use std::time::Duration;

use leastlock_idempotency::http::{Abandoned, type_uri};
use leastlock_idempotency::phased::PhasedSql;
use leastlock_testkit::process::{Child, child_role, hear, speak};
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::client::{Answer, Call, Connection, PATIENCE};
use crate::doubles::{Mistake, Naive};
use crate::replay::settled;
use crate::shop::Shop;
use crate::stacks::Replaying;
use crate::stage::{Server, Stack, Stage};
use crate::suite::{prepared, problem};

/// The child's test function.
const SERVER: &str = "processes::server";
/// Well beyond what the first question after a kill takes.
const LEASE: Duration = Duration::from_secs(5);

fn call() -> Call {
    Call::order("meets", "k1", "lamp")
}

/// The stack of the surviving server. It meets the key of the lost one and lets its own handler go on at once.
fn surviving(abandoned: Abandoned) -> Replaying {
    Replaying { lease: LEASE, abandoned, ..Replaying::default() }
}

/// A server in a process of its own, with a client whose request is inside its handler.
struct Lost {
    child: Child,
    client: Connection,
}

impl Lost {
    async fn with_a_request(database_url: &str) -> Self {
        let mut child = Child::rerun(SERVER, &[("DATABASE", database_url)]);
        let line = child.line_containing("listening on ", PATIENCE);
        let address = line.rsplit(' ').next().and_then(|text| text.parse::<SocketAddr>().ok());
        let mut client = Connection::open(address.expect("an address")).await;
        client.send(&call().bytes()).await;
        child.line_containing("inside the handler", PATIENCE);
        Self { child, client }
    }
}

/// Kills the server in the handler. Answers what repeats are told by another one while the lease stands and after it, and
/// how many handlers that one ran.
async fn after_a_kill<DB: TestEngine>(
    database: &TestDatabase<DB>,
    stack: &impl Stack<DB>,
) -> ((u16, Option<String>), Answer, usize) {
    let stage = Stage::new(database, stack).await;
    stage.shop.let_go_on();
    let mut lost = Lost::with_a_request(&database.url).await;
    lost.child.kill();
    let meanwhile = stage.ask(&call()).await.outcome();
    (meanwhile, settled(stage.server.address, &call()).await, stage.shop.started())
}

pub(crate) async fn killed_server_leaves_its_key_in_flight_until_the_lease_ends_and_then_held<
    DB: TestEngine + PhasedSql,
>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    let in_flight = problem(409, type_uri::IN_FLIGHT);
    let (meanwhile, then, started) = after_a_kill(&database, &surviving(Abandoned::Hold)).await;
    assert_eq!((meanwhile, started), (in_flight.clone(), 0));
    assert_eq!(then.outcome(), problem(409, type_uri::OUTCOME_UNKNOWN));

    let (meanwhile, then, started) = after_a_kill(&database, &surviving(Abandoned::RunAgain)).await;
    assert_eq!((meanwhile, started), (in_flight, 1));
    assert_eq!((then.status, then.is_replayed()), (201, false));

    // The double takes a key whose owner is gone for a free one.
    let (_, _, started) = after_a_kill(&database, &Naive(Mistake::None)).await;
    assert_eq!(started, 1, "the double must be seen to run what may have run");
}

/// Stops the server in the handler, beyond its lease, and lets it go on once another one has met its key. Answers what that one
/// told first, what the stopped one's client was told in the end, what a last repeat is told, and the effects.
async fn after_a_stop<DB: TestEngine + PhasedSql>(
    database: &TestDatabase<DB>,
    abandoned: Abandoned,
) -> (Answer, Answer, Answer, i64) {
    let stage = Stage::new(database, &surviving(abandoned)).await;
    stage.shop.let_go_on();
    let mut lost = Lost::with_a_request(&database.url).await;
    lost.child.stop();
    let met = settled(stage.server.address, &call()).await;
    lost.child.resume();
    lost.child.send_line("go on");
    let late = lost.client.receive().await;
    (met, late, stage.ask(&call()).await, stage.effects().await)
}

pub(crate) async fn server_stopped_beyond_its_lease_cannot_complete<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    let unknown = problem(409, type_uri::OUTCOME_UNKNOWN);
    let (met, late, last, effects) = after_a_stop(&database, Abandoned::Hold).await;
    assert_eq!((met.outcome(), late.outcome()), (unknown.clone(), problem(503, type_uri::NOT_RECORDED)));
    assert_eq!((last.outcome(), effects), (unknown, 1));

    let (met, late, last, effects) = after_a_stop(&database, Abandoned::RunAgain).await;
    assert_eq!((met.status, late.outcome()), (201, problem(503, type_uri::NOT_RECORDED)));
    assert!(last.is_replayed());
    // Two effects: what is run again has to absorb a repeat by itself.
    assert_eq!((last.said(), effects), (met.said(), 2));
}

/// The child: serves, says when a request is inside its handler, and lets it go on when told to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server() {
    if !child_role(SERVER) {
        return;
    }
    let url = std::env::var("DATABASE").unwrap();
    #[cfg(feature = "sqlite")]
    if url.starts_with("sqlite") {
        return serve::<sqlx::Sqlite>(&url).await;
    }
    #[cfg(feature = "postgres")]
    if url.starts_with("postgres") {
        return serve::<sqlx::Postgres>(&url).await;
    }
    #[cfg(feature = "mysql")]
    if url.starts_with("mysql") {
        return serve::<sqlx::MySql>(&url).await;
    }
    panic!("no engine for this URL");
}

async fn serve<DB: TestEngine + PhasedSql>(url: &str) {
    let pool = DB::connect(url).await;
    let shop = Shop::new(&pool);
    // Without renewals, so that it is never stopped inside of one: on SQLite that would stop everybody.
    let stack = Replaying { lease: LEASE, renewed: false, ..Replaying::default() };
    let server = Server::start(stack.router(shop.clone(), pool)).await;
    speak(format!("listening on {}", server.address));
    shop.is_inside().await;
    speak("inside the handler");
    while tokio::task::spawn_blocking(hear).await.unwrap().is_some() {
        shop.let_go_on();
    }
}
