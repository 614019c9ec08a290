package main

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/rfs/care"
	"github.com/rfsd/rfsd/rfs/fault"
)

const targetHelp = `With --tune-target rfsd sets refresh_interval -1 and number_of_replicas 0 on indices that it creates, for as long as documents come.
   What they were is kept with the state of the work; the migration restores it at its end. restore does so now, for a migration that was
   given up: only settings that still are as rfsd set them, on the very index that it tuned. It may be repeated.

   Exit codes: 0; 1 usage, the store or the target cannot be reached, or a setting could not be restored.`

func targetCommand() *cli.Command {
	return &cli.Command{
		Name: "target", Usage: "give the target's settings back", Description: targetHelp,
		Subcommands: []*cli.Command{
			{Name: "restore", Usage: "restore the settings that --tune-target changed", Description: targetHelp, Action: restoreTarget, Flags: coordinationFlags()},
		},
	}
}

func restoreTarget(c *cli.Context) error {
	if c.String("target-host") == "" {
		return fmt.Errorf("say which cluster's settings: --target-host: %w", fault.ErrConfig)
	}
	s, err := openCoordination(c)
	if err != nil {
		return err
	}
	done, err := restoreWith(c, s)
	if err = errors.Join(err, s.close()); len(done) == 0 && err == nil {
		fmt.Fprintln(c.App.Writer, "nothing is tuned")
	}
	return err
}

func restoreWith(c *cli.Context, s *coordination) ([]care.Restored, error) {
	client := s.client
	if client == nil || c.String("coordinator-host") != "" {
		var err error
		if client, err = connect(c, "target"); err != nil {
			return nil, err
		}
		defer client.Close() //nolint:errcheck // nothing is written through it any more
	}
	tuner := &care.Tuner{API: client, Records: s.Coordinator, Log: slog.New(slog.DiscardHandler)}
	done, err := tuner.Restore(c.Context)
	if c.String("output") == "json" {
		return done, errors.Join(err, printJSON(c.App.Writer, done))
	}
	for _, x := range done {
		switch {
		case x.Reason != "":
			fmt.Fprintf(c.App.Writer, "%s: nothing to restore: %s\n", x.Target, x.Reason)
		case len(x.Left) > 0:
			fmt.Fprintf(c.App.Writer, "%s: restored %v; changed by others and left: %v\n", x.Target, x.Keys, x.Left)
		default:
			fmt.Fprintf(c.App.Writer, "%s: restored %v\n", x.Target, x.Keys)
		}
	}
	return done, err
}
