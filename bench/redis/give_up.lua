-- KEYS: the lock. ARGV: its owner. As the Redis manual has it ("Distributed Locks with Redis").
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
