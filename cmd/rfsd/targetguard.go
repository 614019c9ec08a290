package main

import (
	"context"
	"log/slog"

	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/destination/diskwatch"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
)

// targetGuard are how the target is treated while documents come.
type targetGuard struct {
	tune        tuning.Wish
	ignoreDisks bool
}

// gate lets a request start when the rate and the target's disks allow it. The disks are looked at now, while nothing else takes
// the target's time, and from then on until stop is called.
func (o targetGuard) gate(ctx context.Context, client *target.Client, bucket *throttle.Bucket, log *slog.Logger) (admit func(context.Context, int) error, stop func()) {
	if o.ignoreDisks {
		return bucket.Take, func() {}
	}
	disks := &diskwatch.Watcher{API: client, Log: log}
	stop = disks.Start(ctx)
	return func(ctx context.Context, n int) error {
		if err := disks.Wait(ctx); err != nil {
			return err
		}
		return bucket.Take(ctx, n)
	}, stop
}
