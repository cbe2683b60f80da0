//! The state machine against a model that only remembers, under a clock that can jump.

use super::*;

const TTL: Duration = Duration::from_secs(10);
/// The TTL less TTL/100 and 2 ms.
const CERTAIN: Duration = Duration::from_millis(9_898);
const DRIFT: Duration = Duration::from_millis(102);
const MS: Duration = Duration::from_millis(1);

/// What a lease looks like to its holder; the real machine and its mutants.
trait Machine {
    fn begin(hold: Hold, sent: BootTime) -> Self;
    fn look(&mut self, now: BootTime) -> LeaseStatus;
    fn renewal(&mut self, now: BootTime, sent: BootTime, answer: RenewalAnswer);
    fn end(&mut self, now: BootTime, reason: LossReason);
}

impl Machine for LeaseState {
    fn begin(hold: Hold, sent: BootTime) -> Self {
        Self::granted(hold, sent, hold.ttl())
    }
    fn look(&mut self, now: BootTime) -> LeaseStatus {
        self.observe(now)
    }
    fn renewal(&mut self, now: BootTime, sent: BootTime, answer: RenewalAnswer) {
        let _ = LeaseState::renewal(self, now, sent, answer);
    }
    fn end(&mut self, now: BootTime, reason: LossReason) {
        let _ = LeaseState::end(self, now, reason);
    }
}

/// Waits for a timer to tell it of the deadline instead of looking at the clock.
struct TimerOnly(LeaseState);

impl Machine for TimerOnly {
    fn begin(hold: Hold, sent: BootTime) -> Self {
        Self(LeaseState::begin(hold, sent))
    }
    fn look(&mut self, _now: BootTime) -> LeaseStatus {
        self.0.status
    }
    fn renewal(&mut self, _now: BootTime, sent: BootTime, answer: RenewalAnswer) {
        let _ = self.0.renewal(sent, sent, answer);
    }
    fn end(&mut self, now: BootTime, reason: LossReason) {
        Machine::end(&mut self.0, now, reason);
    }
}

/// Counts the TTL from the answer, not from the sending.
struct FromAnswer(LeaseState);

impl Machine for FromAnswer {
    fn begin(hold: Hold, sent: BootTime) -> Self {
        Self(LeaseState::begin(hold, sent))
    }
    fn look(&mut self, now: BootTime) -> LeaseStatus {
        self.0.observe(now)
    }
    fn renewal(&mut self, now: BootTime, _sent: BootTime, answer: RenewalAnswer) {
        let _ = self.0.renewal(now, now, answer);
    }
    fn end(&mut self, now: BootTime, reason: LossReason) {
        Machine::end(&mut self.0, now, reason);
    }
}

/// Takes a time-out for a yes.
struct TimeoutIsYes(LeaseState);

impl Machine for TimeoutIsYes {
    fn begin(hold: Hold, sent: BootTime) -> Self {
        Self(LeaseState::begin(hold, sent))
    }
    fn look(&mut self, now: BootTime) -> LeaseStatus {
        self.0.observe(now)
    }
    fn renewal(&mut self, now: BootTime, sent: BootTime, answer: RenewalAnswer) {
        let answer = match answer {
            RenewalAnswer::Unanswered => RenewalAnswer::Confirmed { ttl: TTL },
            answer => answer,
        };
        let _ = self.0.renewal(now, sent, answer);
    }
    fn end(&mut self, now: BootTime, reason: LossReason) {
        Machine::end(&mut self.0, now, reason);
    }
}

/// Lets a late yes undo a loss.
struct Revived(LeaseState);

impl Machine for Revived {
    fn begin(hold: Hold, sent: BootTime) -> Self {
        Self(LeaseState::begin(hold, sent))
    }
    fn look(&mut self, now: BootTime) -> LeaseStatus {
        self.0.observe(now)
    }
    fn renewal(&mut self, now: BootTime, sent: BootTime, answer: RenewalAnswer) {
        let lost = matches!(self.0.observe(now), LeaseStatus::Lost { .. });
        if let (true, RenewalAnswer::Confirmed { .. }) = (lost, answer) {
            self.0.status = LeaseStatus::Held { deadline: sent + self.0.hold.validity(TTL) };
        }
        let _ = self.0.renewal(now, sent, answer);
    }
    fn end(&mut self, now: BootTime, reason: LossReason) {
        Machine::end(&mut self.0, now, reason);
    }
}

/// Takes what a yes brings for more than there was.
struct KeepsTheLongest(LeaseState);

impl Machine for KeepsTheLongest {
    fn begin(hold: Hold, sent: BootTime) -> Self {
        Self(LeaseState::begin(hold, sent))
    }
    fn look(&mut self, now: BootTime) -> LeaseStatus {
        self.0.observe(now)
    }
    fn renewal(&mut self, now: BootTime, sent: BootTime, answer: RenewalAnswer) {
        let before = self.0.deadline();
        let after = self.0.renewal(now, sent, answer);
        if let (LeaseStatus::Held { deadline }, Some(before)) = (after, before) {
            self.0.status = LeaseStatus::Held { deadline: deadline.max(before) };
        }
    }
    fn end(&mut self, now: BootTime, reason: LossReason) {
        Machine::end(&mut self.0, now, reason);
    }
}

