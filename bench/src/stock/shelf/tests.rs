use leastlock_testkit::database::{MySql, Postgres, Sqlite};

use super::*;
use crate::each_engine::on_each_engine;

const RIGHT: [Contender; 7] = [
    Contender::Update,
    Contender::Guarded,
    Contender::ForUpdate,
    Contender::Retry,
    Contender::Order,
    Contender::Combiner,
    Contender::CombinerOrders,
];
const ON_OWN_ROWS: [Contender; 2] = [Contender::VersionedByHand, Contender::Versioned];

async fn shelf<DB: StockEngine>(scene: Scene, named: &[Contender]) -> Arc<Shelf<DB>> {
    let database = super::super::database::<DB>().await;
    let contenders = Contender::in_scene(scene, named);
    Arc::new(Shelf::new(&database, 16, scene, contenders))
}

/// So many clients take what there is until there is no more; answers how much was oversold.
async fn sell_out<DB: StockEngine>(shelf: &Arc<Shelf<DB>>, contender: Contender, clients: u32) -> (Claims, u64) {
    let arena = Arc::new(shelf.open(clients).await.unwrap());
    let supply = Supply::Scarce;
    shelf.prepare(contender, supply).await.unwrap();
    let load = Load { contest: shelf, arena: &arena, contender, clients, supply, seed: 7 };
    let claims = load.run_out().await.unwrap();
    let oversold = shelf.verify(contender, supply, claims).await.unwrap();
    shelf.close(arena).await.unwrap();
    (claims, oversold)
}

/// The double is a contender of the scenario: it reads and writes without a lock.
async fn no_right_way_sells_what_is_not_there<DB: StockEngine>() {
    for scene in [Scene::HotRow, Scene::TenHotRows] {
        let shelf = shelf::<DB>(scene, &[]).await;
        assert!(RIGHT.iter().all(|right| shelf.contenders().contains(right)), "{:?}", shelf.contenders());
        for &contender in shelf.contenders() {
            let (claims, oversold) = sell_out(&shelf, contender, 16).await;
            assert_eq!(oversold, 0, "{contender:?}");
            assert!(claims.without_effect >= 16, "{contender:?} was not sold out: {claims:?}");
            if scene == Scene::HotRow {
                assert_eq!(claims.effects, u64::try_from(SCARCE).unwrap(), "{contender:?}");
            }
        }
        let (claims, oversold) = sell_out(&shelf, Contender::ReadThenWrite, 16).await;
        assert!(oversold > 0, "the double is not caught: {claims:?}");
    }
}

async fn rows_of_ones_own_meet_no_conflict<DB: StockEngine>() {
    let shelf = shelf::<DB>(Scene::OwnRows, &[]).await;
    assert_eq!(shelf.contenders(), ON_OWN_ROWS);
    for contender in ON_OWN_ROWS {
        let (claims, oversold) = sell_out(&shelf, contender, 16).await;
        assert_eq!((claims.effects, claims.conflicts, oversold), (1000, 0, 0), "{contender:?}");
    }
}

async fn lost_and_invented_units_are_noticed<DB: StockEngine>() {
    let shelf = shelf::<DB>(Scene::ColdRows, &[]).await;
    let (arena, supply) = (shelf.open(1).await.unwrap(), Supply::Ample);
    for &contender in shelf.contenders() {
        shelf.prepare(contender, supply).await.unwrap();
        let seat = Seat { number: 0, of: 1, supply, rng: Rng::with_seed(7) };
        let (mut client, mut claims) = (shelf.client(contender, seat), Claims::default());
        for _ in 0..20 {
            claims.count(shelf.call(&arena, contender, &mut client).await.unwrap());
        }
        assert_eq!(claims.effects, 20, "{contender:?}");
        assert_eq!(shelf.verify(contender, supply, claims).await.unwrap(), 0);
        let fewer = Claims { effects: 19, without_effect: 1, ..claims };
        shelf.verify(contender, supply, fewer).await.expect_err("a unit is gone that nobody was given");
        let more = Claims { effects: 21, ..claims };
        match contender {
            Contender::Order | Contender::CombinerOrders => {
                shelf.verify(contender, supply, more).await.expect_err("an order id is missing");
            }
            _ => assert_eq!(shelf.verify(contender, supply, more).await.unwrap(), 1, "an update was lost"),
        }
    }
    shelf.database.execute("UPDATE stock SET units = -3 WHERE code = 'item-5'").await;
    let gone = u64::try_from(AMPLE).unwrap() + 23;
    let claims = Claims { effects: gone, ..Claims::default() };
    shelf.verify(Contender::Update, supply, claims).await.expect_err("a row was sold out");
    shelf.close(Arc::new(arena)).await.unwrap();
}

async fn units_below_zero_are_oversold<DB: StockEngine>() {
    let shelf = shelf::<DB>(Scene::HotRow, &[]).await;
    shelf.prepare(Contender::Update, Supply::Scarce).await.unwrap();
    shelf.database.execute("UPDATE stock SET units = -3").await;
    let claims = Claims { effects: u64::try_from(SCARCE).unwrap() + 3, ..Claims::default() };
    assert_eq!(shelf.verify(Contender::Update, Supply::Scarce, claims).await.unwrap(), 3);
}

#[test]
fn the_wrong_way_runs_only_if_it_is_named() {
    let wrong = Contender::ReadThenWrite;
    assert!(!Contender::in_scene(Scene::HotRow, &[]).contains(&wrong));
    let named = [wrong, Contender::Guarded, Contender::Update, Contender::Guarded];
    let in_turn = [Contender::Update, Contender::Guarded, wrong];
    assert_eq!(Contender::in_scene(Scene::HotRow, &named), in_turn, "whatever the order of the names");
    assert_eq!(Contender::in_scene(Scene::OwnRows, &[Contender::Update]), []);
    let clients = Contender::Retry.entrant::<Sqlite>();
    assert!(clients.retries && !clients.is_wrong_on_purpose && wrong.entrant::<Sqlite>().is_wrong_on_purpose);
}

on_each_engine!(
    on (flavor = "multi_thread", worker_threads = 4);
    no_right_way_sells_what_is_not_there,
    rows_of_ones_own_meet_no_conflict,
    lost_and_invented_units_are_noticed,
    units_below_zero_are_oversold,
);
