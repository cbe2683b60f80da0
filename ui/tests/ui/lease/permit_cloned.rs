use leastlock_lease::Permit;

fn twice(permit: Permit) -> [Permit; 2] {
    [permit.clone(), permit]
}

fn main() {
    let _ = twice;
}
