package fuzzing

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// recorder notes what a test would fail with.
type recorder struct {
	testing.TB
	said []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func TestMuchMemoryAndMuchTimeAreFound(t *testing.T) {
	var kept []byte
	steps := 0
	for _, c := range []struct {
		name  string
		input int
		run   func()
		want  string
	}{
		{"nothing", 10, func() {}, ""},
		{"memory", 10, func() { kept = make([]byte, beside*MaxMemory+1<<20) }, "bytes of memory"},
		{"memory for a large input", Small, func() { kept = make([]byte, beside*MaxMemory+1<<20) }, ""},
		{"time", 10, func() {
			for began := processorTime(); processorTime()-began < beside*MaxTime+10*time.Millisecond; {
				for range 1 << 22 {
					steps++
				}
			}
		}, "bytes of input took"},
	} {
		r := &recorder{TB: t}
		end := Bounded(r, c.input)
		c.run()
		end()
		if got := strings.Join(r.said, ";"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
	_, _ = kept, steps
}
