//! Everything that the attributes can say, in a module that does not see the library under its own name.

mod facade {
    pub(crate) mod occ {
        pub(crate) use leastlock_occ::*;
    }
}

#[derive(Clone, facade::occ::Versioned)]
#[versioned(table = "shop.stock", key("warehouse", "code"), version = "version", crate = "crate::facade::occ")]
struct Stock {
    warehouse: String,
    code: String,
    #[versioned(column = "on_hand")]
    units: Option<i64>,
    version: i64,
}

fn main() {
    let stock = Stock { warehouse: "north".to_owned(), code: "85123A".to_owned(), units: None, version: 3 };
    let key: <Stock as facade::occ::Versioned>::Key<'_> = ("north", "85123A");
    assert!(facade::occ::Versioned::key(&stock) == key);
    assert!(facade::occ::Versioned::version(&stock).as_i64() == 3);
    assert!(stock.units.is_none());
}
