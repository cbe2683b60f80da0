use leastlock_occ::{Conflict, MayConflict};

#[derive(MayConflict)]
struct PayError(#[conflict] Conflict);

fn main() {}
