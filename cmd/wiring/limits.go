package wiring

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// limits are the limits of a process: its options, or what an operator has set in their place.
type limits struct {
	maxRate, maxReadRate int64 // bytes per second; 0: no limit
	maxLatency           time.Duration
	alone                bool // no other process uses the store, so that this one has the whole rates
	// The pace of sending and of reading; reading may be nil.
	bucket, reading *throttle.Bucket
	set             atomic.Pointer[session.Limits] // nil: nothing
}

func newLimits(o Options) *limits {
	return &limits{maxRate: o.maxRate, maxReadRate: o.maxReadRate, maxLatency: o.maxLatency, alone: !o.Shares(), bucket: throttle.New(o.maxRate), reading: o.reading}
}

// Follow applies what an operator has set.
func (l *limits) Follow(set session.Limits) {
	before := l.now()
	l.set.Store(&set)
	if !l.alone || set.Same(before) {
		return // the holders of the permits follow it
	}
	l.bucket.Allow(primitive.Whole(l.rate()), nil)
	if l.reading != nil {
		l.reading.Allow(primitive.Whole(l.readRate()), nil)
	}
}

func (l *limits) now() session.Limits {
	if set := l.set.Load(); set != nil {
		return *set
	}
	return session.Limits{}
}

// latency returns the latency of the target above which its load is lowered; 0: it never is.
func (l *limits) latency() time.Duration { return l.now().Latency(l.maxLatency) }

// rate and readRate return the bytes per second that all processes together may send, and read; 0: no limit.
func (l *limits) rate() int64 { return l.now().Of(session.MaxRate, l.maxRate) }

func (l *limits) readRate() int64 { return l.now().Of(session.MaxReadRate, l.maxReadRate) }

// permitUse is the time for which a process that sends or reads nothing counts as working.
const permitUse = 15 * time.Second

// bucketSpender is a process that sends or reads by itself, as the holder of a permit.
type bucketSpender struct {
	*throttle.Bucket
	slots int
	most  func() int64
}

// Weight returns the number of slots while they take from the bucket.
func (s bucketSpender) Weight() int {
	if s.Used(permitUse) {
		return max(s.slots, 1)
	}
	return 0
}

// Limit returns the rate of all processes.
func (s bucketSpender) Limit() int64 { return s.most() }

// holdPermits lets this process send and read no more than its parts of the rates among all processes that share the store, until stop
// is called.
func (in *Resources) holdPermits(ctx context.Context, o Options, store cms.Store, log *slog.Logger) (stop func() error) {
	if in.alone || in.Led {
		return func() error { return nil }
	}
	sending := hold(ctx, permits(session.MaxRate, store, log), bucketSpender{in.bucket, o.Slots, in.rate})
	reading := func() {}
	if in.reading != nil {
		reading = hold(ctx, permits(session.MaxReadRate, store, log), bucketSpender{in.reading, o.Slots, in.readRate})
	}
	return func() error { reading(); sending(); return nil }
}

// permits returns the permits of an option in a store.
func permits(option string, store primitive.Store, log *slog.Logger) *primitive.Permits {
	return &primitive.Permits{Store: store, Clock: timing.SystemClock(), Option: option, Log: log}
}

// hold keeps a permit for what takes from the bucket, until stop is called; afterwards the bucket has the whole rate, for a comparison.
// When no permit can come any more, what waits ends with the reason.
func hold(ctx context.Context, p *primitive.Permits, s bucketSpender) (stop func()) {
	if s.Limit() > 0 {
		s.Allow(0, nil) // until it has a permit
	}
	held, end := context.WithCancel(context.WithoutCancel(ctx)) // a lease that is handed off needs it, too
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := p.Hold(held, s); err != nil {
			s.End(err)
		}
	}()
	return func() {
		end()
		<-done
		s.Allow(primitive.Whole(s.Limit()), nil)
	}
}

// NodeLimits return the limits of a node for sending and for reading. Their permits are in a store that each opens, unless only this node
// can open it.
func (o Options) NodeLimits(log *slog.Logger) (send, read daemon.Limit) {
	return o.nodeLimit(session.MaxRate, o.maxRate, log), o.nodeLimit(session.MaxReadRate, o.maxReadRate, log)
}

func (o Options) nodeLimit(option string, most int64, log *slog.Logger) daemon.Limit {
	if !o.Shares() {
		return daemon.Limit{Most: most}
	}
	return daemon.Limit{Most: most, Hold: func(ctx context.Context, s primitive.Spender) error {
		for s.Limit() <= 0 {
			if err := timing.SystemClock().Sleep(ctx, time.Second); err != nil {
				return nil //nolint:nilerr // ctx is done
			}
		}
		store, closeStore, err := OpenPatiently(ctx, o, log)
		if err != nil {
			return nil //nolint:nilerr // ctx is done
		}
		held := permits(option, store, log).Hold(ctx, s)
		if err := closeStore(); err != nil {
			log.Debug("closing the store failed", "error", err)
		}
		return held
	}}
}
