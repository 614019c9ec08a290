#!/usr/bin/env bash
# skipped.sh VERB LOG...: lists by name, below their reasons, the tests that were skipped in a LOG of `go test -v` and
# passed in none of them. What a test says comes before its verdict, and the name of the package after all its tests.
set -euo pipefail
verb=$1
shift
awk -v verb="$verb" '
  /^=== (RUN|NAME|CONT) / { name = $3; next }
  /^ +[^ ]+\.go:[0-9]+: / { sub(/^ +[^ ]+\.go:[0-9]+: /, ""); said[name] = $0; next }
  /^ *--- SKIP: / { if (!($3 in skips)) at[++m] = $3; skips[$3] = said[$3]; next }
  /^ *--- PASS: / { passes[$3] = 1; next }
  /^(ok|FAIL)[ \t]/ {
    package = $2
    sub(/^github.com\/[^\/]*\/[^\/]*\//, "", package)
    for (t in passes) passed[package " " t] = 1
    for (i = 1; i <= m; i++) {
      t = package " " at[i]
      if (!(t in why)) { why[t] = skips[at[i]]; order[++n] = t }
    }
    split("", skips); split("", passes); split("", said); m = 0
  }
  END {
    for (i = 1; i <= n; i++) if (!(order[i] in passed)) {
      reason = why[order[i]]
      if (!(reason in names)) reasons[++r] = reason
      names[reason] = names[reason] "\n    " order[i]
      left++
    }
    if (!left) { print verb ": every test ran"; exit }
    print verb ": " left " tests did not run:"
    for (i = 1; i <= r; i++) print "  " reasons[i] ":" names[reasons[i]]
  }
' "$@"
