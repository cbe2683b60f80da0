use leastlock_testkit::database::{MySql, Postgres, Sqlite};

use super::*;
use crate::each_engine::on_each_engine;

async fn both_ways_answer_a_repeat_with_the_first_answer<DB: KeyEngine>() {
    let site = Site::<DB>::create().await.unwrap();
    site.reopen().await.unwrap();
    let shop = Shop::new(site.pool(2).await.unwrap());
    for (number, way) in (1..).zip([Way::Leastlock, Way::ByHand]) {
        let mut order = Order::random(&mut Rng::with_seed(number));
        let Placed::First(first) = shop.place(way, &order).await.unwrap() else { panic!("the key was free") };
        let Placed::Replay(repeat) = shop.place(way, &order).await.unwrap() else { panic!("the key was used") };
        assert_eq!(first, repeat);
        order.units += 1;
        shop.place(way, &order).await.expect_err("the same key with another request");
        site.holds(number..=number, number..=number).await.unwrap();
    }
}

/// The doubles are other contenders: the bare transaction, whose repeats have their effect twice, and claims of more or
/// less than there is.
async fn effects_without_records_and_records_without_effects_are_noticed<DB: KeyEngine>() {
    let contest = Requests::new(Site::<DB>::create().await.unwrap(), 5).await.unwrap();
    let shop = contest.open(2).await.unwrap();
    let mut rng = Rng::with_seed(5);
    let (supply, claim) = (Supply::Ample, |effects| Claims { effects, ..Claims::default() });
    for contender in Way::ALL {
        contest.prepare(contender, supply).await.unwrap();
        let mut claims = Claims::default();
        for _ in 0..3 {
            claims.count(contest.call(&shop, contender, &mut rng).await.unwrap());
        }
        let effects = if contender.is_repeat() { 0 } else { 3 };
        assert_eq!((claims.effects, claims.answered()), (effects, 3), "{contender:?}");
        contest.verify(contender, supply, claims).await.unwrap();
        contest.verify(contender, supply, claim(effects + 1)).await.expect_err("an effect is missing");
        shop.place(Way::Bare, &Order::random(&mut rng)).await.unwrap();
        contest.verify(contender, supply, claims).await.expect_err("an effect that no call claims");
        if contender != Way::Bare {
            contest.verify(contender, supply, claim(effects + 1)).await.expect_err("an effect without a record");
        }
    }
}

on_each_engine!(
    on ();
    both_ways_answer_a_repeat_with_the_first_answer,
    effects_without_records_and_records_without_effects_are_noticed,
);
