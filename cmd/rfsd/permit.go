package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
)

// permitUse is for how long a process that sends nothing counts as one that has work.
const permitUse = 15 * time.Second

// bucketSpender is a process that sends by itself, as the holder of a permit.
type bucketSpender struct {
	*throttle.Bucket
	slots int
}

// Weight returns the number of slots while they send.
func (s bucketSpender) Weight() int {
	if s.Used(permitUse) {
		return max(s.slots, 1)
	}
	return 0
}

// permits returns the permits of --max-rate in a store. limit is the rate of those processes that hold one.
func permits(store primitive.Store, limit func() int64, log *slog.Logger) *primitive.Permits {
	return &primitive.Permits{Store: store, Clock: cms.SystemClock(), Limit: limit, Log: log}
}

// holdPermit lets this process send no more than its part of --max-rate among all processes that share the store, until stop is
// called. When no permit can come any more, what waits to be sent ends with the reason. A coordinator file has one process, which has
// the whole rate.
func (in *resources) holdPermit(ctx context.Context, o options, store cms.Store, log *slog.Logger) (stop func() error) {
	if o.maxRate <= 0 || !o.shares() {
		return func() error { return nil }
	}
	s := bucketSpender{in.bucket, o.slots}
	s.Allow(0, nil)                                             // until it has a permit
	held, end := context.WithCancel(context.WithoutCancel(ctx)) // a lease that is handed off needs it, too
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := permits(store, func() int64 { return o.maxRate }, log).Hold(held, s); err != nil {
			in.bucket.End(err)
		}
	}()
	return func() error { end(); <-done; return nil }
}

// holdPermit keeps a node's permit until ctx is done, in a store that it opens, or returns the reason why there can be none any more.
// limit is the rate of the nodes that hold permits.
func (o options) holdPermit(ctx context.Context, s primitive.Spender, limit func() int64, log *slog.Logger) error {
	store, closeStore, err := openPatiently(ctx, o, log)
	if err != nil {
		return nil //nolint:nilerr // ctx is done
	}
	held := permits(store, limit, log).Hold(ctx, s)
	if err := closeStore(); err != nil {
		log.Debug("store_close_failed", "error", err)
	}
	return held
}
