package shards_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// TestNoErrorOfReadingIsOverlooked lets each request to a repository fail once, while a snapshot is planned and read.
func TestNoErrorOfReadingIsOverlooked(t *testing.T) {
	fixtures := filepath.Join("..", "..", "..", "testing", "fixtures")
	for _, c := range []struct {
		name, dir string
		req       plan.Request
	}{
		{"types with parents", filepath.Join("..", "worker", "testdata", "5.6.16-family"), plan.Request{ParentJoin: "relation"}},
		{"data streams", filepath.Join(fixtures, "os2.19.4-data-stream"), plan.Request{DataStreams: plan.StreamsCreate}},
		{"sources that are rebuilt", filepath.Join(fixtures, "os3.8.0-derived"), plan.Request{}},
		{"sources that are completed", filepath.Join("..", "..", "source", "rebuild", "testdata", "7.10.2-switched-off"), plan.Request{RebuildSources: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			blobs, err := repo.NewDir(c.dir)
			if err != nil {
				t.Fatal(err)
			}
			c.req.SnapshotName, c.req.MultiType, c.req.EmitType = "snap1", plan.SplitTypes, plan.EmitAuto
			read := func(l *migrationtest.Life) (documents int64, err error) {
				on := failingRepo{blobs, l}
				plan, err := plan.New(t.Context(), on, c.req)
				if err != nil {
					return 0, err
				}
				for _, x := range plan.Indices {
					for shard := range x.Entry.Shards {
						if _, err := shards.Count(t.Context(), on, x.Entry, shard); err != nil {
							return 0, err
						}
						count := func(*doc.Document) error { documents++; return nil }
						err := shards.Read(t.Context(), on, x.Entry, shard, nil, shards.Documents{Send: count, Filter: count, Fail: func(*doc.Failure) error { documents++; return nil }})
						if err != nil {
							return 0, err
						}
					}
				}
				return documents, nil
			}
			calls := &migrationtest.Life{}
			want, err := read(calls)
			if err != nil || want == 0 {
				t.Fatalf("%d documents, %v", want, err)
			}
			away := fmt.Errorf("no route to host: %w", fault.ErrUnavailable)
			overlooked := 0
			for n := 1; n <= calls.Calls; n += max(1, calls.Calls/100) {
				switch got, err := read(&migrationtest.Life{Dies: n, Fails: away}); {
				case err == nil && got == want:
					overlooked++ // index.latest and the list of the root stand in for each other
				case !errors.Is(err, away) || errors.Is(err, fault.ErrCorrupt):
					t.Errorf("request %d of %d: %d of %d documents, %v", n, calls.Calls, got, want, err)
				}
			}
			if overlooked > 2 {
				t.Errorf("%d of %d requests are not needed", overlooked, calls.Calls)
			}
		})
	}
}

// failingRepo is a repository that fails with its process.
type failingRepo struct {
	snapshot.Repository
	life *migrationtest.Life
}

func (r failingRepo) Open(ctx context.Context, name string, off, n int64) (rc io.ReadCloser, err error) {
	if derr := r.life.Call(func() { rc, err = r.Repository.Open(ctx, name, off, n) }); derr != nil {
		return nil, derr
	}
	return rc, err
}

func (r failingRepo) List(ctx context.Context, prefix string) iter.Seq2[repo.Blob, error] {
	return migrationtest.FailsFirst(r.life, r.Repository.List(ctx, prefix))
}

// TestTheSourceIsNotKnownWhileItsMetadataCannotBeRead: an outage is no proof that the target is another cluster.
func TestTheSourceIsNotKnownWhileItsMetadataCannotBeRead(t *testing.T) {
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo"))
	if err != nil {
		t.Fatal(err)
	}
	l := &migrationtest.Life{}
	plan, err := plan.New(t.Context(), failingRepo{blobs, l}, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	l.Dies, l.Fails = l.Calls+1, fmt.Errorf("no route to host: %w", fault.ErrUnavailable)
	if _, err := creation.CheckSource(t.Context(), plan, "a cluster", noUUIDs{}, false); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("the metadata cannot be read: %v", err)
	}
	if _, err := creation.CheckSource(t.Context(), plan, "a cluster", noUUIDs{}, false); err != nil {
		t.Errorf("it can be read again: %v", err)
	}
}

// noUUIDs is a target without indices.
type noUUIDs struct{}

func (noUUIDs) IndexUUIDs(context.Context, []string) (map[string]string, error) { return nil, nil }
