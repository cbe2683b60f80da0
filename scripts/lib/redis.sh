# shellcheck shell=bash
# Redis: five that know nothing of each other, and a replica of the first.

redis_ports() {
  case $1 in
    redis-replica) port_at 7 ;;
    *) port_at $((1 + ${1#redis-})) ;;
  esac
}

redis_prepare() {
  local name=$1 home
  home=$(home_of "$name")
  mkdir -p "$home/data"
  {
    cat <<CONF
bind 127.0.0.1
port $(redis_ports "$name")
dir "$home/data"
daemonize no
# A lock whose record a crash can lose is no lock.
appendonly yes
appendfsync always
save ""
maxmemory-policy noeviction
repl-diskless-sync-delay 0
CONF
    if [[ $name == redis-replica ]]; then
      echo "replicaof 127.0.0.1 $(redis_ports redis-1)"
    fi
  } | write_file "$home/redis.conf"
}

redis_start() {
  spawn "$1" "$(command -v redis-server)" "$(home_of "$1")/redis.conf"
}

# A server that still loads its data answers -LOADING instead.
redis_ready() {
  local answer
  if [[ $1 == redis-replica ]]; then
    answer=$(ask "$(redis_ports "$1")" 'INFO replication\r\nQUIT\r\n')
    [[ $answer == *master_link_status:up* ]]
  else
    answer=$(ask "$(redis_ports "$1")" 'PING\r\nQUIT\r\n')
    [[ $answer == +PONG* ]]
  fi
}
