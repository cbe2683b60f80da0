-- KEYS: owner, fence. Answers nothing for a lock that was never held; else whether a lease stands (0), has run out (1) or was
-- released (2), then what acquire.lua answers of a holder: token, nonce, age in ms, remaining ms and job. Changes nothing.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local last = redis.call('HMGET', KEYS[2], 'token', 'owner', 'released', 'acquired_ms', 'job')
if not last[1] then return {} end
local stands = redis.call('GET', KEYS[1])
local remaining = stands and redis.call('PTTL', KEYS[1]) or 0
local state = stands and 0 or (last[3] == '1' and 2 or 1)
return {state, last[1], last[2], math.max(0, now - (last[4] or now)), math.max(0, remaining), last[5] or ''}
