# shellcheck shell=bash
# etcd: one alone, and a cluster of three.

etcd_ports() {
  echo "$(etcd_client_port "$1") $(etcd_peer_port "$1")"
}

etcd_client_port() {
  case $1 in
    etcd) port_at 8 ;;
    *) port_at $((12 + ${1#etcd-cluster-})) ;;
  esac
}

etcd_peer_port() {
  case $1 in
    etcd) port_at 9 ;;
    *) port_at $((15 + ${1#etcd-cluster-})) ;;
  esac
}

etcd_prepare() {
  local data
  data=$(home_of "$1")/data
  mkdir -p "$data"
  # etcd complains of anything wider.
  chmod 700 "$data"
}

# name=address of every member, as each is told on its first start.
etcd_initial_cluster() {
  local name members=""
  for name in $(servers_of "${1%-[123]}"); do
    members+=",$name=http://127.0.0.1:$(etcd_peer_port "$name")"
  done
  echo "${members#,}"
}

etcd_start() {
  local name=$1 client peer
  client=http://127.0.0.1:$(etcd_client_port "$name")
  peer=http://127.0.0.1:$(etcd_peer_port "$name")
  # etcd 3.4 refuses to run on ARM unless told that it is known to be untested.
  if [[ $(uname -m) == aarch64 ]]; then export ETCD_UNSUPPORTED_ARCH=arm64; fi
  spawn "$name" "$(command -v etcd)" --name "$name" --data-dir "$(home_of "$name")/data" \
    --listen-client-urls "$client" --advertise-client-urls "$client" \
    --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" \
    --initial-cluster "$(etcd_initial_cluster "$name")" --initial-cluster-state new \
    --initial-cluster-token "leastlock-${name%-[123]}" --logger zap --log-level warn
}

# Healthy is more than listening: the cluster has a leader.
etcd_ready() {
  local answer
  answer=$(ask "$(etcd_client_port "$1")" 'GET /health HTTP/1.0\r\n\r\n')
  [[ $answer == *'"health":"true"'* ]]
}
