use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use leastlock_lease::{
    Election, Error, Fence, FencedStore, FencingToken, HandedOver, Leadership, Leases, Led, Released, WorkError,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::doubles::{Away, Leader, looks_carelessly};
use crate::admin::Admin;
use crate::rig::Rig;
use crate::wire::Control;
use crate::world::{B_WRITES, LIMIT, LONG, SOON, VALUE, eventually, hastened, leases, lock, write};

/// How long something is given that must not come.
const MOMENT: Duration = Duration::from_millis(300);

pub(super) fn fence() -> Fence {
    Fence::new("report:tenant-7").unwrap()
}

/// As another process stands for it.
fn candidate<R: Rig>(rig: &R, called: &str) -> Election<R::Store> {
    election(leases(rig), called)
}

fn election<S: FencedStore>(leases: Leases<S>, called: &str) -> Election<S> {
    Election::new(leases, lock(), LONG).candidate(called)
}

pub(crate) async fn terms_follow_each_other_and_one_candidate_leads_at_a_time<R: Admin>(rig: R) {
    const CANDIDATES: usize = 3;
    const TERMS: usize = 2;
    let (led, (leads, terms)) = (Arc::new(AtomicUsize::new(0)), mpsc::unbounded_channel());
    let (leading, mut terms) = (Arc::new(AtomicUsize::new(0)), terms);
    let candidates = (0..CANDIDATES).map(|number| {
        let election = candidate(&rig, &format!("node-{number}"));
        let (led, leading, leads) = (Arc::clone(&led), Arc::clone(&leading), leads.clone());
        tokio::spawn(async move {
            for _ in 0..TERMS {
                let term = election.campaign().await.unwrap();
                assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0, "two lead");
                leads.send(term.token()).unwrap();
                led.fetch_add(1, Ordering::SeqCst);
                leading.fetch_sub(1, Ordering::SeqCst);
                assert_eq!(term.release().await, Released::Released);
            }
        })
    });
    for candidate in candidates.collect::<Vec<_>>() {
        candidate.await.unwrap();
    }
    drop(leads);
    let mut last = None;
    while let Some(token) = terms.recv().await {
        assert!(last < Some(token), "terms are numbered in their order");
        last = Some(token);
    }
    assert_eq!(led.load(Ordering::SeqCst), TERMS * CANDIDATES);
}

pub(crate) async fn a_leader_that_comes_back_late_is_refused_and_campaigns_again<R: Admin>(rig: R) {
    let database = rig.database();
    for (leader, last_writer) in [(Leader::Right, 2), (Leader::WithoutAsking, 1)] {
        let (elected, mut elections) = mpsc::unbounded_channel();
        let (go_on, goes_on) = oneshot::channel::<()>();
        let (shutdown, pool) = (CancellationToken::new(), database.pool.clone());
        // No renewal tells it before the resource does.
        let (renewed, control) = hastened(rig.store());
        Control::close(&control.renewal_gate);
        let old = Election::new(renewed, lock(), SOON).candidate("a");
        let leading = tokio::spawn(leader.leads(old, pool, shutdown.clone(), elected, goes_on));
        let (first, outcome) = elections.recv().await.unwrap();
        rig.expire().await;
        let term = candidate(&rig, "b").campaign().await.unwrap();
        let permit = term.permit().unwrap();
        fence().seal(&database.pool, &permit).await.unwrap();
        let mut tx = leastlock_core::begin(&database.pool).await.unwrap();
        fence().check(&mut tx, &permit).await.unwrap();
        write(&mut tx, B_WRITES).await.unwrap();
        tx.commit().await.unwrap();
        go_on.send(()).unwrap();
        let has_written = outcome.await.expect("it goes on");
        Control::open(&control.renewal_gate);
        assert_eq!(has_written, leader == Leader::WithoutAsking, "{leader:?}");
        assert_eq!(database.int(VALUE).await, last_writer, "{leader:?}");
        assert_eq!(term.release().await, Released::Released);
        if leader == Leader::Right {
            let (second, _outcome) = elections.recv().await.unwrap();
            assert!(second > first);
        }
        shutdown.cancel();
        let led = leading.await.unwrap();
        assert_eq!(led, (leader == Leader::Right).then_some((2, 1)), "terms, and how many were lost");
    }
}

