//! Fences and seals that make the classic mistakes.

use leastlock_core::Engine;
use leastlock_testkit::database::sql;

use crate::bench::{Fence, Tested};

/// A fence for MariaDB that locks the guard where this holds, and does not look at the gate.
#[cfg(feature = "mysql")]
macro_rules! without_gate {
    ($condition:literal) => {
        concat!(
            "INSERT INTO leastlock_partition_done (group_id, topic, `partition`, record_offset) \
             SELECT guard.group_id, guard.topic, guard.`partition`, asked.record_offset \
               FROM (SELECT ? AS group_id, ? AS topic, ? AS `partition`, ? AS epoch, ? AS record_offset, ? AS idle_ms) AS asked \
               STRAIGHT_JOIN leastlock_partition AS guard ON guard.group_id = asked.group_id \
                AND guard.topic = asked.topic AND guard.`partition` = asked.`partition` \
              WHERE asked.idle_ms >= 0 AND ",
            $condition
        )
    };
}

/// Without the engine none of its texts is used.
#[cfg(not(feature = "mysql"))]
macro_rules! without_gate {
    ($condition:literal) => {
        $condition
    };
}

/// Does not look at the epoch.
pub(crate) fn without_epoch<DB: Tested>() -> Fence {
    Fence::one(sql::<DB>(
        "INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset) \
         SELECT group_id, topic, partition, $5 FROM leastlock_partition \
          WHERE group_id = $1 AND topic = $2 AND partition = $3 AND next_offset <= $5 AND $4 >= 0 AND $6 >= 0 \
         ON CONFLICT DO NOTHING",
        without_gate!("asked.epoch >= 0 AND guard.next_offset <= asked.record_offset LOCK IN SHARE MODE"),
    ))
}

/// Trusts the row of the finished offset alone, which a fold removes.
pub(crate) fn without_next_offset<DB: Tested>() -> Fence {
    Fence::one(sql::<DB>(
        "INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset) \
         SELECT group_id, topic, partition, $5 FROM leastlock_partition \
          WHERE group_id = $1 AND topic = $2 AND partition = $3 AND epoch = $4 AND $6 >= 0 \
         ON CONFLICT DO NOTHING",
        without_gate!("guard.epoch = asked.epoch LOCK IN SHARE MODE"),
    ))
}

/// Checks gate and guard, and locks nothing.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn without_share_lock<DB: Tested>() -> Fence {
    Fence::one(sql::<DB>(
        "INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset) \
         SELECT guard.group_id, guard.topic, guard.partition, $5 \
           FROM leastlock_partition AS guard JOIN leastlock_partition_gate AS gate USING (group_id, topic, partition) \
          WHERE guard.group_id = $1 AND guard.topic = $2 AND guard.partition = $3 AND guard.epoch = $4 AND gate.epoch = $4 \
            AND guard.next_offset <= $5 AND $6 >= 0 \
         ON CONFLICT DO NOTHING",
        without_gate!(
            "guard.epoch = asked.epoch AND guard.next_offset <= asked.record_offset \
             AND EXISTS (SELECT 1 FROM leastlock_partition_gate AS gate WHERE gate.group_id = asked.group_id \
                AND gate.topic = asked.topic AND gate.`partition` = asked.`partition` AND gate.epoch = asked.epoch)"
        ),
    ))
}

/// Locks rightly, and asks nobody whether a newer epoch has been claimed.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn without_gate<DB: Tested>() -> Fence {
    Fence::one(sql::<DB>(
        WITHOUT_IDLE_TIMEOUT,
        without_gate!("guard.epoch = asked.epoch AND guard.next_offset <= asked.record_offset LOCK IN SHARE MODE"),
    ))
}

/// Locks in a mode that only a change of the key conflicts with.
#[cfg(feature = "postgres")]
pub(crate) const KEY_SHARE: &str = "WITH guard AS MATERIALIZED ( \
         SELECT epoch FROM leastlock_partition AS locked \
          WHERE group_id = $1 AND topic = $2 AND partition = $3 AND epoch = $4 AND next_offset <= $5 AND $6 >= 0 \
            FOR KEY SHARE OF locked) \
     INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset) \
     SELECT $1, $2, $3::integer, $5 FROM guard ON CONFLICT DO NOTHING";

