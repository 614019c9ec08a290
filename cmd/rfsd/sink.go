package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/rfsd/rfsd/rfs/bulk"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/doc"
	"github.com/rfsd/rfsd/rfs/failed"
	"github.com/rfsd/rfsd/rfs/repo"
)

// inBucket says that failed documents go to a bucket.
func inBucket(sink string) bool { return strings.HasPrefix(sink, "s3://") }

// openRecorder opens what keeps documents that do not arrive: a directory or a bucket. Other members of a fleet may
// never see a directory of this machine; unless it is declared shared, the control index tells which documents they were.
func openRecorder(ctx context.Context, o options, kept *cms.Coordinator, writer string) (bulk.Recorder, func() error, error) {
	if inBucket(o.failedDir) {
		bucket, err := repo.OpenBucket(ctx, o.failedDir, o.s3, repo.RetryPolicy{})
		if err != nil {
			return nil, nil, fmt.Errorf("failed documents: %w", err)
		}
		objects, err := failed.NewObjects(bucket, o.sessionOrDefault(), writer)
		if err != nil {
			return nil, nil, fmt.Errorf("failed documents: %w", err)
		}
		return objects, objects.Close, nil
	}
	if o.failedDir == "" {
		return dropping{}, func() error { return nil }, nil
	}
	w, err := failed.Open(o.failedDir, writer)
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
	all := make([]cms.Refused, len(failures))
	for i, f := range failures {
		all[i] = cms.Refused{Index: f.Index, ID: f.ID, Shard: f.Shard, Ordinal: f.Ordinal, Reason: string(f.Reason), Status: f.Status}
	}
	return n.kept.KeepRefused(ctx, all)
}

// checkSink refuses a sink in the repository, to which nothing is ever written.
func (o *options) checkSink(repository string) error {
	if !inBucket(o.failedDir) {
		return nil
	}
	if o.failedShared {
		return usage("--failed-documents-shared is about a directory; a bucket is always shared")
	}
	if bucket, _, _ := strings.Cut(strings.TrimPrefix(o.failedDir, "s3://"), "/"); bucket == "" {
		return usage("--failed-documents %q names no bucket, as in s3://bucket/prefix", o.failedDir)
	}
	if strings.HasPrefix(strings.TrimRight(o.failedDir, "/")+"/", strings.TrimRight(repository, "/")+"/") {
		return usage("--failed-documents %s lies in %s, to which nothing is ever written", o.failedDir, repository)
	}
	return nil
}

// outside refuses a sink that goes when the node's data directory is wiped, which may happen any time.
func outside(sink, dataDir string) error {
	if dataDir == "" || sink == "" || inBucket(sink) {
		return nil
	}
	absSink, err := resolved(sink)
	if err != nil {
		return usage("--failed-documents: %w", err)
	}
	absData, err := resolved(dataDir)
	if err != nil {
		return usage("--data-dir: %w", err)
	}
	rel, err := filepath.Rel(absData, absSink)
	if err != nil {
		return usage("--failed-documents: %w", err)
	}
	if rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return usage("--failed-documents %s is inside the data directory %s, which may be wiped any time", sink, dataDir)
	}
	return nil
}

// resolved is the absolute path without symbolic links, as far as there is something.
func resolved(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest), nil
		}
		if dir == filepath.Dir(dir) {
			return path, nil
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}
