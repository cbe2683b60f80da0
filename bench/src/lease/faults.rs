//! What a pause or a cut network makes of a lease: pairs of holders at doors that are written in turn, side by side, until so many
//! faults have led to a take-over; then whether a lower token was applied after a higher one.
//!
//! | module | concept |
//! |---|---|
//! | `ground` | the locks' server, and the databases with the doors |
//! | `door` | what is protected, and everything that was written |
//! | `holder`, `clock` | a holder in a process of its own, and what it goes by |
//! | `member`, `pair` | the two at one door, as their parent sees them |
//! | `verdict` | whether what was applied is in order |

mod clock;
mod door;
mod ground;
mod holder;
mod member;
mod pair;
mod verdict;

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fastrand::Rng;
use leastlock_testkit::database::{MySql, Postgres, Sqlite};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

pub(crate) use self::holder::{ChildOptions, run as run_child};

use self::door::Doors;
use self::ground::Ground;
use self::holder::Conduct;
use self::member::Member;
use self::pair::{Pair, Recovery, Tally};
use self::verdict::Verdict;
use super::{Backend, Part};
use crate::options::LeaseOptions;
use crate::progress::Progress;
use crate::report::Aim;
use crate::sheet::Sheet;
use crate::statistics::{Spread, percentile};

const BEYOND: &str = "max beyond the TTL s";
const GRANTED: &str = "granted, max beyond the TTL s";
const FIGURES: [&str; 10] = [
    "take-overs",
    "writes",
    "refused",
    "below a higher token",
    "of so many leases",
    "p50 until the next write s",
    "p99 s",
    BEYOND,
    GRANTED,
    "seconds",
];
const CONDUCTS: [Conduct; 3] = [Conduct::Fenced, Conduct::Believing, Conduct::Unchecked];
/// The double meets so many times fewer.
const FEWER: u32 = 5;

/// What happens to a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It is stopped (SIGSTOP) until another holds the lock and has written, and goes on.
    Pause,
    /// Its network loses every byte either way until then: that to the locks, or that to the door as well.
    Cut,
}

impl Fault {
    const fn of(part: Part) -> Option<Self> {
        match part {
            Part::Pauses => Some(Self::Pause),
            Part::Cuts => Some(Self::Cut),
            Part::Own | Part::One => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Pause => "pauses",
            Self::Cut => "cuts",
        }
    }

    /// So many unless it is said.
    const fn usual(self) -> u32 {
        match self {
            Self::Pause => 300,
            Self::Cut => 100,
        }
    }

    /// Those that it can happen on: to a file leads no network.
    fn backends(self, backends: &[Backend]) -> Vec<Backend> {
        backends.iter().copied().filter(|backend| self == Self::Pause || *backend != Backend::Sqlite).collect()
    }
}

/// How many faults each pair meets, at least.
fn each(fault: Fault, conduct: Conduct, options: &LeaseOptions) -> u32 {
    let all = options.faults.unwrap_or(fault.usual());
    let all = if conduct == Conduct::Unchecked { all.div_ceil(FEWER) } else { all };
    all.div_ceil(options.pairs).max(1)
}

/// How many turns, and how long about.
pub(super) fn turns(part: Part, backends: &[Backend], options: &LeaseOptions) -> (u64, Duration) {
    let Some(fault) = Fault::of(part) else { return (0, Duration::ZERO) };
    let backends = u32::try_from(fault.backends(backends).len()).unwrap_or(u32::MAX);
    let faults: u32 = CONDUCTS.iter().map(|conduct| each(fault, *conduct, options)).sum();
    let time = (options.ttl + Duration::from_secs(1)).saturating_mul(faults.saturating_mul(backends));
    (u64::from(backends) * CONDUCTS.len() as u64, time)
}

/// What a run of these parts has found.
pub(super) struct Found {
    pub(super) sheet: Sheet,
    /// Name and version of each server.
    pub(super) about: Vec<String>,
}

/// Runs a part on each backend; an error if a lower token was applied after a higher one, or the double was not caught at that.
pub(super) async fn measure(
    part: Part,
    backends: &[Backend],
    options: &LeaseOptions,
    progress: &Progress,
) -> anyhow::Result<Found> {
    let fault = Fault::of(part).context("no fault happens in this part")?;
    let mut found = Found { sheet: Sheet::new(fault.name(), None, &FIGURES), about: Vec::new() };
    for backend in fault.backends(backends) {
        let about = match backend {
            Backend::Sqlite => on::<Sqlite>(backend, fault, options, progress, &mut found.sheet).await,
            Backend::Mariadb => on::<MySql>(backend, fault, options, progress, &mut found.sheet).await,
            _ => on::<Postgres>(backend, fault, options, progress, &mut found.sheet).await,
        };
        found.about.push(about.with_context(|| format!("{}, {}", fault.name(), backend.label()))?);
    }
    Ok(found)
}

