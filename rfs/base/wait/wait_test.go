package wait_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/wait"
)

func TestFor(t *testing.T) {
	for _, c := range []struct {
		name       string
		pause, end time.Duration // end: when the context ends
		took       time.Duration
		err        error
	}{
		{"the whole time", time.Second, time.Minute, time.Second, nil},
		{"the context ends before", time.Minute, time.Second, time.Second, context.DeadlineExceeded},
		{"no time", 0, time.Minute, 0, nil},
		{"no time and no context", -1, 0, 0, context.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), c.end)
				defer cancel()
				if err := wait.For(ctx, c.pause); !errors.Is(err, c.err) || time.Since(begin) != c.took {
					t.Errorf("%v after %s, want %v after %s", err, time.Since(begin), c.err, c.took)
				}
			})
		})
	}
}
