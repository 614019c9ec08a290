package follow_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// TestChain_ABaseThatIsGone names the former snapshot, also when another one has its name.
func TestChain_ABaseThatIsGone(t *testing.T) {
	for snapshot, identity := range map[string]string{"deleted": "", "snap-1": "another"} {
		c := chain(t)
		zero, _ := next(t, c, "snap-1")
		if _, err := c.Arrive(t.Context(), zero, identity, &summary.Summary{Snapshot: snapshot, Complete: true}); err != nil {
			t.Fatal(err)
		}
		for _, later := range []string{"snap-3", ""} {
			_, _, err := c.Next(t.Context(), later, nil, settings)
			if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "the former snapshot "+snapshot) || !strings.Contains(err.Error(), "--start-over") {
				t.Errorf("%v", err)
			}
		}
		if all, err := session.RoundsOf(c.Root).Read(t.Context()); err != nil || len(all.Rounds) != 1 {
			t.Errorf("a round has started: %+v, %v", all, err)
		}
	}
}

// TestChain_SnapshotsWithoutUUIDs: the former snapshot is found in a repository whose snapshots have names alone.
func TestChain_SnapshotsWithoutUUIDs(t *testing.T) {
	c := chain(t)
	var err error
	if c.Repo, err = repo.Open(t.Context(), "file://"+filepath.Join(filepath.Dir(history(t)), "2.4.6-history"), repo.Options{}); err != nil {
		t.Fatal(err)
	}
	identity, err := plan.SnapshotIdentity(t.Context(), c.Repo, "snap-1")
	if err != nil || identity == "" {
		t.Fatal(identity, err)
	}
	zero, _ := next(t, c, "snap-1")
	if _, err := c.Arrive(t.Context(), zero, identity, &summary.Summary{Snapshot: "snap-1", Complete: true}); err != nil {
		t.Fatal(err)
	}
	if one, due := next(t, c, "snap-3"); !due || one.Number != 1 {
		t.Errorf("%+v", one)
	}
}

// TestChain_StartsOver: a round whose former snapshot is gone sends everything, and the rounds after it continue from its snapshot. Nothing
// starts over while the former snapshot is there.
func TestChain_StartsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := chain(t)
		c.StartOver = true
		zero, _ := next(t, c, "snap-1")
		begun(t, c, map[string]string{"snapshot": "snap-1", plan.FollowKey: "first"})
		arrive(t, c, zero, "snap-1", 0)
		one, _ := next(t, c, "")
		if one.Whole || one.Follow.Whole || one.Report().Since != "snap-1" {
			t.Errorf("the former snapshot is there: %+v", one)
		}
		arrive(t, c, one, "gone", 0)
		if _, _, err := c.Next(t.Context(), "snap-2", nil, settings); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "no snapshot") {
			t.Errorf("a snapshot that is not there: %v", err)
		}
		begin := time.Now()
		two, due := next(t, c, "snap-3")
		if !due || two.Number != 2 || !two.Whole || !two.Follow.Whole || two.Report().Since != "" || two.Snapshot != "snap-3" {
			t.Errorf("the former snapshot is gone: %+v, %+v", two, two.Follow)
		}
		if waited := time.Since(begin); waited < 115*time.Second || waited > progress.RequestTimeout {
			t.Errorf("requests of the former round may be in flight, and it waited %s", waited)
		}
		c.StartOver = false
		if again, due := next(t, c, "snap-3"); !due || !again.Whole {
			t.Errorf("in another process: %+v", again)
		}
		arrive(t, c, two, "snap-3", 0)
		all, err := session.RoundsOf(c.Root).Read(t.Context())
		if err != nil || all.StartedOver() != 2 {
			t.Errorf("%+v, %v", all, err)
		}
		if three, _ := next(t, c, ""); three.Whole || three.Follow.Since != "snap-3" {
			t.Errorf("the round after it: %+v", three)
		}
	})
}

