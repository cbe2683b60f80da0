use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leastlock_lease::{
    CorrectnessLease, Ending, Error, Fence, Finished, Hold, LeaseStatus, LockName, LossReason, Released, Scope,
    WorkError,
};
use tokio_util::sync::CancellationToken;

use super::doubles::{detached, goes_on_renewing, guards_its_work_too_late};
use crate::clock::ManualClock;
use crate::rig::Rig;
use crate::wire::Control;
use crate::world::{A_WRITES, LIMIT, LONG, VALUE, eventually, fixed, hastened, leases, lock, write};

const SHORT_TTL: Duration = Duration::from_millis(4500);
/// Renewed at about every 150 ms, by a clock that hastens it.
const SHORT: Hold = Hold::renewed(SHORT_TTL);
/// Longer than a renewal is ever late for.
const A_WHILE: Duration = Duration::from_millis(500);

async fn wired<R: Rig>(rig: &R, hold: Hold) -> (CorrectnessLease, Arc<Control>) {
    rig.forget().await;
    let (leases, control) = hastened(rig.store());
    (leases.acquire(&lock(), hold).await.unwrap(), control)
}

pub(crate) async fn the_work_of_the_guide_runs_in_a_spawned_task<R: Rig>(rig: R) {
    let (pool, leases) = (rig.database().pool.clone(), leases(&rig));
    let task = tokio::spawn(async move {
        let fence = Fence::new("report:tenant-7")?;
        let lease = leases.acquire(&lock(), Hold::renewed(LONG)).await?;
        lease
            .run(async |scope| {
                let permit = scope.permit()?;
                fence.seal(&pool, &permit).await?;
                let mut tx = pool.begin().await?;
                fence.check(&mut tx, &permit).await?;
                write(&mut tx, A_WRITES).await?;
                Ok(tx.commit().await?)
            })
            .await
    });
    task.await.unwrap().unwrap();
    assert_eq!(rig.database().int(VALUE).await, 1);
    assert!(rig.look().await.released);
}

pub(crate) async fn l16_cancelled_work_stops_its_renewal_first<R: Rig>(rig: R) {
    let (lease, control) = wired(&rig, SHORT).await;
    let (cancel, seen) = (CancellationToken::new(), Arc::clone(&control));
    let (trigger, mut before) = (cancel.clone(), 0);
    let finished: Finished<()> = lease
        .cancelled_by(cancel)
        .cancel_deadline(LIMIT)
        .run_to_end(async |scope| {
            seen.reached("renewal done", 1).await;
            seen.clock.jump(scope.remaining().unwrap().saturating_sub(A_WHILE));
            trigger.cancel();
            before = seen.count("renewal sent");
            scope.cancelled().await;
            assert!(scope.permit().is_ok(), "what is left of the lease serves to end well");
            // Never ends by itself: what is left of the TTL ends it, though the cancel deadline is far.
            std::future::pending().await
        })
        .await;
    assert!(matches!(finished.result, Err(Error::Cancelled { .. } | Error::Lost { .. })), "{:?}", finished.result);
    assert_eq!(finished.ending, Ending::LeftToExpire { outlived: 0 });
    assert!(!rig.look().await.released);
    // Only one that was about to be sent at the cancellation can have been.
    assert!(control.count("renewal sent") <= before + 1, "{:?}", control.log());

    let (lease, control) = wired(&rig, SHORT).await;
    let cancel = CancellationToken::new();
    let double = tokio::spawn(goes_on_renewing(lease, cancel.clone(), Arc::clone(&control)));
    cancel.cancel();
    double.await.unwrap();
    assert!(control.count("renewal sent") > 0, "the double renews for work that is cancelled");
}

