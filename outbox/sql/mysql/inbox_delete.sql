-- Lock: the rows named, which the sweep's read has locked already, at READ COMMITTED; found one by one by their primary key.
DELETE i
FROM JSON_TABLE(?, '$[*]' COLUMNS (consumer VARCHAR(510) PATH '$[0]', event_id CHAR(32) PATH '$[1]')) AS gone
STRAIGHT_JOIN leastlock_inbox AS i ON i.consumer = UNHEX(gone.consumer) AND i.event_id = UNHEX(gone.event_id)
