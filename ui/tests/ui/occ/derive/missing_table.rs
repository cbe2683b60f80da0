use leastlock_occ::Versioned;

#[derive(Clone, Versioned)]
#[versioned(key = "id", version = "version")]
struct Account {
    id: String,
    version: i64,
}

fn main() {}
