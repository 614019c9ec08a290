package follow_test

import (
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/follow"
)

// TestMade_OfTheLastRounds: the snapshots of the last two rounds and of rounds with failed documents stay, where rfsd made them.
func TestMade_OfTheLastRounds(t *testing.T) {
	round := func(n int, snapshot string, made bool, failed int64) session.Round {
		return session.Round{Number: n, Snapshot: snapshot, Made: made, Arrived: 1, Account: session.Account{Failed: failed}}
	}
	for name, c := range map[string]struct {
		rounds []session.Round
		want   []string
	}{
		"none":                          {nil, nil},
		"the first is in progress":      {[]session.Round{{Made: true}}, nil},
		"the first":                     {[]session.Round{round(0, "a", true, 0)}, []string{"a"}},
		"three, and one is in progress": {[]session.Round{round(0, "a", true, 0), round(1, "b", true, 0), round(2, "c", true, 0), {Number: 3, Made: true}}, []string{"b", "c"}},
		"documents failed":              {[]session.Round{round(0, "a", true, 2), round(1, "b", true, 0), round(2, "c", true, 0), round(3, "d", true, 0)}, []string{"a", "c", "d"}},
		"snapshots of others":           {[]session.Round{round(0, "a", false, 2), round(1, "b", true, 0), round(2, "c", false, 0)}, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := follow.Made(session.Followed{Rounds: c.rounds}); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
