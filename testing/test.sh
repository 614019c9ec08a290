#!/usr/bin/env bash
# test.sh: `make test`. Installs what is missing, then runs the short tests of all packages and the tests of the programs
# against one real OpenSearch that TESTS selects (a pattern of `go test -run`). A failed step does not keep the next ones from running.
# With RACE the short tests run under the race detector where goroutines run concurrently.
set -uo pipefail
cd "$(dirname "$0")/.."
version=2.19.4
export RFSD_LOGS=${RFSD_LOGS:-$PWD/bin/logs}
begin=$SECONDS failed=()

# step NUMBER TEXT COMMAND...: runs the command and prints how long it took.
step() {
  local number=$1 text=$2 from=$SECONDS
  shift 2
  echo "make test: $number of 4: $text"
  if "$@"; then
    echo "make test: $number of 4: passed after $((SECONDS - from)) s"
    return 0
  fi
  echo "make test: $number of 4: FAILED after $((SECONDS - from)) s" >&2
  failed+=("$text")
  return 1
}

# short runs the short tests of all packages. make lint and make quick run go vet.
short() {
  if [ -z "${RACE:-}" ]; then
    testing/gotest.sh short -short -vet=off ./...
    return
  fi
  local code=0
  make --no-print-directory race || code=1
  make -k --no-print-directory plain unraced || code=1
  return "$code"
}

echo "make test: set-up, build, short tests, tests with a real OpenSearch $version: about 8 minutes on two idle cores, and"
echo "make test: the downloads of the first run (Go modules, OpenSearch, as root a JDK and Maven)."
step 1 "set-up" testing/setup.sh || exit 1
step 2 "build of rfsd and rfsctl" make --no-print-directory build || exit 1
step 3 "short tests of $(${GO:-go} list ./... | wc -l) packages${RACE:+ with the race detector}" short
step 4 "the programs with OpenSearch $version" \
  env E2EPACKAGES=./testing/e2e/... E2EFLAGS="-run $TESTS" testing/e2e.sh programs $version
if [ ${#failed[@]} -gt 0 ]; then
  for verb in short race plain unraced programs; do
    [ ! -e "$RFSD_LOGS/$verb.log" ] || testing/failed.sh "$verb" "$RFSD_LOGS/$verb.log"
  done
  printf 'make test: FAILED: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "make test: passed after $(((SECONDS - begin) / 60)) min $(((SECONDS - begin) % 60)) s; make ci runs everything else"
