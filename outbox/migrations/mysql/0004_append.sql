-- Strict mode: a key locks the row of its slot, the first twelve bits of the digest that decides its shard.
CREATE TABLE leastlock_outbox_key_slot (
    slot INT NOT NULL PRIMARY KEY
) ENGINE = InnoDB;

INSERT INTO leastlock_outbox_key_slot (slot)
WITH RECURSIVE digit (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM digit WHERE n < 63)
SELECT high.n * 64 + low.n FROM digit AS high CROSS JOIN digit AS low;

-- Which events a consumer has seen. Times are UTC.
CREATE TABLE leastlock_inbox (
    consumer VARBINARY(255) NOT NULL,
    event_id BINARY(16)     NOT NULL,
    seen_at  DATETIME(6)    NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    PRIMARY KEY (consumer, event_id),
    KEY leastlock_inbox_seen_at (seen_at)
) ENGINE = InnoDB;

-- Appends an event to the caller's transaction, from any language. A procedure, since a function asks for a privilege that few have where
-- the binary log is on. Without an id the event gets a new one of version 7 (RFC 9562). Headers are a list of [name, value];
-- a value is a string, {"hex": "…"} or null. In strict mode it waits for the key's lock first.
-- What the crate refuses before any SQL is refused here too: a row that cannot be read would stop the relay.
-- The shards are counted by a statement of its own: inside the INSERT it would lock their rows, which relays update.
CREATE PROCEDURE leastlock_outbox_append(
    IN p_topic       VARBINARY(1000),
    IN p_key         LONGBLOB,
    IN p_value       LONGBLOB,
    IN p_headers     LONGTEXT CHARACTER SET utf8mb4,
    IN p_partition   INT,
    IN p_event_id    VARBINARY(64),
    IN p_strict_mode BOOLEAN
)
MODIFIES SQL DATA
BEGIN
    DECLARE v_headers LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT COALESCE(p_headers, '[]');
    DECLARE v_id VARBINARY(64) DEFAULT p_event_id;
    DECLARE v_random CHAR(64) CHARACTER SET ascii;
    DECLARE v_digest CHAR(64) CHARACTER SET ascii;
    DECLARE v_shards INT;
    DECLARE v_slot INT;
    DECLARE v_at INT DEFAULT 0;
    DECLARE v_bytes BIGINT DEFAULT COALESCE(LENGTH(p_key), 0) + COALESCE(LENGTH(p_value), 0);
    DECLARE v_is_cloud_event BOOLEAN DEFAULT FALSE;
    DECLARE v_name, v_value LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    -- What may not be in it, not '^…$': in MariaDB a `$` matches before a last newline as well.
    IF p_topic IS NULL OR LENGTH(p_topic) NOT BETWEEN 1 AND 249 OR CONVERT(p_topic USING latin1) REGEXP '[^A-Za-z0-9._-]' THEN
        SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'the topic must be 1 to 249 letters, digits, dots, _ and -';
    END IF;
    IF p_partition < 0 THEN
        SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'the partition is below zero; NULL lets the key decide';
    END IF;
    IF NOT JSON_VALID(v_headers) OR JSON_TYPE(v_headers) <> 'ARRAY' THEN
        SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'headers must be a list of [name, value]';
    END IF;
    WHILE v_at < JSON_LENGTH(v_headers) DO
        SET v_name = JSON_EXTRACT(v_headers, CONCAT('$[', v_at, '][0]'));
        SET v_value = JSON_EXTRACT(v_headers, CONCAT('$[', v_at, '][1]'));
        IF JSON_TYPE(JSON_EXTRACT(v_headers, CONCAT('$[', v_at, ']'))) <> 'ARRAY'
           OR JSON_LENGTH(v_headers, CONCAT('$[', v_at, ']')) <> 2
           OR JSON_TYPE(v_name) <> 'STRING' OR LOCATE('\\u0000', v_name) > 0
           OR NOT (JSON_TYPE(v_value) IN ('STRING', 'NULL')
                   OR (JSON_TYPE(v_value) = 'OBJECT' AND JSON_LENGTH(v_value) = 1
                       AND COALESCE(JSON_TYPE(JSON_EXTRACT(v_value, '$.hex')) = 'STRING'
                                    AND JSON_UNQUOTE(JSON_EXTRACT(v_value, '$.hex')) NOT REGEXP '[^0-9A-Fa-f]'
                                    AND LENGTH(JSON_UNQUOTE(JSON_EXTRACT(v_value, '$.hex'))) % 2 = 0, FALSE)))
        THEN
            SIGNAL SQLSTATE '22023'
                SET MESSAGE_TEXT = 'a header must be [name, value] with a string, {"hex": "..."} or null as the value';
        END IF;
        IF JSON_UNQUOTE(v_name) = 'leastlock_event_id' THEN
            SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'the id of the event goes out as the header leastlock_event_id';
        END IF;
        SET v_is_cloud_event = v_is_cloud_event OR JSON_UNQUOTE(v_name) = 'ce_specversion';
        SET v_at = v_at + 1;
    END WHILE;
    IF v_is_cloud_event AND EXISTS (
        SELECT h.name
        FROM JSON_TABLE(v_headers, '$[*]' COLUMNS (name VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[0]')) AS h
        WHERE LEFT(h.name, 3) = BINARY 'ce_' OR h.name = BINARY 'content-type'
        GROUP BY h.name COLLATE utf8mb4_bin
        HAVING COUNT(*) > 1 OR MAX(h.name = BINARY 'ce_id')
    ) THEN
        SIGNAL SQLSTATE '22023'
            SET MESSAGE_TEXT = 'an attribute of a CloudEvent can be there once only, and ce_id is made from the id of the event';
    END IF;
    SET v_bytes = v_bytes + LENGTH(v_headers);
    IF v_bytes > 1000000 THEN
        SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'the event takes more than 1,000,000 bytes';
    END IF;
    IF v_id IS NULL THEN
        SET v_random = SHA2(CONCAT(UUID(), RAND()), 256);
        SET v_id = LOWER(CONCAT(LPAD(HEX(FLOOR(UNIX_TIMESTAMP(NOW(6)) * 1000)), 12, '0'), '7', SUBSTR(v_random, 1, 3),
            SUBSTR('89ab', 1 + CONV(SUBSTR(v_random, 4, 1), 16, 10) % 4, 1), SUBSTR(v_random, 5, 15)));
    END IF;
    IF LENGTH(REPLACE(v_id, '-', '')) <> 32
       OR v_id NOT REGEXP '^[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{12}$' THEN
        SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'the id of the event must be a UUID';
    END IF;
    SET v_id = LOWER(REPLACE(v_id, '-', ''));
    SET v_id = CONCAT_WS('-', SUBSTR(v_id, 1, 8), SUBSTR(v_id, 9, 4), SUBSTR(v_id, 13, 4), SUBSTR(v_id, 17, 4), SUBSTR(v_id, 21));
    SET v_digest = SHA2(CONCAT(UNHEX(LPAD(HEX(LENGTH(p_topic)), 16, '0')), p_topic, COALESCE(p_key, v_id)), 256);
    IF p_strict_mode AND p_key IS NOT NULL THEN
        SELECT slot INTO v_slot FROM leastlock_outbox_key_slot WHERE slot = CONV(LEFT(v_digest, 3), 16, 10) FOR UPDATE;
    END IF;
    SELECT COUNT(*) INTO v_shards FROM leastlock_outbox_shard;
    INSERT INTO leastlock_outbox (shard, event_id, topic, `key`, value, headers, `partition`)
    VALUES (CONV(LEFT(v_digest, 8), 16, 10) % v_shards, v_id, p_topic, p_key, p_value, v_headers, p_partition);
END
