-- KEYS: owner, spent. ARGV: nonce. Answers whether it had this vote.
-- A script runs alone. Takes back the vote of an attempt that has failed. The nonce is not spent: it may try again.
if redis.call('HGET', KEYS[1], 'nonce') == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
