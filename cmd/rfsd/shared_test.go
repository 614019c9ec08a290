package main

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/daemon/sharing"
)

// TestEachSettingIsTheFleetsOrTheNodes lists those of the fleet: an option that is added is decided on here. docs/FLEET.md
// says it to users.
func TestEachSettingIsTheFleetsOrTheNodes(t *testing.T) {
	want := []string{
		"repo-uri", "remote-store-uri", "snapshot-name", "s3-region", "s3-endpoint", "s3-path-style", "s3-role-arn", "s3-requester-pays", "gcs-endpoint", "azure-account", "azure-endpoint", "max-read-rate", "allow-partial", "verify-first",
		"source-host", "source-username", "source-aws-sigv4", "source-aws-region", "source-aws-service", "source-aws-role-arn",
		"snapshot-repo-name", "source-repo-type", "source-repo-location", "source-repo-setting", "snapshot-max-rate", "without-global-state", "snapshot-no-wait", "retry-snapshot",
		"tune-target", "no-tune-target", "ignore-disks", "run-pipelines", "existing-documents", "disable-compression",
		"rebuild-text-from-terms",
		"phases", "index-allowlist", "index-exclude", "template-allowlist", "component-template-allowlist", "index-template-allowlist", "include", "rules-text", "rules", "aliases", "replicas",
		"shards", "index-rename", "without-rule", "include-system", "data-streams", "multi-type", "parent-join", "rebuild-sources", "duplicate-keys", "emit-doc-type",
		"documents-per-bulk-request", "documents-size-per-bulk-request", "max-connections", "max-rate", "target-max-latency", "max-document-size", "first", "index-priority", "split-shards-over", "max-failed-documents", "failed-documents-content", "unavailable-timeout",
		"initial-lease-duration", "max-lease-duration", "max-item-attempts", "clock-skew-tolerance",
		"brokers", "topic", "group", "format", "index-name", "start", "partition-lease", "fetch-size", "max-batch-size",
		"from", "create-indices", "window-size", "window-lease", "max-attempts",
		"follow", "every", "stop-following", "delete-indices", "block-source-writes",
	}
	var is []string
	for _, s := range config.Settings(config.Run{}) {
		if sharing.ClassOf(s.Name, nil) != sharing.Own {
			is = append(is, s.Name)
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

// TestNothingSecretIsTold gives every option that is secret, or names a file of this machine, the same value, and searches the settings
// shared with the fleet for it.
func TestNothingSecretIsTold(t *testing.T) {
	const canary = "canary-8b07"
	var secret []string
	values := config.Values{}
	for _, s := range config.Settings(config.Run{}) {
		ofMachine := slices.ContainsFunc([]string{"-file", "-cacert", "-client-cert", "-client-cert-key", "-dir", "-keys"}, func(end string) bool { return strings.HasSuffix(s.Name, end) })
		ofMachine = ofMachine && s.Name != "duplicate-keys" // those of documents
		if s.Kind != config.Text && s.Kind != config.List || !s.Secret && !ofMachine {
			continue
		}
		secret = append(secret, s.Name)
		values[s.Name] = []string{canary}
	}
	for name, value := range map[string]string{"repo-uri": "s3://bucket/prefix", "source-host": "https://me:" + canary + "@old:9200", "source-repo-setting": "secret_key=" + canary} {
		values[name] = []string{value}
	}
	told, err := sharedSettings(values, config.Settings(config.Run{}), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if s := fmt.Sprint(told); strings.Contains(s, canary) || !strings.Contains(s, "s3://bucket/prefix") {
		t.Errorf("the fleet is told %s", s)
	}
	for _, name := range []string{"target-password", "target-password-file", "source-password", "coordinator-password", "target-client-cert-key", "webhook-file", "gossip-keys"} {
		if !slices.Contains(secret, name) {
			t.Errorf("--%s was not looked at", name)
		}
	}
}
