use leastlock_testkit::database::{MySql, Postgres, Sqlite};

use super::*;
use crate::idempotency::round_trips::RoundTrips;

async fn each_step_has_its_effect_once<DB: KeyEngine>() {
    let steps = Steps::new(Site::<DB>::create().await.unwrap());
    let pool = steps.open(1).await.unwrap();
    let mut rng = Rng::with_seed(5);
    let (supply, claim) = (Supply::Ample, |effects| Claims { effects, ..Claims::default() });
    for work in Work::ALL {
        steps.prepare(work, supply).await.unwrap();
        for _ in 0..2 {
            steps.call(&pool, work, &mut rng).await.unwrap();
        }
        steps.verify(work, supply, claim(2)).await.unwrap();
        steps.verify(work, supply, claim(3)).await.expect_err("a run is missing");
        // The double: a step whose effect happens twice.
        match work {
            Work::OneExternal => _ = steps.provider.0.fetch_add(1, Relaxed),
            _ => by_hand::bare(&pool, &Order::random(&mut rng)).await.map(drop).unwrap(),
        }
        steps.verify(work, supply, claim(2)).await.expect_err("an effect too many");
    }
}

async fn counted<DB: KeyEngine>() -> Option<RoundTrips> {
    Steps::new(Site::<DB>::create().await.unwrap()).round_trips().await.unwrap()
}

/// A local step begins, checks, has its effect, is recorded and commits; an external one is recorded twice.
async fn a_step_takes_the_same_number_of_round_trips_wherever_it_stands<DB: KeyEngine>() {
    let [bare, none, one, two, four, external] = counted::<DB>().await.expect("messages to a server are seen");
    assert_eq!(bare, 3, "begin, effect, commit");
    assert!(none >= 2, "a claim and a completion: {none}");
    let local = one - none;
    assert!(local > bare, "a local step is more than the bare transaction: {local}");
    assert_eq!((two - one, four - two), (local, 2 * local));
    assert_eq!(external - none, 2, "started and done");
}

#[tokio::test]
async fn an_engine_in_this_process_has_no_round_trips() {
    assert_eq!(counted::<Sqlite>().await, None);
}

macro_rules! on_each_engine {
    ($($module:ident $engine:ident: $($test:ident),+;)+) => {
        $(mod $module {
            $(
                #[tokio::test]
                async fn $test() {
                    super::$test::<super::$engine>().await;
                }
            )+
        })+
    };
}
on_each_engine!(
    sqlite Sqlite: each_step_has_its_effect_once;
    postgres Postgres:
        each_step_has_its_effect_once, a_step_takes_the_same_number_of_round_trips_wherever_it_stands;
    mysql MySql:
        each_step_has_its_effect_once, a_step_takes_the_same_number_of_round_trips_wherever_it_stands;
);