/// Locks rightly, and compares `next_offset` as the statement's snapshot has it.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn compared_outside<DB: Tested>() -> Fence {
    Fence::one(sql::<DB>(
        "WITH guard AS MATERIALIZED ( \
             SELECT epoch FROM leastlock_partition AS locked \
              WHERE group_id = $1 AND topic = $2 AND partition = $3 AND epoch = $4 AND $6 >= 0 FOR SHARE OF locked) \
         INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset) \
         SELECT $1, $2, $3::integer, $5 FROM guard \
           JOIN leastlock_partition AS seen ON seen.group_id = $1 AND seen.topic = $2 AND seen.partition = $3 \
          WHERE seen.next_offset <= $5 ON CONFLICT DO NOTHING",
        "INSERT INTO leastlock_partition_done (group_id, topic, `partition`, record_offset) \
         SELECT guard.group_id, guard.topic, guard.`partition`, asked.record_offset \
           FROM (SELECT group_id, topic, `partition`, epoch, next_offset FROM leastlock_partition \
                  WHERE group_id = ? AND topic = ? AND `partition` = ? AND epoch = ? LIMIT 1) AS seen \
           STRAIGHT_JOIN (SELECT ? AS record_offset, ? AS idle_ms) AS asked \
           STRAIGHT_JOIN leastlock_partition AS guard ON guard.group_id = seen.group_id AND guard.topic = seen.topic \
            AND guard.`partition` = seen.`partition` AND guard.epoch = seen.epoch \
          WHERE seen.next_offset <= asked.record_offset AND asked.idle_ms >= 0 LOCK IN SHARE MODE",
    ))
}

/// As it should be, but for the gate, and that a process that stops holds the lock for ever.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) const WITHOUT_IDLE_TIMEOUT: &str = "WITH guard AS MATERIALIZED ( \
         SELECT epoch FROM leastlock_partition AS locked \
          WHERE group_id = $1 AND topic = $2 AND partition = $3 AND epoch = $4 AND next_offset <= $5 AND $6 >= 0 \
            FOR SHARE OF locked) \
     INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset) \
     SELECT $1, $2, $3::integer, $5 FROM guard ON CONFLICT DO NOTHING";

/// Raises the guard without the gate: whoever comes meanwhile joins those that it waits for.
#[cfg(feature = "postgres")]
pub(crate) const ONE_STEP_SEAL: &str = "UPDATE leastlock_partition SET epoch = epoch + 1, owner = 'double'";

/// The fence of many: locks rightly, and compares `next_offset` as the statement's snapshot has it.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn batch_compared_outside<DB: Tested>() -> Fence {
    Fence::many(sql::<DB>(
        "WITH guard AS MATERIALIZED ( \
             SELECT epoch FROM leastlock_partition AS locked \
              WHERE group_id = $1 AND topic = $2 AND partition = $3 AND epoch = $4 AND $6 >= 0 FOR SHARE OF locked) \
         INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset) \
         SELECT $1, $2, $3::integer, asked.record_offset FROM guard \
           CROSS JOIN unnest(string_to_array($5, ',')::bigint[]) AS asked (record_offset) \
           JOIN leastlock_partition AS seen ON seen.group_id = $1 AND seen.topic = $2 AND seen.partition = $3 \
          WHERE seen.next_offset <= asked.record_offset ON CONFLICT DO NOTHING",
        "INSERT INTO leastlock_partition_done (group_id, topic, `partition`, record_offset) \
         SELECT guard.group_id, guard.topic, guard.`partition`, asked.record_offset \
           FROM (SELECT group_id, topic, `partition`, epoch, next_offset FROM leastlock_partition \
                  WHERE group_id = ? AND topic = ? AND `partition` = ? AND epoch = ? LIMIT 1) AS seen \
           STRAIGHT_JOIN leastlock_partition AS guard ON guard.group_id = seen.group_id AND guard.topic = seen.topic \
            AND guard.`partition` = seen.`partition` AND guard.epoch = seen.epoch \
           STRAIGHT_JOIN JSON_TABLE(CONCAT('[', ?, ']'), '$[*]' COLUMNS (record_offset BIGINT PATH '$')) AS asked \
          WHERE seen.next_offset <= asked.record_offset AND ? >= 0 LOCK IN SHARE MODE",
    ))
}

