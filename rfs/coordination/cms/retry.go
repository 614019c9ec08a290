package cms

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

// The budgets of the kinds of requests. A retrier takes the jitter from its own random source.
var (
	readBudget      = retry.Policy{Tries: 12, First: 100 * time.Millisecond, Max: 30 * time.Second, Jitter: retry.Full, Least: time.Minute}
	successorBudget = retry.Policy{Tries: 11, First: 10 * time.Millisecond, Max: time.Minute}
	createBudget    = retry.Policy{Tries: 8, First: 10 * time.Millisecond, Max: time.Minute}
	completeBudget  = retry.Policy{Tries: 8, First: time.Second, Max: 64 * time.Second}
	onceBudget      = retry.Policy{Tries: 1}
)

// maxUnasked is the longest time between two requests during an outage, so that its end is noticed soon. A contended retrier keeps to the
// longer pauses of its budget.
const maxUnasked = 3 * time.Second

// retrier retries requests that ended in fault.ErrUnavailable or ErrConflict.
type retrier struct {
	clock     timing.Clock
	rand      *jitter
	contended bool // many processes use the store
}

func (r retrier) do(ctx context.Context, p retry.Policy, f func(context.Context) error) error {
	if p.Jitter != nil {
		p.Jitter = func(d time.Duration) time.Duration { return r.rand.between(0, d) }
	}
	if !r.contended {
		p.Unasked = maxUnasked
	}
	p.Now, p.Sleep = func() time.Duration { return r.clock.Read().Mono }, r.clock.Sleep
	p.Passes = func(err error) bool { return errors.Is(err, fault.ErrUnavailable) || errors.Is(err, ErrConflict) }
	return p.Do(ctx, f)
}

// before returns the budget without pauses that end at i or later.
func (r retrier) before(i timing.Instant, p retry.Policy) retry.Policy {
	p.Left = func() time.Duration { return i.Left(r.clock.Read()) }
	return p
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
