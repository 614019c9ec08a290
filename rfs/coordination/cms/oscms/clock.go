package oscms

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Now returns the clock of a cluster node, from the timestamp of its statistics, extrapolated for up to 30 s. The error is half the round
// trip.
func (s *Store) Now(ctx context.Context) (time.Time, time.Duration, error) {
	return s.clock.Now(ctx, s.cfg.Now, 0, s.askClock)
}

// askClock requests the clock of a cluster node, with a resolution of 1 ms.
func (s *Store) askClock(ctx context.Context) (time.Time, error) {
	answer, err := s.request(ctx, http.MethodGet, "/_nodes/_local/stats/process", url.Values{"filter_path": {"nodes.*.timestamp"}}, nil)
	if err != nil {
		return time.Time{}, err
	}
	var a struct {
		Nodes map[string]struct {
			Timestamp int64 `json:"timestamp"`
		} `json:"nodes"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return time.Time{}, fmt.Errorf("the cluster's clock: %w: %w", err, fault.ErrUnavailable)
	}
	for _, n := range a.Nodes {
		if n.Timestamp > 0 {
			return time.UnixMilli(n.Timestamp), nil
		}
	}
	return time.Time{}, fmt.Errorf("the cluster reported no time: %w", fault.ErrUnavailable)
}
