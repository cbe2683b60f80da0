//! The log against an oracle that keeps, for each step, the one fact that is known of it.

use proptest::prelude::*;
use serde_json::value::{RawValue, to_raw_value};

use super::*;

const STEPS: usize = 4;
const MAX_STEPS: usize = 16;
const LIMIT: usize = 64 * 1024;

/// What is known of a step or a compensation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fact {
    Free,
    Open,
    Done(u32),
    Refused(u32),
}

#[derive(Debug, Clone, Copy)]
struct Plan {
    external: bool,
    undo: bool,
}

/// What becomes of a call, or of the question about one.
#[derive(Debug, Clone, Copy)]
enum Out {
    Done,
    Failed,
    /// This call did not leave.
    NotSent,
    /// No call had an effect, nor can have one.
    NotDone,
    Silent,
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Step(Out),
    /// The process ends, and another one reads the record.
    Crash,
    TurnBack,
    /// A name is used again.
    Repeat,
}

/// The log at work, and the oracle beside it.
struct Walk {
    plan: [Plan; STEPS],
    log: Log,
    reload: fn(&[u8]) -> Log,
    facts: [Fact; STEPS],
    undone: [Fact; STEPS],
    is_back: bool,
    /// The steps that this process has been told about.
    position: usize,
    value: u32,
}

fn read_back(stored: &[u8]) -> Log {
    Log::decode(Some(stored)).expect("what was written can be read")
}

fn step_name(index: usize) -> &'static str {
    ["reserve", "charge", "ship", "mail"][index]
}

fn undo_name(index: usize) -> &'static str {
    ["unreserve", "refund", "recall", "apologise"][index]
}

/// A result; some are `null`, as that of a step which has none.
fn json(value: u32) -> Box<RawValue> {
    to_raw_value(&(!value.is_multiple_of(3)).then_some(value)).expect("a number")
}

impl Walk {
    fn new(plan: [Plan; STEPS], reload: fn(&[u8]) -> Log) -> Self {
        let (facts, undone) = ([Fact::Free; STEPS], [Fact::Free; STEPS]);
        Self { plan, log: Log::default(), reload, facts, undone, is_back: false, position: 0, value: 0 }
    }

