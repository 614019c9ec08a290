package main

import (
	"context"
	"errors"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/help"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/cmd/wiring"
	"github.com/rfsd/rfsd/daemon/status"
)

func consumeCommand() *cli.Command {
	return config.Raw[config.ConsumeCommand](cli.Command{
		Name:        "consume",
		Usage:       "bring the messages of a Kafka topic into a cluster; any number of processes share the partitions",
		Description: help.Consume,
	}, func(ctx context.Context, call *config.Call) error {
		return runOrWork(ctx, call, decodeConsume, consumeTask, runConsume)
	})
}

// decodeConsume makes the options of a stream's session of given settings.
func decodeConsume(values config.Values) (wiring.StreamOptions, error) {
	var c config.Consume
	if err := config.Decode(values, &c); err != nil {
		return wiring.StreamOptions{}, err
	}
	return wiring.ForStream(version, c), nil
}

// runConsume consumes partitions of a session and writes its report.
func runConsume(ctx context.Context, o wiring.StreamOptions, out *output.Writer) error {
	log, screen := report.Log(o.Options.Log)
	log, lines := keepLines(log, o.Log.Level, keptLines)
	o.WarnOfRisks(log)
	ctx, t, err := o.Observe(ctx, "consume", "", log)
	if err != nil {
		return err
	}
	defer t.Stop()
	begin := time.Now()
	h, err := wiring.OpenStream(ctx, o, log, wiring.NewResources(o.Options))
	if err != nil {
		return err
	}
	shown := shownConsume(o, h, lines, log)
	if err := t.Measure(ctx, shown); err != nil {
		return errors.Join(err, h.Close())
	}
	stopShowing := show(ctx, shown, log, screen)
	account, err := h.Run(ctx)
	stopShowing()
	r := &report.Stream{Account: account, Idle: len(account.Plan.Idle()), Session: o.Session, Seconds: time.Since(begin).Seconds(), OwnMessages: h.Own().Documents, FailedDir: o.FailedDir, UntilEnd: o.Stream.UntilEnd}
	if err == nil {
		r.Redriven, err = deliveredLater(context.WithoutCancel(ctx), h.Kept, r.Counts.Failed) // an end that was asked for has its account, too
		r.Counts.Failed, r.Counts.Indexed = r.Counts.Failed-r.Redriven, r.Counts.Indexed+r.Redriven
	}
	r.Failures = status.FailureClasses(ctx, h.Kept, h.Failed, r.Counts.Failed, log)
	return r.Conclude(out, errors.Join(err, h.Close()))
}
