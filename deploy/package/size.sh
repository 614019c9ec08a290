#!/usr/bin/env bash
# size.sh PROGRAM...: prints the size of each program. A daemon starts a worker by exec, so that its size is page cache on each
# machine. `go tool nm -size -sort size` shows what takes the place.
set -euo pipefail
for program in "$@"; do
  printf '%s: %s bytes\n' "$program" "$(wc -c <"$program")"
done
