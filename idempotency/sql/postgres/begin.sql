-- Begins a unit. READ COMMITTED whatever the server's default is. Lock: none yet; the claim, which takes the first, bounds idling.
-- Nothing else in this message: it is parsed and planned anew each time, and the claim is prepared.
BEGIN ISOLATION LEVEL READ COMMITTED
