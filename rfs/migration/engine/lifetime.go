package engine

import (
	"context"
	"errors"
	"sync"
	"time"
)

// lifetime holds the contexts of one lease. A context ends at the latest with its parent; next to each is the event that ends it earlier.
//
//	caller                 a signal, or the end of the run
//	└─ stopping            the trigger of the lease: reading stops in good order
//	(the caller's values)
//	├─ ending              close; a hand-off after a signal that takes too long
//	│  ├─ work             the guard of the lease: its deadline, its loss, a target that was replaced; with the cause
//	│  │  └─ reports       the end of the copying: no record of progress is in flight during the steps that end the lease
//	│  └─ after, work done the end of the lease and a moment more
//	└─ after, work ended   some seconds, for giving the lease back
//
// So a signal ends stopping only: work continues until the lease's deadline (or shutdownTimeout), because handing off takes a moment.
type lifetime struct {
	j        *job
	caller   context.Context
	stopping context.Context
	ending   context.Context
	work     context.Context

	endWork     context.CancelCauseFunc // ends work with a cause
	stopReports func()                  // ends the reports and blocks until they have ended
	cancels     []func()                // called by close, the last first
}

// live starts the lifetime of a lease.
func (j *job) live(caller context.Context) *lifetime {
	l := &lifetime{j: j, caller: caller, stopReports: func() {}}
	var abandon, stop context.CancelFunc
	l.ending, abandon = context.WithCancel(context.WithoutCancel(caller))
	l.stopping, stop = context.WithTimeout(caller, j.lease.UntilTrigger())
	ended, end := context.WithCancelCause(l.ending)
	work, unwatch := j.lease.Watch(ended, j.looked(caller.Done(), stop))
	l.work, l.endWork = work, end
	silence := context.AfterFunc(work, func() {
		why := context.Cause(work)
		j.log.Warn("work ends", "error", why)
		if errors.Is(why, errHandoffTimeout) {
			abandon()
		}
	})
	l.cancels = []func(){abandon, stop, func() { end(nil) }, unwatch, func() { silence() }}
	return l
}

// report starts the reports of a job.
func (l *lifetime) report(j *job) {
	ctx, cancel := context.WithCancel(l.work)
	l.cancels = append(l.cancels, cancel)
	var reports sync.WaitGroup
	reports.Go(func() { j.report(ctx, l.endWork) })
	l.stopReports = func() { cancel(); reports.Wait() }
}

// after ends the reports and returns the context in which the lease is ended after the copying, which returned err, and the error that
// decides how.
func (l *lifetime) after(err error) (context.Context, error) {
	// A record of progress must not be in flight during the steps that end the lease: the store would
	// refuse the second of them.
	l.stopReports()
	switch {
	case l.work.Err() == nil:
		return l.until(l.ending, l.j.lease.UntilEnd()+FinalReadTimeout), err
	case err == nil: // the guard ended the work behind the last document
		return l.work, nil
	}
	err = context.Cause(l.work) // the guard ended the work; what follows needs a moment more
	moment := 10 * time.Second
	if errors.Is(err, errHandoffTimeout) {
		moment = FinalReadTimeout
	}
	return l.until(context.WithoutCancel(l.caller), moment), err
}

// until returns a context that ends after d. The deadline of the lease is for documents; the requests that end a lease are decided by the
// holder's id, so they may be sent until the lease itself ends, and answered a moment later.
func (l *lifetime) until(ctx context.Context, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(ctx, d)
	l.cancels = append(l.cancels, cancel)
	return ctx
}

// close ends all contexts.
func (l *lifetime) close() {
	for i := len(l.cancels) - 1; i >= 0; i-- {
		l.cancels[i]()
	}
}
