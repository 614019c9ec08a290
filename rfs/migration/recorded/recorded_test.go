package recorded_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/recorded"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// state returns the state of a session with indices of these bodies by name.
func state(t *testing.T, bodies map[string]string) *cms.Coordinator {
	t.Helper()
	c := cms.New(cms.Config{Store: migrationtest.NewMemory(), Creator: "test"})
	for name, body := range bodies {
		if _, err := session.EntriesOf(c).Create(t.Context(), session.IndexEntry{Name: name, Shards: 2, Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestRecorded_Indices reads an index, one whose types are split, and one whose metadata is damaged.
func TestRecorded_Indices(t *testing.T) {
	c := state(t, map[string]string{
		"logs": `{"locator":{"index":"logs"},"naming":{"index":"logs-new"},"bytes":[7]}`,
		"shop": `{"locator":{"index":"shop"},"naming":{"index":"shop","multi":"split","types":["order","user"]},"bytes":[1,2]}`,
		"torn": `{"unread":true}`,
	})
	entries, err := recorded.Entries(t.Context(), c)
	var names []string
	for _, e := range entries {
		names = append(names, e.Locator.IndexName)
	}
	if slices.Sort(names); err != nil || !slices.Equal(names, []string{"logs", "shop"}) {
		t.Errorf("%q, %v", names, err)
	}
	targets, err := recorded.Targets(t.Context(), c)
	if got := slices.Sorted(maps.Keys(targets)); err != nil || !slices.Equal(got, []string{"logs-new", "shop_order", "shop_user"}) {
		t.Errorf("%q, %v", got, err)
	}
	shards, err := recorded.Shards(t.Context(), c)
	for _, want := range []schedule.Shard{{Index: "logs", Bytes: 7}, {Index: "logs", Shard: 1}, {Index: "shop", Shard: 1, Bytes: 2}, {Index: "torn"}} {
		if err != nil || len(shards) != 6 || !slices.Contains(shards, want) {
			t.Errorf("%v, %v: want %v", shards, err, want)
		}
	}
}

// TestRecorded_Damaged: no entry is taken for that of another index, and none is passed over.
func TestRecorded_Damaged(t *testing.T) {
	for _, c := range []struct {
		name, body      string
		entries, others error
	}{
		{"another index", `{"locator":{"index":"other"}}`, fault.ErrConfig, nil},
		{"not an entry", `[]`, fault.ErrCorrupt, fault.ErrCorrupt},
		{"nothing that can be read", `{"unread":true}`, fault.ErrConfig, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			kept := state(t, map[string]string{"logs": c.body})
			if _, err := recorded.Entries(t.Context(), kept); !errors.Is(err, c.entries) {
				t.Errorf("entries: %v", err)
			}
			if _, err := recorded.Targets(t.Context(), kept); !errors.Is(err, c.others) {
				t.Errorf("targets: %v", err)
			}
			if _, err := recorded.Shards(t.Context(), kept); !errors.Is(err, c.others) {
				t.Errorf("shards: %v", err)
			}
		})
	}
}
