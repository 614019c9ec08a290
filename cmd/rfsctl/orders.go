package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/api/client"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
)

const orderHelp = nodeHelp + `

An order has an id and comes into force within 30 seconds, or never. Exit code 0: it is in force,
that is, stored; nodes that do not follow it yet are listed. Exit code 1: it was refused, and
does not come into force. Exit code 9: the store does not answer; "rfsctl orders ID" reports the
outcome later. Of two orders about the same subject the later one applies.`

const ordersHelp = nodeHelp + `

Without an id the latest orders are listed, newest first. States: in_force; replaced by a newer
order about the same subject; unknown: not stored, but it still may be before its end; expired:
not stored before its end, so that it never comes into force; forgotten: too old to be kept. With
an id the exit code is 0 if the order is or was in force, 9 while that is unknown, and
otherwise 1. With --target-host, --coordinator-host, --coordinator-bucket or --coordinator-file
the orders are read from the store, without the nodes that do not follow them.`

// give sends an order to a node and shows what became of it.
func give(ctx context.Context, call *config.Call, o config.Asked, path string, body any, done string) error {
	n, err := openNodes(o.Nodes)
	if err != nil {
		return err
	}
	who, order, err := n.Order(ctx, path, body)
	var refused *client.RefusedError
	switch {
	case errors.As(err, &refused) && refused.Order != nil:
		if o.Output.JSON() {
			err = errors.Join(err, report.JSON(call.Out, refused.Order))
		}
		return exit.With(exit.Unknown, err)
	case errors.Is(err, client.ErrNotKnown):
		return exit.With(exit.Unknown, fmt.Errorf("%w: 30 seconds from now `rfsctl orders` lists it, or it never comes into force", err))
	case err != nil:
		return err
	case o.Output.JSON():
		return report.JSON(call.Out, order)
	}
	fmt.Fprintf(call.Out, "%s (sent to %s): order %s is in force\n", done, who, order.ID)
	if len(order.NotFollowing) > 0 {
		fmt.Fprintf(call.Out, "do not follow yet: %s; `rfsctl orders %s` shows whether they do\n", terminal.Clean(strings.Join(order.NotFollowing, ", ")), order.ID)
	}
	return nil
}

func pause(ctx context.Context, call *config.Call, o config.Asked) error {
	return give(ctx, call, o, "/v1/pause", nil, "paused")
}

// choose returns the command that sends an order about the named nodes, or about the whole fleet without names.
func choose(path, done string) func(context.Context, *config.Call, config.Asked) error {
	return func(ctx context.Context, call *config.Call, o config.Asked) error {
		about := "the fleet"
		if len(call.Args) > 0 {
			about = strings.Join(call.Args, ", ")
		}
		return give(ctx, call, o, path, api.Chosen{Nodes: call.Args}, about+": "+done)
	}
}

func scale(ctx context.Context, call *config.Call, o config.Asked) error {
	if len(call.Args) != 1 {
		return fmt.Errorf("rfsctl scale takes one number, or auto: %w", fault.ErrConfig)
	}
	var want api.Scaling
	if text := call.Args[0]; text != "auto" {
		k, err := strconv.Atoi(text)
		if err != nil || k < 0 {
			return fmt.Errorf("%q is neither a number of workers nor auto: %w", text, fault.ErrConfig)
		}
		want.Workers = &k
	}
	return give(ctx, call, o, "/v1/scale", want, call.Args[0]+" workers wanted")
}

// showOrders lists the orders, or shows the one that is named.
func showOrders(ctx context.Context, call *config.Call, o config.Either) error {
	id := ""
	switch len(call.Args) {
	case 0:
	case 1:
		id = call.Args[0]
	default:
		return fmt.Errorf("rfsctl orders takes one id, or none: %w", fault.ErrConfig)
	}
	all, err := readOrders(ctx, call, o, id)
	switch {
	case err != nil && id != "" && errors.Is(err, fault.ErrUnavailable):
		return exit.With(exit.Unknown, err)
	case err != nil:
		return err
	case id == "" && o.Output.JSON():
		return report.JSON(call.Out, all)
	case id == "":
		return listOrders(terminal.NewWriter(call.Out), all)
	case len(all) != 1:
		return fmt.Errorf("%d answers for one order: %w", len(all), fault.ErrUnavailable)
	}
	if o.Output.JSON() {
		err = report.JSON(call.Out, all[0])
	} else {
		err = listOrders(terminal.NewWriter(call.Out), all)
	}
	code := exit.Failed
	switch all[0].State {
	case status.OrderInForce, status.OrderReplaced:
		code = exit.OK
	case status.OrderUnknown:
		code = exit.Unknown
	}
	return exit.With(code, err)
}

// readOrders reads the orders through a node or from the store.
func readOrders(ctx context.Context, call *config.Call, o config.Either, id string) ([]status.Order, error) {
	from := originOf(o)
	from.node = from.node || !from.store.Named()
	var query url.Values
	if id != "" {
		query = url.Values{"id": {id}}
	}
	return look(ctx, call, from, "/v1/orders", query, func(s *coordination) ([]status.Order, error) {
		return status.ReadOrders(ctx, s.Coordinator, id)
	})
}

func listOrders(w io.Writer, all []status.Order) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no orders: the fleet runs")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ORDER\tSTATE\tWHAT\tBY\tISSUED\tENDS\tDO NOT FOLLOW YET")
	for _, o := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", terminal.Clean(o.ID), o.State, what(o), orDash(terminal.Clean(o.By)), at(o.Issued), at(o.Ends),
			orDash(terminal.Clean(strings.Join(o.NotFollowing, ", "))))
	}
	return t.Flush()
}

// what returns an order as it is typed.
func what(o status.Order) string {
	switch {
	case o.Kind == "scale" && o.Workers == nil:
		return "scale auto"
	case o.Kind == "scale":
		return "scale " + strconv.Itoa(*o.Workers)
	}
	return orDash(terminal.Clean(strings.Join(append([]string{o.Kind}, o.Nodes...), " ")))
}
