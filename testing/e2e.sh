#!/usr/bin/env bash
# e2e.sh VERB VERSION...: the tests of E2EPACKAGES against real servers. Boots OpenSearch of each VERSION once, runs
# them, stops the nodes, and lists by name what did not run.
#
# A node that runs already is used when RFSD_TEST_OPENSEARCH_<VERSION with _ for .> holds its URL; tests
# delete what they find there. E2EFLAGS goes to `go test` (E2EFLAGS='-run Landed').
# Exit 1 when a test or a node failed, or when a node is missing whose JDK this distribution has.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -lt 2 ]; then
  echo "usage: E2EPACKAGES='./testing/e2e' $0 verb version-of-OpenSearch..." >&2
  exit 2
fi
verb=$1
shift
go=${GO:-go}
work=$(mktemp -d)
logs=${RFSD_LOGS:-$(mktemp -d)}
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
    echo "$verb: OpenSearch $version: the one at ${!variable}"
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
  echo "$verb: OpenSearch $version: ${!variable}"
}

echo "$verb: building"
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

# Only a JDK that this distribution has no package of excuses a node.
if [ ${#absent[@]} -gt 0 ]; then
  lacking=$(testing/setup.sh lacking)
  for version in "${absent[@]}"; do
    need=jdk17
    [ "${version%%.*}" -lt 3 ] || need=jdk21
    if [[ " $lacking " != *"$need"* ]]; then
      echo "$verb: OpenSearch $version cannot run here; run testing/setup.sh" >&2
      failed=1
    fi
  done
fi

# One package at a time: they share the nodes, and each machine has only so much memory.
code=0
set -m
# shellcheck disable=SC2086 # flags and packages are words
RFSD_LOGS=$logs RFSD_E2E=1 testing/gotest.sh "$verb" -p 1 -count=1 -vet=off -timeout 40m ${E2EFLAGS:-} $E2EPACKAGES &
tests=$!
set +m
wait "$tests" || code=$?
tests=
[ "$code" = 0 ] || failed=1

for version in ${absent[@]+"${absent[@]}"}; do
  echo "$verb: OpenSearch $version did not run: no test saw it (see above)"
done
if [ "$failed" = 1 ]; then
  echo "$verb: FAILED" >&2
  exit 1
fi
echo "$verb: passed"
