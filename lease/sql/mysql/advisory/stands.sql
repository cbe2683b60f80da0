-- Takes no lock. Whether this session has the user lock: asked in that session it ends its idling as well, and in another one it
-- tells what has become of one whose connection is broken.
SELECT CAST(IS_USED_LOCK(?) <=> ? AS SIGNED)
