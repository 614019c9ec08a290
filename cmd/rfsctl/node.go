package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/base/wait"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Sockets of a node on this machine, as the packages install it.
const (
	operatorSocket = "/run/rfsd/operator.sock"
	statusSocket   = "/run/rfsd/status.sock"
)

const nodeHelp = `Nodes are asked in turn until one answers; each reports the whole migration. Without --node, a
node on this machine is asked over its socket (` + operatorSocket + ` for members of the group
rfsd-operators, else ` + statusSocket + `), or, if no node runs, the rfsd migrate or import
that you have running in another terminal. Other nodes need a certificate of the fleet (rfsctl
cert create).`

// asked is nodeHelp as a further paragraph.
const asked = "\n\n" + nodeHelp

const statusHelp = `Shows phases, indices, documents, failures, the time left, and, if a node is asked, its workers.

` + nodeHelp + `

With --target-host, --coordinator-host, --coordinator-bucket or --coordinator-file the state is
read from the store, whether a process runs or not. A coordinator file that rfsd has open is not
read: the process is asked instead. --session-name chooses one of several sessions.

The rate covers the last minute, and the time left follows from it. A single reading of the
store has only the mean since the documents started. "given up" are work items, indices and
phases that failed: rfsctl failures lists them.`

func nodeCommands() []*cli.Command {
	return []*cli.Command{
		config.Command(cli.Command{Name: "status", Usage: "show the progress of the migration", Description: statusHelp}, showStatus),
		config.Command(cli.Command{Name: "nodes", Usage: "list the live nodes of the fleet; with --all also lost ones", Description: `Shows the state, workers, version, zone, address and uptime of each node.` + asked}, showNodes),
		config.Command(cli.Command{Name: "events", Usage: "list events, newest last", Description: `Shows events, such as failed items, lost nodes and orders, with their times.` + asked}, showEvents),
		config.Command(cli.Command{Name: "logs", Usage: "show the last log lines of a node and its workers", Description: `Shows the lines that the node keeps in memory, at most 2,000. Operators only.` + asked}, showLogs),
		config.Command(cli.Command{Name: "pause", Usage: "let every worker of the fleet hand off and wait for resume", Description: pauseHelp}, choose(session.OrderPause, "paused")),
		config.Command(cli.Command{Name: "resume", Usage: "let the fleet work again, or only the named nodes that were drained", ArgsUsage: "[NODE...]", Description: resumeHelp}, choose(session.OrderResume, "resumed")),
		config.Command(cli.Command{Name: "drain", Usage: "let the workers of the fleet, or of named nodes, hand off before machines stop", ArgsUsage: "[NODE...]", Description: drainHelp}, choose(session.OrderDrain, "draining")),
		config.Command(cli.Command{Name: "scale", Usage: "set the number of workers of the fleet; auto lets each node decide", ArgsUsage: "N|auto", Description: scaleHelp}, scale),
		config.Command(cli.Command{Name: "set", Usage: "set max-rate, max-read-rate or target-max-latency of the session while it runs", ArgsUsage: "NAME VALUE|default", Description: setHelp}, set),
	}
}

// ask asks a node.
func ask(ctx context.Context, o config.Asked, path string, query url.Values, into any) error {
	n, err := openNodes(o.Nodes)
	if err != nil {
		return err
	}
	_, err = n.Get(ctx, path, query, into)
	return err
}

// everyItem is the limit that asks for all items.
const everyItem = 1_000_000

// get asks for a list and shows it.
func get[T any](ctx context.Context, call *config.Call, o config.Asked, path string, query url.Values, table func(io.Writer, T)) error {
	var v T
	if err := ask(ctx, o, path, query, &v); err != nil {
		return err
	}
	if call.Out.JSON {
		return call.Out.Result(v)
	}
	table(terminal.NewWriter(call.Out), v)
	return nil
}

