package phase

import (
	"errors"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

func TestPauseAfter(t *testing.T) {
	s := &Session{Jitter: func() float64 { return 1 }}
	for _, c := range []struct {
		name    string
		earlier int
		cause   error
		want    time.Duration
	}{
		{"doubles", 0, errors.New("x"), 2 * time.Second},
		{"with each attempt", 3, errors.New("x"), 16 * time.Second},
		{"up to a bound", 50, errors.New("x"), maxPhasePause},
		{"what is rejected is rejected again", 4, fault.ErrRejected, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := s.pauseAfter(c.earlier, c.cause); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
