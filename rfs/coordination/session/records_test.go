package session_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// conflicting refuses the first writes of records, as if another worker had been quicker.
type conflicting struct {
	cms.Store
	left int
}

func (s *conflicting) PutAll(ctx context.Context, records []cms.Record) ([]error, error) {
	if s.left--; s.left >= 0 {
		return slices.Repeat([]error{cms.ErrConflict}, len(records)), nil
	}
	return s.Store.PutAll(ctx, records)
}

// TestCreateIndexEntries: an entry that is missing would leave its index out of the migration.
func TestCreateIndexEntries(t *testing.T) {
	for _, c := range []struct {
		name      string
		conflicts int
		before    bool // the entry is there
		created   bool
	}{
		{"created", 0, false, true},
		{"a conflict is believed when the entry is there", 1, true, false},
		{"a conflict is not believed when it is missing", 2, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bolt := boltstore.Open(t)
				store := &conflicting{Store: bolt}
				coordinator := cms.New(cms.Config{Store: store, Creator: "test"})
				e := session.IndexEntry{Name: "a", State: session.PhaseNotStarted, Shards: 1, Body: []byte(`{}`)}
				if c.before {
					if _, err := session.EntriesOf(coordinator).Create(t.Context(), e); err != nil {
						t.Fatal(err)
					}
				}
				store.left = c.conflicts
				created, err := session.EntriesOf(coordinator).Create(t.Context(), e)
				if err != nil || (len(created) == 1) != c.created {
					t.Errorf("created %v, %v", created, err)
				}
				if _, err := session.EntriesOf(coordinator).Read(t.Context(), "a"); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestEntries_Targets: few records are read by name, many are listed.
func TestEntries_Targets(t *testing.T) {
	entries := session.EntriesOf(cms.New(cms.Config{Store: boltstore.Open(t), Creator: "test"}))
	var names []string
	want := map[string]string{}
	for i := range 40 {
		name := fmt.Sprint("i", i)
		names = append(names, name)
		if i%2 > 0 {
			continue
		}
		want[name] = "uuid of " + name
		if _, err := entries.ClaimTarget(t.Context(), name, want[name]); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{0, 1, 10, 40} {
		got, err := entries.Targets(t.Context(), names[:n]...)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if asked := n == 0 || slices.Contains(names[:n], name); asked && got[name] != want[name] {
				t.Errorf("%d names: %s has %q, want %q", n, name, got[name], want[name])
			}
		}
		if listed := n == 0 || n == 40; listed != (len(got) == len(want)) {
			t.Errorf("%d names: %d records", n, len(got))
		}
	}
}
