//! Whether every record took effect exactly once, in order, and under its own owner.

use std::collections::HashMap;
use std::fmt;

use sqlx::{PgPool, Row};

use super::super::topic::key_number;

/// An effect, as it stands in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Effect {
    pub(super) account: u64,
    pub(super) sequence: u64,
    /// The sequence of the account's effect before it.
    pub(super) previous: u64,
    /// Who did it.
    pub(super) process: i64,
    pub(super) partition: i64,
    /// Whose the partition was when it was done.
    pub(super) epoch: i64,
    pub(super) owner: String,
}

/// What is wrong with them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Records without an effect.
    pub(super) lost: u64,
    /// Effects beyond the first of a record.
    pub(super) doubled: u64,
    /// First effects that do not follow that of the record before.
    pub(super) inverted: u64,
    /// Effects of a process while another one was the partition's owner.
    pub(super) fenced: u64,
}

impl Verdict {
    /// Judges the effects, those of an account in their order, by how many records each account has.
    pub(super) fn of(effects: &[Effect], produced: &[u64]) -> Self {
        let mut verdict = Self::default();
        let mut seen: HashMap<u64, Vec<bool>> = HashMap::new();
        let (mut owners, mut processes, mut epochs) = (HashMap::new(), HashMap::new(), HashMap::new());
        for effect in effects {
            let records = produced.get(index(effect.account)).copied().unwrap_or(0);
            let seen = seen.entry(effect.account).or_insert_with(|| vec![false; index(records)]);
            match effect.sequence.checked_sub(1).and_then(|before| seen.get_mut(index(before))) {
                Some(first) if !*first => {
                    *first = true;
                    verdict.inverted += u64::from(effect.previous + 1 != effect.sequence);
                }
                // Of a record that nobody produced there must not be any.
                _ => verdict.doubled += 1,
            }
            // A process has one name as an owner, and an owner is one process; the epochs of a partition rise.
            let owner = *owners.entry(effect.process).or_insert(&effect.owner);
            let process = *processes.entry(&effect.owner).or_insert(effect.process);
            let epoch = epochs.entry((effect.account, effect.partition)).or_insert(effect.epoch);
            let fenced = *owner != effect.owner || process != effect.process || effect.epoch < *epoch;
            *epoch = effect.epoch.max(*epoch);
            verdict.fenced += u64::from(fenced);
        }
        let distinct: u64 = seen.values().flatten().map(|seen| u64::from(*seen)).sum();
        verdict.lost = produced.iter().sum::<u64>() - distinct;
        verdict
    }

    pub(super) fn is_clean(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, doubled, inverted, fenced } = self;
        write!(formatter, "{lost} lost, {doubled} doubled, {inverted} inverted, {fenced} applied behind a fence")
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// All effects, those of an account in their order.
pub(super) async fn effects(pool: &PgPool) -> anyhow::Result<Vec<Effect>> {
    const EFFECTS: &str = include_str!("../../../sql/postgres/worker/soak_effects.sql");
    let rows = sqlx::query(EFFECTS).fetch_all(pool).await?;
    let effect = |row: &sqlx::postgres::PgRow| {
        let int = |column| row.try_get::<i64, _>(column);
        let account = key_number(row.try_get::<&str, _>(0)?.as_bytes()).unwrap_or(u64::MAX);
        let [sequence, previous] = [int(1)?, int(2)?].map(i64::cast_unsigned);
        let [process, partition, epoch] = [int(3)?, int(4)?, int(5)?];
        Ok(Effect { account, sequence, previous, process, partition, epoch, owner: row.try_get(6)? })
    };
    rows.iter().map(effect).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Account 0, the sequence and the one before, by this process under this epoch, whose owner has that name.
    fn effect((sequence, previous): (u64, u64), process: i64, (epoch, owner): (i64, &str)) -> Effect {
        Effect { account: 0, sequence, previous, process, partition: 3, epoch, owner: owner.to_owned() }
    }

    #[test]
    fn every_record_once_in_order_by_its_owner_is_clean() {
        let effects = [effect((1, 0), 7, (1, "a")), effect((2, 1), 8, (2, "b")), effect((3, 2), 7, (3, "a"))];
        assert!(Verdict::of(&effects, &[3, 0]).is_clean());
        assert_eq!(Verdict::of(&effects, &[4, 2]), Verdict { lost: 3, ..Verdict::default() });
    }

    #[test]
    fn a_second_effect_is_a_double_and_no_inversion() {
        let effects = [effect((1, 0), 7, (1, "a")), effect((2, 1), 7, (1, "a")), effect((1, 2), 7, (1, "a"))];
        assert_eq!(Verdict::of(&effects, &[2]), Verdict { doubled: 1, ..Verdict::default() });
    }

    #[test]
    fn an_effect_that_comes_before_its_predecessors_is_an_inversion() {
        let effects = [effect((2, 0), 7, (1, "a")), effect((1, 2), 7, (1, "a"))];
        assert_eq!(Verdict::of(&effects, &[2]), Verdict { inverted: 2, ..Verdict::default() });
    }

    #[test]
    fn an_effect_under_another_ones_name_or_of_an_earlier_epoch_was_fenced() {
        let first = [effect((1, 0), 7, (1, "a")), effect((2, 1), 8, (2, "b"))];
        for late in [effect((3, 2), 7, (2, "b")), effect((3, 2), 7, (1, "a")), effect((3, 2), 9, (2, "b"))] {
            let effects = [&first[..], &[late]].concat();
            assert_eq!(Verdict::of(&effects, &[3]), Verdict { fenced: 1, ..Verdict::default() });
        }
    }

    #[test]
    fn what_nobody_produced_is_found() {
        assert!(!Verdict::of(&[effect((1, 0), 7, (1, "a"))], &[0]).is_clean());
    }
}
