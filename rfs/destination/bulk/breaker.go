package bulk

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

var (
	// ErrTooManyRefusals means that an index rejects more documents than its breaker tolerates. It is a fault.ErrRejected.
	ErrTooManyRefusals = fmt.Errorf("too many refusals: %w", fault.ErrRejected)
	// ErrIndexBlocked means that an index accepts no documents at all (read-only, closed, missing,
	// forbidden). No document is recorded as failed. It is a fault.ErrRejected.
	ErrIndexBlocked = fmt.Errorf("index takes no documents: %w", fault.ErrRejected)
)

// maxReasons limits the reasons that a Breaker distinguishes per index.
const maxReasons = 100

// Breaker trips when an index has rejected more documents than a limit, and more than a tenth of all documents with a final
// answer. One Breaker is shared by all Loaders of a process; it is safe for concurrent use.
type Breaker struct {
	maxFailed int64
	mu        sync.Mutex
	indices   map[string]*indexTally
}

type indexTally struct {
	sent, refused int64
	reasons       map[doc.Reason]int64
	detail        map[doc.Reason]string // the first message for each
}

// NewBreaker returns a Breaker that tolerates maxFailed rejections per index; with
// math.MaxInt64 it never trips.
func NewBreaker(maxFailed int64) *Breaker {
	return &Breaker{maxFailed: maxFailed, indices: map[string]*indexTally{}}
}

// observe counts documents with a final answer; refused are the rejected ones among them. It returns
// ErrTooManyRefusals if the breaker trips.
func (k *Breaker) observe(index string, sent int64, refused []doc.Failure) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.indices[index]
	if t == nil {
		t = &indexTally{reasons: map[doc.Reason]int64{}, detail: map[doc.Reason]string{}}
		k.indices[index] = t
	}
	t.sent += sent
	t.refused += int64(len(refused))
	for _, f := range refused {
		if _, known := t.reasons[f.Reason]; !known {
			if len(t.reasons) == maxReasons {
				continue
			}
			t.detail[f.Reason] = f.Detail
		}
		t.reasons[f.Reason]++
	}
	if t.refused <= k.maxFailed || t.refused <= t.sent/10 {
		return nil
	}
	most := slices.MaxFunc(slices.Sorted(maps.Keys(t.reasons)), func(a, b doc.Reason) int {
		return int(min(max(t.reasons[a]-t.reasons[b], -1), 1))
	})
	return fmt.Errorf("index %s refused %d of %d documents, most often (%d times) with %s: %s: %w",
		index, t.refused, t.sent, t.reasons[most], most, t.detail[most], ErrTooManyRefusals)
}
