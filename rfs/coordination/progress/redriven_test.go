package progress_test

import (
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/cmstest"
)

// TestRedrives_Take checks which failed documents count as delivered.
func TestRedrives_Take(t *testing.T) {
	type index struct {
		targets []string
		failed  int64
		want    int64
	}
	type place struct {
		name            string
		all             bool
		delivered, left map[string]int64
	}
	one := func(n int64) map[string]int64 { return map[string]int64{"logs": n} }
	logs := []string{"logs"}
	for _, c := range []struct {
		name    string
		places  []place
		indices []index
		all     int64 // of TakeAll with the sum of failed
	}{
		{"nothing was re-driven", nil, []index{{logs, 5, 0}}, 0},
		{"a part", []place{{"a", false, one(3), one(2)}}, []index{{logs, 5, 3}}, 3},
		{"all", []place{{"a", false, one(5), nil}}, []index{{logs, 5, 5}}, 5},
		{"more than failed, such as those of a range that was done again", []place{{"a", false, one(9), nil}}, []index{{logs, 5, 5}}, 5},
		{"these arrived, and those that failed are still in the file", []place{{"a", false, one(5), one(5)}}, []index{{logs, 5, 0}}, 0},
		{"of two machines", []place{{"a", false, one(3), nil}, {"b", false, one(1), one(1)}}, []index{{logs, 5, 4}}, 4},
		{"one machine was not re-driven", []place{{"a", false, one(3), nil}}, []index{{logs, 5, 3}}, 3},
		{"the list in the store and the files hold the same ones", []place{{"a", false, one(3), one(2)}, {"list", true, nil, one(2)}}, []index{{logs, 5, 3}}, 3},
		{"two indices with one target", []place{{"a", false, one(4), one(1)}}, []index{{logs, 3, 2}, {logs, 2, 2}}, 4},
		{"one index with two targets", []place{{"a", false, map[string]int64{"logs": 1, "other": 2}, one(1)}}, []index{{[]string{"logs", "other"}, 4, 3}}, 3},
		{"of another index", []place{{"a", false, map[string]int64{"other": 2}, nil}}, []index{{logs, 5, 0}, {[]string{"other"}, 2, 2}}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, err := boltcms.Open(t.TempDir()+"/c.db", time.Now)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close() //nolint:errcheck // of a test
			coordinator := cmstest.Coordinator(t, store, time.Minute)
			for _, p := range c.places {
				if err := session.RedrivesOf(coordinator).Note(t.Context(), p.name, p.all, session.RedrivenFile{Documents: p.delivered}); err != nil {
					t.Fatal(err)
				}
				if err := session.RedrivesOf(coordinator).NoteLeft(t.Context(), p.name, p.all, p.left); err != nil {
					t.Fatal(err)
				}
			}
			r, err := progress.ReadRedrives(t.Context(), coordinator)
			if err != nil {
				t.Fatal(err)
			}
			failed := int64(0)
			for i, x := range c.indices {
				failed += x.failed
				if got := r.Take(x.targets, x.failed); got != x.want {
					t.Errorf("index %d: %d of %d, want %d", i, got, x.failed, x.want)
				}
			}
			if r, err = progress.ReadRedrives(t.Context(), coordinator); err != nil {
				t.Fatal(err)
			}
			if got := r.TakeAll(failed); got != c.all {
				t.Errorf("all: %d, want %d", got, c.all)
			}
		})
	}
}
