use leastlock_occ::Versioned;

#[derive(Clone, Versioned)]
#[versioned(table = "account", key = "id", version = "version")]
struct Account {
    id: i64,
    #[versioned(readonly)]
    opened_at: String,
    version: i64,
}

fn main() {}
