package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// TestFailures_OfOneProcessAreKnownFromTheStore has a session of one process, whose failed documents are in its own directory.
func TestFailures_OfOneProcessAreKnownFromTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	change := func(do func(c *cms.Coordinator)) {
		store, err := boltcms.Open(path, time.Now)
		must(t, err)
		c := cms.New(cms.Config{Store: store, Creator: "test"})
		do(c)
		must(t, store.Close())
	}
	change(func(c *cms.Coordinator) {
		_, err := session.EntriesOf(c).Create(t.Context(), session.IndexEntry{Name: "weblogs", Shards: 1, Body: json.RawMessage(`{"naming":{"index":"weblogs"}}`)})
		must(t, err)
		seed, err := c.AcquireSetup(t.Context(), "seeder")
		must(t, err)
		_, err = c.SeedItems(t.Context(), slices.Values([]cms.ItemID{{Index: "weblogs"}}))
		must(t, err)
		must(t, seed.Complete(t.Context(), cms.Work{}))
		l, err := c.AcquireNext(t.Context(), "worker", nil)
		must(t, err)
		must(t, l.Complete(t.Context(), cms.Work{Counts: cms.Counts{Ordinals: 159, Live: 159, Indexed: 53, Failed: 106}}))
		sums := []session.FailedSum{{Index: "weblogs", Class: "strict_mapping", Reason: "strict_dynamic_mapping_exception", Remedy: "allow it", Count: 60}}
		must(t, session.PlacesOf(c).Keep(t.Context(), "p1", session.FailedAt{Host: "vm", Place: "/srv/rfsd-failed/rej", Sums: sums}))
		sums[0].Count = 46
		must(t, session.PlacesOf(c).Keep(t.Context(), "p2", session.FailedAt{Host: "vm", Place: "/srv/rfsd-failed/rej", Sums: sums}))
	})
	check := func(code int, failed, redriven int64, text ...string) {
		t.Helper()
		got, out, errs := rfsctl(t, "failures", "--coordinator-file", path)
		if got != code {
			t.Errorf("exit %d, want %d: %s%s", got, code, out, errs)
		}
		for _, part := range text {
			if !strings.Contains(out, part) {
				t.Errorf("%q is not in\n%s", part, out)
			}
		}
		got, out, errs = rfsctl(t, "failures", "--coordinator-file", path, "--output", "json")
		var f status.Failures
		if err := outputtest.Decode(out, &f); err != nil || got != code || f.Failed != failed || f.Redriven != redriven || len(f.Places) != 1 {
			t.Errorf("exit %d, %v: %s%s", got, err, out, errs)
		}
	}
	check(6, 106, 0, "106 documents failed\n  kept in vm:/srv/rfsd-failed/rej\n", "no item, index or phase was given up",
		"106 × weblogs: strict_mapping (strict_dynamic_mapping_exception)\n    remedy: allow it")
	redrive := func(lines int, n int64) {
		change(func(c *cms.Coordinator) {
			must(t, session.RedrivesOf(c).Note(t.Context(), "vm:/srv/rfsd-failed/rej", false, session.RedrivenFile{Name: "p", Lines: lines, Documents: map[string]int64{"weblogs": n}}))
		})
	}
	redrive(106, 100)
	check(6, 6, 100, "100 documents failed first; rfsd redrive has delivered them", "6 documents failed\n")
	redrive(6, 6)
	check(0, 0, 106, "106 documents failed first; rfsd redrive has delivered them\nno document failed")
}
