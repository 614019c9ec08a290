package cms

import (
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	endedTTL = time.Minute // no search returns an older state
	maxEnded = 16384
)

// endedItems are items that this process has just completed. A search that is not refreshed still finds them.
type endedItems struct {
	mu sync.Mutex
	at map[string]time.Duration // by id; monotonic clock
}

func (e *endedItems) add(id string, now time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at == nil {
		e.at = map[string]time.Duration{}
	}
	if len(e.at) >= maxEnded {
		maps.DeleteFunc(e.at, func(_ string, at time.Duration) bool { return now-at > endedTTL })
	}
	if len(e.at) < maxEnded {
		e.at[id] = now
	}
}

// clear forgets all items, once searches see every change.
func (e *endedItems) clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.at)
}

// without returns the candidates except for the items of e.
func (e *endedItems) without(found []Item, now time.Duration) []Item {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(found, func(it Item) bool {
		at, known := e.at[it.ID]
		return known && now-at <= endedTTL
	})
}
