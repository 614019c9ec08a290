#!/usr/bin/env bash
# build.sh VERSION [ARCH...]: makes dist/rfsd-VERSION-image.tar, an OCI image of each ARCH (default: amd64 and arm64), without a
# container daemon. The programs are static. The same commit and Go make the same bytes wherever they are built. make image runs it.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=${1#v}
shift
[ $# -gt 0 ] || set -- amd64 arm64
out=dist/image
rm -rf "$out"
folders=()
for arch in "$@"; do
  mkdir -p "$out/$arch/bin"
  CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -ldflags "-s -w -X main.version=$version" -o "$out/$arch/bin/" ./cmd/rfsd ./cmd/rfsctl
  go run ./deploy/package/sbom -version "$version" -bom "$out/$arch/rfsd.cdx.json" -licences "$out/$arch/LICENCES.txt" "$out/$arch/bin/rfsd" "$out/$arch/bin/rfsctl"
  folders+=("$arch=$out/$arch")
done
archive=dist/rfsd-$version-image.tar
go run ./deploy/image -version "$version" -created "$(git log -1 --format=%ct)" -out "$archive" "${folders[@]}"
sha256sum "$archive"
