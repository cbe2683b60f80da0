INSERT INTO ledger_effect (partition, account, record_offset, epoch, writer) VALUES ($1, $2, $3, $4, $5)
