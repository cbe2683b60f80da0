-- One door, before anybody writes.
INSERT INTO fault_door (door, writes) VALUES (?, 0)
