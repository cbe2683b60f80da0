# shellcheck shell=bash
# PostgreSQL: one cluster of our own, never the distribution's.

postgres_ports() {
  port_at 0
}

# The packaged servers go first: one in PATH may be anybody's build.
find_postgres_bin() {
  local path dir
  dir=$(printf '%s\n' /usr/lib/postgresql/*/bin/postgres | sort -V | tail -n 1)
  if [[ -x $dir ]]; then
    dirname "$dir"
    return
  fi
  path=$(command -v postgres) || return 1
  dirname "$(readlink -f "$path")"
}

postgres_prepare() {
  local home bin
  home=$(home_of postgres)
  bin=$(find_postgres_bin)
  # A file, since another user may not read a pipe of ours.
  echo leastlock >"$home/password"
  make_data postgres "$bin/initdb" -D "$home/data" --username=leastlock \
    --pwfile="$home/password" --auth=scram-sha-256 --encoding=UTF8 --locale=C
  rm "$home/password"
  write_file "$home/postgresql.conf" <<CONF
listen_addresses = '127.0.0.1'
port = $(postgres_ports)
# Relative to the data folder: a full path can be too long for a socket's name.
unix_socket_directories = '.'
max_connections = 300
shared_buffers = 256MB
wal_level = logical
# A test of the outbox without a table has one or two; a killed one leaves them behind.
max_replication_slots = 40
max_wal_size = 2GB
# Benchmarks measure commits that last.
fsync = on
synchronous_commit = on
log_min_messages = warning
log_checkpoints = off
log_line_prefix = '%m [%p] %q%u@%d '
CONF
}

# Backends of a killed server live on for a moment, and the new one would refuse to
# share its data with them. It would also refuse if the pid in the lock files were
# still a zombie's, or had since gone to another process of the same user.
await_no_backends() {
  local data=$1 deadline=$((SECONDS + 15))
  while has_process_in "$data"; do
    ((SECONDS < deadline)) || die "postgres: processes of an earlier server are still in $data"
    sleep 0.1
  done
  rm -f "$data/postmaster.pid" "$data"/.s.PGSQL.*
}

has_process_in() {
  local cwd
  for cwd in /proc/[0-9]*/cwd; do
    if [[ $(readlink "$cwd" 2>/dev/null) == "$1" ]]; then return 0; fi
  done
  return 1
}

postgres_start() {
  local home bin
  home=$(home_of postgres)
  bin=$(find_postgres_bin)
  if [[ -f $home/data/postmaster.pid ]]; then await_no_backends "$home/data"; fi
  spawn postgres "$bin/postgres" -D "$home/data" -c config_file="$home/postgresql.conf"
}

postgres_ready() {
  "$(find_postgres_bin)/pg_isready" -q -t 2 -h 127.0.0.1 -p "$(postgres_ports)" -d postgres -U leastlock
}
