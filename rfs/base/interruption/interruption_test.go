package interruption_test

import (
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/interruption"
)

func TestCounter_CountsInterruptions(t *testing.T) {
	for _, c := range []struct {
		name string
		at   []time.Duration
		want int
	}{
		{"one signal", []time.Duration{0}, 1},
		{"timeout signals the process and its group", []time.Duration{0, time.Millisecond}, 1},
		{"a key that is held down", []time.Duration{0, 300 * time.Millisecond, 600 * time.Millisecond}, 2},
		{"a second thought", []time.Duration{0, time.Second}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var counter interruption.Counter
			start, got := time.Now(), 0
			for _, at := range c.at {
				got = counter.Add(start.Add(at))
			}
			if got != c.want {
				t.Errorf("%d interruptions, want %d", got, c.want)
			}
		})
	}
}
