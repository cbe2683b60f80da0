use leastlock_lease::{FencingToken, Permit};

fn forged() -> Permit {
    Permit { token: FencingToken::new(7).unwrap() }
}

fn main() {
    let _ = forged;
}
