#!/usr/bin/env bash
# gotest.sh VERB FLAG-OR-PACKAGE...: `go test -v` with these arguments. Prints one line a package and what failed, at the end
# by name and reason what was skipped, and the lines of the tests that failed. The whole output is kept as
# $RFSD_LOGS/VERB.log when RFSD_LOGS names a directory; after a failure its place is named.
set -euo pipefail
if [ $# -lt 2 ]; then
  echo "usage: $0 verb flag-or-package..." >&2
  exit 2
fi
verb=$1
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
logs=${RFSD_LOGS:-$(mktemp -d)}
log=$logs/$verb.log
code=0
"${GO:-go}" test -v "$@" 2>&1 | tee "$log" |
  { grep --line-buffered -E '^(ok|FAIL|panic:|# |fatal error:|go: )|^ *--- FAIL|\[build failed\]|WARNING: DATA RACE' || true; } || code=$?
"$here/skipped.sh" "$verb" "$log"
if [ "$code" != 0 ]; then
  "$here/failed.sh" "$verb" "$log"
  echo "$verb: FAILED; the whole output is in $log" >&2
elif [ -z "${RFSD_LOGS:-}" ]; then
  rm -rf "$logs"
fi
exit "$code"
