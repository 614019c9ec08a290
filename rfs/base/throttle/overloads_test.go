package throttle

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestOverloads_Note: a refusal concerns the whole target unless another index is healthy.
func TestOverloads_Note(t *testing.T) {
	accept := func(o *Overloads, index string, n int) {
		for range n {
			o.Note(index, false)
		}
	}
	for _, c := range []struct {
		name   string
		before func(o *Overloads)
		whole  bool
	}{
		{"the only index", func(o *Overloads) { accept(o, "h", 100) }, true},
		{"beside a healthy index", func(o *Overloads) { accept(o, "a", healthyAnswers) }, false},
		{"beside one that was hardly asked", func(o *Overloads) { accept(o, "a", healthyAnswers-1) }, true},
		{"beside one that was refused lately", func(o *Overloads) { o.Note("a", true); time.Sleep(healthyFor); accept(o, "a", 100) }, true},
		{"beside one that was refused some time ago", func(o *Overloads) { o.Note("a", true); time.Sleep(healthyFor + 1); accept(o, "a", 100) }, false},
		{"beside one that is not asked any more", func(o *Overloads) { accept(o, "a", 100); time.Sleep(healthyFor + 1) }, true},
		{"beside a healthy and a refused one", func(o *Overloads) { accept(o, "a", 100); o.Note("b", true) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &Overloads{}
				c.before(o)
				if got := o.Note("h", true); got != c.whole {
					t.Errorf("concerns the whole target: %v, want %v", got, c.whole)
				}
			})
		})
	}
}

// TestOverloads_Forgets: the memory of a process that loads many indices in sequence is limited.
func TestOverloads_Forgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &Overloads{}
		for i := range 20 * maxIdleIndices {
			o.Note(fmt.Sprint(i), i%2 == 0)
			time.Sleep(healthyFor / maxIdleIndices * 2)
		}
		if n := len(o.indices); n > 2*maxIdleIndices {
			t.Errorf("%d indices are remembered", n)
		}
	})
}
