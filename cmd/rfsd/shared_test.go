package main

import (
	"slices"
	"testing"
)

// TestEachSettingIsTheFleetsOrTheNodes lists those of the fleet: whoever adds an option decides here what it is. docs/FLEET.md
// says it to users.
func TestEachSettingIsTheFleetsOrTheNodes(t *testing.T) {
	want := []string{
		"repo-uri", "remote-store-uri", "snapshot-name", "s3-region", "s3-endpoint", "s3-path-style", "s3-role-arn", "s3-requester-pays", "allow-partial", "verify-first",
		"source-host", "source-username", "source-insecure", "source-aws-sigv4", "source-aws-region", "source-aws-service", "source-aws-role-arn",
		"snapshot-repo-name", "source-repo-type", "source-repo-location", "source-repo-setting", "snapshot-max-rate", "without-global-state", "snapshot-no-wait", "retry-snapshot",
		"tune-target", "ignore-disks", "run-pipelines", "disable-compression",
		"phases", "index-allowlist", "template-allowlist", "component-template-allowlist", "index-template-allowlist", "include", "rules-text", "rules", "aliases", "replicas",
		"shards", "index-rename", "without-rule", "include-system", "data-streams", "multi-type", "emit-doc-type",
		"documents-per-bulk-request", "documents-size-per-bulk-request", "max-connections", "max-rate", "first", "index-priority", "max-failed-documents", "unavailable-timeout",
		"initial-lease-duration", "clock-skew-tolerance",
	}
	var is []string
	for _, f := range runFlags() {
		if isShared(f) {
			is = append(is, f.Names()[0])
		}
	}
	slices.Sort(want)
	slices.Sort(is)
	for _, name := range is {
		if !slices.Contains(want, name) {
			t.Errorf("--%s is told to the fleet: is it the same for all nodes, and no secret?", name)
		}
	}
	for _, name := range want {
		if !slices.Contains(is, name) {
			t.Errorf("--%s is not told to the fleet", name)
		}
	}
}

func TestAValueWithASecretInItIsNotTold(t *testing.T) {
	for value, secret := range map[string]bool{
		"http://old:9200": false, "http://me:word@old:9200": true, "s3://bucket/prefix": false, "file:///mnt/x": false, "logs-*=3": false,
		"role_arn=arn:aws:iam::1:role/x": false, "secret_key=abc": true, "ACCESS_KEY=abc": true, "": false, "^logs-(.*)$=old-$1": false,
	} {
		if holdsSecret(value) != secret {
			t.Errorf("%q: %v", value, !secret)
		}
	}
}