// TestChain_ReplacesARoundInProgress: a round that needs a snapshot which is gone is refused with the remedy. With StartOver it is replaced when
// no process works on it and none of its requests can arrive any more; the rounds after it continue from the new one.
func TestChain_ReplacesARoundInProgress(t *testing.T) {
	for _, x := range []struct {
		name        string
		former, own string // snapshots of rounds 0 and 1; "": round 1 makes its own
		made        string // by round 1
		unstarted   bool   // no process has started round 1
		working     bool   // a process works on it
		arrives     bool   // that process ends it
		remains     bool   // nothing is gone
	}{
		{name: "the former snapshot of a round that arrives meanwhile", former: "gone", own: "snap-1", working: true, arrives: true},
		{name: "the former snapshot", former: "gone", own: "snap-3"},
		{name: "the former snapshot of a round that has not started", former: "gone", own: "snap-3", unstarted: true},
		{name: "the former snapshot of a round that a process works on", former: "gone", own: "snap-3", working: true},
		{name: "its own snapshot", former: "snap-1", own: "gone"},
		{name: "the snapshot that it has made", former: "snap-1", made: "gone"},
		{name: "none", former: "snap-1", own: "snap-3", remains: true},
		{name: "none, and it has made its own", former: "snap-1", made: "snap-3", remains: true},
		{name: "none, and it has not made its own", former: "snap-1", remains: true},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := chain(t)
				zero, _ := next(t, c, "snap-1")
				begun(t, c, map[string]string{"snapshot": "snap-1", plan.FollowKey: "first"})
				arrive(t, c, zero, x.former, 0)
				if _, err := session.RoundsOf(c.Root).Start(t.Context(), session.Round{Number: 1, Snapshot: x.own}); err != nil {
					t.Fatal(err)
				}
				kept := cms.New(cms.Config{Store: boltstore.Open(t), Creator: "test"})
				c.Open = func(_ context.Context, r follow.Round) (*cms.Coordinator, func() error, error) {
					if r.Session != "s-round-1" {
						t.Errorf("opened %s", r.Session)
					}
					if x.unstarted {
						return nil, nil, fmt.Errorf("opened: %w", cms.ErrStoreGone)
					}
					return kept, func() error { return nil }, nil
				}
				if _, err := session.IdentityOf(kept).Init(t.Context(), session.Meta{}); err != nil {
					t.Fatal(err)
				}
				if x.made != "" {
					body, err := json.Marshal(map[string]string{"name": x.made})
					if err != nil {
						t.Fatal(err)
					}
					if _, err := session.PhasesOf(kept).Move(t.Context(), session.SnapshotPhase, "", session.PhaseCompleted, body); err != nil {
						t.Fatal(err)
					}
				}
				least := progress.RequestTimeout
				if x.working {
					works, err := session.PhasesOf(kept).Acquire(t.Context(), "metadata", "another")
					if err != nil {
						t.Fatal(err)
					}
					least += works.UntilEnd()
				}
				again, _, err := c.Next(t.Context(), "snap-3", nil, settings)
				switch {
				case !x.remains && (!errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "--start-over")):
					t.Errorf("not permitted: %v", err)
				case x.remains && (err != nil || again.Number != 1):
					t.Errorf("%+v, %v", again, err)
				}
				c.StartOver = true
				if _, _, err := c.Next(t.Context(), "snap-2", nil, settings); !x.remains && !strings.Contains(fmt.Sprint(err), "no snapshot") {
					t.Errorf("a snapshot that is not there: %v", err)
				}
				begin := time.Now()
				if x.arrives {
					go func() {
						time.Sleep(time.Minute)
						arrive(t, c, follow.Round{Round: session.Round{Number: 1}}, "snap-1", 0)
					}()
				}
				two, due := next(t, c, "snap-3")
				if x.arrives {
					if !due || two.Number != 2 || two.Whole || two.Follow.Since != "snap-1" {
						t.Errorf("the former round has arrived: %+v, %+v", two, two.Follow)
					}
					return
				}
				_, joins := session.IdentityOf(kept).Init(t.Context(), session.Meta{})
				if x.remains {
					if two.Number != 1 || two.Whole || joins != nil || time.Since(begin) > 0 {
						t.Errorf("%+v, %v", two, joins)
					}
					return
				}
				if x.unstarted {
					least = 0
				} else if !errors.Is(joins, session.ErrReplaced) {
					t.Errorf("a process joins the former round: %v", joins)
				}
				if !due || two.Number != 2 || !two.Whole || !two.Follow.Whole || two.Snapshot != "snap-3" || time.Since(begin) < least {
					t.Errorf("after %s: %+v, %+v", time.Since(begin), two, two.Follow)
				}
				if again, _ := next(t, c, "snap-3"); again.Number != 2 {
					t.Errorf("in another process: %+v", again)
				}
				over := arrive(t, c, two, "snap-3", 0)
				if len(over.Records) != 2 || over.Records[0].Number != 0 || over.Records[1].Number != 1 {
					t.Errorf("records that can be removed: %+v", over.Records)
				}
				if is := over.Snapshots; len(is) != 1 || is[0].Number != 1 || is[0].Snapshot != cmp.Or(x.own, x.made) || is[0].Made != (x.made != "") {
					t.Errorf("snapshots that can be deleted: %+v", is)
				}
				if late, err := c.Arrive(t.Context(), again, "", &summary.Summary{Snapshot: "snap-3", Complete: true}); err != nil || len(late.Records) > 0 {
					t.Errorf("a process of the former round arrives: %+v, %v", late, err)
				}
				rounds, err := c.Until(t.Context(), "snap-3")
				if err != nil || len(rounds) != 2 || rounds[1].Number != 2 {
					t.Errorf("%+v, %v", rounds, err)
				}
				if three, _ := next(t, c, ""); three.Number != 3 || three.Whole || three.Follow.Since != "snap-3" {
					t.Errorf("the round after it: %+v, %+v", three, three.Follow)
				}
			})
		})
	}
}

// TestChain_SnapshotsOfReplacedRounds: when the round that started over has arrived, the snapshots that it does not need can be deleted: of the
// replaced rounds, and of the round that the last one before them was compared with.
func TestChain_SnapshotsOfReplacedRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := chain(t)
		zero, _ := next(t, c, "snap-1")
		begun(t, c, map[string]string{"snapshot": "snap-1", plan.FollowKey: "first"})
		arrive(t, c, zero, "snap-1", 0)
		for n := range 2 {
			r, _ := next(t, c, "")
			arrive(t, c, r, fmt.Sprintf("made-%d", n), 0)
		}
		next(t, c, "")
		rounds := session.RoundsOf(c.Root)
		for n := 3; n < 5; n++ {
			if _, err := rounds.Replace(t.Context(), session.Round{Number: n, Snapshot: fmt.Sprintf("lost-%d", n)}, ""); err != nil {
				t.Fatal(err)
			}
		}
		five, _ := next(t, c, "")
		var records, snapshots []int
		over := arrive(t, c, five, "made-5", 0)
		for _, x := range over.Records {
			records = append(records, x.Number)
		}
		for _, x := range over.Snapshots {
			snapshots = append(snapshots, x.Number)
		}
		if !slices.Equal(records, []int{2, 3, 4}) || !slices.Equal(snapshots, []int{1, 3, 4}) {
			t.Errorf("after round %d: records of rounds %v and snapshots of rounds %v can be removed", five.Number, records, snapshots)
		}
	})
}