pub(crate) async fn l22_lost_commit_reply_leaves_the_lease_to_expire<R: Rig>(rig: R) {
    let cut = || sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
    for (error, released) in [
        (WorkError::from(cut()), false),
        (WorkError::from(Wrapped(cut())), false),
        (WorkError::unknown("the mail may have gone out"), false),
        (WorkError::from("no such tenant"), true),
        (WorkError::from(sqlx::Error::RowNotFound), true),
        // The double: takes a lost reply for a failure.
        (WorkError::known(cut()), true),
    ] {
        let shown = format!("{error:?}");
        let (lease, _) = wired(&rig, fixed()).await;
        let finished: Finished<()> = lease.run_to_end(async |_| Err(error)).await;
        assert!(matches!(finished.result, Err(Error::Work { .. })));
        assert_eq!(finished.ending == Ending::Released(Released::Released), released, "{shown}");
        assert_eq!(rig.look().await.released, released, "{shown}");
    }
}

pub(crate) async fn l22_inner_work_of_unknown_outcome_leaves_the_outer_lease_to_expire<R: Rig>(rig: R) {
    let inner = LockName::new("report:inner").unwrap();
    // The double takes whatever is this crate's own for known.
    for (judge, says) in
        [(WorkError::from as fn(Error) -> WorkError, [false, false, false, true]), (WorkError::known, [true; 4])]
    {
        for (ends, released) in Inner::ALL.into_iter().zip(says) {
            let (lease, _) = wired(&rig, fixed()).await;
            let leases = leases(&rig);
            let finished: Finished<()> = lease
                .run_to_end(async |_| {
                    let cancel = CancellationToken::new();
                    let inner =
                        leases.acquire(&inner, Hold::fixed(Duration::from_secs(2))).await.map_err(WorkError::known)?;
                    let inner = inner.cancelled_by(cancel.clone()).cancel_deadline(Duration::from_millis(1));
                    inner.run(async |_| ends.failed(cancel).await).await.map_err(judge)
                })
                .await;
            assert!(finished.result.is_err());
            assert_eq!(finished.ending == Ending::Released(Released::Released), released, "{ends:?}");
        }
    }
}

/// How the work under an inner lease ends.
#[derive(Debug, Clone, Copy)]
enum Inner {
    Cancelled,
    Cut,
    SaidToBeUnknown,
    Failed,
}

impl Inner {
    const ALL: [Self; 4] = [Self::Cancelled, Self::Cut, Self::SaidToBeUnknown, Self::Failed];

    async fn failed(self, cancel: CancellationToken) -> Result<(), WorkError> {
        match self {
            Self::Cancelled => {
                cancel.cancel();
                std::future::pending().await
            }
            Self::Cut => Err(sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into()).into()),
            Self::SaidToBeUnknown => Err(WorkError::unknown("the mail may have gone out")),
            Self::Failed => Err("no such tenant".into()),
        }
    }
}

#[derive(Debug)]
struct Wrapped(sqlx::Error);

impl std::fmt::Display for Wrapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the report was not written")
    }
}

impl std::error::Error for Wrapped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[cfg(feature = "postgres")]
pub(crate) async fn l22_session_ended_under_the_commit_leaves_the_lease_to_expire<R: Rig>(rig: R) {
    let (lease, _) = wired(&rig, fixed()).await;
    let finished = lease
        .run_to_end(async |_| {
            let mut tx = rig.database().pool.begin().await?;
            write(&mut tx, "SET LOCAL application_name = 'doomed'").await?;
            write(&mut tx, A_WRITES).await?;
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'doomed'";
            rig.database().execute(end).await;
            Ok(tx.commit().await?)
        })
        .await;
    assert!(finished.result.is_err());
    assert_eq!(finished.ending, Ending::LeftToExpire { outlived: 0 });
    assert!(!rig.look().await.released);
}

