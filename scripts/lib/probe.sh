# shellcheck shell=bash
# Small questions to a server, by bash alone: a client per question would be slow,
# and need not be installed.

port_answers() {
  (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# ask PORT REQUEST [BYTES]: the answer, until the server closes, at most BYTES long.
ask() {
  (
    exec 3<>"/dev/tcp/127.0.0.1/$1" || exit
    printf '%b' "$2" >&3
    timeout 2 head -c "${3:-4096}" <&3
  ) 2>/dev/null
}