    fn call(&self, index: usize) -> Call<'static> {
        let Plan { external, undo } = self.plan[index];
        let kind = if external { Kind::External } else { Kind::Local };
        Call { name: step_name(index), kind, undo: undo.then(|| undo_name(index)) }
    }

    /// The compensation that must come next.
    fn owed(&self) -> Option<usize> {
        let owes = |index: &usize| {
            let Plan { undo, .. } = self.plan[*index];
            undo && matches!(self.facts[*index], Fact::Done(_)) && !matches!(self.undone[*index], Fact::Done(_))
        };
        if self.is_back { (0..STEPS).rev().find(owes) } else { None }
    }

    fn apply(&mut self, op: Op) -> Result<(), String> {
        match op {
            Op::Crash => {
                self.log = (self.reload)(&self.log.encode(LIMIT).expect("small"));
                self.position = 0;
            }
            Op::TurnBack => {
                let turned = self.log.turn_back("declined").is_ok();
                let may = !self.has_open();
                same("turning back", turned, may)?;
                self.is_back |= may;
            }
            // A compensation that is done is not run again.
            Op::Repeat if self.is_back => {
                for index in 0..STEPS {
                    if let Fact::Done(value) = self.undone[index] {
                        let kind = if index % 2 == 0 { Kind::Local } else { Kind::External };
                        let found = self.log.find(Call { name: undo_name(index), kind, undo: None }, MAX_STEPS);
                        let is_done = matches!(&found, Ok(Found::Done(result)) if result.get() == json(value).get());
                        same("a compensation that is done", is_done, true)?;
                    }
                }
            }
            Op::Repeat if self.position > 0 => {
                let found = self.log.find(self.call(self.position - 1), MAX_STEPS);
                same("a name used again is refused", found.is_err(), true)?;
            }
            // Whoever takes over walks the settled steps again, also on the way back.
            Op::Step(out) if self.is_back && self.is_settled() => {
                self.step(At::Forward(self.position), self.call(self.position), out)?;
            }
            Op::Step(out) if self.is_back => {
                if let Some(index) = self.owed() {
                    // Compensations of even steps are local.
                    let kind = if index % 2 == 0 { Kind::Local } else { Kind::External };
                    let call = Call { name: undo_name(index), kind, undo: None };
                    self.step(At::Back(index), call, out)?;
                }
            }
            Op::Step(out) if self.position < STEPS => {
                self.step(At::Forward(self.position), self.call(self.position), out)?;
            }
            Op::Repeat | Op::Step(_) => {}
        }
        self.judge()
    }

    fn step(&mut self, expected: At, call: Call<'_>, out: Out) -> Result<(), String> {
        let (index, is_back) = match expected {
            At::Forward(index) => (index, false),
            At::Back(index) => (index, true),
        };
        let fact = if is_back { self.undone[index] } else { self.facts[index] };
        let found = self.log.find(call, MAX_STEPS).map_err(|error| format!("{call:?} is refused: {error}"))?;
        self.value += 1;
        let next = match (found, fact) {
            (Found::Todo { at, .. }, Fact::Free) => {
                same("place", at, expected)?;
                self.run(at, call, out)
            }
            (Found::Open { at, .. }, Fact::Open) => {
                same("place", at, expected)?;
                match out {
                    // The call that is not heard of again stays so, whatever became of one after it.
                    Out::NotSent => {
                        self.log.start(at, call);
                        Fact::Open
                    }
                    out => self.settle(at, call, out),
                }
            }
            (Found::Done(found), Fact::Done(value)) => {
                same("result", found.get(), json(value).get())?;
                fact
            }
            (Found::Failed(found), Fact::Refused(value)) => {
                same("reason", found.get(), json(value).get())?;
                fact
            }
            (found, fact) => return Err(format!("{call:?} is {fact:?}, and the log says {found:?}")),
        };
        if is_back {
            self.undone[index] = next;
        } else {
            self.facts[index] = next;
            self.position += usize::from(matches!(next, Fact::Done(_) | Fact::Refused(_)));
        }
        Ok(())
    }

    /// A step that is to be done.
    fn run(&mut self, at: At, call: Call<'_>, out: Out) -> Fact {
        if call.kind == Kind::Local {
            return match out {
                Out::Done => {
                    self.log.finish(at, call, json(self.value));
                    Fact::Done(self.value)
                }
                _ => Fact::Free,
            };
        }
        self.log.start(at, call);
        self.settle(at, call, out)
    }

    /// A call that was started.
    fn settle(&mut self, at: At, call: Call<'_>, out: Out) -> Fact {
        match (out, at) {
            (Out::Done, _) => {
                self.log.finish(at, call, json(self.value));
                Fact::Done(self.value)
            }
            (Out::Failed, At::Forward(_)) => {
                self.log.fail(at, call, json(self.value));
                Fact::Refused(self.value)
            }
            (Out::NotSent | Out::NotDone, _) => {
                self.log.withdraw(at, call);
                Fact::Free
            }
            (Out::Silent, _) | (Out::Failed, At::Back(_)) => {
                self.log.start(at, call);
                Fact::Open
            }
        }
    }

    fn is_settled(&self) -> bool {
        matches!(self.facts.get(self.position), Some(Fact::Done(_) | Fact::Refused(_)))
    }

    fn has_open(&self) -> bool {
        self.facts.iter().chain(&self.undone).any(|fact| *fact == Fact::Open)
    }

    /// What the log allows is what the facts allow; so says the record that another process would read.
    fn judge(&self) -> Result<(), String> {
        let stored = self.log.encode(LIMIT).expect("small");
        for log in [&self.log, &(self.reload)(&stored)] {
            same("open", log.open_step().is_some(), self.has_open())?;
            same("owed", log.next_compensation(), self.owed().map(undo_name))?;
            same("may complete", log.may_complete().is_ok(), !self.has_open() && self.owed().is_none())?;
            let lasting = (0..STEPS).any(|index| {
                matches!(self.facts[index], Fact::Done(_))
                    && (self.plan[index].external || !matches!(self.undone[index], Fact::Done(_)))
            });
            same("may release", log.may_release().is_ok(), !self.has_open() && !lasting)?;
            for index in 0..STEPS {
                let value = log.result_of(step_name(index)).map(RawValue::get);
                let expected = match self.facts[index] {
                    Fact::Done(value) => Some(json(value).get().to_owned()),
                    _ => None,
                };
                same("result", value, expected.as_deref())?;
            }
        }
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "both are values made for the comparison")]
fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: the log says {found:?}, the facts {expected:?}")) }
}

