use leastlock_occ::{Conflict, MayConflict};

#[derive(Debug, thiserror::Error, MayConflict)]
enum PayError {
    #[error(transparent)]
    Conflict(#[from] Conflict),
    #[error(transparent)]
    Number(#[from] std::num::ParseIntError),
}

fn main() {}
