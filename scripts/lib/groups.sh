# shellcheck shell=bash
# What can be asked for by name: groups, each of one server or more. A server NAME
# is of one kind, whose file beside this one gives KIND_ports, KIND_prepare,
# KIND_start and KIND_ready.

BASE_GROUPS=(postgres mariadb redis etcd zookeeper kafka)
CLUSTER_GROUPS=(redis-replica etcd-cluster zookeeper-cluster)

is_group() {
  [[ " ${BASE_GROUPS[*]} ${CLUSTER_GROUPS[*]} " == *" $1 "* ]]
}

is_cluster() {
  [[ $1 == redis-replica || $1 == *-cluster-* ]]
}

servers_of() {
  case $1 in
    redis) printf '%s\n' redis-{1..5} ;;
    *-cluster) printf '%s\n' "$1"-{1..3} ;;
    *) echo "$1" ;;
  esac
}

# Each name once, in the order given.
servers_of_all() {
  local group
  for group in "$@"; do servers_of "$group"; done | awk '!seen[$0]++'
}

all_servers() {
  servers_of_all "${BASE_GROUPS[@]}" "${CLUSTER_GROUPS[@]}"
}

kind_of() {
  echo "${1%%-*}"
}
