package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// TestRoundsAreShown: the session of a round shows the rounds that the session of round 0 keeps, and a pause between two rounds shows what
// changes in it.
func TestRoundsAreShown(t *testing.T) {
	open := func(name string) *cms.Coordinator {
		store, err := boltcms.Open(filepath.Join(t.TempDir(), name), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return cms.New(cms.Config{Store: store, Creator: "test"})
	}
	root, later := open("root.db"), open("later.db")
	rounds := session.RoundsOf(root)
	start := func(number int) {
		t.Helper()
		if _, err := rounds.Start(t.Context(), session.Round{Number: number, Snapshot: "s"}); err != nil {
			t.Fatal(err)
		}
	}
	arrive := func(number int) {
		t.Helper()
		if _, err := rounds.Arrive(t.Context(), session.Round{Number: number, Snapshot: "s", Account: session.Account{Inserted: 7}}); err != nil {
			t.Fatal(err)
		}
	}
	start(0)
	pause, round := readPause(), readRound(root)
	shown := func(known int, lag bool) {
		t.Helper()
		for name, read := range map[string]func() (*progress.Following, *float64, error){
			"pause": func() (*progress.Following, *float64, error) {
				r, err := pause(t.Context(), root)
				if err != nil {
					return nil, nil, err
				}
				m, _, err := status.Sum(r)
				return m.Rounds, m.Lag, err
			},
			"round": func() (*progress.Following, *float64, error) {
				r, err := round(t.Context(), later)
				if err != nil {
					return nil, nil, err
				}
				m, _, err := status.Sum(r)
				return m.Rounds, m.Lag, err
			},
		} {
			all, behind, err := read()
			if err != nil || all == nil || len(all.Rounds) != known || (behind != nil) != lag {
				t.Errorf("%s: %+v, lag %v, %v; want %d rounds", name, all, behind, err, known)
			}
		}
	}
	shown(1, false)
	arrive(0)
	shown(1, true)
	start(1)
	shown(2, true)
	if err := rounds.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	shown(2, false)
}
