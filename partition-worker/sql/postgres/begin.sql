-- Begins a transaction of the worker's own. READ COMMITTED whatever the server's default is. Lock: none yet; the fence, which takes
-- the first, bounds idling. Nothing else in this message: it is parsed and planned anew each time, and the fence is prepared.
BEGIN ISOLATION LEVEL READ COMMITTED