/// The lock store has come back from an old copy, and the resource has seen more terms than that.
async fn restored<R: Admin>(rig: &R) -> FencingToken {
    rig.forget().await;
    let database = rig.database();
    for statement in ["DELETE FROM leastlock_fence", "DELETE FROM leastlock_fence_gate"] {
        database.execute(statement).await;
    }
    let mut sealed = None;
    for _ in 0..3 {
        let term = candidate(rig, "a").campaign().await.unwrap();
        fence().seal(&database.pool, &term.permit().unwrap()).await.unwrap();
        sealed = Some(term.token());
        assert_eq!(term.release().await, Released::Released);
    }
    rig.forget().await;
    sealed.unwrap()
}

pub(crate) async fn a_restored_store_elects_above_what_is_sealed<R: Admin>(rig: R) {
    let pool = &rig.database().pool;
    // The double has no floor: what it has elected is refused.
    for has_floor in [true, false] {
        let sealed = restored(&rig).await;
        let mut election = candidate(&rig, "a");
        if has_floor {
            election = election.floor_of(&fence(), pool);
        }
        let term = election.campaign().await.unwrap();
        assert_eq!(term.token() > sealed, has_floor, "{} after {sealed}", term.token());
        let seal = fence().seal(pool, &term.permit().unwrap()).await;
        assert_eq!(seal.is_ok(), has_floor, "{seal:?}");
        assert_eq!(term.release().await, Released::Released);
    }
}

pub(crate) async fn a_term_that_was_overtaken_while_it_waited_is_given_back<R: Admin>(rig: R) {
    let sealed = restored(&rig).await;
    // Nothing was sealed when it began to wait; after it asks the fence.
    let (asked, asks) = (Arc::new(AtomicUsize::new(0)), fence());
    let (count, pool) = (Arc::clone(&asked), rig.database().pool.clone());
    let election = candidate(&rig, "a").floor(move || {
        let (first, asks, pool) = (count.fetch_add(1, Ordering::SeqCst) == 0, asks.clone(), pool.clone());
        async move { if first { Ok(None) } else { asks.generation(&pool).await } }
    });
    let term = election.campaign().await.unwrap();
    assert!(term.token() > sealed);
    assert_eq!(asked.load(Ordering::SeqCst), 4, "before and after each of two elections");
    fence().seal(&rig.database().pool, &term.permit().unwrap()).await.unwrap();
}

