package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/config"
)

// TestEveryFlagOfANodeIsAKeyOfTheFile: what no section has is named here.
func TestEveryFlagOfANodeIsAKeyOfTheFile(t *testing.T) {
	var outside []string
	for _, s := range config.Settings(config.Run{}) {
		if s.Section == "" {
			outside = append(outside, s.Name)
		}
	}
	slices.Sort(outside)
	if want := []string{"config", "output", "rules-text", "share-settings", "slots"}; !slices.Equal(outside, want) {
		t.Errorf("in no section: %q, want %q", outside, want)
	}
}

func TestDefaultsFormsAndBoundsAreThoseOfTheirSettings(t *testing.T) {
	var m config.Migrate
	values := config.Values{"repo-uri": {"/repo"}, "snapshot-name": {"s"}, "discard": {"true"}}
	if err := config.Decode(values, &m); err != nil {
		t.Fatal(err)
	}
	if b := m.Transfer.Bulk; b.Size.Bytes != 5<<20 || b.Connections != 8 || b.MaxRate != 0 || m.Transfer.Failed.Limit.Max != 1000 || m.Transfer.Slots.Number < 1 ||
		m.Leases.Initial.Minutes() != 10 || m.Leases.Skew.Tolerance.Seconds() != 15 || m.Transfer.Types.Emit != "AUTO" || m.Transfer.Output.Format != "text" {
		t.Errorf("%+v", m)
	}
	for _, c := range []struct{ name, text, want string }{
		{"slots", "65", "want a whole number, from 0 to 64"},
		{"slots", "many", "want a whole number, from 0 to 64"},
		{"initial-lease-duration", "1ms", "want a duration such as 10m or PT10M, from 1s to 6h"},
		{"max-rate", "fast", "want bytes per second with a unit, such as 20MiB or 20MB (0: no limit)"},
		{"max-rate", "20", "want bytes per second with a unit, such as 20MiB"},
		{"max-read-rate", "20", "want bytes per second with a unit, such as 20MiB"},
		{"documents-size-per-bulk-request", "1GB5", "want a size with its unit"},
		{"documents-size-per-bulk-request", "5242880", "want a size with its unit, such as 5MiB or 5MB, from 1KiB to 1GiB"},
		{"max-document-size", "209715200", "want a size such as 100MiB or 256MB"},
		{"documents-size-per-bulk-request", "2GiB", "from 1KiB to 1GiB"},
		{"discard", "maybe", "want true or false"},
		{"target-host", "localhost:9200", "want a URL such as https://localhost:9200"},
		{"data-streams", "both", "want index or create"},
		{"include", "all", "want pipelines, scripts, policies, attachments or managed"},
		{"repo-uri", "ftp://x", "want a path, file:///path, s3://bucket/prefix, gs://bucket/prefix, azblob://container/prefix, or https://host/path"},
		{"target-cacert", "/nowhere/ca.pem", "no such file"},
		{"index-allowlist", "regex:(", "regex:("},
		{"export-dir", "ftp://bucket/exports", "want a path, file:///path, s3://bucket/prefix, gs://bucket/prefix, or azblob://container/prefix"},
		{"export-dir", "s3:///exports", "want a path"},
	} {
		t.Run(c.name+" "+c.text, func(t *testing.T) {
			err := config.Decode(config.Values{c.name: {c.text}}.Over(values), &config.Migrate{})
			if err == nil || !strings.Contains(err.Error(), "invalid --"+c.name) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func TestAPasswordIsNeverInAMessage(t *testing.T) {
	s, _ := config.Find(config.Settings(config.Migrate{}), "target-password")
	if err := s.Valid([]string{"canary", "canary"}); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("%v", err)
	}
	host, _ := config.Find(config.Settings(config.Migrate{}), "target-host")
	if err := host.Valid([]string{"ftp://user:canary@host"}); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("%v", err)
	}
}
