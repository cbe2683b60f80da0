-- Takes no lock in a transaction of its own; right after a refused check it tells what refused it, or something newer.
SELECT gate.generation, gate.owner_token, fence.generation
FROM leastlock_fence_gate AS gate
LEFT JOIN leastlock_fence AS fence ON fence.resource = gate.resource
WHERE gate.resource = ?
