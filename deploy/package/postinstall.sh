#!/bin/sh
set -e
if command -v systemd-sysusers >/dev/null 2>&1; then
  systemd-sysusers /usr/lib/sysusers.d/rfsd.conf
else
  getent group rfsd >/dev/null || groupadd --system rfsd
  getent group rfsd-operators >/dev/null || groupadd --system rfsd-operators
  getent passwd rfsd >/dev/null || useradd --system --gid rfsd --groups rfsd-operators --home-dir /var/lib/rfsd --no-create-home --shell /usr/sbin/nologin rfsd
fi
# systemd-tmpfiles needs /proc, which an image that is being built may not have.
if ! systemd-tmpfiles --create /usr/lib/tmpfiles.d/rfsd.conf 2>/dev/null; then
  install -d -m 0750 -o root -g rfsd /etc/rfsd /etc/rfsd/tls
  install -d -m 0750 -o rfsd -g rfsd /var/lib/rfsd
fi
# The service is not started: it has no configuration yet. After an upgrade it goes on with the new program.
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart rfsd.service
fi
