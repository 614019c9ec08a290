package follow_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/rfs/source/repo"
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
