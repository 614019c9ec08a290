#!/usr/bin/env bash
# build.sh VERSION: makes the deb and the rpm of this machine's architecture in dist/. Their programs are static-pie, so that
# the kernel places them at random addresses; gcc links them.
set -euo pipefail
cd "$(dirname "$0")/../.."
# v2.44.2 is the newest whose modules are all to be had.
nfpm_version=v2.44.2
nfpm=$(go env GOPATH)/bin/nfpm
[ -x "$nfpm" ] || go install "github.com/goreleaser/nfpm/v2/cmd/nfpm@$nfpm_version"
ARCH=$(go env GOARCH)
# A package's version begins with a digit; what is no release is version 0.
VERSION=${1#v}
case $VERSION in [0-9]*.*) ;; *) VERSION=0.0.0~$VERSION ;; esac
export ARCH VERSION
mkdir -p dist/bin
CGO_ENABLED=1 go build -trimpath -buildmode=pie -tags netgo,osusergo \
  -ldflags "-s -w -X main.version=$1 -linkmode=external -extldflags=-static-pie" -o dist/bin/ ./cmd/rfsd ./cmd/rfsctl
for program in rfsd rfsctl; do
  case $(readelf -hlW dist/bin/$program) in
  *INTERP*) echo "packages: $program needs an interpreter, so it is not static" >&2; exit 1 ;;
  *"DYN (Position-Independent"*) ;;
  *) echo "packages: $program is not position-independent" >&2; exit 1 ;;
  esac
done
# What the programs are made of, from the programs themselves, packed and beside the packages.
go run ./deploy/package/sbom -version "$VERSION" -bom dist/rfsd.cdx.json -licences dist/LICENCES.txt dist/bin/rfsd dist/bin/rfsctl
for format in deb rpm; do
  "$nfpm" package --config deploy/package/nfpm.yaml --packager "$format" --target dist/
done
# Whoever has the packages checks them: sha256sum -c SHA256SUMS
(cd dist && sha256sum -- *.deb *.rpm rfsd.cdx.json LICENCES.txt > SHA256SUMS)
