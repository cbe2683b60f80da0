-- Lock: the slot, while it moves. Only forward: a position that it has passed is no error. Only while the session $3 of
-- this server holds the advisory lock: a relay whose session is gone, or was on another server, whose positions mean
-- something else, moves nothing. OFFSET 0: the conditions are known before the slot is moved.
SELECT own.held, own.confirmed IS NOT NULL,
       CASE WHEN own.held AND own.confirmed < $2::text::pg_lsn
            THEN (pg_replication_slot_advance($1::text::name, $2::text::pg_lsn)).end_lsn::text END
FROM (
    SELECT EXISTS (
               SELECT
               FROM pg_locks
               WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND classid = 1819505783 AND objid = hashtext($1::text)::oid
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                 AND pid = $3
           ) AS held,
           (SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = $1::text) AS confirmed
    OFFSET 0
) AS own
