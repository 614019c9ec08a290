package throttle

import (
	"context"
	"sync"
	"time"
)

// Bounds of a Latency.
const (
	leastShare = 1.0 / 256
	leastPart  = 1.0 / 16 // lower shares are reached by pauses
	shareStep  = 1.0 / 32
)

// Latency lowers the load of the readers that share it while responses take longer than a limit, and raises it again in steps. First
// requests become smaller, down to a 16th; then readers pause, up to 15 times as long as the response took.
type Latency struct {
	limit func() time.Duration
	sleep func(ctx context.Context, d time.Duration) error

	mu    sync.Mutex
	share float64 // of the full load
	turn  int     // number of times the share was lowered
}

// NewLatency returns a Latency that allows the full load. The limit may change; while it is 0 the load is not lowered.
func NewLatency(limit func() time.Duration, sleep func(ctx context.Context, d time.Duration) error) *Latency {
	return &Latency{limit: limit, sleep: sleep, share: 1}
}

// Share returns the allowed fraction of the full load, between 0 and 1.
func (l *Latency) Share() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.share
}

// Begin is called before a request. It returns the fraction of the full size that the request should have, and end, to be called when the
// response has arrived or failed: it measures the time and blocks while the reader should pause. It returns the error of ctx if that is
// done first.
func (l *Latency) Begin() (part float64, end func(ctx context.Context) error) {
	l.mu.Lock()
	part, turn := max(l.share, leastPart), l.turn
	l.mu.Unlock()
	begin := time.Now()
	return part, func(ctx context.Context) error {
		took := time.Since(begin)
		if d := l.pause(took, turn); d > 0 {
			return l.sleep(ctx, d)
		}
		return nil
	}
}

// pause records the duration of a response, and returns how long its reader should pause. Requests from before the share was last lowered
// do not lower it again.
func (l *Latency) pause(took time.Duration, turn int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := l.limit()
	switch {
	case limit <= 0:
		l.share = 1
	case took > limit && turn == l.turn:
		l.share, l.turn = max(l.share/2, leastShare), l.turn+1
	case took <= limit*4/5:
		l.share = min(l.share+shareStep, 1)
	}
	if l.share >= leastPart {
		return 0
	}
	return time.Duration(float64(took) * (leastPart/l.share - 1))
}
