use leastlock_occ::{Conflict, MayConflict};

#[derive(MayConflict)]
enum PayError {
    #[conflict(never)]
    Conflict(#[conflict] Conflict),
}

fn main() {}
