package phase_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// requests counts the writes of records, and of items, that one process sends.
type requests struct {
	cms.Store
	n *atomic.Int64
}

func (r requests) Put(ctx context.Context, x cms.Record) (cms.Revision, error) {
	r.n.Add(1)
	return r.Store.Put(ctx, x)
}

func (r requests) PutAll(ctx context.Context, x []cms.Record) ([]error, error) {
	r.n.Add(1)
	return r.Store.PutAll(ctx, x)
}

func (r requests) Create(ctx context.Context, x []cms.Item) (int, error) {
	r.n.Add(1)
	return r.Store.Create(ctx, x)
}

// damagedIndices is a snapshot with three indices, and with so many whose metadata is damaged.
func damagedIndices(n int) *plan.Plan {
	p := threeIndices()
	for i := range n {
		p.Unread = append(p.Unread, plan.UnreadIndex{Name: fmt.Sprintf("i%04d", i), Reason: "cut off"})
	}
	return p
}

// failures audits what a process has left and compares it with the damaged indices: each has one entry and one event.
func failures(t *testing.T, s *phase.Session, m *migrationtest.Memory, n int) {
	t.Helper()
	if _, err := session.AuditsOf(s.Coordinator).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for e, err := range session.EntriesOf(s.Coordinator).All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.State == session.PhaseFailed && e.Error == "cut off" {
			failed++
		}
	}
	if failed != n || m.Events("failed") != n || len(m.Items) != 7 {
		t.Errorf("%d failed entries, %d events, %d items", failed, m.Events("failed"), len(m.Items))
	}
}

// TestSession_ManyDamagedIndices: their entries and events take as few requests as those of a few.
func TestSession_ManyDamagedIndices(t *testing.T) {
	counts := map[int]int{}
	for _, n := range []int{1, 2000} {
		synctest.Test(t, func(t *testing.T) {
			m, sent := newMemory(), new(atomic.Int64)
			s := process(t, requests{m, sent}, migrationtest.NewOutside(), 1, &migrationtest.Life{})
			plans(s, damagedIndices(n))
			if err := toItems(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			failures(t, s, m, n)
			counts[n] = int(sent.Load())
		})
	}
	if more := counts[2000] - counts[1]; more > 3*2000/500 {
		t.Errorf("%d writes more for 2,000 damaged indices than for one", more)
	}
}

// TestSession_DiesBetweenDamagedIndices: a process dies at each of its calls, before and after it has an effect, and another goes on.
func TestSession_DiesBetweenDamagedIndices(t *testing.T) {
	const damaged = 501 // entries and events of two requests each
	step := 1
	if testing.Short() {
		step = 15
	}
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after the effect %t", after), func(t *testing.T) {
			for dies, died := 1, true; died; dies += step {
				synctest.Test(t, func(t *testing.T) {
					m, x, l := newMemory(), migrationtest.NewOutside(), &migrationtest.Life{Dies: dies, After: after}
					for n, l := range []*migrationtest.Life{l, {}} {
						s := process(t, m, x, n, l)
						plans(s, damagedIndices(damaged))
						if err := toItems(t.Context(), s); err != nil && !l.Dead {
							t.Fatalf("call %d: %v", dies, err)
						}
						if n == 1 {
							failures(t, s, m, damaged)
						}
					}
					died = l.Dead
				})
			}
		})
	}
}

// TestSession_TooManyDamagedIndices: a repository that lost most of its metadata ends the phase, and leaves no entries behind.
func TestSession_TooManyDamagedIndices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := process(t, m, migrationtest.NewOutside(), 1, &migrationtest.Life{})
		plans(s, damagedIndices(10_001))
		err := toItems(t.Context(), s)
		var failed *phase.PhaseFailed
		if !errors.As(err, &failed) || !strings.Contains(failed.Reason, "of 10001 indices") || !strings.Contains(failed.Reason, "--index-allowlist") {
			t.Errorf("%v", err)
		}
		for e, err := range session.EntriesOf(s.Coordinator).All(t.Context()) {
			t.Fatalf("entry %s, %v", e.Name, err)
		}
	})
}
