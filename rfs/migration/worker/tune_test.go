package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
	"github.com/rfsd/rfsd/rfs/migration/arrival"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// slowRestore takes its time, and reports the phase of the documents when it is done.
type slowRestore struct {
	phase.Tuner
	done func()
}

func (r slowRestore) Restore(ctx context.Context) ([]tuning.Restored, error) {
	time.Sleep(slowEnd)
	r.done()
	return r.Tuner.Restore(ctx)
}

// slowCounts is a target that takes its time for a refresh.
type slowCounts struct{ arrival.Counts }

func (c slowCounts) Refresh(ctx context.Context, index string) error {
	time.Sleep(slowEnd)
	return c.Counts.Refresh(ctx, index)
}

const slowEnd = time.Minute

// TestSettingsComeBackWhileDocumentsAreCounted: neither waits for the other, and a run does not end before both are done.
func TestSettingsComeBackWhileDocumentsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		restored := 0
		w.with = func(m *worker.Migration) {
			m.Counts = slowCounts{m.Counts}
			m.Tuner = slowRestore{m.Tuner, func() {
				if p, err := session.PhasesOf(m.Coordinator).Read(t.Context(), session.DocsPhase); err != nil || p.State != session.PhaseAudit {
					t.Errorf("restored when the documents are %s, %v", p.State, err)
				}
				restored++
			}}
		}
		began := time.Now()
		sum, err := w.run(t, 1, &migrationtest.Life{})
		if err != nil || !sum.Complete || restored != 1 || w.on.Created["tuned"] != 0 {
			t.Fatalf("%.300v, %v, restored %d times", sum, err, restored)
		}
		if d := time.Since(began); d > 2*slowEnd+slowEnd/2 { // one refresh is before the first document
			t.Errorf("it took %v", d)
		}
	})
}
