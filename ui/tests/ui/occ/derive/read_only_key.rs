use leastlock_occ::Versioned;

#[derive(Clone, Versioned)]
#[versioned(table = "account", key = "id", version = "version")]
struct Account {
    #[versioned(read_only)]
    id: i64,
    version: i64,
}

fn main() {}
