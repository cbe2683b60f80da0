use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use std::time::Duration;

use super::succession::{HAND_ONS, LONGEST_RUN};
use super::*;
use crate::clock::BootTime;

const HOLD: Hold = Hold::renewed(Duration::from_secs(30));

const START: BootTime = BootTime::after_boot(Duration::from_secs(1));
const FIRST: Turns = Turns::first(START);

fn name() -> LockName {
    LockName::new("cache:prices").unwrap()
}

fn is_woken(place: &Place) -> bool {
    pin!(place.woken()).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
}

#[test]
fn places_are_served_in_the_order_in_which_they_were_taken() {
    let queues = Arc::new(Queues::default());
    assert!(queues.join(&name(), None, true).is_none(), "nobody waits yet");
    let [first, second, third] = [false, true, false].map(|behind| queues.join(&name(), None, behind).unwrap());
    assert!(first.is_first() && !second.is_first() && !third.is_first());
    drop(second);
    assert!(!is_woken(&third));
    drop(first);
    assert!(is_woken(&third) && third.is_first() && !third.is_held_here());
    drop(third);
    assert!(queues.lock().is_empty(), "nothing is kept for a lock that nobody waits for");
}

#[test]
fn whoever_follows_a_granted_one_hears_of_its_end() {
    let queues = Arc::new(Queues::default());
    let [granted, next] = [(); 2].map(|()| queues.join(&name(), None, false).unwrap());
    assert!(granted.leave_granted().is_none());
    assert!(is_woken(&next) && next.is_first() && next.is_held_here());
    assert!(!is_woken(&next));
    queues.freed(&LockName::new("cache:other").unwrap());
    assert!(!is_woken(&next));
    // Before it waits: the news is kept.
    queues.freed(&name());
    assert!(is_woken(&next) && !next.is_held_here());
}

#[test]
fn the_news_passes_on_when_the_first_leaves() {
    let queues = Arc::new(Queues::default());
    let [granted, impatient, next] = [(); 3].map(|()| queues.join(&name(), None, false).unwrap());
    let _ = granted.leave_granted();
    drop(impatient);
    assert!(next.is_first() && next.is_held_here(), "the lock is still held here");
    queues.freed(&name());
    assert!(!next.is_held_here());
}

#[derive(Debug)]
struct Nowhere;

impl Requests for Nowhere {
    fn renew<'a>(
        &'a self,
        _: crate::Claim<'a>,
    ) -> crate::held::BoxFuture<'a, Result<crate::Renewal, crate::StoreError>> {
        unreachable!("nothing is sent")
    }

    fn release<'a>(
        &'a self,
        _: crate::Claim<'a>,
    ) -> crate::held::BoxFuture<'a, Result<crate::Release, crate::StoreError>> {
        unreachable!("nothing is sent")
    }

    fn let_expire(&self, _: crate::Claim<'_>, _: Duration) {}

    fn takes_over(&self) -> bool {
        false
    }
}

fn baton() -> Baton {
    held_as(HOLD)
}

fn held_as(hold: Hold) -> Baton {
    let end = BootTime::after_boot(Hold::MAX_TTL);
    let nonce = OwnerNonce::random().unwrap();
    let left = Left { deadline: end, renewal_due: end, ttl: hold.ttl() };
    Baton { nonce, token: None, requests: Arc::new(Nowhere), hold, left, turns: FIRST }
}

#[test]
fn a_lease_is_handed_to_one_who_takes_it_and_is_never_lost_on_the_way() {
    let queues = Arc::new(Queues::default());
    assert!(!queues.hand_on(&name(), baton()), "nobody waits");
    let fenced = queues.join(&name(), None, false).unwrap();
    let waiting = queues.join(&name(), Some(HOLD), false).unwrap();
    assert!(!queues.hand_on(&name(), baton()), "a fenced lease needs a token of its own");
    drop(fenced);
    let (longer, shorter) = (HOLD.ttl() * 2, HOLD.ttl() / 30);
    for other in [Hold::renewed(shorter), Hold::renewed(longer), HOLD.drift_allowance(shorter), Hold::fixed(HOLD.ttl())]
    {
        assert!(!queues.hand_on(&name(), held_as(other)), "its renewals would not go by what stands: {other:?}");
    }
    let handed = baton();
    let nonce = handed.nonce;
    assert!(queues.hand_on(&name(), handed));
    assert!(!queues.hand_on(&name(), baton()), "it has one");
    assert!(is_woken(&waiting) && waiting.has_baton());
    let left_with = waiting.leave().expect("whoever leaves at that moment gets it all the same");
    assert_eq!(left_with.nonce, nonce);
}

