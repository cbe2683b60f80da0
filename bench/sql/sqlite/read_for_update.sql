-- Lock: the one write lock, which BEGIN IMMEDIATE took before; SQLite has no FOR UPDATE and needs none.
SELECT units FROM stock WHERE code = $1
