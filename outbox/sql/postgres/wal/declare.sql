-- Lock: the slot, while the cursor is filled; refused if another session has it. The cursor outlives its transaction,
-- so no transaction or snapshot is open while it is read, and the server keeps it in a file if it is large: one
-- transaction with a million events takes no memory here. Only looks: the slot stays where it is. Decoding ends with
-- the first commit at or behind $2. Wanted are the beginnings of transactions (B) and the messages (M) of our prefix,
-- which comes after ten bytes and ends with a zero.
DECLARE leastlock_wal NO SCROLL CURSOR WITH HOLD FOR
SELECT data
FROM pg_logical_slot_peek_binary_changes(
    $1::text::name, $2::text::pg_lsn, NULL, 'proto_version', '1', 'publication_names', $1::text, 'messages', 'true'
)
WHERE get_byte(data, 0) = 66 OR (get_byte(data, 0) = 77 AND substring(data FROM 11 FOR octet_length($3::bytea)) = $3::bytea)
