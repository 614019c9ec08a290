#!/usr/bin/env bash
# size.sh PROGRAM...: fails when a program is larger than 32 MB. A daemon starts a worker by exec for every lease, so that
# its size is page cache on each machine. `go tool nm -size -sort size` shows what takes the place; one use of text/template
# or of reflect's MethodByName keeps every exported method of every type.
set -euo pipefail
most=32000000
for program in "$@"; do
  bytes=$(wc -c <"$program")
  [ "$bytes" -le "$most" ] || { echo "size: $program has $bytes bytes, more than $most" >&2; exit 1; }
done
