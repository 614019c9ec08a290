package phase_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// TestWhatIsCreatedIsRecordedAfterEveryDeath lets a process die at each of its calls: no index is on the target without a
// record, and the next process completes the record with the UUID. An index that was there before has none.
func TestWhatIsCreatedIsRecordedAfterEveryDeath(t *testing.T) {
	keeping := func(m *migrationtest.Memory, x *migrationtest.Outside, n int, l *migrationtest.Life) *phase.Session {
		s := process(t, m, x, n, l)
		s.Phases, s.Snapshot = phase.Phases{phase.PhaseIndices}, phase.SnapshotOptions{Name: "rfs-s"}
		s.Ledger = rollback.NewLedger(migrationtest.Seen{Outside: x, Life: l}, s.Coordinator, "", s.Log)
		x.UUIDs["b"] = "uuid of before"
		return s
	}
	alone := &migrationtest.Life{}
	synctest.Test(t, func(t *testing.T) {
		if err := toItems(t.Context(), keeping(migrationtest.NewMemory(), migrationtest.NewOutside(), 1, alone)); err != nil {
			t.Fatal(err)
		}
	})
	for call := 1; call <= alone.Calls; call++ {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				m, x := migrationtest.NewMemory(), migrationtest.NewOutside()
				first := &migrationtest.Life{Dies: call, After: after}
				if err := toItems(t.Context(), keeping(m, x, 1, first)); !first.Dead {
					t.Fatalf("call %d: the process ended with %v", call, err)
				}
				recorded := m.Creations(t)
				for name := range x.UUIDs {
					if (recorded[name] == "") != (name == "b") {
						t.Errorf("death at call %d (after: %v): %s is on the target, recorded %v", call, after, name, recorded)
					}
				}
				if err := toItems(t.Context(), keeping(m, x, 2, &migrationtest.Life{})); err != nil {
					t.Fatalf("death at call %d (after: %v): %v", call, after, err)
				}
				recorded = m.Creations(t)
				for _, name := range []string{"a", "c"} {
					if !strings.HasPrefix(recorded[name], session.CreationDone) || !strings.Contains(recorded[name], x.UUIDs[name]) {
						t.Errorf("death at call %d (after: %v): in the end %v", call, after, recorded)
					}
				}
				if len(recorded) != 2 {
					t.Errorf("death at call %d (after: %v): in the end %v", call, after, recorded)
				}
			})
		}
	}
	t.Logf("%d points of death", 2*alone.Calls)
}
