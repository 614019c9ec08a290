package spec

import (
	"strings"
	"testing"
)

func TestRounds_HoldInEveryState(t *testing.T) {
	for _, v := range []Rounds{
		{Name: "requests arrive late and again"},
		{Name: "round 0 is a migration without versions", Plain: true},
	} {
		t.Run(v.Name, func(t *testing.T) {
			r := v.Explore(limit)
			t.Logf("%d states", r.States)
			if r.Violation != "" {
				t.Errorf("%s:\n  %s", r.Violation, strings.Join(r.Trace, "\n  "))
			}
			if r.States < 10_000 {
				t.Errorf("only %d states: the model does nothing", r.States)
			}
		})
	}
}

func TestRounds_EveryMutantIsCaught(t *testing.T) {
	for _, tc := range []struct {
		v    Rounds
		want string
	}{
		{Rounds{Name: "one version for all rounds", SameVersion: true}, "is there as of round"},
		{Rounds{Name: "no versions", NoVersions: true}, "is as of round"},
		{Rounds{Name: "deletions have the version of documents", LikeDocuments: true}, "is missing"},
		{Rounds{Name: "documents have the version of deletions", LikeDeletions: true}, "is missing"},
		{Rounds{Name: "a round overtakes the one before", Overtake: true}, "after round"},
		{Rounds{Name: "deleted documents are left", NoDeletions: true}, "is there"},
		{Rounds{Name: "the target forgets deletions", Forgets: true}, "is there"},
		{Rounds{Name: "a migration without versions is not waited for", Plain: true, PlainNoWait: true}, "is as of round"},
	} {
		t.Run(tc.v.Name, func(t *testing.T) {
			r := tc.v.Explore(limit)
			t.Logf("%d states: %s\n  %s", r.States, r.Violation, strings.Join(r.Trace, "\n  "))
			if !strings.Contains(r.Violation, tc.want) {
				t.Errorf("not caught: %q", r.Violation)
			}
		})
	}
}
