package phase_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// begun is a session that was begun with an identity and has done one item of index a: recorded reports whether the
// target's UUID is recorded, as before documents go to a cluster.
func begun(t *testing.T, identity map[string]string, recorded bool) (*migrationtest.Memory, *migrationtest.Outside) {
	t.Helper()
	m, x := migrationtest.NewMemory(), migrationtest.NewOutside()
	s := process(t, m, x, 1, &migrationtest.Life{})
	s.Identity, s.Phases = identity, phase.Phases{phase.PhaseDocuments}
	s.Indices, s.Targets, s.Snapshot = nil, nil, phase.SnapshotOptions{Name: "nightly"}
	p := threeIndices()
	p.Identity = "uuid 1"
	for i := range p.Indices {
		p.Indices[i].Entry.Locator.SnapshotName, p.Indices[i].Entry.Locator.SnapshotUUID = "nightly", "uuid 1"
	}
	plans(s, p)
	if err := toItems(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	done := m.Items[cms.ItemID{Index: "a"}.String()]
	done.CompletedAt, done.Counts = 1, cms.Counts{Live: 5, Indexed: 5}
	m.Items[done.ID] = done
	if recorded {
		if _, err := session.EntriesOf(s.Coordinator).ClaimTarget(t.Context(), "a", "uuid of a"); err != nil {
			t.Fatal(err)
		}
	}
	return m, x
}

func TestIdentityOfASession(t *testing.T) {
	dry := map[string]string{phase.DestinationKey: phase.KindDryRun, phase.PipelinesKey: "false"}
	toCluster := func(id string) map[string]string {
		return map[string]string{phase.DestinationKey: phase.KindCluster, phase.DestinationIDKey: id, phase.PipelinesKey: "false"}
	}
	toFiles := func(id, compression string) map[string]string {
		return map[string]string{phase.DestinationKey: phase.KindFiles, phase.DestinationIDKey: id, phase.CompressionKey: compression}
	}
	for _, c := range []struct {
		name     string
		was, is  map[string]string
		recorded bool   // the session recorded the UUIDs of target indices
		uuid     string // of the snapshot in the repository now
		refused  []string
	}{
		{name: "the same cluster", was: toCluster("c1"), is: toCluster("c1"), recorded: true},
		{name: "a cluster without UUID", was: toCluster("c1"), is: toCluster(""), recorded: true},
		{name: "state of a dry run, now a cluster", was: dry, is: toCluster("c1"), refused: []string{`destination was "dry run`, `is "cluster"`, "--session-name"}},
		{name: "another cluster", was: toCluster("c1"), is: toCluster("c2"), recorded: true, refused: []string{`destination-id was "c1", is "c2"`}},
		{name: "another export directory", was: toFiles("d1", "none"), is: toFiles("d2", "none"), refused: []string{`destination-id was "d1", is "d2"`}},
		{name: "another compression", was: toFiles("d1", "zstd"), is: toFiles("d1", "gzip"), refused: []string{`export-compression was "zstd", is "gzip"`}},
		{name: "with pipelines", was: toCluster("c1"), is: map[string]string{phase.DestinationKey: phase.KindCluster, phase.DestinationIDKey: "c1", phase.PipelinesKey: "true"}, refused: []string{`run-pipelines was "false", is "true"`}},
		{name: "another snapshot under the name", was: toCluster("c1"), is: toCluster("c1"), recorded: true, uuid: "uuid 2", refused: []string{`snapshot-uuid was "uuid 1", is "uuid 2"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, x := begun(t, c.was, c.recorded)
				x.UUIDs = map[string]string{"a": "uuid of a", "b": "uuid of b", "c": "uuid of c"}
				s := process(t, m, x, 2, &migrationtest.Life{})
				s.Identity, s.Snapshot, s.Phases = c.is, phase.SnapshotOptions{Name: "nightly"}, phase.Phases{phase.PhaseDocuments}
				if c.is[phase.DestinationKey] != phase.KindCluster {
					s.Targets, s.Indices = nil, nil
				}
				p := threeIndices()
				if p.Identity = "uuid 1"; c.uuid != "" {
					p.Identity = c.uuid
				}
				plans(s, p)
				err := toItems(t.Context(), s)
				if len(c.refused) == 0 && err != nil || len(c.refused) > 0 && !errors.Is(err, fault.ErrConfig) {
					t.Fatalf("%v", err)
				}
				for _, word := range c.refused {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("%q is not in: %v", word, err)
					}
				}
			})
		})
	}
}

// TestMigrates_SnapshotOfARound: the snapshots of a session are its own and those of the later rounds that have arrived.
func TestMigrates_SnapshotOfARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, x := begun(t, map[string]string{phase.DestinationKey: phase.KindCluster}, false)
		c := process(t, m, x, 2, &migrationtest.Life{}).Coordinator
		check := func(when, identity string, want, wantLater bool) {
			t.Helper()
			if is, later, err := phase.Migrates(t.Context(), c, &plan.Plan{Identity: identity}); err != nil || is != want || later != wantLater {
				t.Errorf("%s, %q: %t, later %t, %v", when, identity, is, later, err)
			}
		}
		check("round 0", "uuid 1", true, false)
		check("round 0", "uuid 2", false, false)
		check("round 0", "", false, false)
		rounds := session.RoundsOf(c)
		for n, identity := range []string{"uuid 1", "uuid 2"} {
			if _, err := rounds.Start(t.Context(), session.Round{Number: n, Snapshot: identity}); err != nil {
				t.Fatal(err)
			}
			if n == 1 {
				check("round 1 runs", "uuid 1", true, true)
				check("round 1 runs", "uuid 2", false, false)
			}
			if _, err := rounds.Arrive(t.Context(), session.Round{Number: n, Snapshot: identity, Identity: identity}); err != nil {
				t.Fatal(err)
			}
		}
		check("round 1", "uuid 1", true, true)
		check("round 1", "uuid 2", true, false)
		check("round 1", "uuid 3", false, false)
	})
}

// TestDoneWorkIsOfTheSnapshotInTheRepository: a process that finds everything done has not planned.
func TestDoneWorkIsOfTheSnapshotInTheRepository(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, x := begun(t, map[string]string{phase.DestinationKey: phase.KindDryRun}, false)
		m.Items = map[string]cms.Item{}
		m.Records["phase:docs"] = cms.Record{ID: "phase:docs", Kind: "phase", State: session.PhaseCompleted}
		for id, want := range map[string]error{"uuid 1": cms.ErrAllDone, "uuid 2": fault.ErrConfig} {
			s := process(t, m, x, 2, &migrationtest.Life{})
			s.Phases, s.Snapshot = phase.Phases{phase.PhaseDocuments}, phase.SnapshotOptions{Name: "nightly"}
			s.SnapshotUUID = func(context.Context, string) (string, error) { return id, nil }
			if _, _, err := s.RunOne(t.Context(), nil); !errors.Is(err, want) {
				t.Errorf("%s: %v", id, err)
			}
		}
	})
}
