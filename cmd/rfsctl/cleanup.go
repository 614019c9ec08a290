package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/oscms"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/progress"
	"github.com/rfsd/rfsd/rfs/target"
)

const cleanupHelp = `Removes what rfsd keeps about one migration: the indices .migrations_working_state and .rfs_control of its session (with
   _SESSION behind their names) and their aliases, or the coordinator file. Migrated indices are not touched, other sessions neither.
   The list of what it created (rfsctl created) goes, too.
   Only a migration that is complete is forgotten, unless --force says otherwise. Stop the daemons of the session first.`

func cleanupCommand() *cli.Command {
	return config.Command(cli.Command{
		Name: "cleanup", Usage: "remove what is kept about a migration that is complete", Description: cleanupHelp,
	}, cleanup)
}

func cleanup(ctx context.Context, call *config.Call, o config.Cleanup) error {
	s, err := openCoordination(ctx, call, o.Stored)
	if errors.Is(err, cms.ErrStoreGone) && o.Force.Yes {
		return dropRest(ctx, call, o.Stored) // half of it is gone already, so that nobody can open it any more
	}
	if err != nil {
		return err
	}
	m, err := progress.Read(ctx, s.Coordinator)
	if err != nil && !o.Force.Yes {
		return errors.Join(err, s.close())
	}
	if err == nil && !m.Complete && !o.Force.Yes {
		return errors.Join(fmt.Errorf("the migration kept in %s is not complete (%d items open); --force forgets it all the same: %w", s.place, m.Totals.ItemsOpen, fault.ErrConfig), s.close())
	}
	if client, ok := s.cluster(); ok {
		dropped, err := oscms.Drop(ctx, client, o.Stored.State.Session.Name)
		if len(dropped) > 0 {
			fmt.Fprintf(call.Out, "removed from %s: %s\n", s.place, strings.Join(dropped, ", "))
		}
		return errors.Join(err, s.close())
	}
	if err := s.close(); err != nil {
		return err
	}
	if err := os.Remove(s.place); err != nil {
		return fmt.Errorf("%w: %w", err, fault.ErrConfig)
	}
	fmt.Fprintf(call.Out, "removed %s\n", s.place)
	return nil
}

// dropRest removes what is left of a session whose store cannot be opened.
func dropRest(ctx context.Context, call *config.Call, at config.Stored) error {
	cluster, role := at.Which()
	client, err := connect(ctx, call, cluster, role)
	if err != nil {
		return err
	}
	dropped, err := oscms.Drop(ctx, client, at.State.Session.Name)
	fmt.Fprintf(call.Out, "removed from %s: %s\n", client.Name(), strings.Join(dropped, ", "))
	return errors.Join(err, client.Close())
}

// cluster is the client of the cluster that keeps the state, when a cluster does.
func (s *coordination) cluster() (*target.Client, bool) { return s.client, s.client != nil }
