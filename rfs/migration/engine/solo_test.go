package engine_test

import (
	"testing"

	"github.com/rfsd/rfsd/rfs/migration/engine"
)

func TestSoloLetsOneLeaseAlone(t *testing.T) {
	type step struct {
		alone, enters bool
		leaves        int // leases that end after it
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"leases run beside each other", []step{{false, true, 0}, {false, true, 0}}},
		{"not beside one that runs alone", []step{{true, true, 0}, {false, false, 0}, {true, false, 0}}},
		{"nor does one alone start beside others", []step{{false, true, 0}, {true, false, 0}}},
		{"one alone starts when all others have ended", []step{{false, true, 0}, {false, true, 1}, {true, false, 1}, {true, true, 0}}},
		{"others start when it has ended", []step{{true, true, 1}, {false, true, 0}, {false, true, 0}}},
		{"and another one alone", []step{{true, true, 1}, {true, true, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &engine.Solo{}
			for n, x := range c.steps {
				if got := s.Enter(x.alone); got != x.enters {
					t.Fatalf("step %d: entered %v", n, got)
				}
				for range x.leaves {
					s.Leave()
				}
			}
		})
	}
	var none *engine.Solo
	if !none.Enter(true) || !none.Enter(false) {
		t.Error("a process with one lease at a time has none to wait for")
	}
	none.Leave()
}
