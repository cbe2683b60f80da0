//! The order of the calls, event by event.

use super::*;

fn partitions(numbers: &[i32]) -> Vec<TopicPartition> {
    numbers.iter().map(|number| TopicPartition::new("t", *number)).collect()
}

fn assigned(assignment: &mut Assignment<i64>, partitions: &[TopicPartition]) -> Grant {
    match &assignment.assigned(partitions)[..] {
        [Call::Seal { grant, .. }] => *grant,
        other => panic!("{other:?}"),
    }
}

/// All of them are active, from 10 on.
fn active(partitions: &[TopicPartition]) -> Assignment<i64> {
    let mut assignment = Assignment::new();
    let grant = self::assigned(&mut assignment, partitions);
    for partition in partitions {
        let _ = assignment.sealed(grant, partition, Some(10));
    }
    assert_eq!(assignment.in_phase(Phase::Active).count(), partitions.len());
    assignment
}

#[test]
fn assign_is_called_once_and_only_after_all_are_sealed() {
    let mut assignment = Assignment::new();
    let p = partitions(&[0, 1]);
    let grant = assigned(&mut assignment, &p);
    assert_eq!(assignment.sealed(grant, &p[0], Some(10)), []);
    assert_eq!(assignment.phase(&p[0]), Phase::Sealing);
    let active = vec![(p[0].clone(), 10), (p[1].clone(), 20)];
    assert_eq!(assignment.sealed(grant, &p[1], Some(20)), [Call::Assign { active, fenced: vec![] }]);
    assert_eq!(assignment.phase(&p[1]), Phase::Active);
    assert_eq!(assignment.sealed(grant, &p[1], Some(20)), [], "and not again");
}

#[test]
fn an_empty_assignment_is_answered_at_once() {
    let calls = Assignment::<i64>::new().assigned(&[]);
    assert_eq!(calls, [Call::Assign { active: vec![], fenced: vec![] }]);
}

#[test]
fn a_partition_lost_while_sealing_does_not_hold_up_the_rest() {
    let mut assignment = Assignment::new();
    let p = partitions(&[0, 1]);
    let grant = assigned(&mut assignment, &p);
    assert_eq!(assignment.sealed(grant, &p[0], Some(10)), []);
    let (lost, active) = (p[1..].to_vec(), vec![(p[0].clone(), 10)]);
    let calls = assignment.lost(&p[1..]);
    assert_eq!(
        calls,
        [
            Call::StopSealing(lost.clone()),
            Call::Unassign { partitions: lost.clone(), never_assigned: lost },
            Call::Assign { active, fenced: vec![] },
        ]
    );
    assert_eq!(assignment.sealed(grant, &p[1], Some(20)), [], "its seal came too late");
    assert_eq!(assignment.phase(&p[1]), Phase::Lost);
}

#[test]
fn a_loss_of_everything_while_sealing_leaves_nothing_to_assign() {
    let mut assignment = Assignment::<i64>::new();
    let p = partitions(&[0, 1]);
    assigned(&mut assignment, &p);
    let calls = assignment.lost(&p);
    let unassign = Call::Unassign { partitions: p.clone(), never_assigned: p.clone() };
    assert_eq!(calls, [Call::StopSealing(p), unassign]);
}

#[test]
fn an_answer_to_an_earlier_event_counts_for_nothing() {
    let mut assignment = Assignment::new();
    let p = partitions(&[0]);
    let earlier = assigned(&mut assignment, &p);
    let _ = assignment.revoked(&p, true);
    assert_eq!(assignment.phase(&p[0]), Phase::Released);
    let later = assigned(&mut assignment, &p);
    assert_eq!(assignment.sealed(earlier, &p[0], Some(1)), []);
    assert_eq!(assignment.sealed(later, &p[0], Some(2)).len(), 1);
}

#[test]
fn p3_what_is_taken_back_is_drained_then_committed_then_given_back() {
    let p = partitions(&[0, 1]);
    let mut assignment = active(&p);
    let taken = p[..1].to_vec();
    assert_eq!(assignment.revoked(&taken, true), [Call::Drain(taken.clone())]);
    assert_eq!(assignment.phase(&p[0]), Phase::Draining);
    assert_eq!(assignment.phase(&p[1]), Phase::Active, "it is kept");
    let unassign = Call::Unassign { partitions: taken.clone(), never_assigned: vec![] };
    assert_eq!(assignment.drained(), [Call::Commit(taken), unassign]);
    assert_eq!(assignment.phase(&p[0]), Phase::Released);
    assert_eq!(assignment.drained(), [], "it has been answered");
}

#[test]
fn p4_what_is_lost_in_a_drain_is_not_committed() {
    let p = partitions(&[0, 1]);
    let mut assignment = active(&p);
    let _ = assignment.revoked(&p, true);
    let unassign = Call::Unassign { partitions: p.clone(), never_assigned: vec![] };
    assert_eq!(assignment.lost(&p), [Call::Cancel(p.clone()), unassign]);
    assert_eq!((assignment.phase(&p[0]), assignment.open_revocation()), (Phase::Lost, None));
}

#[test]
fn what_is_sealed_in_a_drain_is_assigned_after_it() {
    let p = partitions(&[0, 1]);
    let mut assignment = active(&p[..1]);
    let grant = assigned(&mut assignment, &p[1..]);
    let _ = assignment.revoked(&p[..1], true);
    assert_eq!(assignment.sealed(grant, &p[1], Some(5)), []);
    let calls = assignment.drained();
    assert!(matches!(calls[..], [Call::Commit(_), Call::Unassign { .. }, Call::Assign { .. }]), "{calls:?}");
}

#[test]
fn a_fenced_partition_stays_with_kafka_until_it_is_taken_and_is_not_committed() {
    let mut assignment = Assignment::new();
    let p = partitions(&[0, 1]);
    let grant = assigned(&mut assignment, &p);
    let _ = assignment.sealed(grant, &p[0], Some(1));
    let calls = assignment.sealed(grant, &p[1], None);
    assert_eq!(calls, [Call::Assign { active: vec![(p[0].clone(), 1)], fenced: p[1..].to_vec() }]);
    assert!(assignment.fenced(&p[0]));
    assert!(!assignment.fenced(&p[0]), "once is enough");
    assert_eq!(assignment.in_phase(Phase::Fenced).count(), 2);
    assert_eq!(assignment.revoked(&p, true), [Call::Unassign { partitions: p, never_assigned: vec![] }]);
}
