package overtime_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/overtime"
)

func TestAContextEndsLaterThanAnother(t *testing.T) {
	for _, c := range []struct {
		name string
		stop bool // the other one ends after a second
		done time.Duration
		want time.Duration
	}{
		{"the other one has not ended", false, time.Minute, time.Minute},
		{"the other one ends", true, time.Minute, 4 * time.Second},
		{"done before the other one ends", true, time.Second / 2, time.Second / 2},
		{"done before its own end", true, 2 * time.Second, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				begun := time.Now()
				longer, done := overtime.Context(ctx, 3*time.Second)
				time.AfterFunc(c.done, done)
				if c.stop {
					time.AfterFunc(time.Second, cancel)
				}
				<-longer.Done()
				if took := time.Since(begun); took != c.want {
					t.Errorf("ended after %s, want %s", took, c.want)
				}
				done()
			})
		})
	}
}
