package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/api/client"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

const orderHelp = asked + `

Exit code 0: the order is stored, and so in force; nodes that do not follow it yet are listed.
Exit code 1: it was refused, and does not come into force. Exit code 9: the store does not
answer; "rfsctl status" shows later whether it is in force. After an order was stored, an earlier
one without an answer has no effect any more.`

const pauseHelp = `Within moments all workers hand off their leases, which does not count as an attempt. No worker
starts until "rfsctl resume", on nodes that start later neither. A cut-over that has blocked
writes to the source returns; one without blocks waits.` + orderHelp

const resumeHelp = `Ends a pause or a drain of the fleet. With names it ends the drain of these nodes.` + orderHelp

const drainHelp = `The workers hand off their leases and no further ones start, so that the machines can be stopped;
the rest of the fleet takes over their work. Without names the whole fleet is drained.` + orderHelp

const scaleHelp = `The number is for the whole fleet; each node takes its share, at most its --max-workers. With 0
workers a cut-over that has blocked writes to the source returns.` + orderHelp

const setHelp = `The value replaces the option of the same name of every process of the session, also of
processes that start later, until "default" lets the options hold again; 0 means no limit.
Values are written as the options take them: 20MiB, 500ms. "rfsctl status" shows them.` + orderHelp

// give sends an order to a node and shows whether it is in force.
func give(ctx context.Context, call *config.Call, o config.Asked, kind session.OrderKind, with api.OrderArguments, done string) error {
	n, err := openNodes(o.Nodes)
	if err != nil {
		return err
	}
	who, ordered, err := n.Order(ctx, kind, with)
	switch {
	case errors.Is(err, client.ErrNotKnown):
		return exit.With(exit.Unknown, err)
	case err != nil:
		return err
	case call.Out.JSON:
		return call.Out.Result(ordered)
	}
	fmt.Fprintf(call.Out, "%s (sent to %s)\n", done, who)
	if len(ordered.NotFollowing) > 0 {
		fmt.Fprintf(call.Out, "do not follow yet: %s; `rfsctl nodes` shows when they do\n", terminal.Clean(strings.Join(ordered.NotFollowing, ", ")))
	}
	return nil
}

// choose returns the command that sends an order about the named nodes, or about the whole fleet without names.
func choose(kind session.OrderKind, done string) func(context.Context, *config.Call, config.Asked) error {
	return func(ctx context.Context, call *config.Call, o config.Asked) error {
		about := "the fleet"
		if len(call.Args) > 0 {
			about = strings.Join(call.Args, ", ")
		}
		return give(ctx, call, o, kind, api.OrderArguments{Nodes: call.Args}, about+": "+done)
	}
}

// set sends the order to set a limit.
func set(ctx context.Context, call *config.Call, o config.Asked) error {
	if len(call.Args) != 2 {
		return fmt.Errorf("rfsctl set takes the name of a setting and its value, or default: %w", fault.ErrConfig)
	}
	name, text := call.Args[0], call.Args[1]
	value, err := config.LimitValue(name, text)
	if err != nil {
		return err
	}
	done := name + " is set to " + text
	if value == nil {
		done = "the option --" + name + " of each node holds again"
	}
	return give(ctx, call, o, session.OrderSet, api.OrderArguments{Setting: name, Value: value}, done)
}

func scale(ctx context.Context, call *config.Call, o config.Asked) error {
	if len(call.Args) != 1 {
		return fmt.Errorf("rfsctl scale takes one number, or auto: %w", fault.ErrConfig)
	}
	var with api.OrderArguments
	if text := call.Args[0]; text != "auto" {
		k, err := strconv.Atoi(text)
		if err != nil || k < 0 {
			return fmt.Errorf("%q is neither a number of workers nor auto: %w", text, fault.ErrConfig)
		}
		with.Workers = &k
	}
	return give(ctx, call, o, session.OrderScale, with, call.Args[0]+" workers wanted")
}