/// The reply of a real `COMMIT` is swallowed: it took effect, and nobody was told.
#[cfg(feature = "postgres")]
pub(crate) async fn l22_swallowed_commit_reply_leaves_the_lease_to_expire<R: Rig>(rig: R) {
    use leastlock_testkit::proxy::{FaultProxy, Then, postgres};

    // The double: takes a lost reply for a failure.
    for (taken_as_known, released) in [(false, false), (true, true)] {
        rig.database().execute("UPDATE protected SET value = 0").await;
        let proxy = FaultProxy::to_postgres(&rig.database().url).await;
        let pool =
            <R::DB as leastlock_testkit::TestEngine>::connect(&postgres::through(&proxy, &rig.database().url)).await;
        let (lease, _) = wired(&rig, fixed()).await;
        let finished = lease
            .run_to_end(async |_| {
                let mut tx = pool.begin().await?;
                write(&mut tx, A_WRITES).await?;
                proxy.swallow_reply_to(postgres::is_commit(), Then::Cut);
                let committed = tx.commit().await;
                if taken_as_known { committed.map_err(WorkError::known) } else { Ok(committed?) }
            })
            .await;
        assert_eq!(proxy.losses(), 1);
        assert!(finished.result.is_err());
        assert_eq!(rig.database().int(VALUE).await, 1, "the write took effect");
        assert_eq!(finished.ending == Ending::Released(Released::Released), released);
        assert_eq!(rig.look().await.released, released);
    }
}

/// Notes what its scope says at the moment when the work is dropped.
struct Epitaph(Scope, Arc<Mutex<Option<LeaseStatus>>>);

impl Drop for Epitaph {
    fn drop(&mut self) {
        *self.1.lock().unwrap() = Some(self.0.status());
    }
}

