package primitive_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/testing/cmstest"
)

// driftingStore is a store whose clock runs fast by a fraction of the time, with a constant offset.
type driftingStore struct {
	primitive.Store
	start  time.Time
	fast   float64
	ahead  time.Duration
	asked  int
	within time.Duration
}

func (s *driftingStore) now() time.Time {
	return time.Now().Add(s.ahead + time.Duration(s.fast*float64(time.Since(s.start))))
}

func (s *driftingStore) Now(context.Context) (time.Time, time.Duration, error) {
	s.asked++
	at := s.now()
	time.Sleep(s.within)
	return at, 10 * time.Millisecond, nil
}

// setClock is a machine's clock that can be set.
type setClock struct {
	cmstest.Clock
	set time.Duration
}

func (c *setClock) Read() timing.Reading {
	r := c.Clock.Read()
	r.Wall = r.Wall.Add(c.set)
	return r
}

func TestRememberClock(t *testing.T) {
	for _, c := range []struct {
		name        string
		fast        float64
		within, set time.Duration
		asked       int // in an hour
	}{
		{"a clock that runs as this machine's", 0, 0, 0, 40},
		{"one that is as fast as clocks may be, and answers slowly", 0.001, 300 * time.Millisecond, 0, 40},
		{"one that is slow", -0.001, 300 * time.Millisecond, 0, 40},
		{"this machine's is set", 0, 0, 2 * time.Second, 41},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &driftingStore{start: time.Now(), fast: c.fast, ahead: time.Hour, within: c.within}
				clock := &setClock{Clock: cmstest.Clock{Start: time.Now()}}
				remembered := primitive.RememberClock(s, clock)
				for i := range 3600 {
					if i == 1800 {
						clock.set = c.set
					}
					got, maxErr, err := remembered.Now(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if off := got.Sub(s.now()).Abs(); off > maxErr {
						t.Fatalf("after %d s it is off by %v, at most %v was stated", i, off, maxErr)
					}
					time.Sleep(time.Second)
				}
				if s.asked > c.asked {
					t.Errorf("the store was asked %d times, want %d", s.asked, c.asked)
				}
			})
		})
	}
}
