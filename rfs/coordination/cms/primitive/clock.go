package primitive

import (
	"context"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

const (
	// clockAge is the longest time for which a reading of a store's clock is used. Each is used for a random time from a quarter of it, so
	// that processes that started together do not read at the same time.
	clockAge = 5 * time.Minute
	// clockDrift is the rate at which clocks may drift apart: twice the correction of NTP.
	clockDrift = 0.001
	// clockJump is the tolerated difference between this machine's clocks in the time since a reading.
	clockJump = time.Second
)

// rememberedClock is a store whose clock is read every few minutes.
type rememberedClock struct {
	Store
	clock timing.Clock

	mu     sync.Mutex
	read   timing.Reading // before the store's clock was read
	is     time.Time      // the store's time then; zero: not read
	maxErr time.Duration
	age    time.Duration // time for which the reading is used
}

// RememberClock returns the store with a clock that is read every few minutes and extrapolated by this machine's clock in between; the
// error of its result grows with the age of the reading. If a store's clock is set meanwhile, the next reading notices.
func RememberClock(s Store, clock timing.Clock) Store {
	return &rememberedClock{Store: s, clock: clock}
}

// Now returns the store's time and its maximum error.
func (r *rememberedClock) Now(ctx context.Context) (time.Time, time.Duration, error) {
	if now, maxErr, ok := r.remembered(); ok {
		return now, maxErr, nil
	}
	read := r.clock.Read()
	is, maxErr, err := r.Store.Now(ctx)
	if err != nil {
		return is, maxErr, err
	}
	after := r.clock.Read()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read, r.is, r.maxErr = after, is, maxErr+after.Boot-read.Boot // the store may have read its clock at any time between the two
	r.age = clockAge/4 + pause(clockAge*3/4)
	return is, r.maxErr, nil
}

func (r *rememberedClock) remembered() (time.Time, time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.clock.Read()
	since := at.Boot - r.read.Boot
	if r.is.IsZero() || since > r.age || (at.Wall.Round(0).Sub(r.read.Wall.Round(0))-since).Abs() > clockJump {
		return time.Time{}, 0, false
	}
	return r.is.Add(since), r.maxErr + time.Duration(clockDrift*float64(since)), true
}