async fn on<DB: Doors>(
    backend: Backend,
    fault: Fault,
    options: &LeaseOptions,
    progress: &Progress,
    sheet: &mut Sheet,
) -> anyhow::Result<String> {
    let mut ground = Ground::<DB>::create(backend, options.pairs).await?;
    let about = ground.about().await?;
    for conduct in CONDUCTS {
        let begun = Instant::now();
        let (tally, verdict) = turn(&mut ground, fault, conduct, options).await?;
        let place = format!("{}, {}, {}", fault.name(), backend.label(), conduct.name());
        let Tally { recoveries, refused, unasked } = &tally;
        let count = recoveries.len();
        progress.turn_ended(&format!(
            "{place}: {count} take-overs (beside {unasked} others), {refused} refused; {verdict}"
        ));
        let seed = options.common.seed;
        if conduct == Conduct::Unchecked {
            ensure!(verdict.late > 0, "{place}: the double was not caught in {count} take-overs; seed {seed}");
        } else {
            ensure!(verdict.late == 0, "{place}: {verdict}; {count} take-overs, seed {seed}");
        }
        if conduct == Conduct::Believing {
            ensure!(*refused > 0, "{place}: no late write has reached the resource, so nothing was shown; seed {seed}");
        }
        let setting = format!("{}, {} pairs, TTL {:?}", backend.label(), options.pairs, options.ttl);
        sheet.note(&setting, conduct.name(), figures(&tally, verdict, options.ttl, begun.elapsed()));
    }
    ground.end().await?;
    Ok(about)
}

async fn turn<DB: Doors>(
    ground: &mut Ground<DB>,
    fault: Fault,
    conduct: Conduct,
    options: &LeaseOptions,
) -> anyhow::Result<(Tally, Verdict)> {
    let mut running = JoinSet::new();
    let first = ground.open_door().await?;
    for number in 0..options.pairs {
        let place = if number == 0 { first } else { ground.open_door().await? };
        let mut members = Vec::new();
        for _ in 0..2 {
            let mut task = ground.task(place, conduct, options.ttl);
            let network = if fault == Fault::Cut { Some(ground.connect(&mut task).await?) } else { None };
            members.push(Member::new(holder::launch(&task)?, network));
        }
        let Ok(members) = <[Member; 2]>::try_from(members) else { unreachable!("a pair is two") };
        let (pool, runtime) = (ground.database_of(place).pool.clone(), Handle::current());
        let rng = Rng::with_seed(options.common.seed ^ u64::from(number));
        let pair = Pair { members, fault, conduct, ttl: options.ttl, pool, runtime, rng, cuts: number };
        let faults = each(fault, conduct, options);
        running.spawn_blocking(move || pair.run(faults));
    }
    let mut all = Tally::default();
    while let Some(pair) = running.join_next().await {
        let Tally { recoveries, refused, unasked } = pair.context("a pair ended early")??;
        all.recoveries.extend(recoveries);
        all.refused += refused;
        all.unasked += unasked;
    }
    let mut history = Vec::new();
    for database in ground.databases() {
        history.extend(door::history(database).await?.into_iter().filter(|write| write.door >= first.door));
    }
    Ok((all, Verdict::of(&history)))
}

#[expect(clippy::cast_precision_loss, reason = "counts and milliseconds of a run are far below 2^53")]
fn figures(tally: &Tally, verdict: Verdict, ttl: Duration, took: Duration) -> Vec<f64> {
    let sorted = |time: fn(&Recovery) -> Duration| {
        let ms = |recovery: &Recovery| u64::try_from(time(recovery).as_millis()).unwrap_or(u64::MAX);
        let mut sorted: Vec<u64> = tally.recoveries.iter().map(ms).collect();
        sorted.sort_unstable();
        sorted
    };
    let seconds = |sorted: &[u64], percent| percentile(sorted, percent).map_or(f64::NAN, |ms| ms as f64 / 1e3);
    let (granted, written) = (sorted(|recovery| recovery.granted), sorted(|recovery| recovery.written));
    let [p50, p99, last] = [50, 99, 100].map(|percent| seconds(&written, percent));
    let [beyond, granted_beyond] = [last, seconds(&granted, 100)].map(|max| max - ttl.as_secs_f64());
    let Verdict { applied, late, leases } = verdict;
    let counts = [tally.recoveries.len() as u64, applied, tally.refused, late, leases].map(|count| count as f64);
    [&counts[..], &[p50, p99, beyond, granted_beyond, took.as_secs_f64()]].concat()
}

/// How long nobody could write, at most.
pub(super) fn aims(sheet: &Sheet) -> Vec<Aim> {
    let mut aims = Vec::new();
    for setting in sheet.settings() {
        for conduct in CONDUCTS.iter().filter(|conduct| **conduct != Conduct::Unchecked) {
            for figure in [GRANTED, BEYOND] {
                let value = sheet.values(setting, conduct.name(), figure).and_then(Spread::of);
                let what = format!("{}, {setting}: {figure}, {} (aim: 1 or less)", sheet.part, conduct.name());
                aims.extend(value.map(|value| Aim { what, value }));
            }
        }
    }
    aims
}
