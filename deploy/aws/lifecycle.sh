#!/bin/bash
# Waits until the group or the spot market takes this instance away, then stops the daemon, which hands
# every lease off within 30 s, and lets the group go on. Only this node drains: `rfsctl drain` without a name is for all.
set -euo pipefail
METADATA=${RFSD_METADATA:-http://169.254.169.254}
EVERY=${RFSD_METADATA_EVERY:-5}

# metadata PATH prints a value of the instance's metadata, or nothing where there is none.
metadata() {
  local token
  token=$(curl -sf -m 2 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$METADATA/latest/api/token") || return 0
  curl -sf -m 2 -H "X-aws-ec2-metadata-token: $token" "$METADATA/latest/meta-data/$1" || true
}

until [ "$(metadata autoscaling/target-lifecycle-state)" = Terminated ] || [ -n "$(metadata spot/instance-action)" ]; do
  sleep "$EVERY"
done
echo "this instance is being taken away: rfsd hands its work over"
systemctl stop rfsd.service
# A spot interruption outside the group's own termination has no action to complete.
aws autoscaling complete-lifecycle-action --lifecycle-hook-name rfsd-hand-over --auto-scaling-group-name rfsd \
  --lifecycle-action-result CONTINUE --instance-id "$(metadata instance-id)" --region "$(metadata placement/region)" || true
systemctl stop rfsd-lifecycle.service
