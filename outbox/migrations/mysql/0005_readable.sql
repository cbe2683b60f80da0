-- What no relay could read or send is refused where it is written, whoever writes it: a topic that no broker takes (Kafka's rule), an
-- id that is no UUID, a partition below zero, headers that are no list of [name, value] with a string, {"hex": "…"} or null as the
-- value. The pattern takes JSON's own white space and escapes (RFC 8259), and no name with a NUL; its repetitions never go back (`++`,
-- `*+`), so that long headers need no stack. What it cannot see (half of a surrogate pair) is parked by the relay. What may not be in a
-- topic, not '^…$': in MariaDB a `$` matches before a last newline as well.
-- Rows that are there are looked at too: while one is refused this fails, and names the constraint. Let relays publish or park it, or
-- mend or delete it, and run the migrations again.
ALTER TABLE leastlock_outbox
    ADD CONSTRAINT leastlock_outbox_event_id CHECK (
        CONVERT(event_id USING latin1) REGEXP
            '^(?:[0-9A-Fa-f]{32}|[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12})\\z'
    ),
    ADD CONSTRAINT leastlock_outbox_topic CHECK (
        LENGTH(topic) > 0 AND CONVERT(topic USING latin1) NOT REGEXP '[^A-Za-z0-9._-]'
    ),
    ADD CONSTRAINT leastlock_outbox_partition CHECK (`partition` >= 0),
    ADD CONSTRAINT leastlock_outbox_headers CHECK (
        headers = '[]'
        OR headers REGEXP CONCAT(
            '^[ \\t\\n\\r]*+\\[[ \\t\\n\\r]*+(?:',
            '(?:\\[[ \\t\\n\\r]*+"(?:[^"\\\\\\x00-\\x1f]++|\\\\["\\\\/bfnrt]|\\\\u(?!0000)[0-9A-Fa-f]{4})*+"[ \\t\\n\\r]*+,[ \\t\\n\\r]*+',
            '(?:null|"(?:[^"\\\\\\x00-\\x1f]++|\\\\["\\\\/bfnrt]|\\\\u[0-9A-Fa-f]{4})*+"',
            '|\\{[ \\t\\n\\r]*+"hex"[ \\t\\n\\r]*+:[ \\t\\n\\r]*+"(?:[0-9A-Fa-f][0-9A-Fa-f])*+"[ \\t\\n\\r]*+\\})[ \\t\\n\\r]*+\\]',
            '[ \\t\\n\\r]*+(?:,[ \\t\\n\\r]*+(?=\\[)|(?=\\])))*+',
            ')\\][ \\t\\n\\r]*+\\z'
        )
    )
