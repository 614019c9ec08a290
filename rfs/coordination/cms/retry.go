package cms

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// budget limits the number and duration of repetitions of a request.
type budget struct {
	tries      int // and one pause less; a long pause has further tries in it
	first, cap time.Duration
	full       bool          // full jitter: anything between 0 and the pause
	least      time.Duration // after the first try, in which a request is repeated however short its pauses were
	until      instant       // with bounded: no pause crosses it
	bounded    bool
}

// The budgets of the kinds of requests.
var (
	readBudget      = budget{tries: 12, first: 100 * time.Millisecond, cap: 30 * time.Second, full: true, least: time.Minute}
	successorBudget = budget{tries: 11, first: 10 * time.Millisecond, cap: time.Minute}
	createBudget    = budget{tries: 8, first: 10 * time.Millisecond, cap: time.Minute}
	completeBudget  = budget{tries: 8, first: time.Second, cap: 64 * time.Second}
	onceBudget      = budget{tries: 1}
)

func (b budget) before(i instant) budget {
	b.until, b.bounded = i, true
	return b
}

// maxUnasked is the longest time between two tries, so that the end of an outage is noticed; a contended leaves the store alone for
// the whole of a pause.
const maxUnasked = 3 * time.Second

// retrier repeats requests that ended in fault.ErrUnavailable or ErrConflict.
type retrier struct {
	clock     Clock
	rand      *jitter
	contended bool // many processes use the store
}

func (r retrier) do(ctx context.Context, b budget, f func(context.Context) error) error {
	pause, pauses, rest := b.first, b.tries-1, time.Duration(0) // the next pause, the number left, and the rest of this one
	begin := r.clock.Read().Mono
	for try := 1; ; try++ {
		err := f(ctx)
		if err == nil || ctx.Err() != nil || !(errors.Is(err, fault.ErrUnavailable) || errors.Is(err, ErrConflict)) {
			return err
		}
		if rest <= 0 {
			if pauses <= 0 && r.clock.Read().Mono-begin >= b.least {
				return fmt.Errorf("after %d tries: %w", try, err)
			}
			if rest = pause; b.full {
				rest = r.rand.between(0, pause)
			}
			pauses, pause = pauses-1, min(2*pause, b.cap)
		}
		d := rest
		if !r.contended {
			d = min(d, maxUnasked)
		}
		if b.bounded && d >= b.until.left(r.clock.Read()) {
			return fmt.Errorf("no time for another try: %w", err)
		}
		if serr := r.clock.Sleep(ctx, d); serr != nil {
			return errors.Join(err, serr)
		}
		rest -= d
	}
}

// jitter is a random source for several goroutines.
type jitter struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newJitter(r *rand.Rand) *jitter {
	if r == nil {
		r = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	return &jitter{r: r}
}

func (j *jitter) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return lo + time.Duration(j.r.Int64N(int64(hi-lo)))
}

func (j *jitter) shuffle(items []Item) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.r.Shuffle(len(items), func(a, b int) { items[a], items[b] = items[b], items[a] })
}
