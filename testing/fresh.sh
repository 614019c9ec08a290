#!/usr/bin/env bash
# fresh.sh: README's two commands in a fresh Debian (debootstrap: git, make, ca-certificates and this machine's Go,
# nothing else) on a clean clone of HEAD: as root, and in a second root as a user for whom root has run the one command
# that setup.sh prints. Needs root, debootstrap and this machine's way to Debian's packages, the Go module proxy and
# Maven Central; how this machine reaches them (apt, go env, proxies, certificates, Maven's settings) is copied.
#
# Packages, modules and jars are kept below RFSD_FRESH_CACHE (default: the user's cache directory) for the next run;
# FRESH=cold begins without them. Nothing compiled is kept. FRESHPARTS="root user" chooses the parts; the part
# first has the first commands alone. The logs stay in
# RFSD_FRESH_LOGS, or in the temporary directory named at the end. /etc/hosts does not name the loopback addresses.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=bookworm
cache=${RFSD_FRESH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rfsd-fresh}

if [ "${1:-}" != inside ]; then
  [ "$(id -u)" = 0 ] || { echo "fresh: debootstrap and chroot need root" >&2; exit 2; }
  for need in debootstrap unshare git; do
    command -v $need >/dev/null || { echo "fresh: $need is not installed" >&2; exit 2; }
  done
  [ -z "$(git status --porcelain)" ] || echo "fresh: what is not committed is not tested"
  [ "${FRESH:-}" != cold ] || rm -rf "$cache"
  work=$(mktemp -d)
  # Mounts are seen by the inner script only, and end with it: the directories are bare when they are removed here.
  trap 'rm -rf --one-file-system "$work"' EXIT
  unshare --mount --propagation private --pid --fork --kill-child=KILL "$0" inside "$work" &
  inner=$!
  trap 'kill -KILL $inner' INT TERM
  code=0
  wait $inner || code=$?
  wait $inner 2>/dev/null || true # after a signal the first wait ends early
  exit "$code"
fi

work=$2
logs=${RFSD_FRESH_LOGS:-$(mktemp -d "${TMPDIR:-/tmp}/rfsd-fresh-logs.XXXXXX")}
mkdir -p "$logs" "$cache"
mount -t proc proc /proc
summary=() failed=0 steps=0

