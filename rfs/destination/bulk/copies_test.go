package bulk

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// TestCopiesAreCountedByTheirCause sends three documents to a target that takes some of them when the request is said to fail, and
// had some before.
func TestCopiesAreCountedByTheirCause(t *testing.T) {
	for name, c := range map[string]struct {
		had     map[string]int64 // versions before
		own     bool
		ordered bool
		lost    int // first requests that arrive and are not answered
		busy    int // requests after these of which the target takes nothing
		later   int // requests after these whose first document is refused for now
		copies  int64
		resent  int64
		writes  int64 // operations of the target on these documents; 0: 3
	}{
		"nothing was there":                         {own: true},
		"an earlier holder sent two, one twice":     {own: true, had: map[string]int64{"0": 1, "1": 2}, copies: 3, writes: 6},
		"documents of others count once":            {had: map[string]int64{"0": 1, "1": 200}, copies: 2, writes: 204},
		"an answer was lost":                        {own: true, lost: 1, resent: 3, writes: 6},
		"two were, and an earlier holder sent one":  {own: true, lost: 2, had: map[string]int64{"1": 1}, copies: 1, resent: 6, writes: 10},
		"refused requests bring no copies":          {own: true, busy: 2, had: map[string]int64{"2": 1}, copies: 1, resent: 6, writes: 4},
		"one document is refused for now":           {own: true, later: 1, had: map[string]int64{"0": 1, "2": 1}, copies: 2, resent: 1, writes: 5},
		"ids that come again by nature are no copy": {own: true, ordered: true, had: map[string]int64{"0": 5}},
	} {
		t.Run(name, func(t *testing.T) {
			versions, calls := map[string]int64{}, 0
			for id, v := range c.had {
				versions[id] = v
			}
			s := &target{answer: func(_ context.Context, ids []string, _ int) (Result, error) {
				var res Result
				calls++
				if calls > c.lost && calls <= c.lost+c.busy {
					return Result{NoneTaken: true}, fault.ErrUnavailable
				}
				for pos, id := range ids {
					if pos == 0 && calls > c.lost+c.busy && calls <= c.lost+c.busy+c.later {
						res.Refused = append(res.Refused, Refusal{Pos: pos, Status: 429})
						continue
					}
					if versions[id]++; versions[id] > 1 {
						res.Replaced = append(res.Replaced, Replacement{Pos: pos, Copies: versions[id] - 1})
					}
				}
				if calls <= c.lost {
					return Result{}, fault.ErrUnavailable
				}
				return res, nil
			}}
			l := New(t.Context(), Options{Sender: s, Recorder: &records{}, Own: c.own, Ordered: c.ordered, Pause: func(context.Context, time.Duration) error { return nil }})
			add(t, l, 0, 3)
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, is := l.Settled()
			if is.Copies != c.copies || is.Resent != c.resent || l.Counts().Resent != c.resent {
				t.Errorf("%+v, of all %+v, want %d copies and %d sent again", is, l.Counts(), c.copies, c.resent)
			}
			if want := max(c.writes, 3); is.Indexed+is.Rewrites != want {
				t.Errorf("%d indexed and %d rewrites, want %d writes", is.Indexed, is.Rewrites, want)
			}
			for i := range 3 {
				if versions[strconv.Itoa(i)] == 0 {
					t.Errorf("document %d did not arrive", i)
				}
			}
		})
	}
}
