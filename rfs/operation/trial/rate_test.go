package trial_test

import (
	"math"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/operation/trial"
)

// sending fills a meter for a minute with requests of 1000 bytes, one after the other by each slot.
func sending(slots int, took func(at time.Duration) time.Duration) *trial.Meter {
	m := &trial.Meter{Slots: slots}
	for range slots {
		for at := time.Duration(0); at < time.Minute; {
			end := at + took(at)
			m.Sent(at, end, 1000)
			at = end
		}
	}
	return m
}

func always(d time.Duration) func(time.Duration) time.Duration {
	return func(time.Duration) time.Duration { return d }
}

func TestMeter_Rate(t *testing.T) {
	near := func(a, b float64) bool { return math.Abs(a-b) < 0.01*max(1, b) }
	for _, c := range []struct {
		name                           string
		m                              *trial.Meter
		mean, least, most, gain, asked float64
	}{
		{"a steady rate", sending(2, always(time.Second)), 2000, 2000, 2000, 1, 2},
		{"a target that gets faster after half a minute", sending(1, func(at time.Duration) time.Duration {
			if at < 30*time.Second {
				return 2 * time.Second
			}
			return 500 * time.Millisecond
		}), 2000, 2000, 2000, 1, 2},
		{"a target that gets slower towards the end", sending(1, func(at time.Duration) time.Duration {
			if at < 50*time.Second {
				return 500 * time.Millisecond
			}
			return 2 * time.Second
		}), 1500, 500, 2000, 0.25, 1.5},
		{"a target that still gets faster", sending(1, func(at time.Duration) time.Duration {
			if at < 40*time.Second {
				return 2 * time.Second
			}
			return 500 * time.Millisecond
		}), 1500, 500, 2000, 4, 1.5},
		{"requests that last longer than the measurement", sending(1, always(90*time.Second)), 1000. / 90, 1000. / 90, 1000. / 90, 1, 1. / 90},
		{"nothing is sent", &trial.Meter{Slots: 1}, 0, 0, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.m.Rate(0, time.Minute)
			if !near(r.Mean, c.mean) || !near(r.Least, c.least) || !near(r.Most, c.most) || !near(r.Gain, c.gain) || !near(r.Requests, c.asked) {
				t.Errorf("%+v", r)
			}
			if half := r.In(0.5); half.Mean != r.Mean/2 || half.Least != r.Least/2 || half.Most != r.Most/2 {
				t.Errorf("in other units: %+v", half)
			}
		})
	}
}

func TestMeter_ASlotThatCannotSendDoesNotCount(t *testing.T) {
	m := sending(1, always(time.Second))
	m.Slots = 2
	m.Idle(0, 2*time.Minute) // the other slot
	if r := m.Rate(0, time.Minute); math.Abs(r.Mean-2000) > 1 {
		t.Errorf("one of two slots: %+v", r)
	}
	m.Idle(0, time.Minute)
	if r := m.Rate(0, time.Minute); r.Mean != 0 {
		t.Errorf("both slots: %+v", r)
	}
}
