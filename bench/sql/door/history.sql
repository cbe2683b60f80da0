-- Everything that was applied, at each door in the order in which it was. No lock; nobody writes any more.
SELECT door, token, holder FROM fault_write ORDER BY door, place
