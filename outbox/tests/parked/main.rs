//! Events that cannot be sent: what is parked, what goes on, and what an operator can do.
#![cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]

mod crash;
#[cfg(feature = "postgres")]
mod locks;
mod operator;
mod parking;
mod random;
mod suite;
mod unreadable;
mod world;

leastlock_testkit::mount!(
    suite: b7_refused_event_is_parked_with_its_key_and_all_others_go_on,
    b7_event_refused_among_others_is_parked_alone_with_its_key,
    b7_event_that_cannot_be_read_is_parked_with_its_key_and_all_others_go_on,
    b7_event_of_a_key_that_was_blocked_meanwhile_is_not_sent_again,
    b7_blocked_key_stays_blocked_for_the_next_relay,
    b7_more_blocked_keys_than_memory_holds_stay_blocked,
    b7_retried_key_leaves_in_order_while_later_events_arrive,
    b7_operators_and_relays_in_any_order_lose_and_invert_nothing,
    b7_relay_killed_while_it_drains_is_followed_in_order,
    b7_relay_stopped_while_it_drains_brings_nothing_new_when_it_comes_back,
    retry_of_a_topic_asks_once_for_each_key,
    b8_sink_that_is_away_parks_nothing_and_uses_up_no_attempt,
    event_without_a_key_is_parked_alone,
    policies_are_by_topic,
    fenced_relay_parks_nothing,
    fenced_relay_settles_nothing,
    event_that_is_refused_again_stays_with_its_key,
    retry_that_is_asked_for_twice_is_done_once,
    retry_of_a_topic_takes_all_of_its_keys,
    only_the_first_event_of_a_key_is_retried,
    skipped_event_is_never_sent_and_its_key_goes_on,
    event_that_is_to_be_sent_is_not_skipped,
    released_key_leaves_what_is_refused_again_behind,
    every_action_is_audited_or_not_done,
    parked_events_are_listed_in_pages,
);

#[cfg(feature = "postgres")]
mod on_postgres {
    use crate::locks;

    leastlock_testkit::mount!(locks on postgres: note_locks_the_queues_of_all_its_shards_in_the_order_of_their_names);
}
