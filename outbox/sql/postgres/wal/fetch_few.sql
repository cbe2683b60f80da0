-- Lock: none.
FETCH FORWARD 16 FROM leastlock_wal
