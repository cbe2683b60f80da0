//! The function that the example `stock` runs, on each engine: every right way sells what is there, and the wrong way does
//! not pass for one.

#[path = "../../examples/stock/combined.rs"]
mod combined;
#[path = "../../examples/stock/engine.rs"]
mod engine;
#[path = "../../examples/stock/fenced.rs"]
mod fenced;
#[cfg(feature = "mysql")]
#[path = "../../examples/stock/mariadb.rs"]
mod mariadb;
#[path = "../../examples/stock/race.rs"]
mod race;
#[path = "../../examples/stock/retried.rs"]
mod retried;
mod suite;
#[path = "../../examples/stock/table.rs"]
mod table;
#[path = "../../examples/stock/ways.rs"]
mod ways;

leastlock_testkit::mount!(suite:
    o15_every_right_way_sells_exactly_what_is_there,
    o15_the_wrong_way_is_caught_by_the_same_check,
    o15_a_stock_that_outlasts_the_buyers_loses_nothing,
);
