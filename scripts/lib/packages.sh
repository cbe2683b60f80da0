# shellcheck shell=bash
# Debian packages: what is missing for the groups asked for, and its installation.

# The first package of the list that this release has; it may know a name and yet
# have nothing to install for it.
first_available() {
  local package policy
  for package in "$@"; do
    policy=$(LC_ALL=C apt-cache policy "$package" 2>/dev/null) || true
    if [[ $policy =~ Candidate:\ [^\(] ]]; then
      echo "$package"
      return
    fi
  done
  echo "$1"
}

# What the servers of the groups need. Tools are looked for rather than packages, so
# that a machine which has them from elsewhere is left as it is.
missing_for_group() {
  case $1 in
    postgres) find_postgres_bin >/dev/null || echo postgresql ;;
    mariadb) command -v mariadbd >/dev/null || echo mariadb-server ;;
    redis | redis-replica) command -v redis-server >/dev/null || echo redis-server ;;
    etcd | etcd-cluster) command -v etcd >/dev/null || first_available etcd-server etcd ;;
    zookeeper | zookeeper-cluster) missing_for_java zookeeper ;;
    kafka) missing_for_java kafka ;;
  esac
}

missing_for_java() {
  find_java >/dev/null ||
    first_available openjdk-21-jre-headless openjdk-17-jre-headless openjdk-25-jre-headless
  has_jars "$1" || command -v mvn >/dev/null || echo maven
}

# What building and testing the project needs beyond Rust and a C compiler; wrk makes the
# load of the HTTP benchmark.
missing_for_build() {
  command -v make >/dev/null || echo make
  command -v g++ >/dev/null || command -v clang++ >/dev/null || command -v c++ >/dev/null || echo g++
  command -v protoc >/dev/null || echo protobuf-compiler
  # The protocol's own definitions, which the compiler does without and etcd's do not.
  [[ -f /usr/include/google/protobuf/descriptor.proto ]] || echo libprotobuf-dev
  command -v pkg-config >/dev/null || echo pkg-config
  [[ -f /usr/include/zlib.h ]] || echo zlib1g-dev
  [[ -f /etc/ssl/certs/ca-certificates.crt ]] || echo ca-certificates
  command -v wrk >/dev/null || echo wrk
}

missing_packages() {
  local group
  {
    for group in "$@"; do missing_for_group "$group"; done
    missing_for_build
  } | sort -u | paste -sd' '
}

install_packages() {
  local missing as_root=() failed=false
  missing=$(missing_packages "$@")
  [[ -n $missing ]] || return 0
  command -v apt-get >/dev/null ||
    die "missing, and no apt-get here to install it: $missing"
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "missing packages; have root run: apt-get install $missing"
    as_root=(sudo)
    [[ -t 0 ]] || as_root=(sudo -n)
    "${as_root[@]}" true ||
      die "missing packages, and sudo refused; have root run: apt-get install $missing"
  fi

  say "packages: updating the list"
  apt_get "${as_root[@]}" update || die "apt-get update failed"
  # A name chosen before the list was there may be an older release's.
  missing=$(missing_packages "$@")
  say "packages: installing $missing"
  [[ " $missing " != *" postgresql "* ]] || forbid_main_cluster "${as_root[@]}"
  # shellcheck disable=SC2086 # a list of words
  apt_get "${as_root[@]}" install --no-install-recommends $missing || failed=true
  allow_main_cluster "${as_root[@]}"
  ! $failed || die "apt-get could not install: $missing (its log: $SERVICES_DIR/apt.log)"
  missing=$(missing_packages "$@")
  [[ -z $missing ]] || die "installed, yet still missing: $missing"
}

# apt_get [sudo [-n]] COMMAND...: without our locks, which a daemon that a package
# starts would hold for as long as it lives.
apt_get() {
  local as_root=() log=$SERVICES_DIR/apt.log
  while [[ $1 == sudo || $1 == -n ]]; do
    as_root+=("$1")
    shift
  done
  if ! timeout 900 "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold "$@" \
    >>"$log" 2>&1 </dev/null 8>&- 9>&-; then
    tail -n 20 "$log" >&2
    return 1
  fi
}

# The package would otherwise make and start a server that nobody asked for. The
# setting goes again afterwards: later installations are none of our business.
MAIN_CLUSTER_CONF=/etc/postgresql-common/createcluster.d/leastlock-services.conf

forbid_main_cluster() {
  "$@" mkdir -p "${MAIN_CLUSTER_CONF%/*}"
  echo 'create_main_cluster = false' | "$@" tee "$MAIN_CLUSTER_CONF" >/dev/null
}

allow_main_cluster() {
  [[ ! -f $MAIN_CLUSTER_CONF ]] || "$@" rm -f "$MAIN_CLUSTER_CONF"
}
