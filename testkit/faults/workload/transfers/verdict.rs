//! Whether a unit was lost or made up, and whether clients were told what is so.

use std::collections::HashMap;

use leastlock_testkit::checkers::Breach;
use leastlock_testkit::checkers::bank::{Account, Write, no_update_is_lost, total_is_constant};

use super::bank::{Bank, Moved};
use super::client::Order;
use super::{ACCOUNTS, OPENING};
use crate::record::Call;
use crate::workload::{Stage, Verdict};

/// Judges what is in the database by itself, and in the end what the clients were told against it.
pub(super) fn of(bank: &Bank, calls: &[Call<Order, Option<Moved>>], stage: Stage) -> Verdict {
    let mut verdict = Verdict { cycles: bank.moved.len() as u64, ..Verdict::default() };
    verdict.count("transfers", bank.moved.len());
    let account = |id: i64, balance, version| Account { account: id.to_string(), version, balance };
    let before: Vec<Account> = (0..ACCOUNTS).map(|id| account(id, OPENING, 1)).collect();
    let after = bank.accounts.iter().map(|(id, balance, version)| account(*id, *balance, *version));
    let after: Vec<Account> = after.collect();
    let writes: Vec<Write> = bank.moved.iter().flat_map(writes).collect();
    verdict.expect(total_is_constant(&before, &after));
    verdict.expect(no_update_is_lost(&before, &writes, &after));
    if stage == Stage::Settled {
        verdict.expect(answers(bank, calls));
    }
    verdict
}

/// What has left a row has committed.
fn writes(moved: &Moved) -> [Write; 2] {
    let write = |account: i64, version: i64, by| Write {
        account: account.to_string(),
        transfer: moved.id.clone(),
        from: version - 1,
        by,
        is_acknowledged: true,
    };
    [
        write(moved.debtor, moved.debtor_version, -moved.units),
        write(moved.creditor, moved.creditor_version, moved.units),
    ]
}

/// Each transfer that a client was told is done is there as told, and none that it was told is not.
fn answers(bank: &Bank, calls: &[Call<Order, Option<Moved>>]) -> Result<(), Breach> {
    let moved: HashMap<&str, &Moved> = bank.moved.iter().map(|moved| (moved.id.as_str(), moved)).collect();
    for (place, call) in calls.iter().enumerate() {
        let Some(answer) = &call.answer else { continue };
        let there = moved.get(call.call.id.as_str()).copied();
        if there != answer.value.as_ref() {
            return Err(Breach::new(format!("a client was told {answer:?}, and there is {there:?}"), [(place, call)]));
        }
    }
    Ok(())
}
