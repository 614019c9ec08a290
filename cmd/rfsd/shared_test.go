package main

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/daemon/config"
	"github.com/rfsd/rfsd/daemon/sharing"
	"github.com/rfsd/rfsd/rfs/secret"
)

// TestEachSettingIsTheFleetsOrTheNodes lists those of the fleet: whoever adds an option decides here what it is. docs/FLEET.md
// says it to users.
func TestEachSettingIsTheFleetsOrTheNodes(t *testing.T) {
	want := []string{
		"repo-uri", "remote-store-uri", "snapshot-name", "s3-region", "s3-endpoint", "s3-path-style", "s3-role-arn", "s3-requester-pays", "allow-partial", "verify-first",
		"source-host", "source-username", "source-aws-sigv4", "source-aws-region", "source-aws-service", "source-aws-role-arn",
		"snapshot-repo-name", "source-repo-type", "source-repo-location", "source-repo-setting", "snapshot-max-rate", "without-global-state", "snapshot-no-wait", "retry-snapshot",
		"tune-target", "ignore-disks", "run-pipelines", "disable-compression",
		"phases", "index-allowlist", "index-exclude", "template-allowlist", "component-template-allowlist", "index-template-allowlist", "include", "rules-text", "rules", "aliases", "replicas",
		"shards", "index-rename", "without-rule", "include-system", "data-streams", "multi-type", "emit-doc-type",
		"documents-per-bulk-request", "documents-size-per-bulk-request", "max-connections", "max-rate", "first", "index-priority", "max-failed-documents", "unavailable-timeout",
		"initial-lease-duration", "clock-skew-tolerance",
		"from", "create-indices", "window-size", "window-lease", "max-attempts",
	}
	var is []string
	for _, f := range runFlags() {
		if sharing.ClassOf(f.Names()[0]) != sharing.Own {
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

// TestNothingSecretIsTold gives every option that is secret, or names a file of this machine, the same value, and
// looks for it in what the fleet is told.
func TestNothingSecretIsTold(t *testing.T) {
	const canary = "canary-8b07"
	var looked []string
	app := &cli.App{Flags: runFlags(), Action: func(c *cli.Context) error {
		for _, f := range runFlags() {
			name := f.Names()[0]
			ofMachine := slices.ContainsFunc([]string{"-file", "-cacert", "-client-cert", "-client-cert-key", "-dir", "-keys"}, func(end string) bool { return strings.HasSuffix(name, end) })
			if kindOf(f) != config.Text && kindOf(f) != config.List || !secret.Option(name) && !ofMachine {
				continue
			}
			looked = append(looked, name)
			if err := setOption(c, name, []string{canary}); err != nil {
				return err
			}
		}
		for name, value := range map[string]string{"repo-uri": "s3://bucket/prefix", "source-host": "https://me:" + canary + "@old:9200", "source-repo-setting": "secret_key=" + canary} {
			if err := setOption(c, name, []string{value}); err != nil {
				return err
			}
		}
		told, err := sharedSettings(c, runFlags(), slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		if s := fmt.Sprint(told); strings.Contains(s, canary) || !strings.Contains(s, "s3://bucket/prefix") {
			t.Errorf("the fleet is told %s", s)
		}
		return nil
	}}
	if err := app.Run([]string{"rfsd"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"target-password", "target-password-file", "source-password", "coordinator-password", "target-client-cert-key", "webhook-file", "gossip-keys"} {
		if !slices.Contains(looked, name) {
			t.Errorf("--%s was not looked at", name)
		}
	}
}
