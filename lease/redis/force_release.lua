-- KEYS: owner, fence. ARGV: the token that the holder must have, nonce of the operation, until when it is approved in ms, channel,
-- lock name. Answers 2 if the approval is over, 0 if somebody else holds the lock or nobody does, or 1 and the raised token.
-- A script runs alone, and its clock decides. The operation becomes the owner, with a token of its own, and has released at once: the
-- holder before it finds at its next renewal that it is none, and whoever comes next gets a token above both.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now >= tonumber(ARGV[3]) then return {2} end
local last = redis.call('HMGET', KEYS[2], 'token', 'released')
if last[1] ~= ARGV[1] or last[2] == '1' then return {0} end
redis.call('HINCRBY', KEYS[2], 'token', 1)
redis.call('HSET', KEYS[2], 'owner', ARGV[2], 'released', '1', 'acquired_ms', string.format('%.0f', now), 'job', '')
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[4], ARGV[5])
return {1, redis.call('HGET', KEYS[2], 'token')}
