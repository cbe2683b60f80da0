-- KEYS: owner, fence. ARGV: nonce, token, TTL in ms. Answers 1, or 0 if the lease does not stand: expired, stolen or released.
-- A script runs alone. It never creates a lease: PEXPIRE needs the key.
if redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('HGET', KEYS[2], 'token') == ARGV[2] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return 0
