-- Lock: none that anybody waits for; nobody else writes while a round is prepared.
WITH RECURSIVE numbers(number) AS (
    SELECT 0
    UNION ALL
    SELECT number + 1 FROM numbers WHERE number + 1 < $1
)
INSERT INTO stock (code, units) SELECT 'item-' || CAST(number AS text), $2 FROM numbers
