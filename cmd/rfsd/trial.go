package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/report"
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
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/operation/trial"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// What is read of the largest shard for the rate of reading.
const (
	readForRate = 64 << 20 // bytes of sources, at most
	timeForRate = 5 * time.Second
)

// trialLoad is what was measured after the sample had arrived, or why nothing was.
type trialLoad struct {
	load.Loaded
	problem string
}

// measureLoad sends new documents to scratch indices, as fast as a migration does. Errors are those of ctx.
func measureLoad(ctx context.Context, o options, s *phase.Session, plan *plan.Plan, log *slog.Logger) (*trialLoad, error) {
	log.InfoContext(ctx, "the sample has arrived; more documents are sent to scratch indices to measure the rate", "for", o.measure)
	found := &trialLoad{}
	ledger, ok := s.Ledger.(*rollback.Ledger)
	if !ok {
		return found, nil // there is no cluster
	}
	failures, err := failed.OpenOn(failed.Discard{}, "measurement", "measurement", o.failedContent)
	if err != nil {
		return found, err
	}
	found.Loaded, err = (&load.Load{Session: s, Scratch: &rollback.Scratch{Ledger: ledger}, Failed: failures, Plan: plan, Slots: o.slots, Lasts: o.measure}).Measure(ctx)
	err = errors.Join(err, failures.Close())
	if err != nil && ctx.Err() == nil {
		found.problem, err = "rate of sending: "+fault.Text(err), nil
	}
	return found, err
}

// estimateTrial reads the manifests and a part of the largest shard, and estimates the whole. m is what was measured so far.
func estimateTrial(ctx context.Context, o options, r *report.Migration, plan *plan.Plan, blobs *repo.Counting, memory *budget.Budget, m trial.Measured, problem string) (*report.Trial, error) {
	t := &report.Trial{Documents: o.trial.Documents, Prefix: o.trial.Prefix, Rejected: []report.Class{}}
	if problem != "" {
		t.Problems = append(t.Problems, problem)
	}
	w, parts := trial.Whole{}, 0
	var all shards.Tried
	for _, x := range r.Indices {
		parts += x.Done
		if x.Tried == nil {
			continue
		}
		all.Add(x.Tried.Tried)
		w.Documents, w.Bytes, w.Largest = w.Documents+x.Tried.Documents, w.Bytes+x.Tried.Bytes, max(w.Largest, x.Tried.Largest)
		for _, name := range slices.Sorted(maps.Keys(x.Tried.Classes)) {
			class, _ := classes.Named(name)
			t.Rejected = append(t.Rejected, report.Class{Index: x.Index, Class: name, Documents: x.Tried.Classes[name], Remedy: class.For(x.Index, "")})
		}
	}
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	m.Slots, m.Shards, m.Setup, m.Copying = o.slots, parts, seconds(all.Setup), seconds(all.Copying)
	if r.ItemsRun < int64(parts) { // an earlier run did the rest
		m.Wall = 0
	}
	sizes := preflight.Evaluator{Repo: blobs, Only: preflight.Sections{preflight.Sizes}}
	e, err := sizes.Evaluate(ctx, plan)
	if err != nil {
		return t, exit.With(exit.Snapshot, err)
	}
	w.RepositoryBytes, w.RepositoryRequests = e.Size.Read, e.Size.Requests
	t.Problems = append(t.Problems, e.Stops...)
	if m.ReadBytes, m.Reading, err = readingRate(ctx, o, plan, blobs, memory); err != nil {
		if ctx.Err() != nil {
			return t, err
		}
		t.Problems = append(t.Problems, "rate of reading: "+fault.Text(err))
	}
	t.Estimate, _ = trial.Of(m, w, o.price)
	return t, nil
}

// errEnough ends a reading.
var errEnough = errors.New("enough was read")

// readingRate reads the largest shard as a migration does, without sending, until there is enough for a rate.
func readingRate(ctx context.Context, o options, p *plan.Plan, blobs repo.Repository, memory *budget.Budget) (bytes int64, took time.Duration, err error) {
	var entry plan.Entry
	shard, largest := -1, int64(-1)
	for _, x := range p.Indices {
		for n, size := range x.Entry.Bytes {
			if size > largest {
				entry, shard, largest = x.Entry, n, size
			}
		}
	}
	if shard < 0 {
		return 0, 0, nil
	}
	var begin time.Time // of the second document: what comes before is set-up
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
	err = shards.Read(ctx, blobs, entry, shard, o.editor, shards.Documents{
		Memory: memory, MaxDocument: o.maxDocument, Send: each, Filter: skip, Fail: func(*doc.Failure) error { return nil },
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return bytes, took, err
}
