-- Of two that would leave the state one does.
UPDATE payment_order SET state = $2 WHERE order_key = $1 AND state = 'reserved'
