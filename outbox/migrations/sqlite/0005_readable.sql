-- What no relay could read or send is refused where it is written, whoever writes it: a topic that no broker takes (Kafka's rule), an
-- id that is no UUID, a partition below zero, headers that are no list of [name, value] with a string, {"hex": "…"} or null as the
-- value, or a value of the wrong type. Triggers, since a table here is given no constraint later; AFTER, so that types are as they are
-- stored. Of two paths json_extract makes a list, which is JSON: a NUL in a name is seen by its escape. What they cannot see (half of a surrogate pair) is parked by the relay.
CREATE TRIGGER leastlock_outbox_readable AFTER INSERT ON leastlock_outbox
WHEN typeof(new.topic) <> 'text' OR length(new.topic) NOT BETWEEN 1 AND 249 OR new.topic GLOB '*[^A-Za-z0-9._-]*'
  OR typeof(new.event_id) <> 'text'
  OR length(replace(new.event_id, '-', '')) <> 32
  OR replace(new.event_id, '-', '') GLOB '*[^0-9A-Fa-f]*'
  OR NOT (length(new.event_id) = 32 OR new.event_id GLOB '????????-????-????-????-????????????')
  OR typeof(new.key) NOT IN ('blob', 'text', 'null')
  OR typeof(new.value) NOT IN ('blob', 'text', 'null')
  OR typeof(new.partition) NOT IN ('integer', 'null') OR coalesce(new.partition, 0) NOT BETWEEN 0 AND 2147483647
  OR typeof(new.created_at) <> 'integer'
  OR typeof(new.headers) <> 'text'
  OR (new.headers <> '[]' AND (NOT json_valid(new.headers) OR json_type(new.headers) <> 'array'))
BEGIN
    SELECT RAISE(ABORT, 'leastlock_outbox: no relay could read or send this event');
END;

CREATE TRIGGER leastlock_outbox_readable_headers AFTER INSERT ON leastlock_outbox
WHEN new.headers <> '[]' AND json_valid(new.headers) AND EXISTS (
    SELECT 1
    FROM json_each(new.headers) AS header
    WHERE header.type <> 'array'
       OR json_array_length(new.headers, header.fullkey) <> 2
       OR json_type(new.headers, header.fullkey || '[0]') <> 'text'
       OR instr(replace(json_extract(new.headers, header.fullkey || '[0]', header.fullkey || '[0]'), '\\', ''), '\u0000') > 0
       OR NOT (json_type(new.headers, header.fullkey || '[1]') IN ('text', 'null')
               OR coalesce(json_type(new.headers, header.fullkey || '[1].hex') = 'text'
                           AND json_extract(new.headers, header.fullkey || '[1].hex') NOT GLOB '*[^0-9A-Fa-f]*'
                           AND length(json_extract(new.headers, header.fullkey || '[1].hex')) % 2 = 0, 0))
)
BEGIN
    SELECT RAISE(ABORT, 'leastlock_outbox: headers must be a list of [name, value], with a string, {"hex": "…"} or null as the value');
END
