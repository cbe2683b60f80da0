-- Lock: none.
FETCH FORWARD 600 FROM leastlock_wal
