# shellcheck shell=bash
# What every part uses: words to the caller, the folder, the lock.

# Absolute, since the servers are started from other folders.
SERVICES_DIR=$(realpath -m -- "${LEASTLOCK_SERVICES_DIR:-$ROOT/target/services}")

say() {
  printf '%s\n' "$*"
}

complain() {
  printf 'services: %s\n' "$*" >&2
}

die() {
  complain "$@"
  exit 1
}

# Two calls at once would start each server twice. The descriptor stays open until
# this script ends; servers do not get it (see spawn).
lock() {
  mkdir -p "$SERVICES_DIR" || die "cannot make $SERVICES_DIR"
  exec 9>"$SERVICES_DIR/lock"
  flock -n 9 && return
  say "waiting for another 'services' on $SERVICES_DIR"
  flock -w 900 9 || die "another 'services' has held $SERVICES_DIR/lock for 15 minutes"
}

# Writes stdin to FILE if that changes it.
write_file() {
  local text
  text=$(cat)
  if [[ ! -f $1 || $(<"$1") != "$text" ]]; then
    printf '%s\n' "$text" >"$1"
  fi
}
