#!/usr/bin/env bash
# quick.sh [BASE]: `make quick`. Checks what differs from BASE (default: the branch main, or the last commit when main is
# checked out): formatting, vet, the dependency rules, functions that nothing uses, the short tests of the changed packages
# and of those that import them, and one whole migration with verify and undo against a cluster in memory. At most 90 s with
# warm caches, unless the change is in a package that most others import.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go} begin=$SECONDS
base=${1:-$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD~1)}
[ "$base" != "$(git rev-parse HEAD)" ] || [ -n "$(git status --porcelain)" ] || base=HEAD~1
mapfile -t files < <({ git diff --name-only "$base" -- '*.go'; git ls-files --others --exclude-standard '*.go'; } | sort -u)
present=()
for f in ${files[@]+"${files[@]}"}; do [ ! -e "$f" ] || present+=("$f"); done
echo "make quick: ${#files[@]} Go files differ from $(git rev-parse --short "$base")"
if [ ${#present[@]} -gt 0 ]; then
  unformatted=$(gofmt -l "${present[@]}")
  [ -z "$unformatted" ] || { echo "not formatted: $unformatted" >&2; exit 1; }
fi
changed=$(for f in ${files[@]+"${files[@]}"}; do dirname "$f"; done | sort -u | while read -r d; do
  [ -z "$(find "$d" -maxdepth 1 -name '*.go' -print -quit 2>/dev/null)" ] || echo "github.com/rfsd/rfsd/$d"
done)
affected=$("$go" list -f '{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... |
  awk -v changed="$changed" 'BEGIN { split(changed, c); for (i in c) is[c[i]] }
    { for (i = 1; i <= NF; i++) if ($i in is) { print $1; next } }')
# Programs with real servers are for make test; simulations for make ci.
tested=$(grep -vE '/testing/(e2e|sim|abuse|corrupt|fleet)$' <<<"$affected" || true)
if [ -n "$affected" ]; then
  echo "make quick: vet and unused code of $(wc -l <<<"$affected") packages"
  # shellcheck disable=SC2086 # a list of packages
  "$go" vet $affected
fi
if [ -n "$changed" ] && [ -x "$LINT" ]; then
  # shellcheck disable=SC2001,SC2086
  "$LINT" run --allow-parallel-runners --enable-only unused,depguard $(sed 's#github.com/rfsd/rfsd#.#' <<<"$changed")
fi
echo "make quick: dependency rules, $(wc -w <<<"$tested") packages, one migration with verify and undo"
# shellcheck disable=SC2086
RFSD_LOGS=${RFSD_LOGS:-bin/logs} testing/gotest.sh quick -short ./testing/arch $tested
"$go" test -short ./testing/stories -run '^TestStory$/^a_migration,_twice,_verify'
echo "make quick: passed after $((SECONDS - begin)) s"
