# shellcheck shell=bash
# Which port is whose: all are offsets from one base.

PORTS_USED=28
DEFAULT_BASE_PORT=15432
RANGE_STEP=100

# etcd members and Kafka's quorum keep their ports in their data, so the folder
# remembers its base, and what it remembers counts for every command.
recorded_base_port() {
  if [[ -f $SERVICES_DIR/base-port ]]; then
    cat "$SERVICES_DIR/base-port"
  fi
}

choose_base_port() {
  local port
  port=$(recorded_base_port)
  port=${port:-${LEASTLOCK_SERVICES_BASE_PORT:-$DEFAULT_BASE_PORT}}
  if ! [[ $port =~ ^[1-9][0-9]{0,4}$ ]] || ((port + PORTS_USED > 65536)); then
    die "LEASTLOCK_SERVICES_BASE_PORT: not a usable port: $port"
  fi
  echo "$port"
}

# For a folder without a record: what 'up' may still choose otherwise.
BASE_PORT=$(choose_base_port)

# Called under the lock. Another checkout on this machine may have the default ports,
# so a new folder takes the first range that nobody listens in.
keep_base_port() {
  local recorded wanted=${LEASTLOCK_SERVICES_BASE_PORT:-}
  recorded=$(recorded_base_port)
  if [[ -n $recorded ]]; then
    [[ -z $wanted || $wanted == "$recorded" ]] ||
      die "the data in $SERVICES_DIR is for base port $recorded, not $wanted: 'down --wipe' first, or use another LEASTLOCK_SERVICES_DIR"
    # Another 'up' may have chosen since this script read the record.
    BASE_PORT=$recorded
    return
  fi
  if [[ -z $wanted ]]; then
    lock_ranges
    BASE_PORT=$(first_free_range)
    ((BASE_PORT == DEFAULT_BASE_PORT)) ||
      say "ports: $BASE_PORT and up, as some of those from $DEFAULT_BASE_PORT on are taken"
  fi
  echo "$BASE_PORT" >"$SERVICES_DIR/base-port"
}

# A chosen range looks free until its servers listen, so nobody else on the machine
# may choose until this script ends. A folder that is always there and that any user
# can open needs no lock file of anybody's.
lock_ranges() {
  exec 8</var/tmp
  flock -n 8 && return
  say "waiting for another folder's 'services' to have its ports"
  flock -w 900 8 || die "another 'services' has been choosing ports for 15 minutes"
}

# Below the ports that Linux gives to clients, which come and go.
first_free_range() {
  local base
  for ((base = DEFAULT_BASE_PORT; base + PORTS_USED <= 32768; base += RANGE_STEP)); do
    if range_is_free "$base"; then
      echo "$base"
      return
    fi
  done
  die "no $PORTS_USED free ports in a row from $DEFAULT_BASE_PORT on, in steps of $RANGE_STEP: set LEASTLOCK_SERVICES_BASE_PORT"
}

range_is_free() {
  local port
  for ((port = $1; port < $1 + PORTS_USED; port++)); do
    if port_answers "$port"; then return 1; fi
  done
}

# Only once no server's data is left to depend on it.
forget_base_port() {
  local name
  for name in $(all_servers); do
    if has_home "$name"; then return; fi
  done
  rm -f "$SERVICES_DIR/base-port"
}

port_at() {
  echo $((BASE_PORT + $1))
}
