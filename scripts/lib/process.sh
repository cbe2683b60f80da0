# shellcheck shell=bash
# Starting a server so that it outlives this script, and ending just that one.

# What tells a process from a later one with the same pid: its start time, in ticks
# since a boot. Fails if there is no such process, or only its zombie.
birth_of() {
  local stat fields boot
  { stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
  # The name before the last ')' may itself have spaces and parentheses.
  read -ra fields <<<"${stat##*) }"
  [[ ${fields[0]} != [ZX] ]] || return 1
  boot=$(</proc/sys/kernel/random/boot_id)
  echo "${fields[19]}@$boot"
}

# The pid of the running server, or nothing.
pid_of() {
  local file pid="" birth=""
  file=$(home_of "$1")/pid
  [[ -f $file ]] || return 0
  read -r pid birth <"$file" || true
  if [[ -n $birth && $(birth_of "$pid") == "$birth" ]]; then
    echo "$pid"
  fi
}

is_running() {
  [[ -n $(pid_of "$1") ]]
}

# A server must hold neither our lock nor a caller's pipe or job server open.
close_inherited() {
  local path fd
  for path in /proc/self/fd/*; do
    fd=${path##*/}
    if ((fd > 2 && fd != 255)); then eval "exec $fd>&-"; fi
  done
}

# spawn NAME COMMAND...: in a session of its own, with its home as the folder, so
# that neither the terminal's end nor ^C reaches it and crash dumps land there.
spawn() {
  local name=$1 home pid user command=(setsid)
  home=$(home_of "$name")
  user=$(user_for "$name")
  shift
  if [[ -n $user ]]; then
    command+=(setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups --)
  fi
  keep_log_small "$home/log"
  (
    cd "$home" || exit
    exec </dev/null >>"$home/log" 2>&1
    close_inherited
    # Not a group leader, so setsid need not fork, and the pid stays the same
    # through to the server.
    exec "${command[@]}" "$@"
  ) &
  pid=$!
  echo "$pid $(birth_of "$pid")" >"$home/pid"
}

keep_log_small() {
  if [[ -f $1 ]] && (($(stat -c %s "$1") > 10000000)); then
    mv "$1" "$1.old"
  fi
}

# PostgreSQL takes SIGTERM as "once the last client has gone".
stop_signal() {
  if [[ $1 == postgres ]]; then echo INT; else echo TERM; fi
}

signal_server() {
  local pid
  pid=$(pid_of "$1")
  [[ -z $pid ]] || kill -s "$(stop_signal "$1")" "$pid" 2>/dev/null || true
}

await_end() {
  local name=$1 deadline=$((SECONDS + $2))
  while is_running "$name"; do
    ((SECONDS < deadline)) || return 1
    sleep 0.1
  done
}

# end_server NAME: after signal_server; the pid is verified anew before the SIGKILL.
end_server() {
  local name=$1 pid
  has_home "$name" || return 0
  if is_running "$name"; then
    if ! await_end "$name" 20; then
      pid=$(pid_of "$name")
      [[ -z $pid ]] || kill -s KILL "$pid" 2>/dev/null || true
      await_end "$name" 10 || die "$name: process $pid does not end"
      say "$name: killed, as it did not end within 20 s"
    fi
  fi
  if [[ -f $(home_of "$name")/pid ]]; then
    rm -f "$(home_of "$name")/pid"
    say "$name: stopped"
  fi
}