fn walk(plan: [Plan; STEPS], reload: fn(&[u8]) -> Log, ops: &[Op]) -> Result<(), String> {
    let mut walk = Walk::new(plan, reload);
    ops.iter().try_for_each(|op| walk.apply(*op))
}

fn plans() -> impl Strategy<Value = [Plan; STEPS]> {
    prop::array::uniform4((any::<bool>(), any::<bool>()).prop_map(|(external, undo)| Plan { external, undo }))
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let out = prop_oneof![5 => Just(Out::Done), 1 => Just(Out::Failed), 1 => Just(Out::NotSent), 1 => Just(Out::NotDone),
            2 => Just(Out::Silent)];
    let op =
        prop_oneof![12 => out.prop_map(Op::Step), 3 => Just(Op::Crash), 1 => Just(Op::TurnBack), 1 => Just(Op::Repeat)];
    prop::collection::vec(op, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn log_allows_what_the_facts_allow(plan in plans(), ops in ops()) {
        walk(plan, read_back, &ops).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn log_settled_from_outside_goes_on_as_if_settled_inside(plan in plans(), ops in ops(), done in any::<bool>()) {
        let mut walk = Walk::new(plan, read_back);
        ops.iter().try_for_each(|op| walk.apply(*op)).map_err(TestCaseError::fail)?;
        let open = walk.log.open_step().map(|(at, name, _)| (at, name.to_owned()));
        let found_out = if done { FoundOut::Done(json(7)) } else { FoundOut::NotDone };
        match (walk.log.settle_open(found_out), open) {
            (Ok(settled), Some((at, name))) => {
                prop_assert_eq!(settled, name);
                let fact = if done { Fact::Done(7) } else { Fact::Free };
                match at {
                    At::Forward(index) => walk.facts[index] = fact,
                    At::Back(index) => walk.undone[index] = fact,
                }
                walk.judge().map_err(TestCaseError::fail)?;
            }
            (Err(StepError::NothingOpen), None) => {}
            (settled, open) => prop_assert!(false, "{settled:?} with {open:?}"),
        }
    }
}

const EXTERNAL: Plan = Plan { external: true, undo: true };

/// I16, the double: a process that takes a started step for one that did not happen.
fn frees_what_was_started(stored: &[u8]) -> Log {
    read_back(String::from_utf8_lossy(stored).replace("\"started\"", "\"waiting\"").as_bytes())
}

#[test]
fn i16_started_step_is_unknown_and_never_free() {
    let ops = [Op::Step(Out::Silent), Op::Crash, Op::Step(Out::Silent), Op::Crash, Op::Step(Out::Done)];
    walk([EXTERNAL; STEPS], read_back, &ops).unwrap();
    let caught = walk([EXTERNAL; STEPS], frees_what_was_started, &ops).unwrap_err();
    assert!(caught.contains("open"), "{caught}");
}

#[test]
fn steps_that_changed_between_versions_are_refused_by_name() {
    let (external, local) = (Kind::External, Kind::Local);
    let call = |name, kind| Call { name, kind, undo: None };
    let mut log = Log::default();
    for name in ["reserve", "charge"] {
        let Ok(Found::Todo { at, .. }) = log.find(call(name, external), MAX_STEPS) else { panic!("to be done") };
        log.finish(at, call(name, external), json(1));
    }
    let stored = log.encode(LIMIT).unwrap();

    let mut later = read_back(&stored);
    let moved = later.find(call("charge", external), MAX_STEPS);
    assert!(matches!(moved, Err(StepError::OrderChanged { position: 0, ref recorded, ref called })
        if recorded == "reserve" && called == "charge"));
    assert!(matches!(later.find(call("reserve", local), MAX_STEPS), Err(StepError::KindChanged { .. })));
    assert!(matches!(later.find(call("reserve", external), MAX_STEPS), Ok(Found::Done(_))));
    assert!(matches!(later.find(call("reserve", external), MAX_STEPS), Err(StepError::Duplicate { .. })));
    assert!(matches!(later.find(call("charge", external), MAX_STEPS), Ok(Found::Done(_))));
    assert!(
        matches!(later.find(call("ship", external), MAX_STEPS), Ok(Found::Todo { .. })),
        "a step may be added behind"
    );
    assert!(matches!(later.find(call("a b", external), MAX_STEPS), Err(StepError::Name { .. })));
    assert!(matches!(later.find(call("ship", external), 2), Err(StepError::TooMany { limit: 2 })));
    assert!(matches!(log.encode(10), Err(StepError::TooLarge { limit: 10, .. })));
}