/// The fence of many that checks gate and guard, and locks nothing.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn batch_without_share_lock<DB: Tested>() -> Fence {
    Fence::many(sql::<DB>(
        "INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset) \
         SELECT guard.group_id, guard.topic, guard.partition, asked.record_offset \
           FROM leastlock_partition AS guard JOIN leastlock_partition_gate AS gate USING (group_id, topic, partition) \
           CROSS JOIN unnest(string_to_array($5, ',')::bigint[]) AS asked (record_offset) \
          WHERE guard.group_id = $1 AND guard.topic = $2 AND guard.partition = $3 AND guard.epoch = $4 AND gate.epoch = $4 \
            AND guard.next_offset <= asked.record_offset AND $6 >= 0 ON CONFLICT DO NOTHING",
        "INSERT INTO leastlock_partition_done (group_id, topic, `partition`, record_offset) \
         SELECT guard.group_id, guard.topic, guard.`partition`, asked.record_offset \
           FROM (SELECT group_id, topic, `partition`, epoch FROM leastlock_partition_gate \
                  WHERE group_id = ? AND topic = ? AND `partition` = ? AND epoch = ? LIMIT 1) AS gate \
           STRAIGHT_JOIN leastlock_partition AS guard ON guard.group_id = gate.group_id AND guard.topic = gate.topic \
            AND guard.`partition` = gate.`partition` AND guard.epoch = gate.epoch \
           STRAIGHT_JOIN JSON_TABLE(CONCAT('[', ?, ']'), '$[*]' COLUMNS (record_offset BIGINT PATH '$')) AS asked \
          WHERE guard.next_offset <= asked.record_offset AND ? >= 0",
    ))
}

/// The fence of many that does not look at the epoch.
pub(crate) fn batch_without_epoch<DB: Tested>() -> Fence {
    Fence::many(match DB::ENGINE {
        Engine::Sqlite => {
            "INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset) \
             SELECT group_id, topic, partition, asked.value FROM leastlock_partition JOIN json_each('[' || ?5 || ']') AS asked \
              WHERE group_id = ?1 AND topic = ?2 AND partition = ?3 AND next_offset <= asked.value AND ?4 >= 0 AND ?6 >= 0 \
             ON CONFLICT DO NOTHING"
        }
        _ => sql::<DB>(
            "INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset) \
             SELECT group_id, topic, partition, asked.record_offset FROM leastlock_partition \
               CROSS JOIN unnest(string_to_array($5, ',')::bigint[]) AS asked (record_offset) \
              WHERE group_id = $1 AND topic = $2 AND partition = $3 AND next_offset <= asked.record_offset \
                AND $4 >= 0 AND $6 >= 0 ON CONFLICT DO NOTHING",
            "INSERT INTO leastlock_partition_done (group_id, topic, `partition`, record_offset) \
             SELECT guard.group_id, guard.topic, guard.`partition`, asked.record_offset \
               FROM (SELECT ? AS group_id, ? AS topic, ? AS `partition`, ? AS epoch) AS place \
               STRAIGHT_JOIN leastlock_partition AS guard ON guard.group_id = place.group_id \
                AND guard.topic = place.topic AND guard.`partition` = place.`partition` \
               STRAIGHT_JOIN JSON_TABLE(CONCAT('[', ?, ']'), '$[*]' COLUMNS (record_offset BIGINT PATH '$')) AS asked \
              WHERE guard.next_offset <= asked.record_offset AND ? >= 0 LOCK IN SHARE MODE",
        ),
    })
}
