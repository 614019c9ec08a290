package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/tuning"
)

const targetHelp = `On large indices that it creates rfsd sets refresh_interval -1, and with --tune-target on all of them also number_of_replicas 0, for as long as documents come.
   What they were is kept with the state of the work; the migration restores it at its end. restore does so now, for a migration that was
   given up: only settings that still are as rfsd set them, on the very index that it tuned. It may be repeated.`

func targetCommand() *cli.Command {
	return &cli.Command{
		Name: "target", Usage: "give the target's settings back", Description: targetHelp,
		Subcommands: []*cli.Command{
			config.Command(cli.Command{Name: "restore", Usage: "restore the settings that were changed while documents come", Description: targetHelp}, restoreTarget),
		},
	}
}

func restoreTarget(ctx context.Context, call *config.Call, o config.Restore) error {
	s, err := openCoordination(ctx, call, o.Stored)
	if err != nil {
		return err
	}
	done, err := restoreWith(ctx, call, o.Stored, s)
	if err = errors.Join(err, s.close()); len(done) == 0 && err == nil {
		fmt.Fprintln(call.Out, "nothing is tuned")
	}
	return err
}

func restoreWith(ctx context.Context, call *config.Call, o config.Stored, s *coordination) ([]tuning.Restored, error) {
	client := s.client
	if client == nil || o.State.Coordinator.Host != "" {
		var err error
		if client, err = connect(ctx, call, o.Target.Cluster, "target"); err != nil {
			return nil, err
		}
		defer client.Close() //nolint:errcheck // nothing is written through it any more
	}
	tuner := &tuning.Tuner{API: client, Records: s.Coordinator, Log: slog.New(slog.DiscardHandler)}
	done, err := tuner.Restore(ctx)
	if o.Output.JSON() {
		return done, errors.Join(err, printJSON(call.Out, done))
	}
	for _, x := range done {
		switch {
		case x.Reason != "":
			fmt.Fprintf(call.Out, "%s: nothing to restore: %s\n", x.Target, x.Reason)
		case len(x.Left) > 0:
			fmt.Fprintf(call.Out, "%s: restored %v; changed by others and left: %v\n", x.Target, x.Keys, x.Left)
		default:
			fmt.Fprintf(call.Out, "%s: restored %v\n", x.Target, x.Keys)
		}
	}
	return done, err
}
