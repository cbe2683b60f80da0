use leastlock_occ::Transition;

#[derive(Debug, Clone, Copy, PartialEq, Transition)]
#[transition(table = "orders", key = "id")]
enum OrderState {
    #[transition(initial)]
    Placed,
}

fn main() {}
