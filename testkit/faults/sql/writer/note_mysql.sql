-- The shelf's row is locked by this transaction already, so its count is this batch's place.
INSERT INTO batch (place, token, owner, write_id) SELECT batches, ?, ?, ? FROM shelf WHERE id = 1