func showEvents(ctx context.Context, call *config.Call, o config.ShowLast) error {
	q := url.Values{"limit": {strconv.Itoa(o.Last.Limit)}}
	return get(ctx, call, o.Asked, "/v1/events", q, func(w io.Writer, all []status.Event) {
		for _, e := range all {
			printEvent(w, e)
		}
	})
}

func printEvent(w io.Writer, e status.Event) {
	fmt.Fprintf(w, "%s  %-16s %s  %s\n", e.Time.Local().Format(time.DateTime), e.Code, terminal.Clean(e.Subject), terminal.Clean(e.Detail))
}

// knownNodes is the answer of rfsctl nodes --all.
type knownNodes struct {
	Live []status.Node     `json:"live"`
	Gone []status.GoneNode `json:"gone"`
}

func showNodes(ctx context.Context, call *config.Call, o config.ShowNodes) error {
	if !o.All.All {
		return get(ctx, call, o.Asked, "/v1/status", nil, func(w io.Writer, r status.Report) { printNodes(w, liveNodes(r), nil) })
	}
	n, err := openNodes(o.Asked.Nodes)
	if err != nil {
		return err
	}
	var r status.Report
	if _, err := n.Get(ctx, "/v1/status", nil, &r); err != nil {
		return err
	}
	var events []status.Event
	if _, err := n.Get(ctx, "/v1/events", url.Values{"limit": {strconv.Itoa(status.KeptEvents)}}, &events); err != nil {
		return err
	}
	k := knownNodes{Live: liveNodes(r)}
	k.Gone = status.Gone(events, k.Live)
	if call.Out.JSON {
		return call.Out.Result(k)
	}
	printNodes(terminal.NewWriter(call.Out), k.Live, k.Gone)
	return nil
}

func liveNodes(r status.Report) []status.Node {
	if len(r.Nodes) == 0 {
		return []status.Node{r.Node}
	}
	return r.Nodes
}

func printNodes(w io.Writer, live []status.Node, gone []status.GoneNode) {
	t := terminal.NewTable(w)
	fmt.Fprintln(t, "NODE\tSTATE\tWORKERS\tVERSION\tZONE\tADDRESS\tUP")
	for _, n := range live {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", terminal.Clean(n.Name), n.State, n.Running, n.Version, orDash(n.Zone), orDash(n.Address), since(n.Started))
	}
	for _, n := range gone {
		state := "lost"
		if n.State == status.NodeLeft {
			state = "left"
		}
		fmt.Fprintf(t, "%s\t%s\t-\t-\t-\t-\tuntil %s\n", terminal.Clean(n.Name), state, n.Seen.UTC().Format(time.RFC3339))
	}
	_ = t.Flush() // to the same writer as what follows; a closed one ends there
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func since(t time.Time) string {
	if t.Unix() <= 0 {
		return "-"
	}
	return time.Since(t).Round(time.Second).String()
}

// logPoll is the interval of requests for new lines.
const logPoll = time.Second

func showLogs(ctx context.Context, call *config.Call, o config.ShowLogs) error {
	n, err := openNodes(o.Asked.Nodes)
	if err != nil {
		return err
	}
	last := ""
	for {
		var lines []status.LogLine
		if _, err := n.Get(ctx, "/v1/logs", url.Values{"limit": {strconv.Itoa(o.Last.Limit)}}, &lines); err != nil {
			return err
		}
		from := 0
		for i, l := range lines {
			if last != "" && string(l) == last {
				from = i + 1
			}
		}
		for _, l := range lines[from:] {
			fmt.Fprintf(call.Out, "%s\n", l)
			last = string(l)
		}
		if call.Out.JSON && (from < len(lines) || !o.Following.Follow) {
			err := call.Out.Result(lines[from:])
			if o.Following.Follow {
				err = errors.Join(err, call.Out.Flush())
			}
			if err != nil {
				return err
			}
		}
		if !o.Following.Follow || wait.For(ctx, logPoll) != nil {
			return nil
		}
	}
}
