-- Before anybody writes.
INSERT INTO shelf (id, batches) VALUES (1, 0)
