#!/usr/bin/env bash
# setup.sh: sees to it that the JDKs and Maven that the tests with real servers need are here.
#
# Elasticsearch up to 8 and OpenSearch up to 2 run on JDK 17 (2.4 to 7 on no newer one: they need the
# security manager or old class files), OpenSearch 3 on 21 or later, Elasticsearch 9 on 21 or later.
# On Debian and Ubuntu as root it installs what is missing; otherwise it prints the one command to run.
set -euo pipefail

# jdk_of HOME prints the major version of the JDK (with a compiler) at HOME, or nothing.
jdk_of() {
  [ -x "$1/bin/java" ] && [ -x "$1/bin/javac" ] || return 0
  # The release file spares starting a JVM.
  sed -n 's/^JAVA_VERSION="\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' "$1/release" 2>/dev/null | head -1
}

# have LOW HIGH: is a JDK with LOW <= version <= HIGH installed?
have() {
  local home version
  for home in ${JAVA_HOME:+"$JAVA_HOME"} /usr/lib/jvm/*/ /opt/*jdk*/ /opt/*java*/ /Library/Java/JavaVirtualMachines/*/Contents/Home/; do
    version=$(jdk_of "${home%/}")
    if [ -n "$version" ] && [ "$version" -ge "$1" ] && [ "$version" -le "$2" ]; then
      return 0
    fi
  done
  return 1
}

# what_is_missing sets the global list of what to install, as names that mean something to apt below.
what_is_missing() {
  missing=()
  have 17 20 || missing+=(jdk17)
  have 21 99 || missing+=(jdk21)
  command -v mvn >/dev/null || missing+=(maven)
}

# first_known PACKAGE...: the first package that apt can install.
first_known() {
  local p
  for p in "$@"; do
    if apt-cache policy "$p" 2>/dev/null | grep -q 'Candidate: [^(]'; then
      echo "$p"
      return 0
    fi
  done
  return 1
}

# packages turns the list of what is missing into Debian packages; what apt does not know is left out.
packages() {
  local m
  for m in "${missing[@]}"; do
    case $m in
      jdk17) first_known openjdk-17-jdk-headless temurin-17-jdk || true ;;
      jdk21) first_known openjdk-25-jdk-headless openjdk-21-jdk-headless temurin-25-jdk temurin-21-jdk || true ;;
      maven) first_known maven || true ;;
    esac
  done
}

# complain says by name what will not run.
complain() {
  local m
  for m in "${missing[@]}"; do
    case $m in
      jdk17) echo "missing: a JDK 17. Not run: every test against Elasticsearch 2.4 to 8.19 and OpenSearch 1.3 and 2.19, make bench." ;;
      jdk21) echo "missing: a JDK 21 or later. Not run: tests against OpenSearch 3.8 and Elasticsearch 9.5." ;;
      maven) echo "missing: Maven (mvn). Not run: every test with a real server, make bench, make fixtures." ;;
    esac
  done
}

# browser installs Chromium for the test of the status page, where that needs nobody's leave. Without
# it that one test is not run, and says so.
browser() {
  command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null && return 0
  if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "setup: installing chromium"
    apt-get update -qq || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null && return 0
  fi
  echo "missing: chromium. Not run: the status page in a real browser." >&2
}
browser || true

what_is_missing
[ ${#missing[@]} -eq 0 ] && exit 0

if command -v apt-get >/dev/null; then
  if [ "$(id -u)" = 0 ]; then
    echo "setup: installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || echo "setup: apt-get update failed, going on with the lists that are here" >&2
    mapfile -t install < <(packages)
    if [ ${#install[@]} -gt 0 ]; then
      apt-get install -y -qq --no-install-recommends "${install[@]}" >/dev/null || echo "setup: apt-get install ${install[*]} failed" >&2
    fi
    what_is_missing
  else
    mapfile -t install < <(packages)
    [ ${#install[@]} -eq 0 ] || echo "setup: run: sudo apt-get install -y ${install[*]}" >&2
  fi
elif command -v brew >/dev/null; then
  echo "setup: run: brew install openjdk@17 openjdk@21 maven" >&2
else
  echo "setup: install a JDK 17, a JDK 21 or later, and Maven with the package manager of this system" >&2
fi

if [ ${#missing[@]} -gt 0 ]; then
  complain >&2
  # A newer JDK is missing on some releases; that alone stops nothing but what is named above.
  [ "${missing[*]}" = jdk21 ] || exit 1
fi
