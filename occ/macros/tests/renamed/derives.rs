// What every package of this test compiles, after a line that says where `library` is.

#[derive(Clone, library::Versioned)]
#[versioned(table = "stock", key("warehouse", "code"), version = "version" /* where */)]
struct Stock {
    warehouse: String,
    code: String,
    units: i64,
    #[versioned(read_only)]
    changed: String,
    version: library::Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, library::Transition)]
#[transition(table = "orders", key = "id", state = "state", version = "version", history = "order_history" /* where */)]
enum OrderState {
    #[transition(initial, to(Paid))]
    Placed,
    Paid,
}

#[derive(Debug, library::MayConflict)]
#[conflict(/* only where */)]
enum PayError {
    NoAccount,
    Conflict(#[conflict] library::Conflict),
}

fn main() {
    println!("{} {}", <Stock as library::Versioned>::TABLE, OrderState::mermaid());
}
