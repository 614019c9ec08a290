package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/terminal"
)

// everyItem is the limit that asks for all.
const everyItem = "1000000"

// askedItems lists the items that a node read last.
func askedItems(ctx context.Context, call *config.Call, o config.Asked, f filter) error {
	q := url.Values{"limit": {everyItem}}
	if f.index != "" {
		q.Set("index", f.index)
	}
	n, err := openNodes(o.Nodes)
	if err != nil {
		return err
	}
	all := []status.Item{}
	if _, err := n.Get(ctx, "/v1/items", q, &all); err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(x status.Item) bool { return !f.takesState(x.State) })
	if o.Output.JSON() {
		return printJSON(call.Out, all)
	}
	return printItems(terminal.NewWriter(call.Out), all)
}

func printItems(w io.Writer, all []status.Item) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tINDEX\tSHARD\tCURSOR\tSTATE\tHOLDER\tLEASE END\tATTEMPTS\tWATERMARK\tINDEXED\tFAILED\tREASON")
	for _, x := range all {
		end := "-"
		if x.Expiry != nil {
			end = x.Expiry.Format(time.RFC3339)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\n", terminal.Clean(x.ID), terminal.Clean(x.Index), x.Shard, x.Cursor, x.State,
			orDash(x.Holder), end, x.Attempts, x.Watermark, x.Indexed, x.Failed, orDash(terminal.Clean(x.Failure)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d items\n", len(all))
	return err
}

// takesState compares a state as nodes tell it: a lease that is over is open again.
func (f filter) takesState(state string) bool {
	return len(f.states) == 0 || slices.ContainsFunc(f.states, func(s string) bool {
		return strings.EqualFold(s, state) || s == stateExpired && state == "open"
	})
}

// askedItem shows one item that a node read last.
func askedItem(ctx context.Context, call *config.Call, o config.Asked, id string) error {
	n, err := openNodes(o.Nodes)
	if err != nil {
		return err
	}
	var all []status.Item
	who, err := n.Get(ctx, "/v1/items", url.Values{"limit": {everyItem}}, &all)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(x status.Item) bool { return x.ID == id })
	if i < 0 {
		return fmt.Errorf("%s knows no item %s: %w", who, id, fault.ErrConfig)
	}
	return printJSON(call.Out, all[i])
}

// askedReport shows the account that a node gives.
func askedReport(ctx context.Context, call *config.Call, o config.Asked) error {
	return get(ctx, call, o, "/v1/report", nil, func(w io.Writer, r api.Account) {
		fmt.Fprintf(w, "%s\n", r.Written.Format(time.RFC3339))
		printStatus(w, r.Status, false)
		states := make([]string, 0, len(r.Items))
		for s, n := range r.Items {
			states = append(states, strconv.Itoa(n)+" "+s)
		}
		slices.Sort(states)
		fmt.Fprintf(w, "items: %s\n", orDash(strings.Join(states, ", ")))
		for _, e := range r.Events {
			fmt.Fprintf(w, "%s  %-16s %s  %s\n", e.Time.Local().Format(time.DateTime), e.Code, terminal.Clean(e.Subject), terminal.Clean(e.Detail))
		}
	})
}
