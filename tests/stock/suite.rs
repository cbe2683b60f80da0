//! 200 buyers, 100 units.

use leastlock::occ::Stored;
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::engine::Engine;
use crate::race::Race;
use crate::retried::Item;
use crate::table::table;
use crate::ways;

const RACE: Race = Race { stock: 100, attempts: 200, clients: 200 };
/// The wrong way can come out right when nobody comes between; hardly ever once, and not so often in a row.
const ROUNDS: u32 = 20;

pub(crate) async fn o15_every_right_way_sells_exactly_what_is_there<DB>(database: TestDatabase<DB>)
where
    DB: TestEngine + Engine,
    Item: Stored<DB>,
{
    let pool = DB::open(&database.url, RACE.clients).await.expect("the engine answers");
    let tried = ways::all(&pool, &RACE).await.expect("every way runs");
    println!("{}\n{}", DB::CALLED, table(&tried));
    for ran in tried.iter().filter(|ran| !ran.is_wrong_by_design) {
        assert_eq!((ran.sold, ran.refused, ran.left, ran.oversold), (100, 100, 0, 0), "{}", ran.way);
    }
    assert_eq!(tried.len(), 6);
    assert!(ways::are_right_ways_exact(&tried, &RACE));
}

pub(crate) async fn o15_the_wrong_way_is_caught_by_the_same_check<DB>(database: TestDatabase<DB>)
where
    DB: TestEngine + Engine,
{
    let pool = DB::open(&database.url, RACE.clients).await.expect("the engine answers");
    for _ in 0..ROUNDS {
        let mut ran = ways::wrong(&pool, &RACE).await.expect("it raises no error");
        assert!(ran.is_wrong_by_design);
        if ran.is_exact(&RACE) {
            continue;
        }
        assert!(ran.oversold > 0, "{ran:?}");
        // Were it taken for a right one, the run would end with exit code 1.
        ran.is_wrong_by_design = false;
        assert!(!ways::are_right_ways_exact(&[ran], &RACE));
        return;
    }
    panic!("nobody came between in {ROUNDS} rounds");
}

pub(crate) async fn o15_a_stock_that_outlasts_the_buyers_loses_nothing<DB>(database: TestDatabase<DB>)
where
    DB: TestEngine + Engine,
    Item: Stored<DB>,
{
    let race = Race { stock: 50, attempts: 20, clients: 8 };
    let pool = DB::open(&database.url, race.clients).await.expect("the engine answers");
    for ran in ways::all(&pool, &race).await.expect("every way runs") {
        if !ran.is_wrong_by_design {
            assert_eq!((ran.sold, ran.refused, ran.left, ran.oversold), (20, 0, 30, 0), "{}", ran.way);
            // A unit that was lost is found as well as one that was sold twice.
            let lost = crate::race::Ran { left: ran.left - 1, oversold: ran.oversold - 1, ..ran };
            assert!(!lost.is_exact(&race));
        }
    }
}
