package phase

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
	"github.com/rfsd/rfsd/rfs/migration/plan"
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
		s := &Session{Log: slog.New(slog.DiscardHandler), Cluster: Cluster{Tuner: w, Tune: c.wish}}
		if err := s.TuneIndices(t.Context(), c.entry); err != nil != c.fails || !slices.Equal(w.got, c.got) {
			t.Errorf("%s: asked for %v, %v", c.name, w.got, err)
		}
	}
}
