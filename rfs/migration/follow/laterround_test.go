package follow_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// TestLaterRound decides by the name and the records of a session whether it is a later round of another.
func TestLaterRound(t *testing.T) {
	follows := map[string]string{"snapshot": "snap-3", plan.FollowKey: "snap-1"}
	for _, c := range []struct {
		name, session string
		settings      map[string]string // nil: it has not started
		rounds        bool              // it holds rounds of its own
		want          string
	}{
		{"a later round", "s-round-12", follows, false, "s 12"},
		{"a later round of a session that is named like one", "s-round-1-round-2", follows, false, "s-round-1 2"},
		{"round 0", "s", follows, true, " 0"},
		{"round 0 of a session that is named like a round", "s-round-1", follows, true, " 0"},
		{"a migration that is named like a round", "s-round-1", map[string]string{"snapshot": "snap-1"}, false, " 0"},
		{"a session without records", "s-round-1", nil, false, " 0"},
		{"no number", "s-round-x", follows, false, " 0"},
		{"number 0", "s-round-0", follows, false, " 0"},
		{"no name before the number", "-round-1", follows, false, " 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ch := chain(t)
			ch.Session = c.session
			if c.settings != nil {
				begun(t, ch, c.settings)
			}
			if c.rounds {
				if _, err := session.RoundsOf(ch.Root).Start(t.Context(), session.Round{Snapshot: "snap-1"}); err != nil {
					t.Fatal(err)
				}
			}
			root, number, err := follow.LaterRound(t.Context(), ch.Root, c.session)
			if got := fmt.Sprint(root, " ", number); err != nil || got != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
			_, err = ch.Last(t.Context())
			if named := err != nil && strings.Contains(err.Error(), "give --session-name "+root); !errors.Is(err, fault.ErrConfig) || named != (number > 0) {
				t.Errorf("the last round: %v", err)
			}
		})
	}
}
