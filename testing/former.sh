#!/usr/bin/env bash
# former.sh DIR [COMMIT]: builds rfsd and rfsctl of a former release into DIR, from the history of this clone. Without COMMIT:
# of the newest tag before this commit or, where there is none, of the commit before leases of records became one thing.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(realpath -m "$1")
commit=${2:-$(git describe --tags --abbrev=0 HEAD^ 2>/dev/null || true)}
commit=${commit:-$(git rev-parse ':/^cms: one lease of records and one guard of deadlines')^}
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
git archive "$commit" | tar -x -C "$tree"
mkdir -p "$dir"
(cd "$tree" && CGO_ENABLED=0 "${GO:-go}" build -trimpath -o "$dir/" ./cmd/rfsd ./cmd/rfsctl)
