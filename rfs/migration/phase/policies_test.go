package phase_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// short reads no document of more than 100 bytes.
type short struct{}

func (short) Edit(d *doc.Document, _ int64) (bool, error) {
	if len(d.Source) > 100 {
		return false, doc.ErrTooLong
	}
	return true, nil
}

func (short) Forget() {}

// attached is a target that records to which indices a policy was attached.
type attached struct {
	mu       sync.Mutex
	indices  []string // sorted
	patterns bool     // of the source were set
}

func (a *attached) Attachments(_ context.Context, p *plan.Plan) (map[string]metadata.Attachment, error) {
	all := map[string]metadata.Attachment{}
	for _, x := range p.Indices {
		all[x.Name] = metadata.Attachment{Policy: "keep"}
	}
	return all, nil
}

func (a *attached) Attach(_ context.Context, index string, _ metadata.Attachment) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.indices = slices.Sorted(slices.Values(append(a.indices, index)))
	return "", nil
}

func (a *attached) SetPatterns(context.Context, *plan.Plan, objects.Ledger) error {
	a.patterns = true
	return nil
}

// TestSession_PoliciesOfWholeIndices: a policy could lock or delete an index of which documents are still missing.
func TestSession_PoliciesOfWholeIndices(t *testing.T) {
	all := []string{"catalogue", "orders", "weblogs"}
	for _, c := range []struct {
		name   string
		long   bool // documents of more than 100 bytes fail
		fails  string
		change func(index string, e *plan.Entry)
		want   []string
		// Patterns attach policies to indices that are created later, so they are set when all documents have arrived.
		patterns bool
	}{
		{"all", false, "", func(string, *plan.Entry) {}, all, true},
		{"documents failed", true, "", func(string, *plan.Entry) {}, []string{"catalogue"}, false},
		{"an item failed", false, "orders", func(string, *plan.Entry) {}, []string{"catalogue", "weblogs"}, false},
		{"the target has fewer", false, "", func(index string, e *plan.Entry) {
			if index == "weblogs" {
				e.Arrival = &progress.Arrival{Problem: "documents are missing"}
			}
		}, []string{"catalogue", "orders"}, false},
		{"they have it already", false, "", func(_ string, e *plan.Entry) { e.Managed = true }, nil, false},
		{"others created them", false, "", func(_ string, e *plan.Entry) { e.Ours = nil }, nil, false},
		{"a trial run", false, "", func(_ string, e *plan.Entry) { e.Trial = &plan.Trial{} }, nil, false},
		{"data streams", false, "", func(_ string, e *plan.Entry) { e.Create = true }, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo"))
			if err != nil {
				t.Fatal(err)
			}
			store, err := boltcms.OpenTemporary(filepath.Join(t.TempDir(), "state.db"), time.Now)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			recorder, err := failed.Open(filepath.Join(t.TempDir(), "failed"), "test", failed.Full)
			if err != nil {
				t.Fatal(err)
			}
			defer recorder.Close()
			req := plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto}
			log := slog.New(slog.DiscardHandler)
			s := &phase.Session{
				Coordinator: cms.New(cms.Config{Store: store, Creator: "test"}), Holder: "worker", Settings: req.Settings(""), Log: log, Phases: phase.Phases{phase.PhaseDocuments},
				Source: phase.Source{Plan: func(ctx context.Context, _ string) (*plan.Plan, error) { return plan.New(ctx, blobs, req) }},
				Transfer: phase.Transfer{
					Shards: shards.Reader{Repo: blobs},
					Runner: &engine.Runner{Destination: engine.ToNowhere(), Failed: recorder, Meter: engine.NewMeter(), Clock: timing.SystemClock(), Log: log},
				},
			}
			if c.long {
				s.Shards.Edit = func(string) shards.DocumentEditor { return short{} }
			}
			for n := 0; ; n++ {
				_, _, err := s.RunOne(t.Context(), nil)
				if errors.Is(err, cms.ErrAllDone) {
					break
				}
				if err != nil || n > 20 {
					t.Fatal(err)
				}
				if n == 0 && c.fails != "" {
					if _, err := s.Coordinator.FailIndex(t.Context(), c.fails, "damaged"); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, index := range all {
				err := session.EntriesOf(s.Coordinator).UpdateBody(t.Context(), index, func(was json.RawMessage) json.RawMessage {
					e, err := plan.DecodeEntry(index, was)
					if err != nil {
						t.Fatal(err)
					}
					e.Ours = e.Naming.Targets()
					c.change(index, &e)
					body, err := e.Encode()
					if err != nil {
						t.Fatal(err)
					}
					return body
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			var p attached
			s.Policies = &p
			if _, _, err := s.EndDocuments(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(p.indices, c.want) || p.patterns != c.patterns {
				t.Errorf("attached to %q, index patterns %t", p.indices, p.patterns)
			}
		})
	}
}
