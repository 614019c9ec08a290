#!/usr/bin/env bash
# e2e.sh VERSION...: the tests against real servers. Boots OpenSearch of each VERSION once, runs the tests
# of testing/e2e and rfs on them, stops them, and says by name what did not run.
#
# A node that runs already is used when RFSD_TEST_OPENSEARCH_<VERSION with _ for .> holds its URL; tests
# delete what they find there. E2EFLAGS goes to `go test` (E2EFLAGS='-run Landed'), E2EPACKAGES replaces the
# packages. The log of a failed run is kept and named. Exit 1 when a test or a node failed.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -eq 0 ]; then
  echo "usage: $0 version-of-OpenSearch..." >&2
  exit 2
fi
go=${GO:-go}
work=$(mktemp -d)
log=$work/log
pids=() absent=() tests=

# stop ends what this script started, by PID, and waits for it. Nodes die with the boot that holds them.
stop() {
  local pid
  trap - EXIT
  # The tests are a process group of their own: go, the test and the programs that it runs.
  [ -z "$tests" ] || kill -- "-$tests" 2>/dev/null || true
  for pid in ${pids[@]+"${pids[@]}"}; do
    kill "$pid" 2>/dev/null || true
  done
  for pid in $tests ${pids[@]+"${pids[@]}"}; do
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# boot VERSION: starts a node and exports its URL; 3 when this machine lacks something it needs.
boot() {
  local version=$1 variable=RFSD_TEST_OPENSEARCH_${1//./_} url=$work/url-$1 pid code=0
  if [ -n "${!variable:-}" ]; then
    echo "e2e: OpenSearch $version: the one at ${!variable}"
    return 0
  fi
  "$work/boot" -version "$version" >"$url" 2>"$work/boot-$version" &
  pid=$!
  pids+=("$pid")
  while [ ! -s "$url" ] && kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
  done
  if [ ! -s "$url" ]; then
    wait "$pid" || code=$?
    cat "$work/boot-$version" >&2
    return "$code"
  fi
  export "$variable=$(head -1 "$url")"
  echo "e2e: OpenSearch $version: ${!variable}"
}

# skipped prints the tests of the log that did not run, below their reasons. What a test says comes before its verdict.
skipped() {
  awk '
    /^=== (RUN|NAME|CONT) / { name = $3; next }
    /^ +[^ ]+\.go:[0-9]+: / { sub(/^ +[^ ]+\.go:[0-9]+: /, ""); said[name] = $0; next }
    /^ *--- SKIP: / { names[said[$3]] = names[said[$3]] "\n    " $3; n++ }
    /^(ok|FAIL)[ \t]/ { delete said }
    END { if (n) { print "e2e: " n " tests did not run:"; for (why in names) print "  " why ":" names[why] } }
  ' "$log"
}

echo "e2e: building"
"$go" build -o "$work/boot" ./testing/cluster/boot
failed=0
for version in "$@"; do
  code=0
  boot "$version" || code=$?
  case $code in
    0) ;;
    3) absent+=("$version") ;;
    *) absent+=("$version"); failed=1 ;;
  esac
done

# One package at a time: they share the nodes, and each machine has only so much memory.
# shellcheck disable=SC2086 # flags and packages are words
run() {
  RFSD_E2E=1 "$go" test -v -p 1 -count=1 -timeout 30m ${E2EFLAGS:-} ${E2EPACKAGES:-./testing/e2e/... ./rfs/...} 2>&1 |
    tee "$log" | { grep --line-buffered -E '^(ok|FAIL|panic:|# )|^ *--- FAIL|\[build failed\]' || true; }
}
code=0
set -m
run &
tests=$!
set +m
wait "$tests" || code=$?
tests=
[ "$code" = 0 ] || failed=1

skipped
for version in ${absent[@]+"${absent[@]}"}; do
  echo "e2e: OpenSearch $version did not run: no test saw it (see above)"
done
if [ "$failed" = 1 ]; then
  kept=${TMPDIR:-/tmp}/rfsd-e2e.log
  cp "$log" "$kept"
  echo "e2e: FAILED; everything that was said is in $kept" >&2
  exit 1
fi
echo "e2e: passed"
