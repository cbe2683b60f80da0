# shellcheck shell=bash
# Which port is whose: all are offsets from one base.

PORTS_USED=28
DEFAULT_BASE_PORT=15432

# etcd members and Kafka's quorum keep their ports in their data, so the folder
# remembers its base: 'env' without the variable then still tells the truth.
recorded_base_port() {
  if [[ -f $SERVICES_DIR/base-port ]]; then
    cat "$SERVICES_DIR/base-port"
  fi
}

choose_base_port() {
  local port=${LEASTLOCK_SERVICES_BASE_PORT:-$(recorded_base_port)}
  port=${port:-$DEFAULT_BASE_PORT}
  if ! [[ $port =~ ^[1-9][0-9]{0,4}$ ]] || ((port + PORTS_USED > 65536)); then
    die "LEASTLOCK_SERVICES_BASE_PORT: not a usable port: $port"
  fi
  echo "$port"
}

BASE_PORT=$(choose_base_port)

keep_base_port() {
  local recorded
  recorded=$(recorded_base_port)
  [[ $recorded == "$BASE_PORT" ]] && return
  [[ -z $recorded ]] ||
    die "the data in $SERVICES_DIR is for base port $recorded, not $BASE_PORT: 'down --wipe' first, or use another LEASTLOCK_SERVICES_DIR"
  echo "$BASE_PORT" >"$SERVICES_DIR/base-port"
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
