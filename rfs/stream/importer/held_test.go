package importer_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// countedIndex is an index that holds some documents.
type countedIndex struct {
	n         int64
	refreshed bool
	err       error
}

func (c *countedIndex) Refresh(context.Context, string) error { c.refreshed = true; return c.err }
func (c *countedIndex) Count(context.Context, string) (int64, error) {
	if !c.refreshed { // what was indexed a moment ago is not seen yet
		return 0, c.err
	}
	return c.n, c.err
}

// TestExisting_IsAskedBeforeTheFirstDocument follows the processes of one import.
func TestExisting_IsAskedBeforeTheFirstDocument(t *testing.T) {
	type process struct {
		chosen bool
		there  int64 // documents in the index
		refuse bool
	}
	for _, c := range []struct {
		name      string
		sent      bool // the session has sent documents before the first process
		processes []process
	}{
		{"an empty index, then documents of the import", false, []process{{}, {there: 7}, {chosen: true, there: 7}}},
		{"documents of others", false, []process{{there: 7, refuse: true}, {there: 7, refuse: true}, {chosen: true, there: 7}, {there: 9}}},
		{"a choice at once", false, []process{{chosen: true, there: 7}, {there: 9}}},
		{"documents that a former release has sent", true, []process{{there: 7}, {there: 9}}},
		{"they went in between", false, []process{{there: 7, refuse: true}, {refuse: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, err := boltcms.Open(filepath.Join(t.TempDir(), "c.db"), time.Now)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close() //nolint:errcheck // of a test
			kept, err := cms.New(cms.Config{Store: store, Creator: "test"})
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range c.processes {
				x := &importer.Existing{Counts: &countedIndex{n: p.there}, Records: kept, Chosen: p.chosen, Log: slog.New(slog.DiscardHandler),
					Sent: func(context.Context) (bool, error) { return c.sent, nil }}
				indices := &importer.TargetIndices{Cluster: &oneIndex{there: true}, Ask: x.Ask}
				err := indices.Ensure(t.Context(), []byte("payroll"))
				if p.refuse != errors.Is(err, fault.ErrConfig) || !p.refuse && err != nil {
					t.Errorf("process %d: %v", i, err)
				}
				if again := indices.Ensure(t.Context(), []byte("payroll")); (again == nil) != (err == nil) {
					t.Errorf("process %d, asked again: %v", i, again)
				}
				if p.refuse && !strings.Contains(err.Error(), "payroll (7)") {
					t.Errorf("process %d: %v", i, err)
				}
			}
		})
	}
}

// TestExisting_WaitsForATargetThatDoesNotAnswer checks that nothing is recorded of an index that could not be counted.
func TestExisting_WaitsForATargetThatDoesNotAnswer(t *testing.T) {
	store, err := boltcms.Open(filepath.Join(t.TempDir(), "c.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // of a test
	kept, err := cms.New(cms.Config{Store: store, Creator: "test"})
	if err != nil {
		t.Fatal(err)
	}
	counted := &countedIndex{n: 7, err: fault.ErrUnavailable}
	x := &importer.Existing{Counts: counted, Records: kept, Log: slog.New(slog.DiscardHandler), Sent: func(context.Context) (bool, error) { return false, nil }}
	if err := x.Ask(t.Context(), "payroll"); !errors.Is(err, fault.ErrUnavailable) {
		t.Error(err)
	}
	counted.err = nil
	if err := x.Ask(t.Context(), "payroll"); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("when it answers: %v", err)
	}
}
