use leastlock_occ::Versioned;

#[derive(Clone, Versioned)]
#[versioned(table = "account", key = "id")]
struct Account {
    id: String,
    balance: i64,
}

fn main() {}
