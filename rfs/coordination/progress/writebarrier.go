package progress

import (
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Upper limits of the time that a request may outlive its lease: the grace and the margin of any lease (cms),
// and the timeout of requests to the target.
const (
	maxLeaseSlack = 5*time.Second + 15*time.Second
	// RequestTimeout is the timeout of requests to the target.
	RequestTimeout = 2 * time.Minute
)

// WriteBarrier determines when no request of this migration can reach the target any more. A worker
// that has lost its lease starts no request, but requests that it started before, or handed to
// the kernel before it was stopped, may still arrive until their timeout. Only after that may
// other clients write to the migrated indices without being overwritten.
type WriteBarrier struct {
	Open     int       // open items; they may be leased at any time
	SafeFrom time.Time // when the last request has certainly ended, by the store's clock
}

// Add adds an item, including shard_setup.
func (q *WriteBarrier) Add(it cms.Item) {
	if it.Open() {
		if it.ID != cms.SetupID {
			q.Open++
		}
		if it.Holder != "" {
			q.later(time.Unix(it.Expiration, 0).Add(maxLeaseSlack))
		}
	}
	// The former holder sent its last request before this acquisition; requests that were
	// repeated after a lost connection may arrive a second time after the item has ended.
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
