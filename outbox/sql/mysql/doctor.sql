-- Lock: none; settings, and who holds what. One row.
SELECT CAST(@@innodb_flush_log_at_trx_commit AS SIGNED),
       CAST(@@innodb_doublewrite AS CHAR),
       CAST(@@log_bin AS SIGNED),
       CAST(@@sync_binlog AS SIGNED),
       CAST(@@read_only AS SIGNED),
       CAST(@@SESSION.auto_increment_increment AS SIGNED),
       CAST(@@max_connections AS SIGNED),
       CAST(@@max_allowed_packet AS SIGNED),
       (SELECT count(*) FROM leastlock_outbox_shard WHERE lease_until > UTC_TIMESTAMP(6))
