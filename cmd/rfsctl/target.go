package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
)

const targetHelp = `On large indices that it creates rfsd sets refresh_interval to -1 while documents are sent, and
with --tune-target also number_of_replicas to 0 on all of them. The former values are kept with
the state of the migration, which restores them at its end. restore does so now, for a migration
that was abandoned: only settings that still have the values that rfsd set, on the same index. It
may be repeated.`

func targetCommand() *cli.Command {
	return &cli.Command{
		Name: "target", Usage: "restore settings of the target", Description: targetHelp,
		Subcommands: []*cli.Command{
			config.Command(cli.Command{Name: "restore", Usage: "restore the index settings that were changed while documents were sent", Description: targetHelp}, restoreTarget),
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
	done, err := s.tuner(client, o).Restore(ctx)
	if call.Out.JSON {
		return done, errors.Join(err, call.Out.Result(append([]tuning.Restored{}, done...)))
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
