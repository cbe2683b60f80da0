//! State machines on every engine, with the mistakes that the same tests reject.

#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod doubles;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod orders;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod suite;

leastlock_testkit::mount!(suite:
    one_of_many_transitions_out_of_a_state_is_applied,
    an_illegal_edge_fails_before_any_sql,
    the_history_is_written_with_the_transition_or_not_at_all,
    a_transition_raises_the_version_and_may_check_it,
    a_row_that_is_missing_or_in_no_state_is_told_apart,
    states_may_be_integers,
);

#[cfg(feature = "mysql")]
mod only {
    use super::suite;

    leastlock_testkit::mount!(suite on mysql: an_old_snapshot_does_not_hide_the_state);
}

#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
#[test]
fn the_machine_prints_itself_as_a_diagram() {
    let diagram = "stateDiagram-v2
    [*] --> Placed
    Placed --> Paid
    Placed --> Cancelled
    Paid --> PartlyShipped
    Paid --> Cancelled
    PartlyShipped --> PartlyShipped
    PartlyShipped --> Shipped
    Shipped --> [*]
    Cancelled --> [*]
";
    assert_eq!(orders::OrderState::mermaid(), diagram);
}
