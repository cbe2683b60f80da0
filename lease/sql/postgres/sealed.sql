-- Takes no lock: tells which generation wants to be sealed, and which one is.
SELECT gate.generation::bigint, gate.owner_token, fence.generation::bigint
FROM leastlock_fence_gate AS gate
LEFT JOIN leastlock_fence AS fence ON fence.resource = gate.resource
WHERE gate.resource = $1::text
