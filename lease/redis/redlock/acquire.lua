-- KEYS: owner, spent (one hash tag, so one slot). ARGV: nonce, TTL in ms, job or ''.
-- Answers 1; or 0, the holder's nonce, its age in ms, remaining ms and job.
-- A script runs alone, so nothing comes between its parts. One vote of several: there is no sequence, and no token.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local holder = redis.call('HMGET', KEYS[1], 'nonce', 'since_ms', 'job')

-- A nonce that has released is spent: an attempt of its own that arrives late must not take the lock again.
if (holder[1] and holder[1] ~= ARGV[1]) or redis.call('GET', KEYS[2]) == ARGV[1] then
  local remaining = math.max(0, redis.call('PTTL', KEYS[1]))
  return {0, holder[1] or ARGV[1], math.max(0, now - (holder[2] or now)), remaining, holder[3] or ''}
end

if not holder[1] then
  redis.call('HSET', KEYS[1], 'nonce', ARGV[1], 'since_ms', string.format('%.0f', now), 'job', ARGV[3])
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {1}
