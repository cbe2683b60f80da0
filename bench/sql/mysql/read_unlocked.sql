-- Lock: none, which is the mistake that the contender "read, then write" makes on purpose: what is read here is no longer so
-- when the UPDATE that follows comes. Wrong at READ COMMITTED and at REPEATABLE READ.
SELECT units FROM stock WHERE code = ?
