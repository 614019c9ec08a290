package session_test

import (
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/session"
)

func TestLeasesOfPhasesGrowWithTheAttempts(t *testing.T) {
	for _, c := range []struct {
		initial time.Duration
		attempt int
		want    time.Duration
	}{{10 * time.Minute, 1, time.Minute}, {10 * time.Minute, 3, 3 * time.Minute}, {20 * time.Second, 2, 40 * time.Second}, {time.Hour, 0, time.Minute}} {
		if got := session.PhaseWindow(c.initial, c.attempt); got != c.want {
			t.Errorf("%v, attempt %d: %v, want %v", c.initial, c.attempt, got, c.want)
		}
	}
}

func TestSnapshotNamesAreDerivedFromSessionAndSettings(t *testing.T) {
	one := session.SnapshotName("s", map[string]string{"repository": "a"})
	if one != session.SnapshotName("s", map[string]string{"repository": "a"}) || one == session.SnapshotName("s", map[string]string{"repository": "b"}) || len(one) != len("rfs-s-")+16 {
		t.Errorf("%q", one)
	}
	if got := session.SnapshotName("", nil); got[:12] != "rfs-default-" {
		t.Errorf("%q", got)
	}
}
