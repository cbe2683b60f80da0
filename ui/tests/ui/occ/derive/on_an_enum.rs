use leastlock_occ::Versioned;

#[derive(Clone, Versioned)]
#[versioned(table = "account", key = "id", version = "version")]
enum Account {
    Open,
    Closed,
}

fn main() {}
