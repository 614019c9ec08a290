package throttle

import (
	"sync"
	"time"
)

// Constants of Overloads.
const (
	healthyFor     = 5 * time.Second // without a refusal, and at most so long after the last accepted request
	healthyAnswers = 8               // accepted since the last refusal
	maxIdleIndices = 256             // that are remembered although none of their requests was answered lately
)

// Overloads attributes refusals to the target or to one of its indices. The refusals of an index are its own while another index is
// healthy: the target then has no more load than it can bear. It is safe for concurrent use; the zero value is ready.
type Overloads struct {
	mu      sync.Mutex
	indices map[string]*answers
}

// answers are those to the requests of an index.
type answers struct {
	refused, accepted time.Time // the last ones
	since             int       // accepted since the last refusal
}

// Note notes the answer to a request of an index. It reports whether the answer is a refusal that concerns the whole target.
func (o *Overloads) Note(index string, refused bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	a := o.indices[index]
	if a == nil {
		a = o.add(index, now)
	}
	if !refused {
		a.accepted = now
		a.since++
		return false
	}
	a.refused, a.since = now, 0
	for _, other := range o.indices {
		if other.healthy(now) {
			return false
		}
	}
	return true
}

// healthy reports whether an index was accepted lately and not refused.
func (a *answers) healthy(now time.Time) bool {
	return a.since >= healthyAnswers && now.Sub(a.accepted) <= healthyFor && now.Sub(a.refused) > healthyFor
}

// add adds an index, and forgets others that have no requests any more when there are many. The mutex is held.
func (o *Overloads) add(index string, now time.Time) *answers {
	if o.indices == nil {
		o.indices = map[string]*answers{}
	}
	if len(o.indices) >= maxIdleIndices {
		for name, a := range o.indices {
			if now.Sub(a.accepted) > healthyFor && now.Sub(a.refused) > healthyFor {
				delete(o.indices, name)
			}
		}
	}
	a := &answers{}
	o.indices[index] = a
	return a
}
