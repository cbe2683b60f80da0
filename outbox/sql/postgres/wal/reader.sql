-- Lock: none. For the session that reads: the server notices by itself when the relay is gone, also in the middle of
-- decoding, which takes as long as it takes, and the name tells whose it is. Answers which server it is.
SELECT pg_postmaster_start_time()::text, set_config('client_connection_check_interval', $1, false),
       set_config('tcp_user_timeout', $1, false), set_config('statement_timeout', '0', false),
       set_config('application_name', $2, false)
