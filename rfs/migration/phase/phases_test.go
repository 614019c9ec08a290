package phase_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// newMemory returns a store that keeps changes of phases that the table does not know.
func newMemory() *migrationtest.Memory {
	m := migrationtest.NewMemory()
	m.Follows = follows
	return m
}

// follows reports whether the table lets a state follow another.
func follows(name, was, is string) error {
	row, err := phase.RowFor(name, was)
	if err != nil {
		return err
	}
	if was != is && !slices.Contains(row.Next, is) && !slices.Contains(row.Again, is) {
		return fmt.Errorf("phase %s went from %q to %q", name, was, is)
	}
	return nil
}

// threeIndices is a snapshot with two shards in each of three indices.
func threeIndices() *plan.Plan {
	p := &plan.Plan{Snapshot: "rfs-s", UUID: "uuid of rfs-s"}
	for _, name := range []string{"a", "b", "c"} {
		p.Indices = append(p.Indices, plan.Index{Name: name, Source: &snapshot.Index{Name: name}, Entry: plan.Entry{
			Locator: snapshot.Locator{IndexName: name}, Naming: plan.Naming{Index: name}, Shards: 2,
		}})
	}
	return p
}

func threeIndicesOf(_ context.Context, name string) (*plan.Plan, error) {
	p := threeIndices()
	p.Snapshot, p.UUID = name, "uuid of "+name
	return p, nil
}

// process is a worker that sees the store and the clusters for as long as it lives.
func process(t *testing.T, store cms.Store, x *migrationtest.Outside, n int, l *migrationtest.Life) *phase.Session {
	t.Helper()
	coordinator := cms.New(cms.Config{Store: migrationtest.Mortal{Store: store, Life: l}, Creator: "test", InitialLease: time.Minute})
	on, log := migrationtest.Seen{Outside: x, Life: l}, slog.New(slog.DiscardHandler)
	return &phase.Session{
		Coordinator: coordinator, Holder: fmt.Sprint("process", n), Log: log, Settings: map[string]string{"snapshot": ""}, Phases: phase.Phases{phase.PhaseSnapshot, phase.PhaseMetadata, phase.PhaseIndices, phase.PhaseDocuments},
		Source:   phase.Source{Snapshot: phase.SnapshotOptions{Name: "rfs-s", Derived: true, Repository: "r"}, Snapshots: on, Plan: threeIndicesOf},
		Transfer: phase.Transfer{Runner: &engine.Runner{Clock: timing.SystemClock(), Log: log}},
		Cluster:  phase.Cluster{Globals: on.MigrateGlobals, Indices: on, Targets: on},
	}
}

// toItems runs the phases of one process up to the items, or until an error.
func toItems(ctx context.Context, s *phase.Session) error {
	if err := s.Join(ctx); err != nil {
		return err
	}
	return s.Through(ctx, &retry.Outage{Limit: time.Minute, Now: func() time.Duration { return s.Runner.Clock.Read().Mono }})
}

// plans makes p the plan of a session's snapshot.
func plans(s *phase.Session, p *plan.Plan) {
	s.Plan = func(context.Context, string) (*plan.Plan, error) { return p, nil }
}

// remains is what a migration leaves behind, without times, holders and attempts.
func remains(m *migrationtest.Memory, x *migrationtest.Outside) string {
	var b strings.Builder
	for _, err := range m.Strange {
		fmt.Fprintln(&b, err)
	}
	for _, id := range slices.Sorted(maps.Keys(m.Records)) {
		r := m.Records[id]
		if r.Kind == "meta" {
			continue
		}
		fmt.Fprintf(&b, "%s %s %q %s\n", id, r.State, r.Error, r.Body)
	}
	for _, id := range slices.Sorted(maps.Keys(m.Items)) {
		it := m.Items[id]
		fmt.Fprintf(&b, "%s open=%v %q\n", id, it.Open(), it.Failure)
	}
	fmt.Fprintf(&b, "%v %v\n", x.Created, x.UUIDs)
	return b.String()
}

// TestEveryDeathInThePhasesIsResumed lets a process die at each of its calls to the store
// and to the clusters, once before and once after the call had its effect. Another
// process goes on, and what is there in the end is what one process alone leaves.
func TestEveryDeathInThePhasesIsResumed(t *testing.T) {
	alone := &migrationtest.Life{}
	want := ""
	synctest.Test(t, func(t *testing.T) {
		m, x := newMemory(), migrationtest.NewOutside()
		if err := toItems(t.Context(), process(t, m, x, 1, alone)); err != nil {
			t.Fatal(err)
		}
		want = remains(m, x)
	})
	for _, word := range []string{"phase:snapshot COMPLETED", "phase:metadata COMPLETED", "phase:index COMPLETED", "phase:docs IN_PROGRESS", "index a:1 ", "snapshot rfs-s:1", `"ours":["a"]`, `"originals":true`, `"late_aliases":{"a"`} {
		if !strings.Contains(want, word) {
			t.Fatalf("one process alone leaves no %q:\n%s", word, want)
		}
	}
	for call := 1; call <= alone.Calls; call++ {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				m, x := newMemory(), migrationtest.NewOutside()
				first := &migrationtest.Life{Dies: call, After: after}
				if err := toItems(t.Context(), process(t, m, x, 1, first)); !first.Dead {
					t.Fatalf("call %d: the process ended with %v", call, err)
				}
				if err := toItems(t.Context(), process(t, m, x, 2, &migrationtest.Life{})); err != nil {
					t.Fatalf("death at call %d (after: %v): %v", call, after, err)
				}
				if got := remains(m, x); got != want {
					t.Errorf("death at call %d (after: %v):\n%s\nalone:\n%s", call, after, got, want)
				}
			})
		}
	}
	t.Logf("%d points of death", 2*alone.Calls)
}

// TestFiveProcessesDoEverythingOnce starts five processes at the same moment.
func TestFiveProcessesDoEverythingOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, x := newMemory(), migrationtest.NewOutside()
		var all sync.WaitGroup
		for n := range 5 {
			s := process(t, m, x, n, &migrationtest.Life{})
			all.Go(func() {
				if err := toItems(t.Context(), s); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, what := range []string{"snapshot rfs-s", "templates", "index a", "index b", "index c"} {
			if x.Created[what] != 1 {
				t.Errorf("%s was created %d times", what, x.Created[what])
			}
		}
		if x.Sent != 1 {
			t.Errorf("templates were asked for %d times", x.Sent)
		}
		if len(m.Items) != 7 {
			t.Errorf("%d items", len(m.Items))
		}
	})
}
