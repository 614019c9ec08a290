#!/bin/sh
set -e
# "purge" with dpkg; rpm has no such step, and its files of configuration and state stay.
if [ "$1" = purge ]; then
  rm -rf /etc/rfsd /var/lib/rfsd
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
