package worker_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// blind is a store that holds items and finds none, as an index with a wrong mapping.
type blind struct{ *migrationtest.Memory }

func (blind) Open(context.Context) (cms.Open, error) { return cms.Open{}, nil }

// TestARunThatFindsNoItemStatesWhyItIsNotComplete: open items that no search finds are no end of the documents.
func TestARunThatFindsNoItemStatesWhyItIsNotComplete(t *testing.T) {
	s := migrationtest.NewShard(t, blind{migrationtest.NewMemory()}, &migrationtest.Sink{Docs: map[string][32]byte{}}, 10*time.Minute, 64)
	p, err := plan.New(t.Context(), s.Reader.Repo, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	s.Runner.Bulk = bulk.Options{MaxDocs: 64, MaxInFlight: 1}
	m := &worker.Migration{Slots: 1, Unavailable: time.Minute, Session: &phase.Session{
		Coordinator: s.Coordinator, Holder: "h", Log: slog.New(slog.DiscardHandler), Phases: phase.Phases{phase.PhaseDocuments},
		Source:   phase.Source{Plan: func(context.Context, string) (*plan.Plan, error) { return p, nil }},
		Transfer: phase.Transfer{Runner: s.Runner, Shards: *s.Reader},
	}}
	sum, err := m.Run(t.Context())
	if err == nil || sum.Complete || !strings.Contains(err.Error(), "1 work items are open and none of them is free or can be found") || !strings.Contains(err.Error(), "rfsctl items list") {
		t.Errorf("%+v: %v", sum, err)
	}
}
