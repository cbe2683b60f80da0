-- What no relay could read or send is refused where it is written, whoever writes it: a topic that no broker takes (Kafka's rule), a
-- partition below zero, headers that are no list of [name, value] with a string, {"hex": "…"} or null as the value. The text of most
-- rows is '[]'; of others it is compared with the pattern, which takes JSON's own white space and escapes (RFC 8259), and no name with a
-- NUL. What it cannot see (half of a surrogate pair) is parked by the relay. NOT VALID: rows that are there are not looked at.
ALTER TABLE leastlock_outbox
    ADD CONSTRAINT leastlock_outbox_topic
        CHECK (octet_length(topic) BETWEEN 1 AND 249 AND topic !~ '[^A-Za-z0-9._-]') NOT VALID,
    ADD CONSTRAINT leastlock_outbox_partition CHECK (partition >= 0) NOT VALID,
    ADD CONSTRAINT leastlock_outbox_headers CHECK (headers = '[]' OR headers ~ (
        '^[ \t\n\r]*\[[ \t\n\r]*'
        '(?:(?:\[[ \t\n\r]*"(?:[^"\\\x01-\x1f]|\\["\\/bfnrt]|\\u(?!0000)[0-9A-Fa-f]{4})*"[ \t\n\r]*,[ \t\n\r]*'
        '(?:null|"(?:[^"\\\x01-\x1f]|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*"'
        '|\{[ \t\n\r]*"hex"[ \t\n\r]*:[ \t\n\r]*"(?:[0-9A-Fa-f][0-9A-Fa-f])*"[ \t\n\r]*\})[ \t\n\r]*\][ \t\n\r]*,[ \t\n\r]*)*'
        '\[[ \t\n\r]*"(?:[^"\\\x01-\x1f]|\\["\\/bfnrt]|\\u(?!0000)[0-9A-Fa-f]{4})*"[ \t\n\r]*,[ \t\n\r]*'
        '(?:null|"(?:[^"\\\x01-\x1f]|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*"'
        '|\{[ \t\n\r]*"hex"[ \t\n\r]*:[ \t\n\r]*"(?:[0-9A-Fa-f][0-9A-Fa-f])*"[ \t\n\r]*\})[ \t\n\r]*\][ \t\n\r]*)?'
        '\][ \t\n\r]*$'
    )) NOT VALID;
