-- An update that changes nothing, because it takes the file's one write lock: no seal can commit until the caller's
-- transaction ends. In a transaction that has read before, and whose snapshot a seal has outdated, it fails as busy. SQLite
-- has no bound for idling, so ?4 is not used: a writer that is stopped blocks the file.
UPDATE leastlock_fence
SET generation = generation
WHERE resource = ?1 AND generation = ?2 AND owner_token = ?3
  AND EXISTS (
      SELECT 1 FROM leastlock_fence_gate AS gate
      WHERE gate.resource = ?1 AND gate.generation = ?2 AND gate.owner_token = ?3)
RETURNING generation
