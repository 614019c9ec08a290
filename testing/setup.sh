#!/usr/bin/env bash
# setup.sh [packages|stores|lacking]: installs what `make test` needs beside Go, make and git.
#
# As root on Debian and Ubuntu it installs the packages that are missing and names each. Otherwise it prints the one
# command that root has to run. Then it installs the S3 server of the tests (a Go program) and axe-core (with npm) for the
# calling user. `setup.sh packages` leaves these out; `setup.sh lacking` only prints which needs this distribution has no
# package for. `setup.sh stores` installs the servers of Google Cloud Storage (fake-gcs-server, a Go program) and Azure Blob
# Storage (Azurite, which needs Node.js with npm) and a collector of OpenTelemetry, in some minutes: the tests with these do not run
# without them.
#
# Exit 1 when something is missing that is needed, unless it is a single JDK that the distribution has no package of.
# What is missing is named with what cannot run.
#
# Elasticsearch up to 8 and OpenSearch up to 2 run on JDK 17 (2.4 to 7 on no newer one: they need the security manager
# or old class files), OpenSearch 3 and Elasticsearch 9 on 21 or later.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
go=${GO:-go}
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

# Without the first ones `make test` stops; without the others single tests do not run.
required=(cc jdk17 jdk21 maven)
optional=(browser curl)

# candidates NEED: groups of Debian packages; of each group the first that apt knows is installed.
candidates() {
  case $1 in
    cc) echo "gcc libc6-dev" ;;
    jdk17) echo "openjdk-17-jdk-headless|temurin-17-jdk" ;;
    jdk21) echo "openjdk-25-jdk-headless|openjdk-21-jdk-headless|temurin-25-jdk|temurin-21-jdk" ;;
    maven) echo "maven" ;;
    browser) echo "chromium" ;;
    curl) echo "curl" ;;
  esac
}

# without NEED: what does not run.
without() {
  case $1 in
    cc) echo "a C compiler with the headers of libc. Not run: make race (the race detector needs cgo)." ;;
    jdk17) echo "a JDK 17. Not run: every test against Elasticsearch 2.4 to 8.19 and OpenSearch 1.3 and 2.19, make bench, make demo TARGET=opensearch." ;;
    jdk21) echo "a JDK 21 or later. Not run: tests against OpenSearch 3.8 and Elasticsearch 9.5; their snapshots are read all the same." ;;
    maven) echo "Maven (mvn). Not run: every test with a real server, make bench, make fixtures, make demo TARGET=opensearch." ;;
    browser) echo "Chromium. Not run: the status page in a real browser." ;;
    curl) echo "curl. Not run: the lifecycle hook of deploy/aws." ;;
  esac
}

present() {
  case $1 in
    cc) "${CC:-gcc}" -fsyntax-only -x c - <<<'#include <stdlib.h>' 2>/dev/null ;;
    jdk17) have_jdk 17 20 ;;
    jdk21) have_jdk 21 99 ;;
    maven) command -v mvn >/dev/null ;;
    browser) command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ;;
    curl) command -v curl >/dev/null ;;
  esac
}

# jdk_homes prints the directories that may be JDKs, one a line, in the order of testing/cluster.
jdk_homes() {
  local pattern
  [ -z "${JAVA_HOME:-}" ] || echo "$JAVA_HOME"
  { if [ -n "${RFSD_JDKS:-}" ]; then tr ':' '\n' <<<"$RFSD_JDKS"; else cat "$here/cluster/jdks.txt"; fi; } |
    while read -r pattern; do
      case $pattern in ''|'#'*) ;; *) { compgen -G "$pattern" || true; } | sort ;; esac
    done
}

# have_jdk LOW HIGH: is a JDK (with a compiler) with LOW <= version <= HIGH installed?
have_jdk() {
  local home version
  while read -r home; do
    [ -e "$home/bin/javac" ] || continue
    # The release file spares starting a JVM.
    version=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$home/release" 2>/dev/null || true)
    if [ -n "$version" ] && [ "$version" -ge "$1" ] && [ "$version" -le "$2" ]; then
      return 0
    fi
  done <<<"$(jdk_homes)"
  return 1
}

