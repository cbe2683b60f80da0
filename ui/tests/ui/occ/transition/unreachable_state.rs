use leastlock_occ::Transition;

#[derive(Debug, Clone, Copy, PartialEq, Transition)]
#[transition(table = "orders", key = "id", state = "state")]
enum OrderState {
    #[transition(initial)]
    Placed,
    Paid,
}

fn main() {}
