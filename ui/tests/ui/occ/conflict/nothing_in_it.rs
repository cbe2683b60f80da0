use leastlock_occ::MayConflict;

#[derive(MayConflict)]
enum PayError {
    NoAccount,
    Other(String),
}

fn main() {}