# missing NEED...: those that are not here.
missing() {
  local need
  for need in "$@"; do
    present "$need" || echo "$need"
  done
}

# first_known PACKAGE|PACKAGE...: the first package that apt can install, or nothing.
first_known() {
  local p policy
  for p in ${1//|/ }; do
    # The answer is read whole: a reader that leaves early ends apt-cache by SIGPIPE, and pipefail makes that a "no".
    policy=$(apt-cache policy "$p" 2>/dev/null || true)
    case $policy in
      *'Candidate: ('*) ;;
      *'Candidate: '*) echo "$p"; return 0 ;;
    esac
  done
}

# packages NEED: its Debian packages; fails when apt does not know one of them.
packages() {
  local group found
  for group in $(candidates "$1"); do
    found=$(first_known "$group")
    [ -n "$found" ] || return 1
    echo "$found"
  done
}

apt() { command -v apt-get >/dev/null; }

# lacking NEED...: those of them that are not here and that the distribution has no package for.
lacking() {
  local need
  for need in $(missing "$@"); do
    if apt && ! packages "$need" >/dev/null; then
      echo "$need"
    fi
  done
}

install() {
  local need found wanted=()
  echo "setup: apt-get update"
  apt-get update -qq || echo "setup: apt-get update failed, going on with the lists that are here" >&2
  for need in "$@"; do
    if found=$(packages "$need"); then
      echo "setup: $need: installing" $found
      wanted+=($found)
    else
      echo "setup: $need: this distribution has no package of it"
    fi
  done
  if [ ${#wanted[@]} -gt 0 ]; then
    apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null || echo "setup: apt-get install ${wanted[*]} failed" >&2
  fi
}

mode=${1:-all}
if [ "$mode" = stores ]; then
  cd "$here/.."
  exec "$go" run -buildvcs=false ./testing/objectserver/fetch all
fi
case $mode in
  lacking) lacking jdk17 jdk21; exit 0 ;;
  all|packages) ;;
  *) echo "usage: $0 [packages|lacking]" >&2; exit 2 ;;
esac

mapfile -t absent < <(missing "${required[@]}" "${optional[@]}")
if [ ${#absent[@]} -gt 0 ] && apt && [ "$(id -u)" = 0 ]; then
  install "${absent[@]}"
  mapfile -t absent < <(missing "${required[@]}" "${optional[@]}")
fi

# Distributions lack single JDKs, nothing else: a compiler or Maven that apt does not know is a fault of its lists.
mapfile -t never < <(lacking jdk17 jdk21 "${optional[@]}")
if [[ " ${never[*]-} " == *" jdk17 jdk21 "* ]]; then
  never=()
fi
code=0 obtainable=0
for need in ${absent[@]+"${absent[@]}"}; do
  if [[ " ${never[*]-} " == *" $need "* ]]; then
    echo "missing, and no package of this distribution: $(without "$need")" >&2
    continue
  fi
  echo "missing: $(without "$need")" >&2
  obtainable=1
  [[ " ${required[*]} " != *" $need "* ]] || code=1
done
if [ "$obtainable" = 1 ]; then
  if apt && [ "$(id -u)" != 0 ]; then
    echo "setup: run once as root: $here/setup.sh packages" >&2
  elif command -v brew >/dev/null; then
    echo "setup: run: brew install openjdk@17 openjdk@21 maven" >&2
  elif ! apt; then
    echo "setup: install a C compiler, a JDK 17, a JDK 21 or later, and Maven with the package manager of this system" >&2
  fi
fi
if [ "$code" = 0 ] && [ "$mode" = all ]; then
  (cd "$here/.." && "$go" run -buildvcs=false ./testing/objectserver/fetch) || true # it names what is missing
  if command -v npm >/dev/null; then
    (cd "$here/.." && "$go" run -buildvcs=false ./testing/browser/fetch) || echo "missing: axe-core. Not run: the status page under axe-core." >&2
  else
    echo "missing: npm, to fetch axe-core. Not run: the status page under axe-core." >&2
  fi
fi
exit "$code"
