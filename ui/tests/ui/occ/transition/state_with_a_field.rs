use leastlock_occ::Transition;

#[derive(Debug, Clone, Copy, PartialEq, Transition)]
#[transition(table = "orders", key = "id", state = "state")]
enum OrderState {
    #[transition(initial, to(Paid))]
    Placed,
    Paid(i64),
}

fn main() {}