pub(crate) async fn l24_hang_up_ends_renewal_before_the_work<R: Rig>(rig: R) {
    let (lease, control) = wired(&rig, SHORT).await;
    let epitaph = Arc::new(Mutex::new(None));
    let task_dropped = Arc::new(AtomicBool::new(false));
    let (noted, dropped, seen) = (Arc::clone(&epitaph), Arc::clone(&task_dropped), Arc::clone(&control));
    let request = tokio::spawn(async move {
        lease
            .run(async |scope| {
                let flag = SetOnDrop(dropped);
                scope.spawn(async move {
                    let _flag = flag;
                    std::future::pending::<()>().await;
                });
                let _epitaph = Epitaph(scope, noted);
                std::future::pending::<Result<(), WorkError>>().await
            })
            .await
    });
    seen.reached("renewal done", 1).await;
    request.abort();
    assert!(request.await.unwrap_err().is_cancelled());
    let abandoned = LeaseStatus::Lost { reason: LossReason::Abandoned };
    assert_eq!(*epitaph.lock().unwrap(), Some(abandoned), "when the work was dropped, renewal had ended");
    eventually("the task is dropped", async || task_dropped.load(Ordering::SeqCst)).await;
    assert!(renewals_end(&control).await);
    assert!(!rig.look().await.released, "what the work has done is not known");

    let (lease, control) = wired(&rig, SHORT).await;
    let request = tokio::spawn(detached(lease));
    control.reached("renewal done", 1).await;
    request.abort();
    let before = control.count("renewal sent");
    control.reached("renewal sent", before + 2).await; // The double renews for nobody, beyond what was in flight.
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Whether nothing is renewed any more, but for what was in flight.
async fn renewals_end(control: &Control) -> bool {
    let before = control.count("renewal sent");
    tokio::time::sleep(A_WHILE).await;
    control.count("renewal sent") <= before + 1
}

pub(crate) async fn l24_task_that_outlives_the_cancel_deadline_is_reported<R: Rig>(rig: R) {
    for outlives in [true, false] {
        let (lease, _) = wired(&rig, fixed()).await;
        let (cancel, go_on) = (CancellationToken::new(), Arc::new(AtomicBool::new(!outlives)));
        let (trigger, blocked) = (cancel.clone(), Arc::clone(&go_on));
        let finished = lease
            .cancelled_by(cancel)
            .cancel_deadline(if outlives { Duration::from_millis(200) } else { LIMIT })
            .run_to_end(async |scope| {
                let running = Arc::new(AtomicBool::new(false));
                let begun = Arc::clone(&running);
                scope.spawn(async move {
                    begun.store(true, Ordering::SeqCst);
                    // Does not yield, so nothing can drop it.
                    while !blocked.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                });
                eventually("the task runs", async || running.load(Ordering::SeqCst)).await;
                trigger.cancel();
                Ok(())
            })
            .await;
        go_on.store(true, Ordering::SeqCst);
        assert!(finished.result.is_ok());
        let expected =
            if outlives { Ending::LeftToExpire { outlived: 1 } } else { Ending::Released(Released::Released) };
        assert_eq!(finished.ending, expected);
        assert_eq!(rig.look().await.released, !outlives);
    }
}

pub(crate) async fn a_panic_of_the_work_leaves_the_lease_to_expire<R: Rig>(rig: R) {
    async fn panics(_: Scope) -> Result<(), WorkError> {
        panic!("work that panics at its first step")
    }
    fn panics_at_once() -> std::future::Ready<Result<(), WorkError>> {
        panic!("work that panics before it is a future")
    }
    for which in ["later", "at once", "the double's"] {
        let (lease, control) = wired(&rig, SHORT).await;
        let ran = tokio::spawn(async move {
            match which {
                "later" => lease.run(panics).await,
                "at once" => lease.run(|_| panics_at_once()).await,
                _ => guards_its_work_too_late(lease, panics_at_once).await,
            }
        });
        assert!(ran.await.unwrap_err().is_panic());
        let ended = control.count("left to expire") == 1;
        assert_eq!(ended, which != "the double's", "{which}: {:?}", control.log());
        assert!(!rig.look().await.released, "what the work has done is not known");
    }
}

pub(crate) async fn lost_lease_drops_the_work_and_its_tasks<R: Rig>(rig: R) {
    let clock = ManualClock::new();
    let lease = leases(&rig).clock(clock.clone()).acquire(&lock(), fixed()).await.unwrap();
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = SetOnDrop(Arc::clone(&dropped));
    let finished: Finished<()> = lease
        .run_to_end(async |scope| {
            scope.spawn(async move {
                let _flag = flag;
                std::future::pending::<()>().await;
            });
            clock.jump(LONG);
            let lost = scope.permit();
            assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
            std::future::pending().await
        })
        .await;
    let reason = LossReason::Expired;
    assert!(matches!(finished.result, Err(Error::Lost { reason: lost, .. }) if lost == reason));
    assert!(dropped.load(Ordering::SeqCst));
    assert_eq!(finished.ending, Ending::LeftToExpire { outlived: 0 });
}

pub(crate) async fn tasks_of_the_scope_end_before_the_release<R: Rig>(rig: R) {
    let (lease, control) = wired(&rig, SHORT).await;
    let (ended, counted) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&control));
    let (count, seen) = (Arc::clone(&ended), Arc::clone(&control));
    let finished = lease
        .run_to_end(async |scope| {
            for _ in 0..3 {
                let (count, seen) = (Arc::clone(&count), Arc::clone(&seen));
                scope.spawn(async move {
                    seen.reached("renewal done", 2).await;
                    assert_eq!(seen.count("released"), 0);
                    count.fetch_add(1, Ordering::SeqCst);
                });
            }
            Ok(())
        })
        .await;
    assert_eq!(finished.ending, Ending::Released(Released::Released));
    assert_eq!((ended.load(Ordering::SeqCst), counted.count("released")), (3, 1));

    let (lease, _) = wired(&rig, fixed()).await;
    let finished = lease
        .run_to_end(async |scope| {
            scope.spawn(async { panic!("a task that panics leaves its outcome unknown") });
            Ok(())
        })
        .await;
    assert_eq!(finished.ending, Ending::LeftToExpire { outlived: 0 });
}

pub(crate) async fn failed_work_releases_and_says_what_failed<R: Rig>(rig: R) {
    let (lease, _) = wired(&rig, fixed()).await;
    let failed: Result<(), Error> = lease.run(async |_| Err("no such tenant".into())).await;
    let Err(Error::Work { known: true, source }) = failed else { panic!("{failed:?}") };
    assert_eq!(source.to_string(), "no such tenant");
    assert!(rig.look().await.released);

    let (lease, _) = wired(&rig, fixed()).await;
    let (pool, fence) = (rig.database().pool.clone(), Fence::new("report:tenant-7").unwrap());
    let refused = lease
        .run(async |scope| {
            let mut tx = pool.begin().await?;
            fence.check(&mut tx, &scope.permit()?).await?;
            Ok(tx.commit().await?)
        })
        .await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "an error of this crate comes through: {refused:?}");
    assert!(rig.look().await.released);
}
