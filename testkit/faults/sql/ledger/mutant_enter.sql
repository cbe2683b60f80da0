-- Share-locks the guard row until the transaction ends.
SELECT turn.next_offset FROM ledger_turn AS turn, ledger_gate AS gate
WHERE turn.partition = $1 AND gate.partition = $1 AND gate.epoch = $2 FOR SHARE OF turn
