use leastlock_testkit::database::{MySql, Postgres, Sqlite};

use super::*;
use crate::each_engine::on_each_engine;

/// Where wrk is missing these tests fail: nothing is skipped.
async fn requests<DB: KeyEngine>() -> Arc<Requests<DB>> {
    let wrk = Wrk::find().await.unwrap().expect(MISSING);
    Arc::new(Requests::new(Site::<DB>::create().await.unwrap(), Arc::new(wrk)).await.unwrap())
}

async fn every_way_answers_over_sockets_and_its_effects_are_there<DB: KeyEngine>() {
    let requests = requests::<DB>().await;
    let (supply, clients, seed) = (Supply::Ample, 3, 7);
    let stack = Arc::new(requests.open(clients).await.unwrap());
    for contender in Way::ALL {
        requests.prepare(contender, supply).await.unwrap();
        let load = Load { contest: &requests, arena: &stack, contender, clients, supply, seed };
        let (round, claims) = requests.run(&load, Duration::from_millis(100), Cpu::Own).await.unwrap();
        assert!(round.operations > 0 && round.p50_us > 0.0 && round.p50_us <= round.p99_us, "{round:?}");
        assert!(claims.answered() > round.operations, "the warm-up counts: {claims:?}");
        let is_repeat = contender.is_repeat();
        assert_eq!((claims.effects == 0, claims.unanswered == 0), (is_repeat, is_repeat), "{contender:?}");
        requests.verify(contender, supply, claims).await.unwrap();

        let more = Claims { effects: claims.effects + claims.unanswered + 1, unanswered: 0, ..claims };
        requests.verify(contender, supply, more).await.expect_err("an effect is missing");
        for _ in 0..=claims.unanswered {
            ask(&stack, Way::Bare, &Order::numbered("", 0)).await.unwrap();
        }
        requests.verify(contender, supply, claims).await.expect_err("effects that no call claims");
    }
    requests.close(stack).await.unwrap();
}

/// The double: another way than the one that is measured.
async fn a_first_is_not_taken_for_a_replay<DB: KeyEngine>() {
    let requests = requests::<DB>().await;
    requests.prepare(Way::ExtractAgain, Supply::Ample).await.unwrap();
    let stack = requests.open(1).await.unwrap();
    for way in [Way::ExtractAgain, Way::ReplayAgain] {
        let order = Order::numbered(STORED_PREFIX, 17);
        assert!(ask(&stack, way, &order).await.unwrap(), "{way:?}: it was answered before");
        let other = Order { item: "item-x".to_owned(), ..order };
        ask(&stack, way, &other).await.expect_err("the same key with another request");
        let fresh = Order::numbered(STORED_PREFIX, u64::from(STORED_ANSWERS));
        assert!(!ask(&stack, way, &fresh).await.unwrap(), "{way:?}: it was never answered");
    }
    let effects = Claims { without_effect: 4, ..Claims::default() };
    requests.verify(Way::ExtractAgain, Supply::Ample, effects).await.expect_err("two of them were firsts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_fails_says_why() {
    let requests = requests::<Sqlite>().await;
    let stack = Arc::new(requests.open(1).await.unwrap());
    requests.site.database.execute("DELETE FROM stock").await;
    let (contender, supply) = (Way::Bare, Supply::Ample);
    let load = Load { contest: &requests, arena: &stack, contender, clients: 1, supply, seed: 7 };
    let error = requests.run(&load, Duration::from_millis(100), Cpu::Own).await.unwrap_err();
    assert!(format!("{error:#}").contains("was sold out"), "{error:#}");
}

on_each_engine!(
    on (flavor = "multi_thread", worker_threads = 2);
    every_way_answers_over_sockets_and_its_effects_are_there, a_first_is_not_taken_for_a_replay);
