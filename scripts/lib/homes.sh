# shellcheck shell=bash
# A server's home: the folder with its data, settings, log and pid.

# postgres and mariadbd refuse to run as root.
user_for() {
  local user=""
  ((EUID == 0)) || return 0
  case $1 in
    postgres) user=postgres ;;
    mariadb) user=mysql ;;
    *) return 0 ;;
  esac
  getent passwd "$user" >/dev/null || user=nobody
  echo "$user"
}

# run_as NAME COMMAND...: as the user that the server runs as.
run_as() {
  local user
  user=$(user_for "$1")
  shift
  if [[ -n $user ]]; then
    setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups -- "$@"
  else
    "$@"
  fi
}

has_home() {
  [[ -d $SERVICES_DIR/$1 ]]
}

home_of() {
  local home=$SERVICES_DIR/$1
  if [[ -L $home ]]; then readlink "$home"; else echo "$home"; fi
}

# A checkout below a folder like /root cannot be reached by another user. The port is
# in the name, since servers whose records are gone may still run on such a folder: a
# checkout that lost its own then starts beside them, in files as in ports.
fallback_dir() {
  local sum
  sum=$(printf '%s' "$SERVICES_DIR" | cksum)
  echo "/var/tmp/leastlock-services-${sum%% *}-$BASE_PORT"
}

own_home() {
  local user
  user=$(user_for "$1")
  [[ -z $user ]] || chown "$user:" "$2"
}

make_home() {
  local name=$1 home
  has_home "$name" && return
  # A link whose target is gone, say after a clean-up of /var/tmp.
  [[ ! -L $SERVICES_DIR/$name ]] || rm "$SERVICES_DIR/$name"
  home=$SERVICES_DIR/$name
  mkdir -p "$home"
  own_home "$name" "$home"
  if ! run_as "$name" test -w "$home"; then
    rmdir "$home"
    home=$(fallback_dir)/$name
    mkdir -p "$home"
    [[ -O ${home%/*} ]] || die "$name: ${home%/*} belongs to another user"
    own_home "$name" "$home"
    run_as "$name" test -w "$home" || die "$name: $(user_for "$name") can write to neither $SERVICES_DIR nor $home"
    ln -s "$home" "$SERVICES_DIR/$name"
    say "$name: its data is in $home"
  fi
}

remove_home() {
  local home
  [[ -e $SERVICES_DIR/$1 || -L $SERVICES_DIR/$1 ]] || return 0
  home=$(home_of "$1")
  rm -rf "$home"
  if [[ -L $SERVICES_DIR/$1 ]]; then
    rm "$SERVICES_DIR/$1"
    rmdir --ignore-fail-on-non-empty "${home%/*}" 2>/dev/null || true
  fi
  say "$1: data removed"
}

# make_data NAME COMMAND...: lets COMMAND, run in the home, fill data there, once. The
# marker is written last, so that data half made is made anew and never used.
make_data() {
  local name=$1 home
  home=$(home_of "$name")
  shift
  [[ -f $home/data-made ]] && return
  rm -rf "$home/data"
  mkdir -m 700 "$home/data"
  own_home "$name" "$home/data"
  say "$name: making its data folder"
  if ! (cd "$home" && run_as "$name" timeout 120 "$@" >>log 2>&1 </dev/null); then
    show_log "$name"
    die "$name: making its data folder failed"
  fi
  touch "$home/data-made"
}

show_log() {
  local log
  log=$(home_of "$1")/log
  if [[ -f $log ]]; then
    {
      echo "--- end of $log"
      tail -n 30 "$log"
      echo "---"
    } >&2
  fi
}
