use leastlock_occ::Transition;

#[derive(Debug, Clone, Copy, PartialEq, Transition)]
#[transition(table = "orders", key = "id", state = "state", integer)]
enum OrderState {
    #[transition(initial, to(Paid))]
    Placed = 1,
    Paid,
}

fn main() {}
