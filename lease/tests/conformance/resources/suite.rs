use std::time::Duration;

use leastlock_lease::{Acquire, CorrectnessLease, Error, Hold, LossReason, Permit, Refusal, Released};

use super::{Guard, Resource};
use crate::clock::ManualClock;
use crate::rig::Rig;
use crate::world::{LONG, fixed, leases, lock};

const A: i64 = 1;
const B: i64 = 2;

async fn acquire<R: Rig>(rig: &R) -> CorrectnessLease {
    leases(rig).acquire(&lock(), fixed()).await.unwrap()
}

/// A seals and is paused beyond its TTL; B acquires. Both believe that they hold.
async fn paused_and_new<R: Rig, T: Resource<R>>(rig: &R) -> (T, CorrectnessLease, CorrectnessLease) {
    let resource = T::create(rig).await;
    rig.forget().await;
    let late = acquire(rig).await;
    resource.seal(&late.permit().unwrap()).await.unwrap();
    rig.expire().await;
    let new = acquire(rig).await;
    assert!(late.token() < new.token());
    (resource, late, new)
}

pub(crate) fn superseded(result: &Result<(), Error>, by: &CorrectnessLease) -> bool {
    matches!(result, Err(Error::Refused { refusal: Refusal::Superseded { by: found }, .. }) if *found == by.token())
}

fn permit(lease: &CorrectnessLease) -> Permit {
    lease.permit().expect("it believes that it holds")
}

pub(crate) async fn l2_late_write_is_refused_by_the_fenced_resource_only<R: Rig, T: Resource<R>>(rig: R) {
    for (guard, last) in [(Guard::Right, B), (Guard::Absent, A)] {
        let (resource, late, new) = paused_and_new::<R, T>(&rig).await;
        resource.seal(&permit(&new)).await.unwrap();
        resource.write(Guard::Right, &permit(&new), B).await.unwrap();
        let written = resource.write(guard, &permit(&late), A).await;
        assert_eq!(superseded(&written, &new), guard == Guard::Right, "{guard:?}: {written:?}");
        assert_eq!(resource.value().await, last, "{guard:?}");
    }
}

pub(crate) async fn l3_late_write_is_refused_once_the_new_holder_has_sealed<R: Rig, T: Resource<R>>(rig: R) {
    let (resource, late, new) = paused_and_new::<R, T>(&rig).await;
    resource.write(Guard::Right, &permit(&late), A).await.expect("before the seal nothing tells the resource");
    resource.seal(&permit(&new)).await.unwrap();
    let written = resource.write(Guard::Right, &permit(&late), A + 10).await;
    assert!(superseded(&written, &new), "B has sealed, and not written yet: {written:?}");
    assert_eq!(resource.value().await, A, "a seal takes nothing away");
    resource.write(Guard::Right, &permit(&new), B).await.unwrap();
    assert_eq!(resource.value().await, B);

    let (resource, late, new) = paused_and_new::<R, T>(&rig).await;
    resource.seal(&permit(&new)).await.unwrap();
    resource.write(Guard::Absent, &permit(&late), A).await.expect("the double lets it through");
    assert_eq!(resource.value().await, A);
}

pub(crate) async fn l20_equal_token_of_another_owner_is_refused<R: Rig, T: Resource<R>>(rig: R) {
    let resource = T::create(&rig).await;
    let sealed = acquire(&rig).await;
    resource.seal(&permit(&sealed)).await.unwrap();
    rig.forget().await;
    let twin = acquire(&rig).await;
    assert_eq!(sealed.token(), twin.token(), "the restored store issues the number again");

    for refused in [resource.seal(&permit(&twin)).await, resource.write(Guard::Right, &permit(&twin), B).await] {
        assert!(matches!(refused, Err(Error::Refused { refusal: Refusal::OtherOwner { .. }, .. })), "{refused:?}");
    }
    resource.write(Guard::Right, &permit(&sealed), A).await.expect("the owner whose seal it is goes on");
    assert_eq!(resource.value().await, A);
    resource.write(Guard::NumberOnly, &permit(&twin), B).await.expect("the double takes one for the other");
    assert_eq!(resource.value().await, B);

    assert_eq!(twin.release().await, Released::Released);
    let policy = Acquire::default().floor(sealed.token());
    let above = leases(&rig).acquire_with(&lock(), fixed(), policy).await.unwrap();
    resource.seal(&permit(&above)).await.unwrap();
    let written = resource.write(Guard::Right, &permit(&sealed), A).await;
    assert!(superseded(&written, &above), "{written:?}");
    let written = resource.write(Guard::NumberOnly, &permit(&sealed), A).await;
    assert!(written.is_err(), "the double still compares the number");
}

pub(crate) async fn l23_one_permit_writes_any_number_of_times<R: Rig, T: Resource<R>>(rig: R) {
    let resource = T::create(&rig).await;
    let lease = acquire(&rig).await;
    resource.seal(&permit(&lease)).await.unwrap();
    resource.seal(&permit(&lease)).await.expect("sealing again changes nothing");
    for _ in 0..2 {
        resource.add(&permit(&lease), 10).await.unwrap();
    }
    assert_eq!(resource.value().await, 20, "a fence is no deduplication");
}

pub(crate) async fn older_generation_cannot_seal<R: Rig, T: Resource<R>>(rig: R) {
    let (resource, late, new) = paused_and_new::<R, T>(&rig).await;
    resource.seal(&permit(&new)).await.unwrap();
    let sealed = resource.seal(&permit(&late)).await;
    assert!(superseded(&sealed, &new), "{sealed:?}");
    resource.write(Guard::Right, &permit(&new), B).await.unwrap();
}

pub(crate) async fn lost_lease_is_refused_before_the_resource_is_asked<R: Rig, T: Resource<R>>(rig: R) {
    let resource = T::create(&rig).await;
    let clock = ManualClock::new();
    let lease = leases(&rig).clock(clock.clone()).acquire(&lock(), Hold::fixed(LONG)).await.unwrap();
    let permit = permit(&lease);
    resource.seal(&permit).await.unwrap();
    resource.break_down().await;
    clock.jump(LONG + Duration::from_secs(1));
    for refused in [resource.write(Guard::Right, &permit, A).await, resource.seal(&permit).await] {
        let reason = match &refused {
            Err(Error::Refused { refusal: Refusal::Lost { reason }, .. } | Error::Lost { reason, .. }) => *reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(reason, LossReason::Expired);
    }
}
