package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

// sent is a bulk.Sender that counts the requests of one lease.
type sent struct {
	next     bulk.Sender
	requests atomic.Int64
	refused  atomic.Int64 // failed, or every document was rejected
}

// Send passes the request on and counts its outcome.
func (s *sent) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	s.requests.Add(1)
	res, err := s.next.Send(ctx, body, n)
	if err != nil || len(res.Refused) == n && n > 0 {
		s.refused.Add(1)
	}
	return res, err
}

// unmoved describes a lease that reaches its trigger without progress.
type unmoved struct {
	requests, refused int64
	read              bool          // whether a record was read
	since             time.Duration // since the last record was read, or since the lease was acquired
	age               time.Duration // of the lease
}

// returned decides how such a lease is released. The item counts an attempt only if the worker was stuck on one of its documents for half
// of the lease; a slow target or repository, or a short lease, is not the item's fault and makes the next lease longer.
func (u unmoved) returned() cms.EarlyRelease {
	switch {
	case u.refused > 0:
		return cms.EarlyRelease{Cause: cms.CauseBackpressure, Longer: true}
	case u.requests > 0, !u.read, u.since < u.age/2:
		return cms.EarlyRelease{Cause: cms.CauseOutage, Longer: true}
	}
	return cms.EarlyRelease{Cause: cms.CauseNone}
}

// unmoved describes the job for returned.
func (j *job) unmoved() cms.EarlyRelease {
	now := j.runner.Clock.Read().Mono
	j.lookAtReads(int64(now))
	last := time.Duration(j.lastRead.Load())
	u := unmoved{read: last != 0, age: now - j.acquired, since: now - max(last, j.acquired)}
	if j.sent != nil {
		u.requests, u.refused = j.sent.requests.Load(), j.sent.refused.Load()
	}
	return u.returned()
}

const (
	part     = 64  // records between two recorded positions of a lease that is worked on alone
	partSpan = 512 // ordinals after which a part ends even with fewer records
	// around is the number of ordinals before the position of the last crash from which every record is a part of its own; singles is the
	// maximum number of such parts. Both exceed the size of a part, so that the next worker that crashes there records the same ordinal.
	around  = 2 * partSpan
	singles = 2 * around
)

// alone is the state of a lease that is worked on alone; nil for any other lease. Before each part, the worker waits until everything
// before it is durable and the store has recorded the worker's position.
type alone struct {
	records    int   // since the last checkpoint
	from, last int64 // ordinals of the start of the part and of the last record
	single     int   // number of parts of one record
}

// checkpoint blocks at the end of a part until the store has recorded the worker's position; within a part it returns immediately.
func (a *alone) checkpoint(ctx context.Context, j *job) error {
	if a == nil {
		return nil
	}
	size := part
	if at, ok := j.lease.Suspect(); ok && a.single < singles && max(a.from, a.last) >= at-around {
		size = 1
	}
	if a.records++; a.records <= size && a.last-a.from < partSpan {
		return nil
	}
	a.records = 1
	if size == 1 {
		a.single++
	}
	if err := j.loader.Flush(ctx); err != nil {
		return err
	}
	watermark, counts := j.settled()
	a.from = watermark
	if !j.runner.Destination.Durable() {
		return j.lease.RecordPosition(ctx, j.begin, watermark, cms.Work{})
	}
	w, err := j.work(watermark, counts)
	if err != nil {
		return err
	}
	return j.lease.RecordPosition(ctx, watermark, watermark, w)
}
