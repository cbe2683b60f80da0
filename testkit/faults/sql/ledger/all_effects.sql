SELECT partition, account, record_offset, epoch, writer FROM ledger_effect ORDER BY id
