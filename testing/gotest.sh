#!/usr/bin/env bash
# gotest.sh VERB FLAG-OR-PACKAGE...: `go test -v` with these arguments. Prints one line a package, what the tests of a failed
# package printed as soon as it has ended and once more at the end, and how many tests did not run. The whole output is
# kept as VERB.log, the names and reasons of the tests that did not run as VERB.skipped, in $RFSD_LOGS or bin/logs.
set -euo pipefail
if [ $# -lt 2 ]; then
  echo "usage: $0 verb flag-or-package..." >&2
  exit 2
fi
verb=$1
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
logs=${RFSD_LOGS:-$here/../bin/logs}
mkdir -p "$logs"
logs=$(cd "$logs" && pwd)
log=$logs/$verb.log
code=0
"${GO:-go}" test -v "$@" 2>&1 | tee "$log" |
  { grep --line-buffered -E '^(ok|FAIL|panic:|# |fatal error:|go: )|^ *--- FAIL|\[build failed\]|WARNING: DATA RACE' || true; } |
  while IFS= read -r line; do
    printf '%s\n' "$line"
    if [[ $line == FAIL[[:space:]]* ]]; then
      read -r _ package _ <<<"$line"
      PACKAGE=$package "$here/failed.sh" "$verb" "$log"
    fi
  done || code=$?
"$here/skipped.sh" "$verb" "$log" >"$logs/$verb.skipped"
if [ "$(wc -l <"$logs/$verb.skipped")" -gt 1 ]; then
  echo "$(head -1 "$logs/$verb.skipped" | sed 's/:$//') here; names and reasons are in $logs/$verb.skipped"
else
  cat "$logs/$verb.skipped"
fi
if [ "$code" != 0 ]; then
  "$here/failed.sh" "$verb" "$log"
  echo "$verb: FAILED; the whole output is in $log" >&2
fi
exit "$code"
