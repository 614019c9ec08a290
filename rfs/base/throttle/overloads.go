package throttle

import (
	"sync"
	"time"
)

// Constants of Overloads.
const (
	healthyFor     = 5 * time.Second // minimum time without a refusal, and maximum time since the last accepted request
	healthyAnswers = 4               // accepted since the last refusal
	maxIdleIndices = 256             // remembered indices without recent responses
)

// Overloads attributes refusals to the target or to one of its indices. While another index is healthy, the refusals of an index are its
// own: the target is not overloaded then. It is safe for concurrent use; the zero value is ready.
type Overloads struct {
	mu      sync.Mutex
	indices map[string]*answers
}

// answers are the responses to the requests of an index.
type answers struct {
	refused, accepted time.Time // time of the last one
	since             int       // accepted since the last refusal
}

// Note records the response to a request of an index. It reports whether the response is a refusal that concerns the whole target.
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

// healthy reports whether requests of an index were recently accepted and not refused.
func (a *answers) healthy(now time.Time) bool {
	return a.since >= healthyAnswers && now.Sub(a.accepted) <= healthyFor && now.Sub(a.refused) > healthyFor
}

// add adds an index. If there are many, it drops those without recent responses. o.mu is held.
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
