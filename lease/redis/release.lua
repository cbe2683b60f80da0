-- KEYS: owner, fence. ARGV: nonce, channel, lock name. Answers 1, or 0 if somebody else has taken the lock since.
-- A script runs alone. The fence stays, with its sequence and the nonce that is spent, so that a repeated release finds the same
-- answer. Whoever waits is told, once. What stands at the owner's key is this owner's: it changes only with the fence.
if redis.call('HGET', KEYS[2], 'owner') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[2], 'released', '1')
if redis.call('DEL', KEYS[1]) == 1 then redis.call('PUBLISH', ARGV[2], ARGV[3]) end
return 1
