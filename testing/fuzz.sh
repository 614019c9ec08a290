#!/usr/bin/env bash
# fuzz.sh DURATION [PACKAGE...]: runs every Fuzz target of the module (or of PACKAGEs) for DURATION each.
#
# With FUZZPACKAGES=N only N packages are fuzzed, which are drawn at random from those with few dependencies: compiling others for
# fuzzing takes minutes.
#
# Each package's test binary is built once and serves all its targets; FUZZJOBS packages (default 2) are fuzzed at the same
# time, each by FUZZPARALLEL processes (default 1). New interesting inputs are kept in Go's fuzz cache, so a later run goes
# on from there; a crash fails the run and its input, written to testdata/fuzz of the package, is named: commit it with the fix.
#
# Go shortens each input that is interesting for up to 60 s, in which it tries no other: here for 1 s.
#
# When the time is over, Go's coordinator can take its own deadline for a failure of the target (Go issue
# 75804, until Go 1.26). A run that says "context deadline exceeded" and nothing else, and wrote no input,
# is therefore run once more; if that fails too, for whatever reason, the target has failed.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -lt 1 ]; then
  echo "usage: $0 duration [package...]" >&2
  exit 2
fi
duration=$1
shift
[ $# -gt 0 ] || set -- ./...
go=${GO:-go}
parallel=${FUZZPARALLEL:-1}
jobs=${FUZZJOBS:-2}
cache=$("$go" env GOCACHE)/fuzz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# deadline_only LOG: whether nothing but Go's own deadline ended the run.
deadline_only() {
  grep -qE '^ *context deadline exceeded$' "$1" &&
    ! grep -qE 'Failing input written|panic:|fatal error:|_test\.go:[0-9]+:|fuzzing process (hung|terminated)' "$1"
}

# fuzz PACKAGE DIR: runs the targets of a package, prints a line each, and writes "executions failures" of each to its results.
fuzz() {
  local package=$1 dir=$2 own name log attempt crashed n names
  own=$(mktemp -d "$work/XXXXXX")
  log=$own/log
  "$go" test -c -fuzz=Fuzz -o "$own/fuzz.test" "$package"
  mapfile -t names < <(cd "$dir" && "$own/fuzz.test" -test.list '^Fuzz' | grep '^Fuzz' || true)
  for name in "${names[@]}"; do
    for attempt in first second; do
      crashed=0
      (cd "$dir" && "$own/fuzz.test" -test.run='^$' -test.fuzz="^$name\$" -test.fuzztime="$duration" -test.fuzzminimizetime=1s \
        -test.fuzzcachedir="$cache/$package" -test.parallel="$parallel" -test.timeout=0) >"$log" 2>&1 || crashed=1
      if [ "$crashed" = 1 ] && [ "$attempt" = first ] && deadline_only "$log"; then
        printf '%-60s once more: only the deadline of the run ended it\n' "${package#*/rfsd/rfsd/}.$name"
        continue
      fi
      break
    done
    n=$(sed -n 's/.*execs: \([0-9]*\).*/\1/p' "$log" | tail -1)
    n=${n:-0}
    echo "$n $crashed" >>"$own/results"
    if [ "$crashed" = 1 ]; then
      printf '%-60s FAILED after %s execs\n' "${package#*/rfsd/rfsd/}.$name" "$n"
      cat "$log"
      sed -n "s|.*Failing input written to \(testdata[^ ]*\).*|corpus file: $dir/\1|p" "$log"
    else
      printf '%-60s %12s execs\n' "${package#*/rfsd/rfsd/}.$name" "$n"
    fi
  done
  rm -f "$own/fuzz.test"
}

# Only packages whose tests declare a target are built: linking all of them costs more than the fuzzing.
failed=0
with_targets() {
  local package dir files
  while IFS=$'\t' read -r package dir files; do
    # shellcheck disable=SC2086 # files are words
    [ -n "$files" ] && (cd "$dir" && grep -qE '^func Fuzz[A-Z0-9_]' $files) || continue
    [ -z "${FUZZPACKAGES:-}" ] || [ "$("$go" list -deps -test "$package" | grep -c '[.]')" -le 100 ] || continue
    printf '%s\t%s\n' "$package" "$dir"
  done
}
while IFS=$'\t' read -r package dir; do
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
    wait -n || failed=$((failed + 1)) # it could not be built
  done
  fuzz "$package" "$dir" &
done < <("$go" list -f '{{.ImportPath}}{{"\t"}}{{.Dir}}{{"\t"}}{{range .TestGoFiles}}{{.}} {{end}}{{range .XTestGoFiles}}{{.}} {{end}}' "$@" | with_targets |
  { [ -z "${FUZZPACKAGES:-}" ] && cat || shuf -n "$FUZZPACKAGES"; })
while [ -n "$(jobs -p)" ]; do
  wait -n || failed=$((failed + 1))
done

read -r targets execs crashed < <(cat "$work"/*/results 2>/dev/null | awk '{ execs += $1; crashed += $2 } END { print NR, execs + 0, crashed + 0 }')
echo "fuzz: $targets targets, $execs execs, $((failed + crashed)) failed"
[ "$((failed + crashed))" = 0 ]
