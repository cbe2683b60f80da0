-- Lock: none. Frees what the server kept.
CLOSE leastlock_wal
