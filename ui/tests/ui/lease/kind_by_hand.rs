use leastlock_lease::Kind;

#[derive(Debug, Clone, Copy)]
struct Better;

impl Kind for Better {}

fn main() {}
