use leastlock_occ::{Transition, Version};

#[derive(Debug, Clone, Copy, PartialEq, Transition)]
#[transition(table = "orders", key = "id", state = "state")]
enum OrderState {
    #[transition(initial, to(Paid))]
    Placed,
    Paid,
}

async fn pay(tx: &mut sqlx::Transaction<'_, sqlx::Postgres>) {
    let _ = OrderState::transition_at(tx, "a", Version::FIRST, OrderState::Placed, OrderState::Paid).await;
}

fn main() {}
