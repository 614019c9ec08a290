#!/bin/bash
# User data of a node: installs the package that the image or a bucket holds, writes the configuration
# and starts. Nothing here is a secret: requests to S3 and to the domain are signed with the instance's role.
set -euo pipefail
dpkg -i /opt/rfsd/rfsd.deb || rpm -U --force /opt/rfsd/rfsd.rpm
install -m 0640 -g rfsd /dev/null /etc/rfsd/rfsd.toml
cat > /etc/rfsd/rfsd.toml <<'CONFIG'
[source]
repo-uri = "s3://SNAPSHOT_BUCKET/SNAPSHOT_PREFIX"
snapshot-name = "SNAPSHOT"

[target]
target-host = "https://DOMAIN_ENDPOINT"
target-aws-sigv4 = true

[coordination]
session-name = "production"

[daemon]
workers = "auto"
CONFIG
install -m 0755 /usr/share/rfsd/aws/lifecycle.sh /usr/local/sbin/rfsd-lifecycle
install -m 0644 /usr/share/rfsd/aws/rfsd-lifecycle.service /etc/systemd/system/rfsd-lifecycle.service
systemctl daemon-reload
systemctl enable --now rfsd.service rfsd-lifecycle.service
