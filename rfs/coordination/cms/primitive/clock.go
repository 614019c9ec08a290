package primitive

import (
	"context"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

const (
	// clockAge is for how long a reading of a store's clock is used at most. Each is used for a random part of it, at least a
	// quarter, so that processes that started together do not read at the same time.
	clockAge = 5 * time.Minute
	// clockDrift is the rate at which a clock may gain on another one: twice the correction of NTP.
	clockDrift = 0.001
	// clockJump is by how much the clocks of this machine may disagree about the time since a reading.
	clockJump = time.Second
)

// rememberedClock is a store whose clock is read once in a while.
type rememberedClock struct {
	Store
	clock timing.Clock

	mu     sync.Mutex
	read   timing.Reading // before the store's clock was read
	is     time.Time      // the store's time; zero: not read
	maxErr time.Duration
	age    time.Duration // for which the reading is used
}

// RememberClock returns the store with a clock that is read every few minutes and continues by this machine's clock in between; the error
// of what it returns grows with the age of the reading. A store's clock that was set meanwhile is noticed at the next reading.
func RememberClock(s Store, clock timing.Clock) Store {
	return &rememberedClock{Store: s, clock: clock}
}

// Now returns the store's time and how far it may be off.
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
