-- In which form the run places its orders: each remembers its answers in a table of its own, so one cannot go on with the other's.
ALTER TABLE shop_run ADD COLUMN form TEXT NOT NULL DEFAULT 'plain';
