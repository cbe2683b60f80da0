# shellcheck shell=bash
# MariaDB, with none of the distribution's settings.

mariadb_ports() {
  port_at 1
}

mariadb_install_command() {
  command -v mariadb-install-db || command -v mysql_install_db ||
    die "mariadb: mariadb-install-db is missing"
}

mariadb_client() {
  command -v mariadb || command -v mysql || die "mariadb: its client is missing"
}

mariadb_prepare() {
  local home
  home=$(home_of mariadb)
  make_data mariadb "$(mariadb_install_command)" --no-defaults --datadir="$home/data" \
    --auth-root-authentication-method=normal --skip-test-db
  # Run at each start, so it must not mind being run again.
  write_file "$home/init.sql" <<'SQL'
CREATE USER IF NOT EXISTS leastlock@'%' IDENTIFIED BY 'leastlock';
GRANT ALL PRIVILEGES ON *.* TO leastlock@'%' WITH GRANT OPTION;
SQL
  write_file "$home/my.cnf" <<CNF
[mariadbd]
datadir = $home/data
bind-address = 127.0.0.1
port = $(mariadb_ports)
# Relative to the data folder: a full path can be too long for a socket's name.
socket = mariadb.sock
pid-file = mariadb.pid
init-file = $home/init.sql
skip-name-resolve
max_connections = 300
innodb_buffer_pool_size = 256M
character-set-server = utf8mb4
CNF
}

mariadb_start() {
  spawn mariadb "$(command -v mariadbd)" --defaults-file="$(home_of mariadb)/my.cnf"
}

# Asked as the tests' user: the port opens before the init file has made it.
mariadb_ready() {
  "$(mariadb_client)" --no-defaults --protocol=tcp --host=127.0.0.1 --port="$(mariadb_ports)" \
    --user=leastlock --password=leastlock --connect-timeout=2 --skip-ssl \
    --execute='SELECT 1' >/dev/null 2>&1
}
