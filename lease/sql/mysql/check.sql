-- Share-locks the guard row until the caller's transaction ends, so that a seal waits for it. The gate is read in a subquery,
-- which a locking read does not lock, so that newcomers of an old generation stop there. The locking read sees the row as it
-- is at every isolation level; a server that compares it with the transaction's snapshot (innodb_snapshot_isolation) fails
-- instead (1020), which is as safe.
SELECT fence.generation
FROM leastlock_fence AS fence
WHERE fence.resource = ? AND fence.generation = ? AND fence.owner_token = ?
  AND EXISTS (
      SELECT 1 FROM leastlock_fence_gate AS gate
      WHERE gate.resource = ? AND gate.generation = ? AND gate.owner_token = ?)
LOCK IN SHARE MODE
