package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// fastidious takes what it is sent but for the first document of each request, and keeps the action lines.
type fastidious struct {
	migrationtest.Sink
	mu      sync.Mutex
	actions []bulk.Key
}

func (f *fastidious) Open(context.Context, cms.ItemID, func() error) (engine.Output, error) {
	return f, nil
}

func (f *fastidious) Send(_ context.Context, body []byte, _ int) (bulk.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(body) > 0 {
		action, rest, _ := bytes.Cut(body, []byte("\n"))
		var a struct{ Index bulk.Key }
		if err := json.Unmarshal(action, &a); err != nil {
			return bulk.Result{}, err
		}
		f.actions = append(f.actions, a.Index)
		_, body, _ = bytes.Cut(rest, []byte("\n"))
	}
	return bulk.Result{Refused: []bulk.Refusal{{Status: 400, Type: "mapper_parsing_exception"}}}, nil
}

// kept keeps failed documents.
type kept struct{ failures *[]doc.Failure }

func (r kept) Record(_ context.Context, failures []doc.Failure) error {
	*r.failures = append(*r.failures, failures...)
	return nil
}

func (kept) Sync(context.Context) error { return nil }

// TestWhatIsRefusedStatesWhereItComesFrom migrates the second shard of an index with its mapping type.
func TestWhatIsRefusedStatesWhereItComesFrom(t *testing.T) {
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "6.8.23-plain"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitOn})
	if err != nil {
		t.Fatal(err)
	}
	to := &fastidious{}
	var failures []doc.Failure
	s := migrationtest.NewShard(t, migrationtest.NewMemory(), to, time.Minute, 40)
	s.Entry, s.ID = plan.Indices[0].Entry, cms.ItemID{Index: plan.Indices[0].Name, Shard: 1}
	s.Reader.Repo, s.Runner.Failed = blobs, kept{failures: &failures}
	if _, err := s.Coordinator.SeedItems(t.Context(), slices.Values([]cms.ItemID{s.ID})); err != nil {
		t.Fatal(err)
	}
	if outcome, err := s.Run(t.Context(), s.Lease(t)); outcome != engine.Completed || err != nil {
		t.Fatalf("%v: %v", outcome, err)
	}
	for _, a := range to.actions {
		if a.Type != plan.Indices[0].Entry.Naming.Types[0] {
			t.Fatalf("sent without its type: %+v", a)
		}
	}
	if len(failures) == 0 || len(failures) == len(to.actions) {
		t.Fatalf("%d of %d documents are recorded", len(failures), len(to.actions))
	}
	for _, f := range failures {
		if f.Shard != 1 || f.Index != s.Entry.Naming.Index || f.ID == "" || f.Type == "" {
			t.Errorf("recorded as %+v", f)
		}
	}
	if it := s.Item(t); it.Counts.Failed != int64(len(failures)) {
		t.Errorf("counted as %+v", it.Counts)
	}
}

// TestNewerDocumentsAreSentWithTheirVersions: the target compares them with its own.
func TestNewerDocumentsAreSentWithTheirVersions(t *testing.T) {
	for existing, versions := range map[bulk.Existing]bool{bulk.Newer: true, bulk.Overwrite: false} {
		to := &migrationtest.Sink{Docs: map[string][32]byte{}}
		s := migrationtest.NewShard(t, migrationtest.NewMemory(), to, time.Minute, 100)
		s.Runner.Bulk.Existing = existing
		if outcome, err := s.Run(t.Context(), s.Lease(t)); outcome != engine.Completed || err != nil {
			t.Fatalf("%s: %v: %v", existing, outcome, err)
		}
		for action := range to.Docs {
			var a struct {
				Index struct{ Version int64 }
			}
			if err := json.Unmarshal([]byte(action), &a); err != nil || (a.Index.Version > 0) != versions {
				t.Fatalf("%s: %s, %v", existing, action, err)
			}
		}
	}
}

// lateOpen is a destination that opens after a while.
type lateOpen struct {
	*migrationtest.SlowSink
	after time.Duration
}

func (d lateOpen) Open(context.Context, cms.ItemID, func() error) (engine.Output, error) {
	time.Sleep(d.after)
	return d.SlowSink, nil
}

// TestAMeterSeesItemsInWorkAndFinishedOnes looks at it before the first document is sent, while they are sent, and after.
func TestAMeterSeesItemsInWorkAndFinishedOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := migrationtest.NewShard(t, migrationtest.NewMemory(), lateOpen{&migrationtest.SlowSink{Sink: migrationtest.Sink{Docs: map[string][32]byte{}}, Each: time.Second}, 7 * time.Second}, 10*time.Minute, 64) // 20 s for 1,280 documents
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if outcome, err := s.Run(t.Context(), s.Lease(t)); outcome != engine.Completed || err != nil {
				t.Errorf("%v: %v", outcome, err)
			}
		}()
		time.Sleep(5 * time.Second)
		if p := s.Runner.Meter.Read(time.Now()); p.Running != 1 || p.Items != 0 || p.Documents != 0 {
			t.Errorf("in setup: %+v", p)
		}
		time.Sleep(10*time.Second + time.Millisecond)
		if p := s.Runner.Meter.Read(time.Now()); p.Running != 1 || p.Items != 0 || p.Documents == 0 || p.Documents >= 1000 || p.Bytes == 0 {
			t.Errorf("in progress: %+v", p)
		}
		<-ended
		it := s.Item(t)
		if p := s.Runner.Meter.Read(time.Now()); p.Running != 0 || p.Items != 1 || p.Documents != it.Counts.Live || p.Bytes != it.Counts.Bytes || p.Documents == 0 {
			t.Errorf("finished: %+v, the item has %+v", p, it.Counts)
		}
		if it.SetupMs != 7000 {
			t.Errorf("setup took %d ms", it.SetupMs)
		}
	})
}
