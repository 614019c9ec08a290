package worker

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

// Do answers for indices.
func (x seen) Do(_ context.Context, _, path string, _ url.Values, _ []byte) (status int, answer []byte, err error) {
	name := strings.TrimPrefix(path, "/")
	err = x.do(func() error {
		if status = http.StatusNotFound; x.uuids[name] != "" {
			status = http.StatusOK
			answer = fmt.Appendf(nil, `{%q:{"settings":{"index.uuid":%q}`, name, x.uuids[name])
			if body := x.bodies[name]; len(body) > 2 {
				answer = append(append(answer, ','), body[1:len(body)-1]...)
			}
			answer = append(answer, "}}"...)
		}
		return nil
	})
	return status, answer, err
}

// creations returns the states of what is recorded as created, by name.
func (m *memory) creations(t *testing.T) map[string]string {
	t.Helper()
	c, err := cms.New(cms.Config{Store: m, Creator: "test"})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for x, err := range session.Of(c).Creations(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all[x.Name] = x.State + string(x.Body)
	}
	return all
}

// TestWhatIsCreatedIsRecordedAfterEveryDeath lets a process die at each of its calls: no index is on the target without a
// record, and the next process completes the record with the UUID. An index that was there before has none.
func TestWhatIsCreatedIsRecordedAfterEveryDeath(t *testing.T) {
	keeping := func(m *memory, x *outside, n int, l *life) *Session {
		s := process(t, m, x, n, l)
		s.Phases = Phases{PhaseIndices}
		s.Ledger = &rollback.Ledger{API: seen{x, l}, Records: s.records(), Log: s.Log}
		x.uuids["b"] = "uuid of before"
		return s
	}
	work := func(ctx context.Context, s *Session) error {
		if err := s.Join(ctx); err != nil {
			return err
		}
		s.planned = threeIndices()
		for {
			st, err := s.look(ctx)
			if err != nil || st.over {
				return err
			}
			if _, _, err := s.next(ctx); err != nil {
				return err
			}
		}
	}
	alone := &life{}
	synctest.Test(t, func(t *testing.T) {
		if err := work(t.Context(), keeping(newMemory(), newOutside(), 1, alone)); err != nil {
			t.Fatal(err)
		}
	})
	for call := 1; call <= alone.calls; call++ {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				m, x := newMemory(), newOutside()
				first := &life{dies: call, after: after}
				if err := work(t.Context(), keeping(m, x, 1, first)); !first.dead {
					t.Fatalf("call %d: the process ended with %v", call, err)
				}
				recorded := m.creations(t)
				for name := range x.uuids {
					if (recorded[name] == "") != (name == "b") {
						t.Errorf("death at call %d (after: %v): %s is on the target, recorded %v", call, after, name, recorded)
					}
				}
				if err := work(t.Context(), keeping(m, x, 2, &life{})); err != nil {
					t.Fatalf("death at call %d (after: %v): %v", call, after, err)
				}
				recorded = m.creations(t)
				for _, name := range []string{"a", "c"} {
					if !strings.HasPrefix(recorded[name], session.CreationDone) || !strings.Contains(recorded[name], x.uuids[name]) {
						t.Errorf("death at call %d (after: %v): in the end %v", call, after, recorded)
					}
				}
				if len(recorded) != 2 {
					t.Errorf("death at call %d (after: %v): in the end %v", call, after, recorded)
				}
			})
		}
	}
	t.Logf("%d points of death", 2*alone.calls)
}