# step NAME COMMAND...: runs it, keeps its output and its time.
step() {
  local name=$1 begin=$SECONDS code=0 log verdict=ok
  shift
  steps=$((steps + 1))
  log=$logs/$(printf %02d $steps)-${name//[^a-zA-Z0-9]/-}.log
  "$@" >"$log" 2>&1 </dev/null || code=$?
  if [ "$code" != 0 ]; then
    verdict="FAILED ($code)"
    failed=1
    tail -40 "$log"
  fi
  summary+=("$(printf '%-64s %-12s %3d min %02d s' "$name" "$verdict" $(((SECONDS - begin) / 60)) $(((SECONDS - begin) % 60)))")
  echo "fresh: ${summary[-1]}"
  return "$code"
}

# mirror prints the URL that this machine has the suite's packages from, or nothing.
mirror() {
  apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    awk -v suite=$suite '$1 == suite && !found { print $2; found = 1 }'
}

bootstrap() {
  mkdir -p "$cache/debootstrap"
  debootstrap --variant=minbase --include=git,make,ca-certificates --cache-dir="$cache/debootstrap" $suite "$work/base" $(mirror)
  cp -a "$(go env GOROOT)" "$work/base/usr/local/go"
  # How this machine reaches the registries.
  local f
  cp -L /etc/resolv.conf "$work/base/etc/"
  # A fresh root has no name for the loopback address; other names may be the way to a registry.
  grep -vE '^(127\.|::1)' /etc/hosts >"$work/base/etc/hosts" || rm "$work/base/etc/hosts"
  if grep -q "VERSION_CODENAME=$suite" /etc/os-release && [ -e /etc/apt/sources.list.d/debian.sources ]; then
    rm -f "$work/base/etc/apt/sources.list"
    cp /etc/apt/sources.list.d/debian.sources "$work/base/etc/apt/sources.list.d/"
  fi
  for f in $(grep -ls '^ *Acquire' /etc/apt/apt.conf /etc/apt/apt.conf.d/* || true); do
    cp "$f" "$work/base/etc/apt/apt.conf.d/"
  done
  cp -r /etc/apt/auth.conf.d/. "$work/base/etc/apt/auth.conf.d/" 2>/dev/null || true
  cp /usr/local/share/ca-certificates/*.crt "$work/base/usr/local/share/ca-certificates/" 2>/dev/null || true
  chroot "$work/base" update-ca-certificates
  chroot "$work/base" useradd -m -s /bin/bash dev
}

# prepare NAME: a root of its own with the caches and a clean clone for root and for the user.
prepare() {
  local root=$work/$1 home owner
  cp -a "$work/base" "$root"
  mount --bind "$root" "$root" # so that / is a mount inside: a JVM asks for the file system of each of its directories
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mkdir -p "$cache/apt/partial"
  mount --bind "$cache/apt" "$root/var/cache/apt/archives"
  for home in root home/dev; do
    owner=$(stat -c %u:%g "$root/$home")
    mkdir -p "$cache/$home/mod" "$cache/$home/m2" "$root/$home"/{go/pkg/mod,.m2/repository,.config/go}
    mount --bind "$cache/$home/mod" "$root/$home/go/pkg/mod"
    mount --bind "$cache/$home/m2" "$root/$home/.m2/repository"
    cp "$(go env GOENV)" "$root/$home/.config/go/env" 2>/dev/null || true
    cp "$HOME/.m2/settings.xml" "$root/$home/.m2/" 2>/dev/null || true
    git clone -q --no-hardlinks "$PWD" "$root/$home/rfsd"
    chown -R "$owner" "$root/$home"/{go,.m2,.config,rfsd}
  done
}

# in_root NAME USER COMMAND: runs it in the clone with a clean environment.
in_root() {
  local root=$work/$1 user=0 home=/root variable pass=()
  [ "$2" = root ] || { home=/home/$2; user=$(stat -c %u "$root$home"); }
  for variable in GOPROXY GOSUMDB GONOSUMDB GONOPROXY GOPRIVATE GOINSECURE HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy \
    no_proxy SSL_CERT_FILE SSL_CERT_DIR GIT_SSL_CAINFO CURL_CA_BUNDLE MAVEN_OPTS MAVEN_ARGS JAVA_TOOL_OPTIONS; do
    [ -z "${!variable:-}" ] || pass+=("$variable=${!variable}")
  done
  chroot --userspec="$user:$user" --groups="$user" "$root" env -i "${pass[@]}" HOME="$home" USER="$2" LANG=C.UTF-8 \
    PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    bash -c "cd '$home/rfsd' && $3"
}

# refused NAME USER COMMAND PATTERN: the command has to fail and to state the remedy.
refused() {
  local out
  if out=$(in_root "$1" "$2" "$3" 2>&1); then
    printf '%s\nit passed, and should have named what is missing\n' "$out"
    return 1
  fi
  printf '%s\n' "$out"
  case $out in *"$4"*) ;; *) echo "it does not state: $4"; return 1 ;; esac
}

# as_first: what a newcomer does first, each command by its time.
as_first() {
  step "first: prepared" prepare c || return
  step "first: make build" in_root c root "make build" || true
  step "first: make demo" in_root c root "make demo" || true
  step "first: make demo TARGET=opensearch without Java names the command" \
    refused c root "make demo TARGET=opensearch" "run as root: testing/setup.sh packages" || true
  step "first: testing/setup.sh packages" in_root c root "testing/setup.sh packages" || true
  step "first: make demo TARGET=opensearch" in_root c root "make demo TARGET=opensearch" || true
}

as_root() {
  step "root: prepared" prepare a || return
  step "root: make demo" in_root a root "make demo" || true
  step "root: make demo TARGET=opensearch without Java names the command" \
    refused a root "make demo TARGET=opensearch" "run as root: testing/setup.sh packages" || true
  step "root: make test" in_root a root "make test" || true
}

as_user() {
  local line
  step "user: prepared" prepare b || return
  step "user: make demo" in_root b dev "make demo" || true
  step "user: make test names one command for root" refused b dev "make test" "setup: run once as root: " || true
  line=$(sed -n 's/^setup: run once as root: //p' "$logs"/*user--make-test-names-one-command* | tail -1)
  step "user: root runs: ${line:-nothing, for nothing was printed}" in_root b root "${line:-false}" || true
  step "user: make test" in_root b dev "make test" || true
}

begin=$SECONDS
echo "fresh: $(git log --oneline -1); caches in $cache; logs in $logs"
if step "debootstrap $suite" bootstrap; then
  for part in ${FRESHPARTS:-root user}; do
    "as_$part" || true
  done
fi
for log in "$logs"/*make-test*.log; do
  [ -e "$log" ] || continue
  echo
  echo "${log##*/}:"
  awk '/^make test: /{on=1} /^make(\[|:)/{on=0} on' "$log"
done
echo
printf '%s\n' "${summary[@]}"
printf 'fresh: %s after %d min; logs in %s\n' "$([ "$failed" = 0 ] && echo passed || echo FAILED)" $(((SECONDS - begin) / 60)) "$logs"
exit "$failed"
