package phase_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/live"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// inPhases runs f in virtual time, with a fresh store and fresh clusters.
func inPhases(t *testing.T, f func(t *testing.T, m *migrationtest.Memory, x *migrationtest.Outside)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m, x := newMemory(), migrationtest.NewOutside()
		f(t, m, x)
		for _, err := range m.Strange {
			t.Error(err)
		}
	})
}

func TestAnIndexThatCannotBeCreatedFailsAloneWithTheTargetsWords(t *testing.T) {
	inPhases(t, func(t *testing.T, m *migrationtest.Memory, x *migrationtest.Outside) {
		x.Refuse["b"] = "analyzer [snowy] not found"
		s := process(t, m, x, 1, &migrationtest.Life{})
		if err := toItems(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b", "c"} {
			e, err := session.EntriesOf(s.Coordinator).Read(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if failed := e.State == session.PhaseFailed; failed != (name == "b") || failed != strings.Contains(e.Error, "analyzer [snowy] not found") {
				t.Errorf("%+v", e)
			}
		}
		if n := m.Events("failed"); n != 1 {
			t.Errorf("%d events", n)
		}
		open := 0
		for _, it := range m.Items {
			id, err := it.Range()
			switch {
			case err != nil:
			case it.Open():
				open++
			case id.Index != "b" || !it.FailedItem() || !strings.Contains(it.Failure, "snowy"):
				t.Errorf("item %+v", it)
			}
		}
		if open != 4 {
			t.Errorf("%d open items of the other indices", open)
		}
		// The audit tells nothing twice.
		if _, err := session.AuditsOf(s.Coordinator).Run(t.Context()); err != nil || m.Events("failed") != 1 {
			t.Errorf("%v, %d events", err, m.Events("failed"))
		}
		// The target has been repaired, and the command runs again.
		x.Refuse = nil
		again := process(t, m, x, 2, &migrationtest.Life{})
		if err := again.ReopenFailed(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := toItems(t.Context(), again); err != nil {
			t.Fatal(err)
		}
		if e, err := session.EntriesOf(again.Coordinator).Read(t.Context(), "b"); err != nil || e.State != session.PhaseCompleted {
			t.Errorf("%+v, %v", e, err)
		}
		if err := again.RetryFailed(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := again.Coordinator.Pending(t.Context()); err != nil || n != 6 {
			t.Errorf("%d open items, %v", n, err)
		}
	})
}

func TestASnapshotOfTheNameThatIsNotOursIsNeverUsed(t *testing.T) {
	inPhases(t, func(t *testing.T, m *migrationtest.Memory, x *migrationtest.Outside) {
		x.Snapshots["rfs-s"] = live.State{UUID: "foreign", State: "SUCCESS"}
		s := process(t, m, x, 1, &migrationtest.Life{})
		err := toItems(t.Context(), s)
		var failed *phase.PhaseFailed
		if !errors.As(err, &failed) || failed.Phase != phase.PhaseSnapshot || !strings.Contains(err.Error(), "--retry-snapshot") || m.Events("failed") != 1 {
			t.Fatalf("%v, %d events", err, m.Events("failed"))
		}
		if err := toItems(t.Context(), process(t, m, x, 2, &migrationtest.Life{})); !errors.As(err, &failed) || m.Events("failed") != 1 {
			t.Errorf("another process: %v, %d events", err, m.Events("failed"))
		}
		retry := process(t, m, x, 3, &migrationtest.Life{})
		retry.Snapshot.Retry = true
		if err := toItems(t.Context(), retry); err != nil {
			t.Fatal(err)
		}
		if p := retry.Planned(); p.Snapshot != "rfs-s-2" || p.UUID != "uuid of rfs-s-2" {
			t.Errorf("planned %s %s", p.Snapshot, p.UUID)
		}
	})
}

func TestTheRepositoryHoldsTheSnapshotThatWasCreated(t *testing.T) {
	inPhases(t, func(t *testing.T, m *migrationtest.Memory, x *migrationtest.Outside) {
		if err := toItems(t.Context(), process(t, m, x, 1, &migrationtest.Life{})); err != nil {
			t.Fatal(err)
		}
		s := process(t, m, x, 2, &migrationtest.Life{})
		s.Plan = func(context.Context, string) (*plan.Plan, error) {
			return &plan.Plan{Snapshot: "rfs-s", UUID: "another"}, nil
		}
		err := toItems(t.Context(), s)
		for _, word := range []string{"UUID another", "has uuid of rfs-s", "--repo-uri"} {
			if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), word) {
				t.Errorf("%q is not in: %v", word, err)
			}
		}
	})
}

// TestASnapshotReplacedWhileItRunsIsNeverUsed lets the creator die, and another client make
// another snapshot of the same name in its place.
func TestASnapshotReplacedWhileItRunsIsNeverUsed(t *testing.T) {
	for name, replace := range map[string]func(x *migrationtest.Outside){
		"another": func(x *migrationtest.Outside) { x.Snapshots["rfs-s"] = live.State{UUID: "foreign", State: "SUCCESS"} },
		"is gone": func(x *migrationtest.Outside) { delete(x.Snapshots, "rfs-s") },
	} {
		inPhases(t, func(t *testing.T, m *migrationtest.Memory, x *migrationtest.Outside) {
			x.Ends = "IN_PROGRESS" // it never ends by itself
			l := &migrationtest.Life{}
			s := process(t, m, x, 1, l)
			seen := 0
			s.Snapshots = watched{s.Snapshots, func() {
				if seen++; seen > 3 {
					l.Mu.Lock()
					l.Dead = true
					l.Mu.Unlock()
				}
			}}
			if err := toItems(t.Context(), s); !errors.Is(err, migrationtest.ErrDead) {
				t.Fatal(err)
			}
			replace(x)
			err := toItems(t.Context(), process(t, m, x, 2, &migrationtest.Life{}))
			var failed *phase.PhaseFailed
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), name) || x.Created["index a"] != 0 {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

func TestASourceThatMakesAnotherSnapshotIsWaitedFor(t *testing.T) {
	inPhases(t, func(t *testing.T, m *migrationtest.Memory, x *migrationtest.Outside) {
		x.Busy = 3000 // 100 minutes: longer than any lease
		s := process(t, m, x, 1, &migrationtest.Life{})
		if err := toItems(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if n := m.Events("failed"); n != 0 || x.Busy != 0 {
			t.Errorf("%d events, %d refusals left", n, x.Busy)
		}
		p, err := session.PhasesOf(s.Coordinator).Read(t.Context(), session.SnapshotPhase)
		if err != nil || p.State != session.PhaseCompleted || p.Attempts > 1 {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

func TestAFailedOrPartialSnapshotStopsWithTheCause(t *testing.T) {
	for _, c := range []struct {
		ends    string
		partial bool
		failed  bool
	}{{"FAILED", false, true}, {"FAILED", true, true}, {"PARTIAL", false, true}, {"PARTIAL", true, false}} {
		inPhases(t, func(t *testing.T, m *migrationtest.Memory, x *migrationtest.Outside) {
			x.Ends = c.ends
			s := process(t, m, x, 1, &migrationtest.Life{})
			s.Snapshot.AllowPartial = c.partial
			err := toItems(t.Context(), s)
			var failed *phase.PhaseFailed
			if errors.As(err, &failed) != c.failed || c.failed != strings.Contains(fmt.Sprint(err), c.ends) || m.Events("failed") > 1 {
				t.Errorf("%+v: %v, %d events", c, err, m.Events("failed"))
			}
		})
	}
}

// dated is a source that dates snapshots by their names.
type dated struct {
	phase.Snapshots
	started map[string]int64
}

func (d dated) State(ctx context.Context, name string) (live.State, error) {
	if name == "base" {
		return live.State{State: "SUCCESS", Started: d.started[name]}, nil
	}
	st, err := d.Snapshots.State(ctx, name)
	st.Started = d.started[name]
	return st, err
}

// TestSession_ASnapshotBeforeTheFormerOne: the clock of the source was set back between two rounds. When it is right again, --retry-snapshot
// makes another snapshot.
func TestSession_ASnapshotBeforeTheFormerOne(t *testing.T) {
	inPhases(t, func(t *testing.T, m *migrationtest.Memory, x *migrationtest.Outside) {
		started := map[string]int64{"base": 1_000_000, "rfs-s": 1_000_000, "rfs-s-2": 1_000_001}
		run := func(number int, retry bool) (session.Phase, error) {
			s := process(t, m, x, number, &migrationtest.Life{})
			s.Snapshot.Retry = retry
			s.Snapshots, s.Request = dated{s.Snapshots, started}, &plan.Request{Follow: &plan.Follow{Since: "base"}}
			err := toItems(t.Context(), s)
			p, rerr := session.PhasesOf(s.Coordinator).Read(t.Context(), session.SnapshotPhase)
			if rerr != nil {
				t.Fatal(rerr)
			}
			return p, err
		}
		var failed *phase.PhaseFailed
		p, err := run(1, false)
		if p.State != session.PhaseFailed || !errors.As(err, &failed) || !strings.Contains(err.Error(), "the clock") || !strings.Contains(err.Error(), "--retry-snapshot") {
			t.Fatalf("%+v, %v", p, err)
		}
		if p, err := run(2, true); p.State != session.PhaseCompleted || !strings.Contains(string(p.Body), "rfs-s-2") {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// TestSession_ItsSnapshotIsGone: a session that was started with a snapshot names the way on when the repository has lost it, and one that
// was not started names the snapshots that exist.
func TestSession_ItsSnapshotIsGone(t *testing.T) {
	inPhases(t, func(t *testing.T, m *migrationtest.Memory, x *migrationtest.Outside) {
		gone := func(context.Context, string) (*plan.Plan, error) {
			_, err := new(snapshot.Catalog).Find("rfs-s")
			return nil, err
		}
		run := func(number int, read func(context.Context, string) (*plan.Plan, error)) error {
			s := process(t, m, x, number, &migrationtest.Life{})
			s.Plan = read
			if err := s.Join(t.Context()); err != nil {
				t.Fatal(err)
			}
			return s.Through(t.Context(), &retry.Outage{Now: func() time.Duration { return 0 }})
		}
		const remedy = "the session cannot continue"
		if err := run(1, gone); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), `no snapshot "rfs-s"`) || strings.Contains(err.Error(), remedy) {
			t.Errorf("before a plan: %v", err)
		}
		if err := run(2, func(context.Context, string) (*plan.Plan, error) {
			p := threeIndices()
			p.Identity = "identity"
			return p, nil
		}); err != nil {
			t.Error(err)
		}
		if err := run(3, gone); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), `no snapshot "rfs-s"`) || !strings.Contains(err.Error(), remedy) || !strings.Contains(err.Error(), "rfsctl undo") {
			t.Errorf("after a plan: %v", err)
		}
	})
}

// TestSession_ASnapshotThatFailsAgain: with --retry-snapshot each run of the command makes another snapshot, and in a round of a cluster
// that is followed also without it, where failed ones are deleted. No snapshot of others is deleted or used.
func TestSession_ASnapshotThatFailsAgain(t *testing.T) {
	foreign := live.State{UUID: "of others", State: "SUCCESS"}
	for _, c := range []struct {
		name    string
		options func(*phase.SnapshotOptions)
		there   map[string]live.State // before the first run
		runs    []string              // what the snapshot of each run becomes
		want    string                // snapshot of the last run
		left    []string
		failed  bool
		says    string
	}{
		{"a migration", func(*phase.SnapshotOptions) {}, nil, []string{"FAILED", "SUCCESS"}, "rfs-s", []string{"rfs-s"}, true, "run again with --retry-snapshot"},
		{"--retry-snapshot", func(o *phase.SnapshotOptions) { o.Retry = true }, nil, []string{"FAILED", "PARTIAL", "SUCCESS"}, "rfs-s-4", []string{"rfs-s-2", "rfs-s-3", "rfs-s-4"}, false, ""},
		{"a round", func(o *phase.SnapshotOptions) { o.Renews = true }, nil, []string{"PARTIAL", "FAILED", "SUCCESS"}, "rfs-s-3", []string{"rfs-s-3"}, false, ""},
		{"a round that fails again", func(o *phase.SnapshotOptions) { o.Renews = true }, nil, []string{"PARTIAL", "FAILED"}, "rfs-s-2", []string{"rfs-s-2"}, true, "the next run of the same command makes another snapshot"},
		{"a snapshot of others has the name", func(o *phase.SnapshotOptions) { o.Renews = true }, map[string]live.State{"rfs-s": foreign, "rfs-s-2": foreign}, []string{"", "", "SUCCESS"}, "rfs-s-3", []string{"rfs-s", "rfs-s-2", "rfs-s-3"}, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inPhases(t, func(t *testing.T, m *migrationtest.Memory, x *migrationtest.Outside) {
				maps.Copy(x.Snapshots, c.there)
				var err error
				var p session.Phase
				for i, ends := range c.runs {
					x.Ends = ends
					s := process(t, m, x, i, &migrationtest.Life{})
					c.options(&s.Snapshot)
					if err = s.Join(t.Context()); err == nil {
						err = s.ReopenFailed(t.Context())
					}
					if err != nil {
						t.Fatal(err)
					}
					err = toItems(t.Context(), s)
					if p, _ = session.PhasesOf(s.Coordinator).Read(t.Context(), session.SnapshotPhase); p.State == session.PhaseCompleted && i < len(c.runs)-1 {
						t.Fatalf("run %d: %s", i, p.Body)
					}
				}
				r, derr := phase.DecodeSnapshot(p.Body)
				if derr != nil || r.Name != c.want || (p.State == session.PhaseFailed) != c.failed {
					t.Errorf("%s is %s, %v", r.Name, p.State, derr)
				}
				if left := slices.Sorted(maps.Keys(x.Snapshots)); !slices.Equal(left, c.left) {
					t.Errorf("the source has %q, want %q", left, c.left)
				}
				var failed *phase.PhaseFailed
				if c.failed && (!errors.As(err, &failed) || !strings.Contains(failed.Error(), c.says) || failed.Renewed == (c.name == "a migration")) {
					t.Error(err)
				}
			})
		})
	}
}

func TestAPhaseThatFailsTooOftenIsFailedWithOneEvent(t *testing.T) {
	inPhases(t, func(t *testing.T, m *migrationtest.Memory, x *migrationtest.Outside) {
		x.Globals = fmt.Errorf("template t: unknown setting: %w", fault.ErrRejected)
		var failed *phase.PhaseFailed
		err := toItems(t.Context(), process(t, m, x, 1, &migrationtest.Life{}))
		if !errors.As(err, &failed) || !strings.Contains(failed.Reason, "unknown setting") || m.Events("failed") != 1 || x.Sent != timing.DefaultMaxAttempts {
			t.Fatalf("%d attempts, %v, %d events", x.Sent, err, m.Events("failed"))
		}
		if words := failed.Error(); strings.Contains(words, "--retry-snapshot") || !strings.Contains(words, "run the same command") {
			t.Errorf("the remedy of another phase: %s", words)
		}
		// What the user has to change, or an outage, is no attempt.
		x.Globals = fmt.Errorf("no permission: %w", fault.ErrConfig)
		s := process(t, m, x, 50, &migrationtest.Life{})
		if err := s.ReopenFailed(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if err := toItems(t.Context(), s); !errors.Is(err, fault.ErrConfig) {
				t.Fatal(err)
			}
		}
		x.Globals = nil
		if err := toItems(t.Context(), s); err != nil {
			t.Error(err)
		}
	})
}

// TestSession_DamageOfTheRepositoryEndsAPhaseAtOnce has a blob that the phase needs be damaged: no attempt is repeated, until the
// operator has repaired it and runs the command again.
func TestSession_DamageOfTheRepositoryEndsAPhaseAtOnce(t *testing.T) {
	inPhases(t, func(t *testing.T, m *migrationtest.Memory, x *migrationtest.Outside) {
		x.Globals = fault.Corrupt("meta-u.dat", "", 17, "it has no codec header")
		s := process(t, m, x, 1, &migrationtest.Life{})
		err := toItems(t.Context(), s)
		var failed *phase.PhaseFailed
		if !errors.As(err, &failed) || !strings.Contains(failed.Reason, "meta-u.dat") || !strings.Contains(failed.Reason, "17") || m.Events("failed") != 1 {
			t.Errorf("%v, %d events", err, m.Events("failed"))
		}
		x.Globals = nil
		s = process(t, m, x, 2, &migrationtest.Life{})
		if err := s.ReopenFailed(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := toItems(t.Context(), s); err != nil {
			t.Errorf("repaired: %v", err)
		}
	})
}

func TestWithoutThePhaseIndicesNothingIsCreatedAndTheMissingFail(t *testing.T) {
	inPhases(t, func(t *testing.T, m *migrationtest.Memory, x *migrationtest.Outside) {
		x.UUIDs["a"], x.UUIDs["c"] = "made by hand", "made by hand"
		s := process(t, m, x, 1, &migrationtest.Life{})
		s.Phases = phase.Phases{phase.PhaseDocuments}
		s.Snapshot = phase.SnapshotOptions{Name: "rfs-s"}
		if err := toItems(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if len(x.Created) > 0 {
			t.Errorf("created %v", x.Created)
		}
		failed := 0
		for _, it := range m.Items {
			if it.FailedItem() {
				failed++
				if id, err := it.Range(); err != nil || id.Index != "b" || !strings.Contains(it.Failure, "does not exist on the target") {
					t.Errorf("%+v", it)
				}
			}
		}
		if failed != 2 || m.Events("failed") != 1 {
			t.Errorf("%d failed items, %d events", failed, m.Events("failed"))
		}
		// A second run does not try what cannot succeed.
		if err := s.RetryFailed(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Coordinator.Pending(t.Context()); err != nil || n != 4 {
			t.Errorf("%d open items in the second run, %v", n, err)
		}
	})
}

func TestLateAliasesWaitForEveryDocument(t *testing.T) {
	inPhases(t, func(t *testing.T, m *migrationtest.Memory, x *migrationtest.Outside) {
		s := process(t, m, x, 1, &migrationtest.Life{})
		if err := toItems(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		end := func(index, status string) {
			for id, it := range m.Items {
				if r, err := it.Range(); err == nil && r.Index == index && it.Open() {
					it.CompletedAt, it.Status, it.Engine = 1, status, "go"
					m.Items[id] = it
				}
			}
		}
		end("a", "")
		end("b", cms.StatusFailed)
		for range 2 {
			if _, _, err := s.EndDocuments(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			if len(x.AliasesOf) != 1 || !strings.Contains(x.AliasesOf["a"], "alias-of-a") {
				t.Errorf("aliases %v", x.AliasesOf)
			}
		}
		x.AliasesOf["a"] = ""
		if _, _, err := s.EndDocuments(t.Context(), true); err != nil || x.AliasesOf["a"] != "" {
			t.Errorf("set twice: %v, %v", x.AliasesOf, err)
		}
	})
}

// watched tells when the state of a snapshot is asked for.
type watched struct {
	phase.Snapshots
	asked func()
}

func (w watched) State(ctx context.Context, name string) (live.State, error) {
	w.asked()
	return w.Snapshots.State(ctx, name)
}
