package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// holds is a target that is asked for ids.
type holds struct {
	cluster
	has  map[Key]Found
	asks int
	fail int // requests that fail first
}

func (h *holds) Find(_ context.Context, keys []Key) ([]Found, error) {
	if h.asks++; h.asks <= h.fail {
		return nil, fmt.Errorf("no answer: %w", fault.ErrUnavailable)
	}
	found := make([]Found, len(keys))
	for i, k := range keys {
		found[i] = h.has[k]
		found[i].Routing = k.Routing
	}
	return found, nil
}

// changed is a unit of documents of one target index.
func changed(all ...Document) Unit {
	return Unit{Name: "x/0", Read: func(_ context.Context, _ int64, each func(*Document) error) error {
		for _, d := range all {
			if d.Index == nil {
				d.Index = []byte("x")
			}
			if err := each(&d); err != nil {
				return err
			}
		}
		return nil
	}}
}

// TestVerifier_Changes looks up what a round of version 10 has sent: its documents have version 21, its deletions version 20.
func TestVerifier_Changes(t *testing.T) {
	sent := func(id string) Document {
		return Document{ID: []byte(id), Source: []byte(`{"a":1}`), Version: 21, Ordinal: 7}
	}
	gone := func(version int64) Document { return Document{ID: []byte("1"), Fate: Gone, Version: version} }
	has := func(version int64, source string) Found {
		return Found{There: true, Version: version, Source: []byte(source)}
	}
	for _, c := range []struct {
		name  string
		units Document
		has   Found
		state State
		found map[Kind]int64
	}{
		{"arrived", sent("1"), has(21, `{"a":1}`), Equal, nil},
		{"missing", sent("1"), Found{}, Different, map[Kind]int64{Missing: 1}},
		{"of a former round", sent("1"), has(19, `{"a":0}`), Different, map[Kind]int64{Changed: 1}},
		{"another source under the same version", sent("1"), has(21, `{"a":2}`), Different, map[Kind]int64{Changed: 1}},
		{"the same value", sent("1"), has(21, `{"a": 1}`), Different, map[Kind]int64{SameValue: 1}},
		{"written to since", sent("1"), has(22, `{"a":2}`), Since, map[Kind]int64{ChangedSince: 1}},
		{"deleted", gone(20), Found{}, Equal, nil},
		{"not deleted", gone(20), has(19, `{"a":1}`), Different, map[Kind]int64{Extra: 1}},
		{"created by others since", gone(20), has(21, `{"a":1}`), Since, map[Kind]int64{ChangedSince: 1}},
		{"deleted and sent again by the round", gone(21), has(21, `{"a":1}`), Equal, nil},
		{"deleted late", gone(21), has(19, `{"a":1}`), Different, map[Kind]int64{Extra: 1}},
		{"left out by rules", Document{ID: []byte("1"), Fate: Filtered}, Found{}, Equal, nil},
		{"without a source", Document{ID: []byte("1"), Fate: Unsent, Reason: "no_source"}, Found{}, FailedDocuments, nil},
		{"listed as failed", sent("failed"), Found{}, FailedDocuments, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &holds{cluster: cluster{"x": Content{}}, has: map[Key]Found{}}
			if c.has.There {
				h.has[Key{Index: "x", ID: string(c.units.ID)}] = c.has
			}
			failed := &Failed{}
			failed.Add("x", "failed")
			all, err := New(Options{Target: h, Find: h.Find, Failed: failed}).Changes(t.Context(), []Group{{Targets: []string{"x"}, Sources: []string{"y"}, Units: []Unit{changed(c.units)}}})
			if err != nil || len(all) != 1 {
				t.Fatal(all, err)
			}
			if x := all[0]; x.State != c.state || !maps.Equal(x.Counts, c.found) || x.Target != "x" {
				t.Errorf("%+v", x)
			}
		})
	}
}

// TestVerifier_ChangesAreLookedUpInParts: requests are bounded, and tried again.
func TestVerifier_ChangesAreLookedUpInParts(t *testing.T) {
	const n = 1201
	h := &holds{cluster: cluster{"x": Content{}, "y": Content{}}, has: map[Key]Found{}, fail: 1}
	var all []Document
	for i := range n {
		d := Document{ID: fmt.Appendf(nil, "%d", i), Routing: []byte("r"), Source: []byte(`{}`), Version: 3}
		all = append(all, d)
		if i != 700 {
			h.has[Key{Index: "x", ID: string(d.ID), Routing: "r"}] = Found{There: true, Version: 3, Source: d.Source}
		}
	}
	long := make([]byte, foundBytes)
	for i := range 3 {
		all = append(all, Document{Index: []byte("y"), ID: fmt.Appendf(nil, "%d", i), Source: long})
	}
	v := New(Options{Target: h, Find: h.Find, Names: 2, Pause: func(context.Context, time.Duration) error { return nil }})
	found, err := v.Changes(t.Context(), []Group{{Targets: []string{"x", "y"}, Units: []Unit{changed(all...)}}})
	if err != nil {
		t.Fatal(err)
	}
	x, y := found[0], found[1]
	if x.SourceDocuments != n || x.TargetDocuments != n-1 || x.Counts[Missing] != 1 || x.Differences[0].ID != "700" || y.Counts[Missing] != 3 || len(y.Differences) != 2 {
		t.Errorf("%+v, %+v", x, y)
	}
	if want := 1 + 2 + 3; h.asks != want { // one fails; 500, 500 and 201 with the first long one; the others
		t.Errorf("%d requests, not %d", h.asks, want)
	}
	if p := v.Progress(); p.SourceDocuments != n+3 || p.TargetDocuments != n-1 {
		t.Errorf("%+v", p)
	}
}

// TestVerifier_ChangesThatCannotBeRead are a result where that is permanent, and end the comparison otherwise.
func TestVerifier_ChangesThatCannotBeRead(t *testing.T) {
	for _, of := range []error{fault.ErrCorrupt, fault.ErrUnavailable} {
		damaged := Unit{Name: "x/1", Read: func(context.Context, int64, func(*Document) error) error { return fmt.Errorf("blob: %w", of) }}
		group := Group{Targets: []string{"x"}, Units: []Unit{changed(), damaged}}
		all, err := New(Options{Target: &holds{cluster: cluster{"x": Content{}}}}).Changes(t.Context(), []Group{group})
		if permanent := errors.Is(of, fault.ErrCorrupt); permanent != (err == nil) || permanent && (all[0].State != Unreadable || len(all[0].Problems) != 1) {
			t.Errorf("%v: %v, %v", of, all, err)
		}
	}
	elsewhere := changed(Document{Index: []byte("z"), ID: []byte("1")})
	all, err := New(Options{Target: &holds{cluster: cluster{"x": Content{}}}}).Changes(t.Context(), []Group{{Targets: []string{"x"}, Units: []Unit{elsewhere}}})
	if err != nil || all[0].State != Unreadable || len(all[0].Problems) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}
