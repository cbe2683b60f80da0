//! A key's records take effect once each, in the order of their offsets, and none by a writer that has been replaced.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::Breach;

/// An effect as it stands in the database, in the order in which the key's effects were committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// The record's partition.
    pub partition: i64,
    /// The record's key.
    pub key: String,
    /// The record's offset.
    pub offset: i64,
    /// The epoch of the partition under which the effect was made.
    pub epoch: i64,
    /// Who made it.
    pub writer: String,
}

/// Offsets of a key rise strictly; epochs of a key do not fall; an epoch of a partition is one writer's.
///
/// # Errors
/// The first effect that repeats or overtakes another of its key, that is of an epoch which had been replaced, or that shares its
/// epoch with another writer.
pub fn one_at_a_time(history: &[Effect]) -> Result<(), Breach> {
    let mut of_key: HashMap<(i64, &str), usize> = HashMap::new();
    let mut of_epoch: HashMap<(i64, i64), usize> = HashMap::new();
    for (place, effect) in history.iter().enumerate() {
        let Effect { partition, key, offset, epoch, writer } = effect;
        let owner = *of_epoch.entry((*partition, *epoch)).or_insert(place);
        if history[owner].writer != *writer {
            let what = format!("partition {partition}: epoch {epoch} was two writers'");
            return Err(Breach::new(what, [(owner, &history[owner]), (place, effect)]));
        }
        let Some(before) = of_key.insert((*partition, key), place) else { continue };
        let earlier = &history[before];
        let what = if *offset == earlier.offset {
            format!("key {key:?}: offset {offset} took effect twice")
        } else if *offset < earlier.offset {
            format!("key {key:?}: offset {offset} took effect after {}", earlier.offset)
        } else if *epoch < earlier.epoch {
            format!("key {key:?}: an effect of epoch {epoch} came after one of {}", earlier.epoch)
        } else {
            continue;
        };
        return Err(Breach::new(what, [(before, earlier), (place, effect)]));
    }
    Ok(())
}

/// Each offset of `produced`, by partition, took effect; with [`one_at_a_time`], exactly once.
///
/// # Errors
/// The offsets that did not, or the effects of records that nobody produced.
pub fn nothing_is_skipped(history: &[Effect], produced: &BTreeMap<i64, Vec<i64>>) -> Result<(), Breach> {
    let mut effects: HashMap<(i64, i64), usize> =
        history.iter().enumerate().map(|(place, effect)| ((effect.partition, effect.offset), place)).collect();
    let records = produced.iter().flat_map(|(partition, offsets)| offsets.iter().map(|offset| (*partition, *offset)));
    let skipped: Vec<_> = records.filter(|record| effects.remove(record).is_none()).enumerate().collect();
    if !skipped.is_empty() {
        let what = format!("{} records (partition, offset) had no effect", skipped.len());
        return Err(Breach::new(what, skipped));
    }
    let mut strange: Vec<_> = effects.into_values().map(|place| (place, &history[place])).collect();
    strange.sort_by_key(|(place, _)| *place);
    if !strange.is_empty() {
        return Err(Breach::new(format!("{} effects are of no record", strange.len()), strange));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(key: &str, offset: i64, epoch: i64, writer: &str) -> Effect {
        Effect { partition: 0, key: key.to_owned(), offset, epoch, writer: writer.to_owned() }
    }

    #[track_caller]
    fn rejected(history: &[Effect], because: &str) {
        let breach = one_at_a_time(history).expect_err("there were two writers");
        assert!(breach.to_string().contains(because), "{breach}");
    }

    #[test]
    fn rising_offsets_under_rising_epochs_pass() {
        let history = [effect("a", 0, 1, "w"), effect("b", 3, 2, "v"), effect("a", 2, 1, "w"), effect("a", 4, 2, "v")];
        assert_eq!(one_at_a_time(&history), Ok(()));
        assert_eq!(nothing_is_skipped(&history, &BTreeMap::from([(0, vec![0, 2, 3, 4])])), Ok(()));
        assert_eq!(one_at_a_time(&[]), Ok(()));
    }

    #[test]
    fn doubled_and_overtaken_records_are_rejected() {
        rejected(&[effect("a", 1, 1, "w"), effect("a", 1, 1, "w")], "offset 1 took effect twice\n  #0:");
        rejected(&[effect("a", 2, 1, "w"), effect("a", 1, 1, "w")], "offset 1 took effect after 2");
    }

    #[test]
    fn writer_that_was_replaced_is_rejected() {
        rejected(&[effect("a", 1, 2, "v"), effect("a", 2, 1, "w")], "epoch 1 came after one of 2");
        rejected(&[effect("a", 1, 2, "v"), effect("b", 2, 2, "w")], "epoch 2 was two writers'");
    }

    #[test]
    fn skipped_and_made_up_records_are_rejected() {
        let history = [effect("a", 0, 1, "w")];
        let skipped = nothing_is_skipped(&history, &BTreeMap::from([(0, vec![0, 1]), (1, vec![0])]));
        let skipped = skipped.expect_err("two are skipped").to_string();
        assert!(skipped.starts_with("2 records (partition, offset) had no effect\n  #0: (0, 1)"), "{skipped}");
        let strange = nothing_is_skipped(&history, &BTreeMap::new()).expect_err("nobody produced it").to_string();
        assert!(strange.starts_with("1 effects are of no record\n  #0: Effect"), "{strange}");
    }
}
