package wiring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/resend"
)

// openRecorder opens what keeps documents that do not arrive, logs them by class, and records in the store where they are kept.
func openRecorder(ctx context.Context, o Options, kept *cms.Coordinator, writer string, log *slog.Logger) (*failed.Watched, func() error, error) {
	r, done, err := openSink(ctx, o, kept, writer)
	if err != nil {
		return nil, nil, err
	}
	at, err := o.failedAt()
	if err != nil {
		return nil, nil, errors.Join(err, done())
	}
	w := &failed.Watched{Recorder: r, Log: log, Note: func(ctx context.Context, sums []failed.Sum) error {
		at.Sums = make([]session.FailedSum, len(sums))
		for i, s := range sums {
			at.Sums[i] = session.FailedSum{Index: s.Index, Class: s.Class, Reason: string(s.Reason), Remedy: s.Remedy, Count: s.Count}
		}
		return session.PlacesOf(kept).Keep(ctx, writer, at)
	}}
	return w, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		return errors.Join(w.Flush(ctx), done())
	}, nil
}

// flushTimeout limits how long the end of a process waits for the store to take the account of failed documents.
const flushTimeout = 10 * time.Second

// openSink opens a directory or a bucket for documents that do not arrive. Other members of a fleet may never see a directory of
// this machine; unless it is declared shared, the control index records which documents they were.
func openSink(ctx context.Context, o Options, kept *cms.Coordinator, writer string) (bulk.Recorder, func() error, error) {
	if repo.IsBucket(o.FailedDir) {
		bucket, err := repo.OpenBucket(ctx, o.FailedDir, o.stores, retry.Policy{})
		if err != nil {
			return nil, nil, fmt.Errorf("failed documents: %w", err)
		}
		objects, err := failed.NewObjects(bucket, o.SessionOrDefault(), writer, o.FailedContent)
		if err != nil {
			return nil, nil, fmt.Errorf("failed documents: %w", err)
		}
		if kept != nil {
			objects.Owner = session.IdentityOf(kept).Mark
		}
		return objects, objects.Close, nil
	}
	if o.FailedDir == "" {
		return dropping{}, func() error { return nil }, nil
	}
	w, err := failed.Open(o.FailedDir, writer, o.FailedContent)
	if err != nil {
		return nil, nil, fmt.Errorf("failed documents: %w", err)
	}
	if kept != nil {
		w.Owner = session.IdentityOf(kept).Mark
	}
	if o.failedShared || !o.fleet || o.coordinatorFile != "" || o.Target.URL == "" {
		return w, w.Close, nil
	}
	return &resend.Recorder{Recorder: w, Kept: kept}, w.Close, nil
}

// dropping is the recorder of a dry run without --failed-documents: the loader counts failed documents, nothing is written.
type dropping struct{}

func (dropping) Record(context.Context, []doc.Failure) error { return nil }

func (dropping) Sync(context.Context) error { return nil }

// failedAt returns the host and the absolute path of the directory of failed documents, or the URI of their bucket.
func (o Options) failedAt() (at session.FailedAt, err error) {
	if at.Place = o.FailedDir; at.Place == "" || repo.IsBucket(at.Place) {
		return at, nil
	}
	if at.Place, err = filepath.Abs(at.Place); err == nil {
		at.Host, err = os.Hostname()
	}
	if err != nil {
		return at, fmt.Errorf("failed documents: %w", err)
	}
	return at, nil
}
