//! The classic mistakes. Each is caught by the case that names it.

use leastlock_core::Statement;
use leastlock_occ::StockSql;
use leastlock_testkit::TestEngine;
use leastlock_testkit::database::sql;
use sqlx::Pool;

use super::suite::Shop;

const WRITE: &str = "UPDATE stock SET units = $1 WHERE code = '85123A'";
const WRITE_MYSQL: &str = "UPDATE stock SET units = ? WHERE code = '85123A'";
const LOOK: &str = "SELECT count(*) FROM seen WHERE order_id = $1";
const LOOK_MYSQL: &str = "SELECT count(*) FROM seen WHERE order_id = ?";
const STORE: &str = "INSERT INTO seen VALUES ($1)";
const STORE_MYSQL: &str = "INSERT INTO seen VALUES (?)";

/// O15: reads the stock, decides on what it read, writes what it computed.
pub(crate) struct ReadsDecidesWrites<DB: TestEngine>(Pool<DB>, std::sync::Arc<tokio::sync::Barrier>);

impl<DB: TestEngine + StockSql> Shop<DB> for ReadsDecidesWrites<DB> {
    fn open(pool: &Pool<DB>, clients: usize) -> Self {
        Self(pool.clone(), std::sync::Arc::new(tokio::sync::Barrier::new(clients)))
    }

    fn buy(&self, _order_id: Option<String>) -> impl Future<Output = bool> + Send + 'static {
        let (pool, all_have_read) = (self.0.clone(), std::sync::Arc::clone(&self.1));
        async move {
            let units = {
                let mut connection = pool.acquire().await.expect("a connection");
                let read = Statement::new("SELECT units FROM stock WHERE code = '85123A'");
                read.fetch_one::<DB>(&mut connection).await.and_then(|row| row.int(0)).expect("the row")
            };
            all_have_read.wait().await;
            if units < 1 {
                return false;
            }
            let mut connection = pool.acquire().await.expect("a connection");
            let write = Statement::new(sql::<DB>(WRITE, WRITE_MYSQL)).bind(units - 1);
            write.execute::<DB>(&mut connection).await.expect("the write") == 1
        }
    }
}

/// O15: looks whether the order is there, and then takes the units and stores it, without its id being unique.
pub(crate) struct LooksForTheOrderFirst<DB: TestEngine>(Pool<DB>, std::sync::Arc<tokio::sync::Barrier>);

impl<DB: TestEngine + StockSql> Shop<DB> for LooksForTheOrderFirst<DB> {
    fn open(pool: &Pool<DB>, clients: usize) -> Self {
        Self(pool.clone(), std::sync::Arc::new(tokio::sync::Barrier::new(clients)))
    }

    fn buy(&self, order_id: Option<String>) -> impl Future<Output = bool> + Send + 'static {
        let (pool, all_have_looked) = (self.0.clone(), std::sync::Arc::clone(&self.1));
        async move {
            let order_id = order_id.expect("an order has an id");
            let is_there = {
                let mut connection = pool.acquire().await.expect("a connection");
                let look = Statement::new(sql::<DB>(LOOK, LOOK_MYSQL)).bind(&order_id);
                look.fetch_one::<DB>(&mut connection).await.and_then(|row| row.int(0)).expect("the count") > 0
            };
            all_have_looked.wait().await;
            if is_there {
                return true;
            }
            let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
            let store = Statement::new(sql::<DB>(STORE, STORE_MYSQL)).bind(&order_id);
            store.execute::<DB>(&mut tx).await.expect("the insert");
            let take = Statement::new("UPDATE stock SET units = units - 1 WHERE code = '85123A' AND units >= 1");
            let taken = take.execute::<DB>(&mut tx).await.expect("the update");
            tx.commit().await.expect("the commit");
            taken == 1
        }
    }
}
