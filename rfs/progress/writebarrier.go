package progress

import (
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
)

// Upper bounds of what a request may outlive: the grace and the margin of any lease (cms),
// and the time after which a client gives an unanswered request up (target).
const (
	maxLeaseSlack = 5*time.Second + 15*time.Second
	// RequestTimeout is how long a client waits for an answer of the target.
	RequestTimeout = 2 * time.Minute
)

// WriteBarrier tells when no request of this migration can reach the target any more. A worker
// that lost its lease starts no request, but what it had started before, or handed to the
// kernel before it was stopped, may still arrive until the request's timeout; only after
// that may somebody else write to the migrated indices without being overwritten.
type WriteBarrier struct {
	Open     int       // items that are not ended; somebody may lease them at any moment
	SafeFrom time.Time // when the last request has ended for certain, by the store's clock
}

// Add takes an item, shard_setup too, into account.
func (q *WriteBarrier) Add(it cms.Item) {
	if it.Open() {
		if it.ID != cms.SetupID {
			q.Open++
		}
		if it.Holder != "" {
			q.later(time.Unix(it.Expiration, 0).Add(maxLeaseSlack))
		}
	}
	// Whoever lost the item to this acquisition sent its last request before it; what was
	// cut off and repeated before the item ended may arrive once more after it.
	if it.AcquiredAt != 0 {
		q.later(time.UnixMilli(it.AcquiredAt))
	}
	if it.CompletedAt != 0 {
		q.later(time.Unix(it.CompletedAt+1, 0))
	}
}

func (q *WriteBarrier) later(lastStart time.Time) {
	if t := lastStart.Add(RequestTimeout); t.After(q.SafeFrom) {
		q.SafeFrom = t
	}
}

// SafeToWriteAt says whether others may write to the target now.
func (q *WriteBarrier) SafeToWriteAt(now time.Time) bool {
	return q.Open == 0 && !now.Before(q.SafeFrom)
}
