-- KEYS: owner, spent. ARGV: nonce, TTL in ms. Answers 1, or 0 if the lease does not stand: expired, stolen or released.
-- A script runs alone. It never creates a lease: a node that has lost it does not get it back before the next acquisition.
if redis.call('HGET', KEYS[1], 'nonce') == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
