//! Whether a record was skipped, took effect twice or out of order, or by a worker that had been replaced.

use std::collections::BTreeMap;

use leastlock_core::{Row, Statement};
use leastlock_testkit::checkers::Breach;
use leastlock_testkit::checkers::single_writer::{Effect, nothing_is_skipped, one_at_a_time};
use leastlock_testkit::database::Postgres;

use crate::ground::Ground;
use crate::workload::{Stage, Verdict};

/// What is there.
#[derive(Debug, Clone, Default)]
pub(super) struct Books {
    /// In the order in which those of an account were committed.
    pub(super) effects: Vec<Effect>,
    /// Each account's balance.
    pub(super) balances: BTreeMap<String, i64>,
    /// The records of each partition.
    pub(super) produced: BTreeMap<i64, Vec<i64>>,
    /// What they come to.
    pub(super) sums: BTreeMap<String, i64>,
}

impl Books {
    pub(super) async fn read(ground: &Ground) -> anyhow::Result<Self> {
        let mut connection = ground.database::<Postgres>()?.pool.acquire().await?;
        let effects = Statement::new(include_str!("../../sql/ledger/all_effects.sql"));
        let effects = effects.fetch_all::<Postgres>(&mut connection).await?;
        let balances = Statement::new(include_str!("../../sql/ledger/all_accounts.sql"));
        let balances = balances.fetch_all::<Postgres>(&mut connection).await?;
        let effect = |row: &Row<Postgres>| {
            let (key, writer) = (row.text(1)?, row.text(4)?);
            Ok(Effect { partition: row.int(0)?, key, offset: row.int(2)?, epoch: row.int(3)?, writer })
        };
        let mut books = Self {
            effects: effects.iter().map(effect).collect::<Result<_, sqlx::Error>>()?,
            balances: balances.iter().map(|row| Ok((row.text(0)?, row.int(1)?))).collect::<Result<_, sqlx::Error>>()?,
            ..Self::default()
        };
        for record in ground.records().await? {
            books.produced.entry(i64::from(record.partition)).or_default().push(record.offset);
            *books.sums.entry(record.key_text().to_owned()).or_default() += record.value_text().parse::<i64>()?;
        }
        Ok(books)
    }
}

pub(super) fn of(books: &Books, stage: Stage) -> Verdict {
    let mut verdict = Verdict { cycles: books.effects.len() as u64, ..Verdict::default() };
    verdict.count("effects", books.effects.len());
    let epochs = books.effects.iter().map(|effect| (effect.partition, effect.epoch));
    verdict.count("epochs with effects", epochs.collect::<std::collections::BTreeSet<_>>().len());
    verdict.expect(one_at_a_time(&books.effects));
    if stage == Stage::Settled {
        verdict.expect(nothing_is_skipped(&books.effects, &books.produced));
        verdict.expect(balances(books));
    }
    verdict
}

/// Each account has what its records come to.
fn balances(books: &Books) -> Result<(), Breach> {
    let sum = |account: &String| books.sums.get(account).copied().unwrap_or(0);
    let wrong = books.balances.iter().enumerate().filter(|(_, (account, balance))| sum(account) != **balance);
    let wrong: Vec<_> = wrong.map(|(place, (account, balance))| (place, (account, balance, sum(account)))).collect();
    if wrong.is_empty() { Ok(()) } else { Err(Breach::new("account, balance, and what its records come to", wrong)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Books {
        let effect = |offset, epoch, writer: &str| Effect {
            partition: 0,
            key: "a".to_owned(),
            offset,
            epoch,
            writer: writer.to_owned(),
        };
        Books {
            effects: vec![effect(0, 1, "w"), effect(1, 2, "v")],
            balances: BTreeMap::from([("a".to_owned(), 7), ("b".to_owned(), 0)]),
            produced: BTreeMap::from([(0, vec![0, 1])]),
            sums: BTreeMap::from([("a".to_owned(), 7)]),
        }
    }

    type Change = fn(&mut Books);

    #[test]
    fn a_good_history_has_no_breach_and_every_mistake_is_one() {
        assert_eq!(of(&good(), Stage::Settled).breaches, Vec::<String>::new());
        let changes: [(&str, Change); 5] = [
            ("took effect twice", |books| books.effects[1].offset = 0),
            ("came after one of", |books| books.effects[1].epoch = 0),
            ("two writers'", |books| books.effects[1].epoch = 1),
            ("had no effect", |books| books.produced.entry(0).or_default().push(2)),
            ("what its records come to", |books| books.balances.insert("b".to_owned(), 1).map_or((), drop)),
        ];
        for (said, change) in changes {
            let mut books = good();
            change(&mut books);
            let breaches = of(&books, Stage::Settled).breaches;
            assert!(breaches.iter().any(|breach| breach.contains(said)), "{said}: {breaches:?}");
        }
    }
}
