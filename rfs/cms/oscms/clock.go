package oscms

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/rfsd/rfsd/rfs/fault"
)

const (
	clockAge   = 30 * time.Second // a reading is used this long
	maxRoundup = 2 * time.Second  // slower answers tell too little
)

// reading is the cluster's clock at a moment of ours (Cristian's method).
type reading struct {
	local  time.Time // middle of the request; wall and monotonic
	server time.Time
	maxErr time.Duration // half the round trip
}

// at extrapolates; ok is false when the reading is old or this machine's clocks disagree about that.
func (r reading) at(now time.Time) (time.Time, bool) {
	mono, wall := now.Sub(r.local), now.Round(0).Sub(r.local.Round(0))
	if r.server.IsZero() || mono > clockAge || (wall-mono).Abs() > time.Second {
		return time.Time{}, false
	}
	return r.server.Add(mono), true
}

// Now is the clock of a node of the cluster, from the timestamp of its statistics,
// extrapolated for up to 30 s. The error is half the round trip.
func (s *Store) Now(ctx context.Context) (time.Time, time.Duration, error) {
	s.mu.Lock()
	r := s.clock
	s.mu.Unlock()
	if now, ok := r.at(s.cfg.Now()); ok {
		return now, r.maxErr, nil
	}
	r, err := s.askClock(ctx)
	if err != nil {
		return time.Time{}, 0, err
	}
	s.mu.Lock()
	s.clock = r
	s.mu.Unlock()
	now, ok := r.at(s.cfg.Now())
	if !ok {
		return time.Time{}, 0, fmt.Errorf("this machine's clock jumped: %w", fault.ErrUnavailable)
	}
	return now, r.maxErr, nil
}

func (s *Store) askClock(ctx context.Context) (reading, error) {
	before := s.cfg.Now()
	answer, err := s.request(ctx, http.MethodGet, "/_nodes/_local/stats/process", url.Values{"filter_path": {"nodes.*.timestamp"}}, nil)
	trip := s.cfg.Now().Sub(before)
	if err != nil {
		return reading{}, err
	}
	if trip > maxRoundup {
		return reading{}, fmt.Errorf("the cluster's clock took %s to answer: %w", trip, fault.ErrUnavailable)
	}
	var a struct {
		Nodes map[string]struct {
			Timestamp int64 `json:"timestamp"`
		} `json:"nodes"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return reading{}, fmt.Errorf("the cluster's clock: %w: %w", err, fault.ErrUnavailable)
	}
	for _, n := range a.Nodes {
		if n.Timestamp > 0 {
			return reading{local: before.Add(trip / 2), server: time.UnixMilli(n.Timestamp), maxErr: trip / 2}, nil
		}
	}
	return reading{}, fmt.Errorf("the cluster reported no time: %w", fault.ErrUnavailable)
}
