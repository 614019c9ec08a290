package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/api/client"
	"github.com/rfsd/rfsd/daemon/cert"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/progress"
	"github.com/rfsd/rfsd/rfs/terminal"
)

// Sockets of a node on this machine, as the packages install it.
const (
	operatorSocket = "/run/rfsd/operator.sock"
	statusSocket   = "/run/rfsd/status.sock"
)

const nodeHelp = `Nodes are asked in turn until one answers; each tells of the whole migration. Without --node, a node on this machine is
   asked over its socket (` + operatorSocket + ` for members of the group rfsd-operators, else ` + statusSocket + `). Nodes elsewhere need a certificate
   of the fleet (rfsctl cert create).

   Exit codes: 0; 1 usage, no node answers, or the node refuses. rfsctl status: also 6 when something was given up, 3 while not complete
   with --exit-status.`

// nodeFlags say which nodes are asked, and as whom.
func nodeFlags(more ...cli.Flag) []cli.Flag {
	str := func(name, usage string) cli.Flag {
		return &cli.StringFlag{Name: name, Usage: usage, EnvVars: env(name)}
	}
	return append([]cli.Flag{
		&cli.StringSliceFlag{Name: "node", Usage: "node to ask: HOST:PORT or a socket's path; may be repeated, also with commas", EnvVars: env("node")},
		str("tls-cert", "PEM file of this operator's or reader's certificate"),
		str("tls-key", "PEM file of its key"),
		str("tls-ca", "PEM file of the fleet's authority"),
		&cli.StringFlag{Name: "fleet", Usage: "name of the fleet in the nodes' certificates", Value: "rfsd", EnvVars: env("fleet")},
		&cli.StringFlag{Name: "output", Usage: "table or json", Value: "table", EnvVars: env("output")},
	}, more...)
}

func openNodes(c *cli.Context) (*client.Client, error) {
	if o := c.String("output"); o != "table" && o != "json" {
		return nil, fmt.Errorf("--output %q is not table or json: %w", o, fault.ErrConfig)
	}
	o := client.Options{Nodes: c.StringSlice("node")}
	files := cert.Files{Cert: c.String("tls-cert"), Key: c.String("tls-key"), CA: c.String("tls-ca")}
	if files != (cert.Files{}) {
		if !files.Complete() {
			return nil, fmt.Errorf("--tls-cert, --tls-key and --tls-ca belong together: %w", fault.ErrConfig)
		}
		id, err := cert.Load(files, c.String("fleet"))
		if err != nil {
			return nil, err
		}
		o.Identity = id
	}
	if len(o.Nodes) == 0 {
		o.Nodes = localSockets()
		if len(o.Nodes) == 0 {
			return nil, fmt.Errorf("no node runs on this machine (%s does not exist, or is not yours); --node HOST:PORT asks another: %w", operatorSocket, fault.ErrConfig)
		}
	}
	return client.New(o)
}

// localSockets are those that this user may open.
func localSockets() (all []string) {
	for _, path := range []string{operatorSocket, statusSocket} {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err == nil {
			f.Close()
		}
		// A socket cannot be opened as a file; what matters is why.
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			all = append(all, path)
		}
	}
	return all
}

func nodeCommands() []*cli.Command {
	limit := &cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Value: 100, Usage: "at most so many, the last ones"}
	return []*cli.Command{
		{Name: "status", Usage: "how far the migration is", Description: nodeHelp, Action: showStatus, Flags: nodeFlags(
			&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "go on showing it whenever it changes"},
			&cli.BoolFlag{Name: "shards", Usage: "show every shard"},
			&cli.BoolFlag{Name: "exit-status", Usage: "exit with 3 while the migration is not complete"})},
		{Name: "nodes", Usage: "the living nodes of the fleet", Description: nodeHelp, Action: showNodes, Flags: nodeFlags()},
		{Name: "events", Usage: "what happened, newest last", Description: nodeHelp, Action: showEvents, Flags: nodeFlags(limit)},
		{Name: "logs", Usage: "last log lines of a node and its workers", Description: nodeHelp, Action: showLogs, Flags: nodeFlags(limit,
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on showing new ones"})},
		{Name: "pause", Usage: "have every worker of the fleet hand off and wait; it counts as no attempt", Description: nodeHelp, Action: tell("/v1/pause", "paused"), Flags: nodeFlags()},
		{Name: "resume", Usage: "let the fleet work again, or only the named nodes that were drained", ArgsUsage: "[NODE...]", Description: nodeHelp, Action: choose("/v1/resume", "resumed"), Flags: nodeFlags()},
		{Name: "drain", Usage: "have every worker of the fleet hand off, or of the named nodes, because they are going to stop", ArgsUsage: "[NODE...]", Description: nodeHelp, Action: choose("/v1/drain", "draining"), Flags: nodeFlags()},
		{Name: "scale", Usage: "set the number of workers of the fleet; auto lets each node decide", ArgsUsage: "N|auto", Description: nodeHelp, Action: scale, Flags: nodeFlags()},
	}
}

