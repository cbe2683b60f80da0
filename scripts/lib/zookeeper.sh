# shellcheck shell=bash
# ZooKeeper: one alone, and an ensemble of three.

ZOOKEEPER_VERSION=3.9.5

# Client, quorum and election ports; the single server has no peers to hear.
zookeeper_ports() {
  local number
  if [[ $1 == zookeeper ]]; then
    port_at 10
  else
    number=${1#zookeeper-cluster-}
    echo "$(port_at $((18 + number))) $(port_at $((21 + number))) $(port_at $((24 + number)))"
  fi
}

# ZooKeeper names these two as provided by whoever runs it, and leaves the choice of
# a logger open.
zookeeper_jars() {
  install_jars zookeeper "20 MB" \
    "org.apache.zookeeper:zookeeper:$ZOOKEEPER_VERSION" \
    io.dropwizard.metrics:metrics-core:4.1.12.1 \
    org.xerial.snappy:snappy-java:1.1.10.5 \
    org.apache.logging.log4j:log4j-slf4j2-impl:2.25.4
}

zookeeper_prepare() {
  local name=$1 home client
  home=$(home_of "$name")
  client=$(zookeeper_ports "$name")
  zookeeper_jars
  mkdir -p "$home/data"
  write_log4j "$home/log4j2.properties"
  {
    # Tests end sessions on purpose, and a session's end is rounded up to a tick.
    # The limit of 60 connections an address is no use where all come from one.
    cat <<CFG
dataDir=$home/data
clientPortAddress=127.0.0.1
clientPort=${client%% *}
tickTime=500
minSessionTimeout=1000
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=ruok,srvr
CFG
    if [[ $name != zookeeper ]]; then zookeeper_members; fi
  } | write_file "$home/zoo.cfg"
  if [[ $name != zookeeper ]]; then
    echo "${name#zookeeper-cluster-}" | write_file "$home/data/myid"
  fi
}

zookeeper_members() {
  local member _ quorum election
  # In ticks: ten seconds, for members that start one after the other.
  echo initLimit=20
  echo syncLimit=10
  for member in 1 2 3; do
    read -r _ quorum election <<<"$(zookeeper_ports "zookeeper-cluster-$member")"
    echo "server.$member=127.0.0.1:$quorum:$election"
  done
}

zookeeper_start() {
  spawn "$1" "$(find_java)" -Xmx192m -XX:+UseSerialGC \
    -Dlog4j2.configurationFile=log4j2.properties \
    -cp "$(jars_dir zookeeper)/*" \
    org.apache.zookeeper.server.quorum.QuorumPeerMain ./zoo.cfg
}

# 'ruok' is answered before a leader is found; 'srvr' then has no mode to tell.
zookeeper_ready() {
  local client
  client=$(zookeeper_ports "$1")
  [[ $(ask "${client%% *}" srvr) == *Mode:* ]]
}