/// Plays a random life of a lease; answers the first difference from the model.
///
/// The model keeps one number, until when the lease is certain, and one flag, whether it was ever seen to be over.
fn differs_from_model<M: Machine>(seed: u64) -> Option<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let hold = Hold::renewed(TTL).max_hold(TTL * random.u32(1..6));
    let mut now = BootTime::after_boot(Duration::from_secs(random.u64(1..1000)));
    let end = now + hold.longest_hold();
    let certain = |sent: BootTime, ttl: Duration| (sent + ttl.min(TTL).saturating_sub(DRIFT)).min(end);
    let (mut machine, mut until, mut over, mut waiting) = (M::begin(hold, now), certain(now, TTL), false, None);
    for step in 0..40 {
        // Mostly short steps, now and then a suspension.
        let jump = if random.u8(0..12) == 0 { random.u64(0..30_000) } else { random.u64(0..1_500) };
        now = now + MS * u32::try_from(jump).unwrap();
        over |= now >= until;
        let sent = now;
        match random.u8(0..10) {
            0..4 => {
                let reply = sent + MS * random.u32(0..2_000);
                // Now and then the store grants less, or more than was asked for.
                let ttl = if random.u8(0..4) == 0 { MS * random.u32(2_500..20_000) } else { TTL };
                now = reply;
                over |= now >= until;
                machine.renewal(now, sent, RenewalAnswer::Confirmed { ttl });
                if !over {
                    (until, waiting) = (certain(sent, ttl), None);
                }
            }
            4 | 5 => {
                machine.renewal(now, sent, RenewalAnswer::Unanswered);
                waiting = waiting.or(Some(sent));
            }
            6 if random.bool() => {
                machine.renewal(now, sent, RenewalAnswer::NotOwner);
                over = true;
            }
            7 if random.u8(0..4) == 0 => {
                machine.end(now, LossReason::Abandoned);
                over = true;
            }
            _ => {}
        }
        over |= now >= until;
        let expected_open = if waiting.is_some() { "Unconfirmed" } else { "Held" };
        let expected = if over { "Lost".into() } else { format!("{expected_open} until {until:?}") };
        let shown = match machine.look(now) {
            LeaseStatus::Held { deadline } => format!("Held until {deadline:?}"),
            LeaseStatus::Unconfirmed { deadline, .. } => format!("Unconfirmed until {deadline:?}"),
            LeaseStatus::Lost { .. } => "Lost".into(),
        };
        if shown != expected {
            return Some(format!("seed {seed}, step {step}, {now:?}: {shown}, expected {expected}"));
        }
    }
    None
}

fn first_difference<M: Machine>() -> Option<String> {
    let base = fastrand::u64(..u64::MAX - 5_000);
    (base..base + 5_000).find_map(differs_from_model::<M>)
}

#[test]
fn state_follows_the_model_through_suspensions() {
    assert_eq!(first_difference::<LeaseState>(), None);
}

#[test]
fn model_rejects_the_classic_mistakes() {
    for mutant in [
        first_difference::<TimerOnly>,
        first_difference::<FromAnswer>,
        first_difference::<TimeoutIsYes>,
        first_difference::<Revived>,
        first_difference::<KeepsTheLongest>,
    ] {
        assert!(mutant().is_some());
    }
}

/// TTL 10 s, renewed every 3 s or so, a pause of 12 s.
fn lost_on_waking<M: Machine>() -> bool {
    let begun = BootTime::after_boot(Duration::from_secs(100));
    let mut lease = M::begin(Hold::renewed(TTL), begun);
    for second in [3, 6] {
        let now = begun + Duration::from_secs(second);
        lease.renewal(now, now, RenewalAnswer::Confirmed { ttl: TTL });
    }
    let waking = begun + Duration::from_secs(6 + 12);
    matches!(lease.look(waking), LeaseStatus::Lost { reason: LossReason::Expired })
}

#[test]
fn l27_pause_beyond_the_ttl_is_lost_on_waking() {
    assert!(lost_on_waking::<LeaseState>());
    assert!(!lost_on_waking::<TimerOnly>(), "the double believes that it holds");
}

/// A renewal that times out, and the end that follows if no other is confirmed.
fn unconfirmed_then_lost<M: Machine>() -> bool {
    let begun = BootTime::after_boot(Duration::from_secs(100));
    let mut lease = M::begin(Hold::renewed(TTL), begun);
    let deadline = begun + CERTAIN;
    let sent = begun + Duration::from_secs(4);
    lease.renewal(sent + Duration::from_secs(1), sent, RenewalAnswer::Unanswered);
    let unconfirmed = lease.look(sent + Duration::from_secs(2));
    unconfirmed == LeaseStatus::Unconfirmed { since: sent, deadline }
        && lease.look(deadline) == LeaseStatus::Lost { reason: LossReason::Expired }
}

#[test]
fn l4_unanswered_renewal_is_unconfirmed_then_lost() {
    assert!(unconfirmed_then_lost::<LeaseState>());
    assert!(!unconfirmed_then_lost::<TimeoutIsYes>(), "the double takes a time-out for a yes");
}

#[test]
fn longest_hold_ends_a_lease_that_renews_well() {
    let begun = BootTime::after_boot(Duration::ZERO);
    let mut lease = LeaseState::begin(Hold::renewed(TTL).max_hold(TTL * 2), begun);
    let half = begun + TTL / 2;
    lease.renewal(half, half, RenewalAnswer::Confirmed { ttl: TTL });
    assert!(lease.renewal_due().is_some());
    let late = begun + TTL * 13 / 10;
    lease.renewal(late, late, RenewalAnswer::Confirmed { ttl: TTL });
    assert_eq!(lease.renewal_due(), None, "a renewal could not move the deadline any more");
    assert_eq!(lease.look(begun + TTL * 2), LeaseStatus::Lost { reason: LossReason::MaxHold });
}

#[test]
fn answer_slower_than_the_lease_grants_nothing() {
    let sent = BootTime::after_boot(Duration::ZERO);
    let mut lease = LeaseState::begin(Hold::fixed(TTL), sent);
    assert!(matches!(lease.look(sent + TTL), LeaseStatus::Lost { reason: LossReason::Expired }));
}
