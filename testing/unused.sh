#!/usr/bin/env bash
# unused.sh: fails when the product has functions that neither rfsd nor rfsctl can reach, such as those that only tests use.
# About 20 s of processor time.
set -euo pipefail
cd "$(dirname "$0")/.."
# Name makes Reclaim one of the transitions; a store of one process applies it without its name.
allowed='Reclaim\.Name$'
found=$(go run golang.org/x/tools/cmd/deadcode@v0.52.0 ./cmd/rfsd ./cmd/rfsctl | grep -v "$allowed" || true)
[ -z "$found" ] || { printf 'unused: only tests can reach\n%s\n' "$found" >&2; exit 1; }
