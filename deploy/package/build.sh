#!/usr/bin/env bash
# build.sh VERSION: makes the deb and the rpm of this machine's architecture from bin/ into dist/.
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
mkdir -p dist
# What the programs are made of, from the programs themselves, packed and beside the packages.
go run ./deploy/package/sbom -version "$VERSION" -bom dist/rfsd.cdx.json -licences dist/LICENCES.txt bin/rfsd bin/rfsctl
for format in deb rpm; do
  "$nfpm" package --config deploy/package/nfpm.yaml --packager "$format" --target dist/
done
# Whoever has the packages checks them: sha256sum -c SHA256SUMS
(cd dist && sha256sum -- *.deb *.rpm rfsd.cdx.json LICENCES.txt > SHA256SUMS)
