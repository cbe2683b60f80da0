use leastlock_occ::Versioned;

#[derive(Clone, Versioned)]
#[versioned(table = "account", key = "id", version = "version")]
struct Account(String, i64);

fn main() {}
