-- Bounds every further statement of this transaction, and tells which backend will be waiting.
-- Lock: none.
SELECT pg_backend_pid()::bigint, set_config('statement_timeout', ($1::bigint)::text, true)