#[tokio::test]
async fn a_lock_is_left_to_the_first_and_its_owner_hears_if_that_one_leaves() {
    let queues = Arc::new(Queues::default());
    let left = || Succession::of(OwnerNonce::random().unwrap(), FIRST, || {});
    assert!(!queues.pass_on(&name(), left().0), "nobody waits");
    let [first, second] = [(); 2].map(|()| queues.join(&name(), None, false).unwrap());
    let (succession, hears) = left();
    assert!(queues.pass_on(&name(), succession));
    assert!(!queues.pass_on(&name(), left().0), "it has one");
    assert!(is_woken(&first) && !is_woken(&second));
    drop(first);
    assert!(hears.await.is_err(), "nothing came of it");
    assert!(second.take_succession().is_none());

    let (succession, hears) = left();
    assert!(queues.pass_on(&name(), succession));
    second.take_succession().unwrap().tell(Passed::Taken);
    assert_eq!(hears.await, Ok(Passed::Taken));

    let (succession, hears) = left();
    assert!(queues.pass_on(&name(), succession));
    drop(second.take_succession());
    assert_eq!(hears.await, Ok(Passed::Unknown), "it may have asked");

    let (succession, hears) = left();
    let nonce = succession.nonce;
    assert!(queues.pass_on(&name(), succession));
    assert!(!queues.withdraw(&name(), OwnerNonce::random().unwrap()), "another's");
    assert!(queues.withdraw(&name(), nonce) && !queues.withdraw(&name(), nonce));
    assert!(second.take_succession().is_none() && hears.await.is_err());
    let (succession, _hears) = left();
    let nonce = succession.nonce;
    assert!(queues.pass_on(&name(), succession));
    let _taken = second.take_succession();
    assert!(!queues.withdraw(&name(), nonce), "it is on its way");
}

#[test]
fn a_lock_goes_on_so_often_and_so_long_and_not_more() {
    let mut turns = FIRST;
    for turn in 0..HAND_ONS {
        turns = if turn % 2 == 0 { turns.handed_on(START) } else { turns.of_ones_own().passed_on(START) }.unwrap();
    }
    assert_eq!((turns.handed_on(START), turns.passed_on(START)), (None, None));
    assert_eq!(FIRST.of_ones_own().handed_on(START), None);

    assert_eq!(turns.released(START), Some(FIRST), "free for a moment, it begins anew");
    let late = START + LONGEST_RUN;
    assert_eq!((FIRST.handed_on(late), FIRST.passed_on(late), turns.released(late)), (None, None, None));
}

#[test]
fn whoever_comes_first_after_others_knows_it_and_so_does_the_next_one() {
    let queues = Arc::new(Queues::default());
    let [first, second, third] = [(); 3].map(|()| queues.join(&name(), None, false).unwrap());
    queues.released(&name(), None);
    assert!(is_woken(&first) && first.gives_way() && !second.gives_way());
    drop(first);
    assert!(second.gives_way());
    second.has_given_way();
    queues.released(&name(), Some(FIRST));
    assert_eq!((second.gives_way(), second.take_turns(), second.take_turns()), (false, Some(FIRST), None));
    queues.released(&name(), Some(FIRST));
    let _ = second.leave_granted();
    assert_eq!((third.gives_way(), third.take_turns()), (false, None), "somebody has it");
}

#[tokio::test]
async fn a_release_is_told_of_before_the_next_ones_lease_and_only_then() {
    for (passed, told) in [(Passed::Taken, 1), (Passed::NotOwner, 0), (Passed::Unknown, 0)] {
        let released = Arc::new(Mutex::new(0));
        let kept = Arc::clone(&released);
        let says = move || *kept.lock().unwrap() += 1;
        let (succession, hears) = Succession::of(OwnerNonce::random().unwrap(), FIRST, says);
        succession.tell(passed);
        assert_eq!(*released.lock().unwrap(), told, "{passed:?}");
        assert_eq!(hears.await, Ok(passed));
    }
    let (succession, hears) =
        Succession::of(OwnerNonce::random().unwrap(), FIRST, || unreachable!("it says so itself"));
    drop(hears);
    succession.tell(Passed::Taken);
}
