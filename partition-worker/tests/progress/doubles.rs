//! Fences and seals that make the classic mistakes.

/// Does not look at the epoch.
pub(crate) const WITHOUT_EPOCH: &str = "INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset) \
     SELECT group_id, topic, partition, $5 FROM leastlock_partition \
      WHERE group_id = $1 AND topic = $2 AND partition = $3 AND next_offset <= $5 AND $4 >= 0 AND $6 >= 0 \
     ON CONFLICT DO NOTHING";

/// Trusts the row of the finished offset alone, which a fold removes.
pub(crate) const WITHOUT_NEXT_OFFSET: &str = "INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset) \
     SELECT group_id, topic, partition, $5 FROM leastlock_partition \
      WHERE group_id = $1 AND topic = $2 AND partition = $3 AND epoch = $4 AND $6 >= 0 \
     ON CONFLICT DO NOTHING";

/// Checks gate and guard, and locks nothing.
#[cfg(feature = "postgres")]
pub(crate) const WITHOUT_SHARE_LOCK: &str = "INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset) \
     SELECT guard.group_id, guard.topic, guard.partition, $5 \
       FROM leastlock_partition AS guard JOIN leastlock_partition_gate AS gate USING (group_id, topic, partition) \
      WHERE guard.group_id = $1 AND guard.topic = $2 AND guard.partition = $3 AND guard.epoch = $4 AND gate.epoch = $4 \
        AND guard.next_offset <= $5 AND $6 >= 0 \
     ON CONFLICT DO NOTHING";

/// Locks in a mode that only a change of the key conflicts with.
#[cfg(feature = "postgres")]
pub(crate) const KEY_SHARE: &str = "WITH guard AS MATERIALIZED ( \
         SELECT epoch FROM leastlock_partition AS locked \
          WHERE group_id = $1 AND topic = $2 AND partition = $3 AND epoch = $4 AND next_offset <= $5 AND $6 >= 0 \
            FOR KEY SHARE OF locked) \
     INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset) \
     SELECT $1, $2, $3::integer, $5 FROM guard ON CONFLICT DO NOTHING";

/// Locks rightly, and compares `next_offset` as the statement's snapshot has it.
#[cfg(feature = "postgres")]
pub(crate) const COMPARED_OUTSIDE: &str = "WITH guard AS MATERIALIZED ( \
         SELECT epoch FROM leastlock_partition AS locked \
          WHERE group_id = $1 AND topic = $2 AND partition = $3 AND epoch = $4 AND $6 >= 0 FOR SHARE OF locked) \
     INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset) \
     SELECT $1, $2, $3::integer, $5 FROM guard \
       JOIN leastlock_partition AS seen ON seen.group_id = $1 AND seen.topic = $2 AND seen.partition = $3 \
      WHERE seen.next_offset <= $5 ON CONFLICT DO NOTHING";

/// As it should be, but a process that stops holds the lock for ever.
#[cfg(feature = "postgres")]
pub(crate) const WITHOUT_IDLE_TIMEOUT: &str = "WITH guard AS MATERIALIZED ( \
         SELECT epoch FROM leastlock_partition AS locked \
          WHERE group_id = $1 AND topic = $2 AND partition = $3 AND epoch = $4 AND next_offset <= $5 AND $6 >= 0 \
            FOR SHARE OF locked) \
     INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset) \
     SELECT $1, $2, $3::integer, $5 FROM guard ON CONFLICT DO NOTHING";

/// Raises the guard without the gate: whoever comes meanwhile joins those that it waits for.
#[cfg(feature = "postgres")]
pub(crate) const ONE_STEP_SEAL: &str = "UPDATE leastlock_partition SET epoch = epoch + 1, owner = 'double'";
