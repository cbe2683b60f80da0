-- KEYS: owner, spent. ARGV: nonce, TTL in ms. Answers 1, or 0 if somebody else has taken the lock since, or this never had it.
-- A script runs alone. For a TTL the node remembers the nonce that is spent, so that a repeated release finds the same answer and
-- an attempt that arrives late does not take the lock again.
local holder = redis.call('HGET', KEYS[1], 'nonce')
if holder and holder ~= ARGV[1] then return 0 end
local was = holder or redis.call('GET', KEYS[2]) == ARGV[1]
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
return was and 1 or 0
