-- The door's row is locked by this transaction already, so its count is this write's.
INSERT INTO fault_write (door, place, token, holder) SELECT door, writes, ?, ? FROM fault_door WHERE door = ?
