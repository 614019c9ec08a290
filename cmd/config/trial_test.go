package config_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/migration/phase"
)

func TestWhatATrialRunRefuses(t *testing.T) {
	price := filepath.Join(t.TempDir(), "price.toml")
	if err := os.WriteFile(price, []byte("egress-per-gb = 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	given := func(more ...string) config.Values {
		v := config.Values{"repo-uri": {"/backup"}, "snapshot-name": {"s"}, "target-host": {"http://127.0.0.1:9200"}, "trial": {"100"}}
		for i := 0; i < len(more); i += 2 {
			if delete(v, more[i]); more[i+1] != "" {
				v[more[i]] = []string{more[i+1]}
			}
		}
		return v
	}
	for _, c := range []struct {
		name  string
		given config.Values
		says  string // "": accepted
	}{
		{"all that it needs", given("price", price, "trial-prefix", "x"), ""},
		{"no trial run", given("trial", ""), ""},
		{"a price without a trial run", given("trial", "", "price", price), "--price"},
		{"files", given("target-host", "", "export-dir", "out"), "--target-host"},
		{"nothing", given("target-host", "", "discard", "true"), "--target-host"},
		{"a snapshot that is made", given("snapshot-name", "", "source-host", "http://127.0.0.1:9201"), "--snapshot-name"},
		{"a comparison", given("verify", "true"), "--verify"},
		{"phases", given("phases", "documents"), "--phases"},
		{"a prefix that no index may have", given("trial-prefix", "-x"), "--trial-prefix"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m config.MigrateCommand
			err := config.Decode(c.given, &m)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestATrialRunSharesNothingWithItsMigration(t *testing.T) {
	var m config.Migrate
	m.Transfer.State.Session.Name, m.Transfer.State.File = "move-1", "/state/move.db"
	m.Transfer.Failed.Place.Dir, m.Transfer.Failed.Limit.Max, m.Conversion.DataStreams = "s3://bucket/failed/", 5, "create"
	of, err := config.Trial{Documents: 5}.Of(m)
	if err != nil {
		t.Fatal(err)
	}
	is := of.Transfer
	if is.State.Session.Name != "move-1-trial" || is.State.File != "/state/move.db.trial" || is.Failed.Place.Dir != "s3://bucket/failed-trial" || is.Failed.Limit.Max != math.MaxInt64 {
		t.Errorf("%+v", is)
	}
	if of.Conversion.DataStreams != "index" || !slices.Equal(of.Conversion.Phases, config.Phases{phase.PhaseIndices, phase.PhaseDocuments}) {
		t.Errorf("%+v", of.Conversion)
	}
	c := config.Cleanup{Trial: config.TrialOnly{Only: true}}
	c.Stored.State, c.Stored.Target.Cluster.Host = m.Transfer.State, "http://127.0.0.1:9200"
	if err := c.Check(); err != nil || c.Stored.State.Session.Name != is.State.Session.Name || c.Stored.State.File != is.State.File {
		t.Errorf("cleanup: %+v, %v", c.Stored.State, err)
	}
	if c = (config.Cleanup{Trial: config.TrialOnly{Only: true}}); c.Check() == nil {
		t.Error("a cleanup without a target was accepted")
	}
	m.Transfer.State.Session.Name = strings.Repeat("x", 59)
	if _, err := (config.Trial{}).Of(m); err == nil || !strings.Contains(err.Error(), "at most 58") {
		t.Errorf("%v", err)
	}
	m.Transfer.State.Session.Name = ""
	if of, err := (config.Trial{}).Of(m); err != nil || of.Transfer.State.Session.Name != "default-trial" {
		t.Errorf("%+v, %v", of.Transfer.State, err)
	}
}
