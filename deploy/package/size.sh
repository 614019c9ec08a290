#!/usr/bin/env bash
# size.sh MIB PROGRAM...: fails when a program is larger than so many MiB. A daemon starts a worker by exec, so that its size
# is page cache on each machine. Programs are built with the GOFLAGS of the Makefile, which keep them small;
# `go tool nm -size -sort size` shows what takes the place.
set -euo pipefail
most=$(($1 << 20))
shift
for program in "$@"; do
  bytes=$(wc -c <"$program")
  [ "$bytes" -le "$most" ] || { echo "size: $program has $bytes bytes, more than $most; GOFLAGS: ${GOFLAGS:-none}; want those of the Makefile, which an exported GOFLAGS replaces" >&2; exit 1; }
done
