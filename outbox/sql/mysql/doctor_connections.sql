-- Lock: none. How many connections there are, of all users.
SHOW GLOBAL STATUS LIKE 'Threads_connected'