pub(crate) async fn leading_ends_with_the_shutdown_and_the_next_one_leads_at_once<R: Admin>(rig: R) {
    let (first, shutdown) = (candidate(&rig, "a"), CancellationToken::new());
    let (leads, (elected, is_elected)) = (Arc::new(AtomicBool::new(false)), oneshot::channel());
    let (stop, now) = (shutdown.clone(), Arc::clone(&leads));
    let leading = tokio::spawn(async move {
        let elected = Arc::new(std::sync::Mutex::new(Some(elected)));
        let work = move |scope: leastlock_lease::Scope| {
            let (now, elected) = (Arc::clone(&now), elected.lock().unwrap().take());
            async move {
                now.store(true, Ordering::SeqCst);
                elected.unwrap().send(()).unwrap();
                scope.cancelled().await;
                now.store(false, Ordering::SeqCst);
                Ok(())
            }
        };
        first.lead(stop, work).await
    });
    is_elected.await.unwrap();
    let led_with = rig.look().await.token.unwrap();
    let second = candidate(&rig, "b");
    let next = tokio::spawn(async move { second.campaign().await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(leads.load(Ordering::SeqCst) && !next.is_finished());
    shutdown.cancel();
    let led = leading.await.unwrap().unwrap();
    assert_eq!((led.terms, led.lost), (1, 0));
    // Long before the TTL.
    let term = timeout(LIMIT, next).await.unwrap().unwrap().unwrap();
    assert!(!leads.load(Ordering::SeqCst) && term.token().value() > led_with);
    // One that is shut down before it is elected leads not at all.
    let third = candidate(&rig, "c");
    let none = third.lead(shutdown, async |_scope| panic!("it is shut down")).await.unwrap();
    assert_eq!((none.terms, none.lost), (0, 0));
}

pub(crate) async fn work_that_fails_ends_the_leading<R: Admin>(rig: R) {
    let work = async |_scope| Err::<(), WorkError>("the disk is full".into());
    let failed: Result<Led, Error> = candidate(&rig, "a").lead(CancellationToken::new(), work).await;
    assert!(matches!(failed, Err(Error::Work { .. })), "{failed:?}");
    assert!(rig.look().await.released, "its outcome is known, so that the next one need not wait");
}

pub(crate) async fn leadership_is_handed_over_to_another_one<R: Admin>(rig: R) {
    let (first, second) = (candidate(&rig, "a"), candidate(&rig, "b"));
    let term = first.campaign().await.unwrap();
    let token = term.token();
    let next = tokio::spawn(async move { second.campaign().await.unwrap() });
    let handed = first.hand_over(term, LIMIT).await.unwrap();
    let HandedOver::To(record) = handed else { panic!("{handed:?}") };
    assert_eq!(record.holder.job.as_deref(), Some("b"));
    assert!(record.holder.token > Some(token));
    let term = next.await.unwrap();
    assert_eq!(record.holder.token, Some(term.token()));

    // Who has lost its term has nothing to hand over.
    rig.expire().await;
    let _new = first.campaign().await.unwrap();
    let late = candidate(&rig, "b").hand_over(term, LIMIT).await;
    assert!(matches!(late, Err(Error::Lost { .. })), "{late:?}");
}

pub(crate) async fn nobody_takes_over_where_nobody_campaigns<R: Admin>(rig: R) {
    let election = candidate(&rig, "a");
    let term = election.campaign().await.unwrap();
    let token = term.token();
    assert_eq!(election.hand_over(term, MOMENT).await.unwrap(), HandedOver::Nobody);
    assert_eq!(election.observe().look().await.unwrap(), Leadership::Vacant);
    assert!(election.campaign().await.unwrap().token() > token, "it may stand again");
}

pub(crate) async fn observers_see_who_leads_and_disturb_nobody<R: Admin>(rig: R) {
    let (first, second) = (candidate(&rig, "a"), candidate(&rig, "b"));
    let every = Duration::from_millis(10);
    let mut observer = first.observe().every(every);
    assert_eq!(observer.changed().await.unwrap(), Leadership::Vacant);
    let seen = |leadership: Leadership| match leadership {
        Leadership::Led(holder) => holder.job.map(String::from),
        _ => None,
    };
    let term = first.campaign().await.unwrap();
    assert_eq!(seen(observer.changed().await.unwrap()).as_deref(), Some("a"));
    assert!(timeout(MOMENT, observer.changed()).await.is_err(), "nothing has changed");
    assert!(term.permit().is_ok() && rig.look().await.token == Some(term.token().value()));
    let next = tokio::spawn(async move { second.campaign().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(term.release().await, Released::Released);
    let next = next.await.unwrap();
    // A vacancy between the two may be seen or not.
    let mut leader = seen(observer.changed().await.unwrap());
    if leader.is_none() {
        leader = seen(observer.changed().await.unwrap());
    }
    assert_eq!(leader.as_deref(), Some("b"));
    rig.expire().await;
    assert_eq!(observer.changed().await.unwrap(), Leadership::Vacant, "its lease has run out");
    drop(next);
}

pub(crate) async fn an_observer_that_cannot_see_does_not_say_that_nobody_leads<R: Admin>(rig: R) {
    let (store, away, _asked) = Away::new(rig.store());
    let election = election(Leases::new(store), "a");
    let _term = election.campaign().await.unwrap();
    let mut observer = election.observe().every(Duration::from_millis(10));
    assert!(matches!(observer.changed().await.unwrap(), Leadership::Led(_)));
    away.store(true, Ordering::SeqCst);
    let blind = observer.changed().await;
    assert!(matches!(&blind, Err(error @ Error::Store { .. }) if error.is_retryable()), "{blind:?}");
    assert_eq!(looks_carelessly(&observer).await, Leadership::Vacant, "the double does");
    away.store(false, Ordering::SeqCst);
    assert!(timeout(MOMENT, observer.changed()).await.is_err(), "nothing has changed meanwhile");
}

pub(crate) async fn a_campaign_waits_for_a_store_that_is_away<R: Admin>(rig: R) {
    let (store, away, asked) = Away::new(rig.store());
    away.store(true, Ordering::SeqCst);
    // Short, so that an acquisition is given up soon, and another follows.
    let election = Election::new(Leases::new(store), lock(), Duration::from_secs(2));
    let campaign = tokio::spawn(async move { election.campaign().await });
    eventually("it asks again and again", async || asked.load(Ordering::SeqCst) > 3).await;
    assert!(!campaign.is_finished());
    away.store(false, Ordering::SeqCst);
    let term = campaign.await.unwrap().unwrap();
    assert_eq!(rig.look().await.token, Some(term.token().value()));
}
