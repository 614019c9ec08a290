package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

const itemsHelp = `A shard of the snapshot is a chain of work items; each covers the ordinals from its cursor to
the cursor of its successor. These commands work on the stored state itself, while workers run
or after they died. list and show ask a node, or an rfsd in the foreground, if --node names one,
if no store is named and one runs on this machine, or if it has the coordinator file open.

States: open; leased; expired (its lease has ended: the next worker takes it); done; handed off
(a successor has the rest); failed (given up for the reason shown; retry opens it again). cancel
gives up an item that no lease holds: its documents do not arrive, the migration ends without
them (exit code 7), and the reason names the operator. Running the same migration again opens it
as any failed item.

"safe to write" is reported only when nothing is open and every lease, margin and request timeout
has passed: until then the last request of a worker that was stopped may still arrive and
overwrite other writes.`

func itemsCommand() *cli.Command {
	return &cli.Command{
		Name: "items", Usage: "list, retry and cancel the work items of a migration", Description: itemsHelp,
		Subcommands: []*cli.Command{
			config.Command(cli.Command{Name: "list", Usage: "list work items, their sums, and whether the target is safe to write", Description: itemsHelp}, listItems),
			config.Command(cli.Command{Name: "show", Usage: "show everything about one item", ArgsUsage: "ID", Description: itemsHelp}, showItem),
			config.Command(cli.Command{Name: "retry", Usage: "open failed items again; an event records by whom", ArgsUsage: "ID...", Description: itemsHelp}, func(ctx context.Context, call *config.Call, o config.Stored) error {
				return changeItems(ctx, call, o, "retried", "is open again", (*cms.Coordinator).Reopen)
			}),
			config.Command(cli.Command{Name: "cancel", Usage: "give up items that no lease holds; an event records by whom", ArgsUsage: "ID...", Description: itemsHelp}, func(ctx context.Context, call *config.Call, o config.Stored) error {
				return changeItems(ctx, call, o, "cancelled", "is cancelled", (*cms.Coordinator).Cancel)
			}),
		},
	}
}

func selected(o config.Items) status.ItemFilter {
	return status.ItemFilter{Index: o.Index.Name, States: o.States.Names, Limit: everyItem}
}

func listItems(ctx context.Context, call *config.Call, o config.Items) error {
	l, err := itemList(ctx, call, o.Either, selected(o))
	if err != nil {
		return err
	}
	if call.Out.JSON {
		return call.Out.Result(l)
	}
	return printItems(terminal.NewWriter(call.Out), l)
}

// itemList asks a node for items, or reads them in the store.
func itemList(ctx context.Context, call *config.Call, e config.Either, f status.ItemFilter) (status.ItemList, error) {
	q := url.Values{"limit": {strconv.Itoa(f.Limit)}, "state": f.States, "id": {f.ID}, "index": {f.Index}}
	return look(ctx, call, originOf(e), "/v1/items", q, func(s *coordination) (status.ItemList, error) {
		m, items, err := s.read(ctx)
		if err != nil {
			return status.ItemList{}, err
		}
		return status.NewItemList(m, items, f), nil
	})
}

// safety returns the line that states whether other clients may write to the target.
func safety(l status.ItemList) string {
	switch {
	case l.Safe:
		return "safe to write: yes"
	case l.Following:
		return "safe to write: no, rounds may still change the target"
	case !l.Seeded:
		return "safe to write: no, the work is not seeded yet"
	case l.SafeFrom == nil:
		open := l.States[status.Open] + l.States[status.Leased] + l.States[status.Expired]
		return progress.Sprintf("safe to write: no, %d items are not ended", open)
	}
	return fmt.Sprintf("safe to write: not before %s (in %s): until then a request that was sent before may still arrive",
		l.SafeFrom.Format(time.RFC3339), l.SafeFrom.Sub(l.ReadAt).Round(time.Second))
}

