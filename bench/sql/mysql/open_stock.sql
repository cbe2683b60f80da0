-- Lock: none that anybody waits for; nobody else writes while a round is prepared.
INSERT INTO stock (code, units)
WITH RECURSIVE numbers(number) AS (
    SELECT 0
    UNION ALL
    SELECT number + 1 FROM numbers WHERE number + 1 < ?
)
SELECT CONCAT('item-', number), ? FROM numbers
