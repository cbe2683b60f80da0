-- Lock: none. How many more connections the server would take from anybody.
SELECT CAST(@@max_connections AS signed) - (SELECT count(*) FROM information_schema.processlist)
