//! Leaders, candidates, and those who look.

mod doubles;
mod suite;

crate::admin::mount!(suite:
    terms_follow_each_other_and_one_candidate_leads_at_a_time,
    a_leader_that_comes_back_late_is_refused_and_campaigns_again,
    leading_ends_with_the_shutdown_and_the_next_one_leads_at_once,
    work_that_fails_ends_the_leading,
    leadership_is_handed_over_to_another_one,
    nobody_takes_over_where_nobody_campaigns,
    observers_see_who_leads_and_disturb_nobody,
    an_observer_that_cannot_see_does_not_say_that_nobody_leads,
    a_campaign_waits_for_a_store_that_is_away;
    unordered: a_restored_store_elects_above_what_is_sealed,
    a_term_that_was_overtaken_while_it_waited_is_given_back,
);
