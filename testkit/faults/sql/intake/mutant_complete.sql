-- The mutant: whoever owns it by now.
UPDATE intake_claim SET receipt = $2 WHERE order_key = $1
