package follow_test

import (
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/follow"
)

// TestSnapshotAfter: the last later round that has arrived and contains the index has its snapshot.
func TestSnapshotAfter(t *testing.T) {
	all := session.Followed{
		Rounds: []session.Round{
			{Number: 0, Arrived: 1, Snapshot: "s0"}, {Number: 1, Arrived: 1, Snapshot: "s1"}, {Number: 2, Arrived: 1, Snapshot: "s2", Group: []string{"logs-*"}}, {Number: 3, Snapshot: "s3"},
		},
		Ended: []session.Ended{{Index: "cut", After: 0}, {Index: "given-up", After: 1}},
	}
	for _, c := range []struct {
		name, index string
		number      int
		want        string
	}{
		{"the last round of all indices", "orders", 0, "s1"},
		{"a later round of its group", "logs-1", 0, "s2"},
		{"no later round of the index", "orders", 1, ""},
		{"a later round has not arrived", "logs-1", 2, ""},
		{"no longer followed after the round", "cut", 0, ""},
		{"no longer followed after a later round", "given-up", 0, "s1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := follow.SnapshotAfter(all, c.number, c.index); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestDeletesAfter: only later rounds that have arrived count, and updates only with rules.
func TestDeletesAfter(t *testing.T) {
	deleted, updated := session.Account{Deleted: 1}, session.Account{Updated: 1}
	for _, c := range []struct {
		name  string
		last  session.Round
		rules bool
		want  bool
	}{
		{"a deletion", session.Round{Number: 2, Arrived: 1, Account: deleted}, false, true},
		{"not arrived", session.Round{Number: 2, Account: deleted}, false, false},
		{"the round itself", session.Round{Number: 1, Arrived: 1, Account: deleted}, true, false},
		{"an index that vanished", session.Round{Number: 2, Arrived: 1, Account: session.Account{Vanished: 1}}, false, true},
		{"an update", session.Round{Number: 2, Arrived: 1, Account: updated}, false, false},
		{"an update with rules", session.Round{Number: 2, Arrived: 1, Account: updated}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := follow.DeletesAfter(session.Followed{Rounds: []session.Round{c.last}}, 1, c.rules); got != c.want {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestRunning: round 0 is kept with the session itself, and a round that has arrived is not running.
func TestRunning(t *testing.T) {
	c := chain(t)
	for _, step := range []struct {
		name string
		do   func() error
		want int // 0: no round is running
	}{
		{"before the first round", func() error { return nil }, 0},
		{"round 0", func() error {
			_, err := session.RoundsOf(c.Root).Start(t.Context(), session.Round{Snapshot: "a"})
			return err
		}, 0},
		{"round 0 has arrived", func() error {
			_, err := session.RoundsOf(c.Root).Arrive(t.Context(), session.Round{Snapshot: "a"})
			return err
		}, 0},
		{"round 1", func() error {
			_, err := session.RoundsOf(c.Root).Start(t.Context(), session.Round{Number: 1, Snapshot: "b"})
			return err
		}, 1},
		{"round 1 has arrived", func() error {
			_, err := session.RoundsOf(c.Root).Arrive(t.Context(), session.Round{Number: 1, Snapshot: "b"})
			return err
		}, 0},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if number, running, err := follow.Running(t.Context(), c.Root); err != nil || running != (step.want > 0) || running && number != step.want {
			t.Errorf("%s: %d, %v, %v", step.name, number, running, err)
		}
	}
}
