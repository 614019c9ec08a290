// Package estimate estimates a whole migration from the measurements of its trial run.
package estimate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/destination/failed/classes"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/load"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/preflight"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/operation/trial"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Trial is the result of a trial run.
type Trial struct {
	Documents int64   `json:"documents_per_shard"`
	Prefix    string  `json:"prefix"`
	Rejected  []Class `json:"rejected"`
	// Estimate is the estimate for the whole migration; nil if nothing was sent.
	Estimate *trial.Estimate `json:"estimate,omitempty"`
	// Problems lists the measurements that are missing from the estimate, with the reasons.
	Problems []string `json:"problems,omitempty"`
}

// Class counts the documents of an index that fail for the same reason.
type Class struct {
	Index     string `json:"index"` // of the snapshot
	Class     string `json:"class"`
	Documents int64  `json:"documents"`
	Remedy    string `json:"remedy"`
}

// Run is a trial run.
type Run struct {
	Plan   *plan.Plan
	Trial  plan.Trial
	Blobs  snapshot.Repository
	Memory *budget.Budget
	// Edit returns the rules for the documents of an index; nil if it has none.
	Edit        func(index string) shards.DocumentEditor
	MaxDocument int64 // longest source that is read, in bytes
	Slots       int
	Price       *trial.Price // nil: no cost is estimated
}

// Limits of reading the largest shard to measure the rate of reading.
const (
	readForRate = 64 << 20 // bytes of sources, at most
	timeForRate = 5 * time.Second
)

// Load is the measured rate of sending, or the reason why it is unknown.
type Load struct {
	load.Loaded
	Problem string
}

// Measure sends new documents to scratch indices for a time, as fast as a migration. Its only error is the error of ctx; others become
// Load.Problem.
func (r *Run) Measure(ctx context.Context, s *phase.Session, lasts time.Duration, content failed.Content) (Load, error) {
	s.Log.InfoContext(ctx, "the sample has arrived; more documents are sent to scratch indices to measure the rate", "for", lasts)
	var found Load
	ledger, ok := s.Ledger.(*rollback.Ledger)
	if !ok {
		return found, nil // a run without a cluster
	}
	failures, err := failed.OpenOn(failed.Discard{}, "measurement", "measurement", content)
	if err != nil {
		return found, err
	}
	found.Loaded, err = (&load.Load{Session: s, Scratch: &rollback.Scratch{Ledger: ledger}, Failed: failures, Plan: r.Plan, Slots: r.Slots, Lasts: lasts}).Measure(ctx)
	err = errors.Join(err, failures.Close())
	if err != nil && ctx.Err() == nil {
		found.Problem, err = "rate of sending: "+fault.Text(err), nil
	}
	return found, err
}

// ErrSnapshot means that the snapshot cannot be read.
var ErrSnapshot = errors.New("the snapshot cannot be read")

// Whole reads the manifests and a part of the largest shard, and estimates the whole migration. m holds the measurements so far, items is
// the number of work items of this run, and problem is the reason why the rate of sending is unknown.
func (r *Run) Whole(ctx context.Context, sum *summary.Summary, items int64, m trial.Measured, problem string) (*Trial, error) {
	t := &Trial{Documents: r.Trial.Documents, Prefix: r.Trial.Prefix, Rejected: []Class{}}
	if problem != "" {
		t.Problems = append(t.Problems, problem)
	}
	w, parts := trial.Whole{}, 0
	var all shards.Tried
	for _, x := range sum.Indices {
		parts += x.Done
		if x.Tried == nil {
			continue
		}
		all.Add(x.Tried.Tried)
		w.Documents, w.Bytes, w.Largest = w.Documents+x.Tried.Documents, w.Bytes+x.Tried.Bytes, max(w.Largest, x.Tried.Largest)
		for _, name := range slices.Sorted(maps.Keys(x.Tried.Classes)) {
			class, _ := classes.Named(name)
			t.Rejected = append(t.Rejected, Class{Index: x.Index, Class: name, Documents: x.Tried.Classes[name], Remedy: class.For(x.Index, "")})
		}
	}
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	m.Slots, m.Shards, m.Setup, m.Copying = r.Slots, parts, seconds(all.Setup), seconds(all.Copying)
	if items < int64(parts) { // an earlier run did the rest
		m.Wall = 0
	}
	sizes := preflight.Evaluator{Repo: r.Blobs, Only: preflight.Sections{preflight.Sizes}}
	e, err := sizes.Evaluate(ctx, r.Plan)
	if err != nil {
		return t, errors.Join(ErrSnapshot, err)
	}
	w.RepositoryBytes, w.RepositoryRequests = e.Size.Read, e.Size.Requests
	t.Problems = append(t.Problems, e.Stops...)
	if m.ReadBytes, m.Reading, err = r.readingRate(ctx); err != nil {
		if ctx.Err() != nil {
			return t, err
		}
		t.Problems = append(t.Problems, "rate of reading: "+fault.Text(err))
	}
	t.Estimate, _ = trial.Of(m, w, r.Price)
	return t, nil
}

// errEnough ends reading early without an error.
var errEnough = errors.New("enough was read")

// readingRate reads the largest shard as a migration does, without sending, until a rate can be computed. It returns bytes of sources.
func (r *Run) readingRate(ctx context.Context) (bytes int64, took time.Duration, err error) {
	var entry plan.Entry
	shard, largest := -1, int64(-1)
	for _, x := range r.Plan.Indices {
		for n, size := range x.Entry.Bytes {
			if size > largest {
				entry, shard, largest = x.Entry, n, size
			}
		}
	}
	if shard < 0 {
		return 0, 0, nil
	}
	var begin time.Time // set by the first document, since everything before it is setup
	each := func(d *doc.Document) error {
		if begin.IsZero() {
			begin = time.Now()
			return nil
		}
		bytes += int64(len(d.Source))
		if took = time.Since(begin); bytes >= readForRate || took >= timeForRate {
			return errEnough
		}
		return nil
	}
	skip := func(*doc.Document) error { return nil }
	err = shards.Read(ctx, r.Blobs, entry, shard, r.Edit, shards.Documents{
		Memory: r.Memory, MaxDocument: r.MaxDocument, Send: each, Filter: skip, Fail: func(*doc.Failure) error { return nil },
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return bytes, took, err
}
