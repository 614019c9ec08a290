package main

import (
	"context"
	"fmt"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/bulk"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/doc"
	"github.com/rfsd/rfsd/rfs/failed"
	"github.com/rfsd/rfsd/rfs/failed/classes"
	"github.com/rfsd/rfsd/rfs/repo"
)

// openRecorder opens what keeps documents that do not arrive: a directory or a bucket. Other members of a fleet may
// never see a directory of this machine; unless it is declared shared, the control index tells which documents they were.
func openRecorder(ctx context.Context, o options, kept *cms.Coordinator, writer string) (bulk.Recorder, func() error, error) {
	if config.InBucket(o.failedDir) {
		bucket, err := repo.OpenBucket(ctx, o.failedDir, o.s3, repo.RetryPolicy{})
		if err != nil {
			return nil, nil, fmt.Errorf("failed documents: %w", err)
		}
		objects, err := failed.NewObjects(bucket, o.sessionOrDefault(), writer, o.failedForm)
		if err != nil {
			return nil, nil, fmt.Errorf("failed documents: %w", err)
		}
		return objects, objects.Close, nil
	}
	if o.failedDir == "" {
		return dropping{}, func() error { return nil }, nil
	}
	w, err := failed.Open(o.failedDir, writer, o.failedForm)
	if err != nil {
		return nil, nil, fmt.Errorf("failed documents: %w", err)
	}
	if o.failedShared || !o.fleet || o.coordinatorFile != "" || o.target.URL == "" {
		return w, w.Close, nil
	}
	return &noting{Recorder: w, kept: kept}, w.Close, nil
}

// dropping is the recorder of a dry run without --failed-documents: the loader counts failed documents, nothing is written.
type dropping struct{}

func (dropping) Record(context.Context, []doc.Failure) error { return nil }
func (dropping) Sync(context.Context) error                  { return nil }

// noting is a recorder that also notes in the control index which documents did not arrive.
type noting struct {
	bulk.Recorder
	kept interface {
		KeepRefused(ctx context.Context, docs []cms.Refused) error
	}
}

// Record keeps failures; what is in the control index is durable when it returns.
func (n *noting) Record(ctx context.Context, failures []doc.Failure) error {
	if err := n.Recorder.Record(ctx, failures); err != nil {
		return err
	}
	return n.kept.KeepRefused(ctx, refused(failures))
}

// refused returns what a control index keeps of failures.
func refused(failures []doc.Failure) []cms.Refused {
	all := make([]cms.Refused, len(failures))
	for i, f := range failures {
		all[i] = cms.Refused{
			Index: f.Index, ID: f.ID, Shard: f.Shard, Ordinal: f.Ordinal, Reason: string(f.Reason), Status: f.Status, Class: classes.Of(f.Reason, f.Detail).Name,
		}
	}
	return all
}
