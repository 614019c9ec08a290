package importer_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/stream/importer"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// countedIndex is an index that holds some documents.
type countedIndex struct {
	n         int64
	refreshed bool
	err       error
	executed  int64
	untold    error // why its operations are not stated
	uuid      string
}

func (c *countedIndex) CountLucene(context.Context, string) (int64, error) { return c.n, c.err }
func (c *countedIndex) GetIndex(_ context.Context, name string) ([]target.Index, error) {
	return []target.Index{{Name: name, UUID: c.uuid}}, c.err
}
func (c *countedIndex) Operations(context.Context, string) (target.Operations, error) {
	return target.Operations{Executed: c.executed}, c.untold
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
		processes []process
	}{
		{"an empty index, then documents of the import", []process{{}, {there: 7}, {chosen: true, there: 7}}},
		{"documents of others", []process{{there: 7, refuse: true}, {there: 7, refuse: true}, {chosen: true, there: 7}, {there: 9}}},
		{"a choice immediately", []process{{chosen: true, there: 7}, {there: 9}}},
		{"they went in between", []process{{there: 7, refuse: true}, {refuse: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := boltstore.Open(t)
			kept := cms.New(cms.Config{Store: store, Creator: "test"})
			for i, p := range c.processes {
				x := &importer.Existing{Counts: &countedIndex{n: p.there}, Records: session.PriorsOf(kept), Chosen: p.chosen, Log: slog.New(slog.DiscardHandler)}
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
	store := boltstore.Open(t)
	kept := cms.New(cms.Config{Store: store, Creator: "test"})
	counted := &countedIndex{n: 7, err: fault.ErrUnavailable}
	x := &importer.Existing{Counts: counted, Records: session.PriorsOf(kept), Log: slog.New(slog.DiscardHandler)}
	if _, err := x.Ask(t.Context(), "payroll"); !errors.Is(err, fault.ErrUnavailable) {
		t.Error(err)
	}
	counted.err = nil
	if _, err := x.Ask(t.Context(), "payroll"); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("when it answers: %v", err)
	}
}

// TestExisting_WhatArrivedIsCompared sends five documents to an index and compares what is there at the end.
func TestExisting_WhatArrivedIsCompared(t *testing.T) {
	five := cms.Counts{Live: 5, Indexed: 5}
	for _, c := range []struct {
		name      string
		before    countedIndex // as the first document finds it
		after     countedIndex
		sent      cms.Counts
		problem   string
		note      string
		accounted bool
	}{
		{name: "all are there", after: countedIndex{n: 5, executed: 5}, sent: five, accounted: true},
		{name: "some are missing", after: countedIndex{n: 3, executed: 3}, sent: five, accounted: true, problem: "payroll, 5 were indexed: 2 are missing; rfsd verify --from names"},
		{name: "documents of one id", after: countedIndex{n: 4, executed: 5}, sent: five, accounted: true, problem: "1 are missing"},
		{name: "another client wrote", after: countedIndex{n: 7, executed: 7}, sent: five, accounted: true, note: "2 operations on it are not of this session"},
		{name: "sent again after a hand-over", after: countedIndex{n: 5, executed: 7}, sent: cms.Counts{Live: 5, Indexed: 5, Rewrites: 2}, accounted: true},
		{name: "operations are not stated", before: countedIndex{untold: fault.ErrRejected}, after: countedIndex{n: 3, untold: fault.ErrRejected}, sent: five, note: "payroll was there before"},
		{name: "documents before", before: countedIndex{n: 2, executed: 2}, after: countedIndex{n: 3, executed: 7}, sent: five, note: "payroll was there before"},
		{name: "operations before", before: countedIndex{executed: 2}, after: countedIndex{n: 3, executed: 7}, sent: five, note: "payroll was there before"},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := boltstore.Open(t)
			kept := cms.New(cms.Config{Store: store, Creator: "test"})
			x := &importer.Existing{Counts: &c.before, Records: session.PriorsOf(kept), Chosen: true, Log: slog.New(slog.DiscardHandler)}
			if untouched, err := x.Ask(t.Context(), "payroll"); err != nil || untouched != c.accounted {
				t.Fatal(err)
			}
			x.Counts = &c.after
			is, own, err := x.Arrived(t.Context(), c.sent)
			if err != nil || is.Found != c.after.n || !strings.Contains(is.Problem, c.problem) || (is.Problem == "") != (c.problem == "") || !strings.Contains(is.Note, c.note) || (is.Note == "") != (c.note == "") {
				t.Errorf("%+v, %v", is, err)
			}
			if is.Accounted != c.accounted || c.accounted != (len(own) == 1) || c.accounted && own[0].Operations != c.sent.Written() {
				t.Errorf("%+v, own %+v", is, own)
			}
		})
	}
}

// TestExisting_Missing looks for an index after the import.
func TestExisting_Missing(t *testing.T) {
	gone := fault.CheckStatus("GET /payroll", http.StatusNotFound, nil)
	for _, c := range []struct {
		name          string
		before, after countedIndex
		missing       bool
		fails         error
	}{
		{name: "it is there", before: countedIndex{uuid: "u1"}, after: countedIndex{uuid: "u1"}},
		{name: "it was deleted", before: countedIndex{uuid: "u1"}, after: countedIndex{err: gone}, missing: true},
		{name: "it was created again", before: countedIndex{uuid: "u1"}, after: countedIndex{uuid: "u2"}, missing: true},
		{name: "an older session recorded no UUID", after: countedIndex{uuid: "u2"}},
		{name: "an older session, it was deleted", after: countedIndex{err: gone}, missing: true},
		{name: "the target does not tell", before: countedIndex{uuid: "u1"}, after: countedIndex{err: fault.ErrConfig}},
		{name: "the target does not answer", before: countedIndex{uuid: "u1"}, after: countedIndex{err: fault.ErrUnavailable}, fails: fault.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			kept := cms.New(cms.Config{Store: boltstore.Open(t), Creator: "test"})
			x := &importer.Existing{Counts: &c.before, Records: session.PriorsOf(kept), Log: slog.New(slog.DiscardHandler)}
			if _, err := x.Ask(t.Context(), "payroll"); err != nil {
				t.Fatal(err)
			}
			x.Counts = &c.after
			names, err := x.Missing(t.Context())
			if !errors.Is(err, c.fails) || (err != nil) != (c.fails != nil) || (len(names) == 1) != c.missing {
				t.Errorf("%q, %v", names, err)
			}
		})
	}
}
