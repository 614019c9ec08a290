#!/bin/sh
set -e
# "remove" with dpkg, "0" with rpm: an upgrade restarts the service afterwards instead.
case "$1" in
  remove | 0)
    if [ -d /run/systemd/system ]; then
      systemctl disable --now rfsd.service || true
    fi
    ;;
esac
