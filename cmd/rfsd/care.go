package main

import (
	"context"
	"log/slog"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/rfs/care"
	"github.com/rfsd/rfsd/rfs/target"
	"github.com/rfsd/rfsd/rfs/throttle"
)

const careCategory = "Care of the target"

// careFlags say how the target is treated while documents come.
func careFlags() []cli.Flag {
	return []cli.Flag{
		yes(careCategory, "tune-target", "while documents come, set refresh_interval -1 and number_of_replicas 0 on the indices that rfsd creates; they are restored at the end, after any crash, or by rfsctl target restore"),
		yes(careCategory, "ignore-disks", "send documents also while a node of the target is above its high disk watermark (otherwise indexing pauses until it is below)"),
	}
}

type careOptions struct{ tune, ignoreDisks bool }

func parseCare(c *cli.Context) careOptions {
	return careOptions{tune: c.Bool("tune-target"), ignoreDisks: c.Bool("ignore-disks")}
}

// gate lets a request start when the rate and the target's disks allow it.
func (o careOptions) gate(client *target.Client, bucket *throttle.Bucket, log *slog.Logger) func(context.Context, int) error {
	if o.ignoreDisks {
		return bucket.Take
	}
	disks := &care.Disks{API: client, Log: log}
	return func(ctx context.Context, n int) error {
		if err := disks.Wait(ctx); err != nil {
			return err
		}
		return bucket.Take(ctx, n)
	}
}
