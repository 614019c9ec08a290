#!/usr/bin/env bash
# build.sh VERSION [ARCH...]: makes the deb and the rpm of each ARCH (amd64, arm64; default: that of this machine) in dist/,
# with SHA256SUMS, and what each is made of in dist/ARCH. The programs are static-pie, so that the kernel places them at
# random addresses; gcc links them, for another architecture its cross compiler. The same commit, Go and gcc make the same
# bytes wherever they are built. make runs it.
set -euo pipefail
cd "$(dirname "$0")/../.."
# v2.44.2 is the newest whose modules are all to be had.
nfpm_version=v2.44.2
nfpm=$(go env GOPATH)/bin/nfpm
[ -x "$nfpm" ] || go install "github.com/goreleaser/nfpm/v2/cmd/nfpm@$nfpm_version"
version=$1
shift
[ $# -gt 0 ] || set -- "$(go env GOARCH)"
# A package's version begins with a digit.
VERSION=${version#v}
# Files in a package are as old as the commit.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export VERSION SOURCE_DATE_EPOCH
rm -rf dist
# share is what both architectures have of /usr/share: pages, and manual pages.
doc=dist/share/doc/rfsd
man=dist/share/man/man1
mkdir -p dist/completion "$doc/docs" "$man"
cp docs/*.md docs/*.png "$doc/docs/"
cp README.md CHANGELOG.md NOTICE deploy/rfsd.toml deploy/package/copyright "$doc/"

# compiler ARCH: the C compiler that links for it.
compiler() {
  [ "$1" != "$(go env GOHOSTARCH)" ] || { go env CC; return; }
  case $1 in
  amd64) echo x86_64-linux-gnu-gcc ;;
  arm64) echo aarch64-linux-gnu-gcc ;;
  *) echo "packages: there is no compiler for $1" >&2; return 1 ;;
  esac
}

# Manual pages and completions: a program built as the Makefile does, from compiled packages that are there already.
for program in rfsd rfsctl; do
  CGO_ENABLED=0 go build -ldflags "-X main.version=$version" -o dist/here ./cmd/$program
  dist/here manual "$man"
  for shell in bash zsh fish; do
    dist/here completion $shell >"dist/completion/$program.$shell"
  done
done
rm dist/here
for page in "$man"/*.md; do
  go run github.com/cpuguy83/go-md2man/v2 -in "$page" -out "${page%.md}"
  gzip -9n "${page%.md}"
done
rm "$man"/*.md

printf 'rfsd (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md in this folder.\n\n -- The rfsd maintainers <maintainers@users.noreply.github.com>  %s\n' \
  "$VERSION" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"

for ARCH in "$@"; do
  export ARCH
  CC=$(compiler "$ARCH")
  command -v "$CC" >/dev/null || { echo "packages: $CC is not installed; on Debian: apt-get install gcc-${CC%-gcc} libc6-dev-$ARCH-cross" >&2; exit 1; }
  out=dist/$ARCH
  mkdir -p "$out/bin"
  CC=$CC GOARCH=$ARCH CGO_ENABLED=1 go build -trimpath -buildmode=pie -tags netgo,osusergo \
    -ldflags "-s -w -X main.version=$version -linkmode=external -extldflags=-static-pie" -o "$out/bin/" ./cmd/rfsd ./cmd/rfsctl
  for program in rfsd rfsctl; do
    case $(readelf -hlW "$out/bin/$program") in
    *INTERP*) echo "packages: $program needs an interpreter, so it is not static" >&2; exit 1 ;;
    *"DYN (Position-Independent"*) ;;
    *) echo "packages: $program is not position-independent" >&2; exit 1 ;;
    esac
  done
  deploy/package/size.sh "$out/bin/rfsd" "$out/bin/rfsctl"
  # What the programs are made of, from the programs themselves, packed and beside the packages.
  go run ./deploy/package/sbom -version "$VERSION" -bom "$out/rfsd.cdx.json" -licences "$out/LICENCES.txt" "$out/bin/rfsd" "$out/bin/rfsctl"
  cp -r dist/share "$out/"
  cp "$out/rfsd.cdx.json" "$out/LICENCES.txt" "$out/share/doc/rfsd/"
  chmod -R u=rwX,go=rX "$out/share"
  for format in deb rpm; do
    [ $format = rpm ] && kind=doc || kind=file
    {
      cat deploy/package/nfpm.yaml
      find "$out/share" -type f -printf "  - {src: %p, dst: /usr/share/%P, type: $kind}\\n" | LC_ALL=C sort
    } >"$out/nfpm.yaml"
    "$nfpm" package --config "$out/nfpm.yaml" --packager "$format" --target dist/
  done
done
# Receivers of the packages check them: sha256sum -c SHA256SUMS
(cd dist && sha256sum -- *.deb *.rpm */rfsd.cdx.json */LICENCES.txt >SHA256SUMS)
