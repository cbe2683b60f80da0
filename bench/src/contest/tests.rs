use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::ensure;
use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

/// Counts in memory. The second contender can lose updates, or give away what is not there.
#[derive(Debug)]
struct Counting {
    second: Fault,
    stored: AtomicU64,
    left: AtomicU64,
    verified: Arc<Mutex<Vec<(char, Supply)>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Loses,
    Oversells,
    GivesUp,
}

const SCARCE: u64 = 40;

impl Counting {
    fn new(second: Fault) -> Self {
        Self { second, stored: AtomicU64::new(0), left: AtomicU64::new(0), verified: Arc::default() }
    }

    fn fault(&self, contender: char) -> Fault {
        if contender == 'B' { self.second } else { Fault::None }
    }
}

impl Contest for Counting {
    type Contender = char;
    type Arena = u32;
    type Client = Rng;

    fn measure(&self) -> &'static str {
        "counting"
    }

    fn entrants(&self) -> Vec<Entrant<char>> {
        [("first", 'A'), ("second", 'B')]
            .map(|(name, contender)| Entrant {
                name,
                contender,
                quotient: None,
                retries: false,
                is_wrong_on_purpose: false,
            })
            .into()
    }

    fn can_run_out(&self) -> bool {
        true
    }

    async fn open(&self, clients: u32) -> anyhow::Result<u32> {
        Ok(clients)
    }

    fn connections(&self, arena: &u32) -> u32 {
        *arena
    }

    async fn close(&self, arena: Arc<u32>) -> anyhow::Result<()> {
        ensure!(Arc::strong_count(&arena) == 1, "a client is still there");
        Ok(())
    }

    async fn prepare(&self, _contender: char, supply: Supply) -> anyhow::Result<()> {
        self.stored.store(0, Ordering::SeqCst);
        self.left.store(if supply == Supply::Scarce { SCARCE } else { u64::MAX }, Ordering::SeqCst);
        Ok(())
    }

    fn client(&self, _contender: char, seat: Seat) -> Rng {
        seat.rng
    }

    async fn call(&self, _arena: &u32, contender: char, rng: &mut Rng) -> anyhow::Result<Done> {
        let left = self.left.load(Ordering::SeqCst);
        let fault = self.fault(contender);
        if fault == Fault::Oversells {
            tokio::task::yield_now().await;
            self.left.store(left.saturating_sub(1), Ordering::SeqCst);
        } else {
            let one_less = |left: u64| left.checked_sub(1);
            let _ = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
            tokio::task::yield_now().await;
        }
        if left == 0 {
            return Ok(Done::at_once(false));
        }
        match fault {
            Fault::Loses if rng.bool() => {}
            Fault::GivesUp if rng.bool() => return Ok(Done { outcome: Outcome::GaveUp, conflicts: 3 }),
            _ => _ = self.stored.fetch_add(1, Ordering::SeqCst),
        }
        Ok(Done::at_once(true))
    }

    async fn run(&self, load: &Load<'_, Self>, time: Duration, cpu: Cpu) -> anyhow::Result<(Round, Claims)> {
        load.run_for(time, cpu).await
    }

    async fn verify(&self, contender: char, supply: Supply, claims: Claims) -> anyhow::Result<u64> {
        self.verified.lock().unwrap().push((contender, supply));
        let stored = self.stored.load(Ordering::SeqCst);
        ensure!(stored == claims.effects, "{stored} are stored, {} were claimed", claims.effects);
        Ok(if supply == Supply::Scarce { claims.effects.saturating_sub(SCARCE) } else { 0 })
    }
}

async fn compared(contest: Counting) -> anyhow::Result<Vec<Comparison>> {
    let line = ["bench", "--rounds", "3", "--seconds", "0.02", "--seed", "1", "--clients", "1,4"];
    let options = Line::parse_from(line).options;
    let (turns, time) = turns(2, &options);
    compare(contest, &Course { options: &options, cpu: Cpu::Own, progress: Progress::begin(turns, time) }).await
}

#[tokio::test]
async fn contenders_run_in_turn_and_the_warm_up_is_not_counted() {
    let contest = Counting::new(Fault::None);
    let verified = Arc::clone(&contest.verified);
    let comparisons = compared(contest).await.unwrap();

    let (scarce, ample) = (Supply::Scarce, Supply::Ample);
    let warm_up = [('A', scarce), ('A', ample), ('B', scarce), ('B', ample)].repeat(2);
    let counted = [('A', ample), ('B', ample)].repeat(2 * 3);
    assert_eq!(*verified.lock().unwrap(), [warm_up, counted].concat());

    let clients: Vec<_> = comparisons.iter().map(|one| (one.clients, one.connections)).collect();
    assert_eq!(clients, [(1, 1), (4, 4)]);
    for entry in comparisons.iter().flat_map(|one| &one.entries) {
        assert_eq!((entry.rounds.len(), entry.oversold()), (3, 0));
        for round in &entry.rounds {
            assert!(round.operations > 0 && round.p50_us <= round.p99_us && round.cpu_seconds.is_some());
        }
    }
}

#[tokio::test]
async fn wrong_results_fail_the_run() {
    let error = compared(Counting::new(Fault::Loses)).await.unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("counting, clients: 1, second: ") && text.contains("were claimed"), "{text}");
}

#[tokio::test]
async fn what_was_given_away_and_not_there_is_counted() {
    let comparisons = compared(Counting::new(Fault::Oversells)).await.unwrap();
    assert_eq!(comparisons[0].entries[1].oversold(), 0, "one client alone sells what is there");
    assert_eq!(comparisons[1].entries[0].oversold(), 0);
    assert!(comparisons[1].entries[1].oversold() > 0);
}

#[tokio::test]
async fn who_gives_up_has_done_no_operation() {
    let comparisons = compared(Counting::new(Fault::GivesUp)).await.unwrap();
    for round in &comparisons[1].entries[1].rounds {
        assert!(round.gave_up > 0 && round.conflicts == 3 * round.gave_up && round.operations > 0, "{round:?}");
    }
}
