-- Lock: none. For the whole session that reads: compiling the read's plan takes a second where running it takes a
-- millisecond, since the planner cannot know how few rows are new.
SET jit = off
