INSERT INTO intake_stock SELECT seq, ?, 0 FROM seq_0_to_7999
