//! Everything that the attributes can say, in a module that does not see the library under its own name.

mod facade {
    pub(crate) mod occ {
        pub(crate) use leastlock_occ::*;
    }
}

#[derive(Clone, facade::occ::Versioned)]
#[versioned(
    table = "shop.stock",
    key("warehouse", "code"),
    version = "version",
    crate = "crate::compile::occ::derive::facade::occ"
)]
struct Stock {
    warehouse: String,
    code: String,
    #[versioned(column = "on_hand")]
    units: Option<i64>,
    #[versioned(read_only, column = "changed_at")]
    changed: Option<String>,
    version: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, facade::occ::Transition)]
#[transition(table = "shop.orders", key = "id", state = "state", version = "version", history = "shop.order_history")]
#[transition(integer, crate = "crate::compile::occ::derive::facade::occ")]
enum OrderState {
    #[transition(initial, to(Paid))]
    Placed = 1,
    #[transition(to(Placed), value = 7)]
    Paid,
}

#[test]
fn the_attributes_say_where_the_library_is() {
    let stock =
        Stock { warehouse: "north".to_owned(), code: "85123A".to_owned(), units: None, changed: None, version: 3 };
    let key: <Stock as facade::occ::Versioned>::Key<'_> = ("north", "85123A");
    assert!(facade::occ::Versioned::key(&stock) == key);
    assert!(facade::occ::Versioned::version(&stock).as_i64() == 3);
    assert!(stock.units.is_none() && stock.changed.is_none());
    assert!(facade::occ::Transition::successors(OrderState::Placed) == [OrderState::Paid]);
    assert!(OrderState::mermaid() == "stateDiagram-v2\n    [*] --> Placed\n    Placed --> Paid\n    Paid --> Placed\n");
}
