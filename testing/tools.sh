#!/usr/bin/env bash
# tools.sh PATH VERSION: sees to it that golangci-lint of VERSION (v2.x.y) is at PATH; quick when it is.
set -euo pipefail

if [ $# -ne 2 ]; then
  echo "usage: $0 path-of-golangci-lint version" >&2
  exit 2
fi
lint=$1 version=$2

# `--version` prints the version with or without the v, by how the program was built.
if [ -x "$lint" ] && "$lint" --version 2>/dev/null | grep -qE "version v?${version#v}( |$)"; then
  exit 0
fi
echo "installing golangci-lint $version into $(dirname "$lint")"
GOFLAGS='' GOBIN=$(dirname "$lint") "${GO:-go}" install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$version"
