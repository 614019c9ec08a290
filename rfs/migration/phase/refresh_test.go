package phase_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// tunings records the scopes that a Tuner was called with.
type tunings struct {
	phase.Tuner
	got []tuning.Scope
	err error
}

func (w *tunings) Tune(_ context.Context, _ []string, scope tuning.Scope) error {
	w.got = append(w.got, scope)
	return w.err
}

// TestRefreshesAreAMatterOfLargeIndicesOfOurs: small ones are sent before a refresh costs anything.
func TestRefreshesAreAMatterOfLargeIndicesOfOurs(t *testing.T) {
	const large = 64 << 20
	forbidden := fmt.Errorf("403: %w", fault.ErrConfig)
	for _, c := range []struct {
		name  string
		scope tuning.Scope
		entry plan.Entry
		err   error
		got   []tuning.Scope
		fails bool
	}{
		{"large", tuning.Refreshes, plan.Entry{Ours: []string{"a"}, Bytes: []int64{large / 2, large / 2}}, nil, []tuning.Scope{tuning.Refreshes}, false},
		{"small", tuning.Refreshes, plan.Entry{Ours: []string{"a"}, Bytes: []int64{large/2 - 1, large / 2}}, nil, nil, false},
		{"small, as asked", tuning.All, plan.Entry{Ours: []string{"a"}, Bytes: []int64{1}}, nil, []tuning.Scope{tuning.All}, false},
		{"of unknown size", tuning.Refreshes, plan.Entry{Ours: []string{"a"}}, nil, []tuning.Scope{tuning.Refreshes}, false},
		{"another's", tuning.All, plan.Entry{Bytes: []int64{large}}, nil, nil, false},
		{"a data stream", tuning.All, plan.Entry{Ours: []string{"a"}, Create: true}, nil, nil, false},
		{"nothing to tune", tuning.Nothing, plan.Entry{Ours: []string{"a"}, Bytes: []int64{large}}, nil, nil, false},
		{"not permitted", tuning.Refreshes, plan.Entry{Ours: []string{"a"}}, forbidden, []tuning.Scope{tuning.Refreshes}, false},
		{"not permitted though asked for", tuning.All, plan.Entry{Ours: []string{"a"}}, forbidden, []tuning.Scope{tuning.All}, true},
	} {
		w := &tunings{err: c.err}
		s := &phase.Session{Log: slog.New(slog.DiscardHandler), Cluster: phase.Cluster{Tuner: w, Tune: c.scope}}
		if err := s.TuneIndices(t.Context(), c.entry); err != nil != c.fails || !slices.Equal(w.got, c.got) {
			t.Errorf("%s: asked for %v, %v", c.name, w.got, err)
		}
	}
}