func tell(path, done string) cli.ActionFunc {
	return func(c *cli.Context) error {
		n, err := openNodes(c)
		if err != nil {
			return err
		}
		who, err := n.Post(c.Context, path, nil)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.App.Writer, "%s (told to %s)\n", done, who)
		return nil
	}
}

// choose tells a wish about the nodes that are named, or about the whole fleet.
func choose(path, done string) cli.ActionFunc {
	return func(c *cli.Context) error {
		n, err := openNodes(c)
		if err != nil {
			return err
		}
		about := "the fleet"
		if c.Args().Present() {
			about = strings.Join(c.Args().Slice(), ", ")
		}
		who, err := n.Post(c.Context, path, api.Chosen{Nodes: c.Args().Slice()})
		if err != nil {
			return err
		}
		fmt.Fprintf(c.App.Writer, "%s: %s (told to %s)\n", about, done, who)
		return nil
	}
}

func scale(c *cli.Context) error {
	if c.NArg() != 1 {
		return fmt.Errorf("rfsctl scale takes one number, or auto: %w", fault.ErrConfig)
	}
	var want api.Scaling
	if text := c.Args().First(); text != "auto" {
		k, err := strconv.Atoi(text)
		if err != nil || k < 0 {
			return fmt.Errorf("%q is neither a number of workers nor auto: %w", text, fault.ErrConfig)
		}
		want.Workers = &k
	}
	n, err := openNodes(c)
	if err != nil {
		return err
	}
	who, err := n.Post(c.Context, "/v1/scale", want)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "%s workers wanted (told to %s)\n", c.Args().First(), who)
	return nil
}

// get asks for a list and shows it.
func get[T any](c *cli.Context, path string, query url.Values, table func(io.Writer, T)) error {
	n, err := openNodes(c)
	if err != nil {
		return err
	}
	var v T
	if _, err := n.Get(c.Context, path, query, &v); err != nil {
		return err
	}
	if c.String("output") == "json" {
		return printJSON(c.App.Writer, v)
	}
	table(terminal.NewWriter(c.App.Writer), v)
	return nil
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(terminal.Raw(w))
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func showEvents(c *cli.Context) error {
	q := url.Values{"limit": {strconv.Itoa(c.Int("limit"))}}
	return get(c, "/v1/events", q, func(w io.Writer, all []status.Event) {
		for _, e := range all {
			fmt.Fprintf(w, "%s  %-16s %s  %s\n", e.Time.Local().Format(time.DateTime), e.Code, e.Subject, terminal.Clean(e.Detail))
		}
	})
}

func showFailures(c *cli.Context) error {
	return get(c, "/v1/failures", nil, func(w io.Writer, all []progress.Failure) {
		if len(all) == 0 {
			fmt.Fprintln(w, "nothing was given up")
		}
		for _, f := range all {
			fmt.Fprintf(w, "%d × %s\n", f.Count, terminal.Clean(f.Reason))
			if len(f.Examples) > 0 {
				fmt.Fprintf(w, "    such as %s\n", terminal.Clean(strings.Join(f.Examples, ", ")))
			}
		}
	})
}

func showNodes(c *cli.Context) error {
	return get(c, "/v1/status", nil, func(w io.Writer, r status.Report) {
		nodes := r.Nodes
		if len(nodes) == 0 {
			nodes = []status.Node{r.Node}
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "NODE\tSTATE\tWORKERS\tVERSION\tZONE\tADDRESS\tUP")
		for _, n := range nodes {
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", n.Name, n.State, n.Running, n.Version, orDash(n.Zone), orDash(n.Address), since(n.Started))
		}
		_ = t.Flush() // to the same writer as what follows; a closed one ends there
	})
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

// logPoll is how often new lines are asked for.
const logPoll = time.Second

func showLogs(c *cli.Context) error {
	n, err := openNodes(c)
	if err != nil {
		return err
	}
	last := ""
	for {
		var lines []status.LogLine
		if _, err := n.Get(c.Context, "/v1/logs", url.Values{"limit": {strconv.Itoa(c.Int("limit"))}}, &lines); err != nil {
			return err
		}
		from := 0
		for i, l := range lines {
			if last != "" && string(l) == last {
				from = i + 1
			}
		}
		for _, l := range lines[from:] {
			fmt.Fprintf(c.App.Writer, "%s\n", l)
			last = string(l)
		}
		if !c.Bool("follow") || wait(c.Context, logPoll) != nil {
			return nil
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
