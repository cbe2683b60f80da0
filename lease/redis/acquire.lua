-- KEYS: owner, fence (one hash tag, so one slot). ARGV: nonce, TTL in ms, floor or 0, job or '', nonce of the owner that it comes
-- after or ''. Answers 1 and the token; or 0, the holder's token, nonce, age in ms, remaining ms and job.
-- A script runs alone, so nothing comes between its parts. The owner's key ends with the lease; the fence's never does, so that
-- its sequence survives. Numbers go as text: Lua's are exact up to 2^53 only.
local function exceeds(a, b)
  if #a ~= #b then return #a > #b end
  return a > b
end

local holder = redis.call('GET', KEYS[1])
local last = redis.call('HMGET', KEYS[2], 'token', 'owner', 'released', 'acquired_ms', 'job')
local mine = last[2] == ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- A nonce that has released is spent: an attempt of its own that arrives late must not take the lock again. What the owner has that
-- this one comes after is as good as released.
if (holder and holder ~= ARGV[1] and holder ~= ARGV[5]) or (mine and last[3] == '1') then
  local remaining = holder and redis.call('PTTL', KEYS[1]) or 0
  return {0, last[1] or '', holder or last[2], math.max(0, now - (last[4] or now)), math.max(0, remaining), last[5] or ''}
end

-- The same nonce keeps its token and extends; any other owner raises it, above the floor as well.
if mine then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return {1, last[1]}
end
local token = last[1] or '0'
if exceeds(ARGV[3], token) then token = ARGV[3] end
-- Up to 15 digits Lua adds without loss; beyond them the server does, and refuses what does not fit its 64 bits.
if #token <= 15 then
  token = string.format('%.0f', token + 1)
else
  redis.call('HSET', KEYS[2], 'token', token)
  redis.call('HINCRBY', KEYS[2], 'token', 1)
  token = redis.call('HGET', KEYS[2], 'token')
end
if last[3] then redis.call('HDEL', KEYS[2], 'released') end
redis.call('HSET', KEYS[2], 'token', token, 'owner', ARGV[1], 'acquired_ms', string.format('%.0f', now), 'job', ARGV[4])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {1, token}