// byState returns how many items are in each state.
func byState(states map[string]int) string {
	parts := []string{}
	for _, s := range status.ItemStates {
		if n := states[s]; n > 0 {
			parts = append(parts, progress.Sprintf("%d %s", n, s))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

func printItems(w io.Writer, l status.ItemList) error {
	t := terminal.NewTable(w)
	fmt.Fprintln(t, "INDEX\tSHARD\tCURSOR\tSTATE\tHOLDER\tLEASE END\tATTEMPTS\tWATERMARK\tLIVE\tINDEXED\tFAILED\tID\tREASON")
	for _, x := range l.Items {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", terminal.Clean(x.Index), x.Shard, x.Cursor, x.State,
			orDash(x.Holder), at(x.Expiry), x.Attempts, x.Watermark, progress.Count(x.Live), progress.Count(x.Indexed), progress.Count(x.Failed), terminal.Clean(x.ID), orDash(terminal.Clean(x.Failure)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	progress.Fprintf(w, "\n%s: %s; %d live documents, %d indexed, %d kept, %d failed, %d filtered, %s\n", progress.Plural(int64(l.Total), "item"), byState(l.States),
		l.Totals.Live, l.Totals.Indexed, l.Totals.Kept, l.Totals.Failed, l.Totals.Filtered, progress.Bytes(l.Totals.Bytes))
	if n := len(l.Foreign); n > 0 {
		progress.Fprintf(w, "%d documents of the queue are not work items: %s\n", n, terminal.Clean(strings.Join(l.Foreign[:min(5, n)], ", ")))
	}
	_, err := fmt.Fprintln(w, safety(l))
	return err
}

// at returns a time, "-" for none.
func at(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// end returns the end of an item as text; 0 is the end of the shard.
func end(ordinal int64) string {
	if ordinal == 0 {
		return "of the shard"
	}
	return fmt.Sprint(ordinal)
}

// showItem shows everything that is known of an item.
func showItem(ctx context.Context, call *config.Call, o config.Either) error {
	if len(call.Args) != 1 {
		return fmt.Errorf("which item? `rfsctl items show ID` takes one id, as `rfsctl items list` prints it: %w", fault.ErrConfig)
	}
	id := call.Args[0]
	l, err := itemList(ctx, call, o, status.ItemFilter{ID: id, Limit: 1})
	if err != nil {
		return err
	}
	if len(l.Items) == 0 {
		return fmt.Errorf("item %s does not exist among %d items: %w", id, l.Total, fault.ErrConfig)
	}
	if call.Out.JSON {
		return call.Out.Result(l.Items[0])
	}
	return printItem(terminal.NewWriter(call.Out), l.Items[0])
}

func printItem(w io.Writer, x status.Item) error {
	t := terminal.NewTable(w)
	for _, line := range [][2]string{
		{"index", x.Index}, {"shard", fmt.Sprint(x.Shard)}, {"cursor", fmt.Sprint(x.Cursor)}, {"end", end(x.End)}, {"id", x.ID}, {"state", x.State},
		{"failure", orDash(x.Failure)}, {"holder", orDash(x.Holder)}, {"acquired", at(x.Acquired)}, {"lease end", at(x.Expiry)}, {"completed", at(x.Completed)},
		{"last released for", orDash(x.Released)}, {"attempts without progress", fmt.Sprint(x.Attempts)}, {"next lease", fmt.Sprintf("2^%d × initial lease", x.Exponent)},
		{"setup", fmt.Sprintf("%.3f s", x.Setup)}, {"watermark", fmt.Sprint(x.Watermark)}, {"ordinals", fmt.Sprint(x.Ordinals)}, {"live", progress.Count(x.Live)},
		{"indexed", progress.Count(x.Indexed)}, {"kept", progress.Count(x.Kept)}, {"failed", progress.Count(x.Failed)}, {"filtered", progress.Count(x.Filtered)},
		{"bytes", progress.Bytes(x.Bytes)}, {"successors", orDash(strings.Join(x.Successors, ", "))}, {"created by", orDash(x.Creator)},
	} {
		fmt.Fprintf(t, "%s\t%s\n", line[0], terminal.Clean(line[1]))
	}
	return t.Flush()
}

// changeItems changes the items that the arguments name. It continues after an item that cannot be changed. The JSON lists the
// changed items under did.
func changeItems(ctx context.Context, call *config.Call, o config.Stored, did, told string, change func(*cms.Coordinator, context.Context, cms.ItemID, string) error) (err error) {
	if len(call.Args) == 0 {
		return fmt.Errorf("which items? `rfsctl items list` shows their ids: %w", fault.ErrConfig)
	}
	var ids []cms.ItemID
	for _, arg := range call.Args {
		id, err := cms.ParseID(arg)
		if err != nil {
			return config.Usage("invalid work item id %q: `rfsctl items list` shows them", arg)
		}
		ids = append(ids, id)
	}
	s, err := openCoordination(ctx, call, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	changed := []string{}
	var errs []error
	for _, id := range ids {
		if err := change(s.Coordinator, ctx, id, operator()); err != nil {
			errs = append(errs, err)
			continue
		}
		changed = append(changed, id.String())
	}
	if call.Out.JSON {
		return errors.Join(append(errs, call.Out.Result(map[string][]string{did: changed}))...)
	}
	for _, id := range changed {
		fmt.Fprintf(call.Out, "%s %s\n", id, told)
	}
	return errors.Join(errs...)
}

// operator names who runs this program, for the audit.
func operator() string {
	name := fmt.Sprintf("uid %d", os.Getuid())
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + " on " + host
}
