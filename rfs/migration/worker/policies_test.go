package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/recorded"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// policies is a target with policies; a process dies at its calls, too.
type policies struct {
	life     *migrationtest.Life
	attached map[string]int // by index
	patterns int
	refuse   string
}

func (p *policies) Attachments(_ context.Context, from *plan.Plan) (map[string]metadata.Attachment, error) {
	all := map[string]metadata.Attachment{}
	for _, x := range from.Indices {
		all[x.Name] = metadata.Attachment{Policy: "keep"}
	}
	return all, nil
}

func (p *policies) Attach(_ context.Context, index string, _ metadata.Attachment) (refused string, err error) {
	if err := p.life.Call(func() {
		if p.refuse == "" {
			p.attached[index]++
		}
	}); err != nil {
		return "", err
	}
	return p.refuse, nil
}

func (p *policies) SetPatterns(context.Context, *plan.Plan, objects.Ledger) error {
	return p.life.Call(func() { p.patterns++ })
}

// TestSession_AttachesPoliciesWhenDocumentsAreThere: the policies come last, once, and only to indices that are whole.
func TestSession_AttachesPoliciesWhenDocumentsAreThere(t *testing.T) {
	const index = "stored"
	for _, c := range []struct {
		name     string
		with     func(*world, *policies)
		attached int
		patterns int
		problem  string
	}{
		{"whole", func(*world, *policies) {}, 1, 1, ""},
		{"refused", func(_ *world, p *policies) { p.refuse = "managed by another policy" }, 0, 1, "managed by another policy"},
		{"failed", func(w *world, _ *policies) {
			w.on.Wrong = map[string]error{index: fmt.Errorf("an alias of two indices: %w", fault.ErrConfig)}
		}, 0, 0, "alias of two"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				p := &policies{life: &migrationtest.Life{}, attached: map[string]int{}}
				c.with(w, p)
				w.with = func(m *worker.Migration) { m.Session.Policies = p }
				for run := range 2 { // the second one changes nothing
					sum, err := w.run(t, run+1, &migrationtest.Life{})
					if err != nil {
						t.Fatal(err)
					}
					problems := fmt.Sprint(sum.Problems)
					if (len(sum.Problems) > 0) != (c.problem != "") || !strings.Contains(problems, c.problem) {
						t.Errorf("run %d: problems %s", run, problems)
					}
				}
				if p.attached[index] != c.attached || (p.patterns > 0) != (c.patterns > 0) {
					t.Errorf("attached %v, patterns %d times", p.attached, p.patterns)
				}
				p.refuse, w.on.Wrong = "", nil
				sum, err := w.run(t, 3, &migrationtest.Life{})
				if err != nil || len(sum.Problems) > 0 || p.attached[index] != 1 || p.patterns == 0 {
					t.Errorf("after the repair: %v, attached %v, %v", sum.Problems, p.attached, err)
				}
				delete(p.attached, index) // an operator detaches it
				if _, err := w.run(t, 4, &migrationtest.Life{}); err != nil || p.attached[index] != 0 {
					t.Errorf("attached again: %v, %v", p.attached, err)
				}
			})
		})
	}
}

// TestSession_PoliciesWaitForRedrivenDocuments: an index whose documents failed gets its policy from the run after the one of rfsd redrive
// that delivered the last of them.
func TestSession_PoliciesWaitForRedrivenDocuments(t *testing.T) {
	const index = "stored"
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := &policies{life: &migrationtest.Life{}, attached: map[string]int{}}
		w.with = func(m *worker.Migration) {
			m.Session.Policies, m.Session.Transfer.Runner.Failed = p, migrationtest.DroppedFailures{}
		}
		w.wrap = func(d engine.Destination) engine.Destination { return refusing{d} }
		var failed int64
		state := cms.New(cms.Config{Store: w.store, Creator: "test"})
		kept := session.RedrivesOf(state)
		redriven := func(n int64) {
			t.Helper()
			if err := kept.Note(t.Context(), "place", false, session.RedrivenFile{Name: "file", Lines: int(failed), Documents: map[string]int64{index: n}}); err != nil {
				t.Fatal(err)
			}
		}
		for run, c := range []struct {
			before   func()
			attached int
		}{
			{func() {}, 0},
			{func() {}, 0},
			{func() { redriven(failed - 1) }, 0},
			{func() { redriven(failed) }, 1},
			{func() {}, 1},
		} {
			c.before()
			sum, err := w.run(t, run+1, &migrationtest.Life{})
			if err != nil {
				t.Fatal(err)
			}
			if run == 0 {
				failed = sum.Totals.Failed
			}
			if failed < 2 || p.attached[index] != c.attached || (p.patterns > 0) != (c.attached > 0) {
				t.Errorf("run %d: %d failed, attached %v, patterns %d times", run, failed, p.attached, p.patterns)
			}
			if waiting, err := recorded.PoliciesWaiting(t.Context(), state); err != nil || slices.Contains(waiting, index) != (c.attached == 0) {
				t.Errorf("run %d: %q wait, %v", run, waiting, err)
			}
		}
	})
}

// TestSession_PoliciesSurviveADeath: a process that dies at an attachment, before or after it took effect, leaves it to the next.
func TestSession_PoliciesSurviveADeath(t *testing.T) {
	for _, after := range []bool{false, true} {
		for call := 1; call <= 2; call++ {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				p := &policies{life: &migrationtest.Life{Dies: call, After: after}, attached: map[string]int{}}
				w.with = func(m *worker.Migration) { m.Session.Policies = p }
				if _, err := w.run(t, 1, &migrationtest.Life{}); !errors.Is(err, migrationtest.ErrDead) {
					t.Fatalf("call %d: %v", call, err)
				}
				p.life = &migrationtest.Life{}
				sum, err := w.run(t, 2, &migrationtest.Life{})
				if err != nil || !sum.Complete || len(sum.Problems) > 0 || p.attached["stored"] == 0 || p.patterns == 0 {
					t.Errorf("call %d: %v, attached %v, patterns %d, %v", call, sum, p.attached, p.patterns, err)
				}
			})
		}
	}
}
