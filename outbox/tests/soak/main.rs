//! Relays in processes of their own that are killed and stopped at random, to the real broker. The bench's `outbox --part soak`
//! is the same for as long as one likes, with a broker that is killed as well.
#![cfg(all(feature = "kafka", feature = "postgres"))]

mod doubles;
mod relays;
mod suite;
mod writers;

leastlock_testkit::mount!(
    suite on postgres: b4_relays_that_are_killed_and_stopped_lose_and_turn_round_nothing,
    b4_relays_in_transactions_that_are_killed_and_stopped_lose_and_turn_round_nothing,
    b18_relay_killed_with_events_in_flight_is_followed_once_its_lease_is_over
);
