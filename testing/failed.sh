#!/usr/bin/env bash
# failed.sh VERB LOG: prints what each failed test in a LOG of `go test -v` printed, and what failed packages printed outside
# their tests (compile errors, panics): the first 40 and the last 40 lines of each, at most 400 lines in all, each cut to
# 1,000 characters. Prints nothing when nothing failed. PACKAGE limits it to one package.
set -euo pipefail
verb=$1
shift
LC_ALL=C awk -v verb="$verb" -v ends=40 -v all=400 -v width=1000 -v only="${PACKAGE:-}" '
  BEGIN { module = "^github.com/[^/]*/[^/]*/"; sub(module, "", only) }
  # keep adds a line to what the test has printed, of which only both ends are held.
  function keep(line,   k) {
    if (!(name in printed)) order[++tests] = name
    k = ++printed[name]
    line = substr(line, 1, width)
    if (k <= ends) first[name, k] = line
    else last[name, k % ends] = line
  }
  function show(line) {
    if (shown++ < all) print line
  }
  # finish ends a package: what its failed tests printed is shown, what the others printed is dropped.
  function finish(package, bad,   i, k, t, n) {
    if (bad && name != "") failed[name] # it ran when the package ended
    if (only != "" && package != only) tests = 0
    for (i = 1; i <= tests; i++) {
      t = order[i]
      n = printed[t]
      if (!(t in failed) && !(bad && t == "")) continue
      show(verb ": " (t ~ /^build of/ ? t : t == "" ? package : package " " t) ":")
      for (k = 1; k <= n && k <= ends; k++) show("  " first[t, k])
      if (n > 2 * ends) show("  ... " n - 2 * ends " lines are left out")
      for (k = n - ends < ends ? ends + 1 : n - ends + 1; k <= n; k++) show("  " last[t, k % ends])
    }
    split("", order); split("", printed); split("", first); split("", last); split("", failed)
    tests = 0; name = ""
  }
  /^=== (RUN|NAME|CONT) / { name = $3; verdicts = 0; next }
  /^=== / { next }
  /^--- (PASS|FAIL|SKIP): / { if ($2 == "FAIL:") failed[$3]; name = ""; verdicts = 1; next }
  # The verdicts of subtests follow that of their test. Elsewhere such a line is what a test says.
  verdicts && /^ +--- (PASS|FAIL|SKIP): / { if ($2 == "FAIL:") failed[$3]; next }
  { verdicts = 0 }
  /^# [^ ]+( \[[^ ]+\])?$/ { name = "build of " $2; failed[name]; next }
  /^(ok|FAIL|\?)[ \t]+[^ \t]/ { sub(module, "", $2); finish($2, $1 == "FAIL"); next }
  /^(PASS|FAIL)$/ { next }
  { keep($0) }
  END {
    finish("a package that did not end", 1)
    if (shown > all) print verb ": " shown - all " more lines are left out"
  }
' "$@"
