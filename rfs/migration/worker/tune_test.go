package worker

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
	"github.com/rfsd/rfsd/rfs/migration/arrival"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// wishes are what was asked of a Tuner.
type wishes struct {
	Tuner
	got []tuning.Wish
	err error
}

func (w *wishes) Tune(_ context.Context, _ []string, wish tuning.Wish) error {
	w.got = append(w.got, wish)
	return w.err
}

// TestRefreshesAreAMatterOfLargeIndicesOfOurs: small ones are sent before a refresh costs anything.
func TestRefreshesAreAMatterOfLargeIndicesOfOurs(t *testing.T) {
	forbidden := fmt.Errorf("403: %w", fault.ErrConfig)
	for _, c := range []struct {
		name  string
		wish  tuning.Wish
		entry plan.Entry
		err   error
		got   []tuning.Wish
		fails bool
	}{
		{"large", tuning.Refreshes, plan.Entry{Ours: []string{"a"}, Bytes: []int64{refreshedBytes / 2, refreshedBytes / 2}}, nil, []tuning.Wish{tuning.Refreshes}, false},
		{"small", tuning.Refreshes, plan.Entry{Ours: []string{"a"}, Bytes: []int64{refreshedBytes/2 - 1, refreshedBytes / 2}}, nil, nil, false},
		{"small, as asked", tuning.All, plan.Entry{Ours: []string{"a"}, Bytes: []int64{1}}, nil, []tuning.Wish{tuning.All}, false},
		{"of unknown size", tuning.Refreshes, plan.Entry{Ours: []string{"a"}}, nil, []tuning.Wish{tuning.Refreshes}, false},
		{"another's", tuning.All, plan.Entry{Bytes: []int64{refreshedBytes}}, nil, nil, false},
		{"a data stream", tuning.All, plan.Entry{Ours: []string{"a"}, Create: true}, nil, nil, false},
		{"not wished", tuning.Nothing, plan.Entry{Ours: []string{"a"}, Bytes: []int64{refreshedBytes}}, nil, nil, false},
		{"not permitted", tuning.Refreshes, plan.Entry{Ours: []string{"a"}}, forbidden, []tuning.Wish{tuning.Refreshes}, false},
		{"not permitted though asked for", tuning.All, plan.Entry{Ours: []string{"a"}}, forbidden, []tuning.Wish{tuning.All}, true},
	} {
		w := &wishes{err: c.err}
		s := &Session{Tuner: w, Tune: c.wish, Log: quiet()}
		if err := s.tune(t.Context(), c.entry); err != nil != c.fails || !slices.Equal(w.got, c.got) {
			t.Errorf("%s: asked for %v, %v", c.name, w.got, err)
		}
	}
}

// slowRestore takes its time, and reports the phase of the documents when it is done.
type slowRestore struct {
	Tuner
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
		w.with = func(m *Migration) {
			m.Counts = slowCounts{m.Counts}
			m.Tuner = slowRestore{m.Tuner, func() {
				if p, err := session.Of(m.Coordinator).Phase(t.Context(), session.DocsPhase); err != nil || p.State != session.PhaseAudit {
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
