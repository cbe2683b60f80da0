-- Lock: an advisory one, as long as the session lasts: a note is taken only while it is held, which says that the server is still the one
-- whose positions were read. For the whole session that reads: compiling the read's plan takes a second where running it
-- takes a millisecond, since the planner cannot know how few rows are new.
SELECT set_config('jit', 'off', false), pg_advisory_lock($1)
