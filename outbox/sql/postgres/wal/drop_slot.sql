-- Lock: the slot; refused while somebody reads it. Answers nothing if there is none in this database.
SELECT pg_drop_replication_slot(slot_name)::text
FROM pg_replication_slots
WHERE slot_name = $1 AND database = current_database()
