package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/progress"
	"github.com/rfsd/rfsd/rfs/terminal"
)

func showStatus(ctx context.Context, call *config.Call, o config.ShowStatus) error {
	n, err := openNodes(o.Asked.Nodes)
	if err != nil {
		return err
	}
	var r status.Report
	show := func() error {
		if o.Asked.Output.JSON() {
			return printJSON(call.Out, r)
		}
		printStatus(call.Out, r, o.Watching.Shards)
		return nil
	}
	if !o.Watching.Watch {
		if _, err := n.Get(ctx, "/v1/status", nil, &r); err != nil {
			return err
		}
		if err := show(); err != nil {
			return err
		}
		return outcome(r, o.Watching.ExitStatus)
	}
	for ctx.Err() == nil {
		err := n.Follow(ctx, func(b json.RawMessage) bool {
			r = status.Report{}
			if err := json.Unmarshal(b, &r); err != nil {
				return true
			}
			if o.Asked.Output.JSON() {
				fmt.Fprintf(terminal.Raw(call.Out), "%s\n", b)
				return !ended(r)
			}
			var screen bytes.Buffer
			printStatus(&screen, r, o.Watching.Shards)
			// Home, then each line over the old one, then whatever is left below is cleared.
			fmt.Fprint(terminal.Raw(call.Out), "\x1b[H"+strings.ReplaceAll(screen.String(), "\n", "\x1b[K\n")+"\x1b[J")
			return !ended(r)
		})
		if err == nil {
			return outcome(r, o.Watching.ExitStatus)
		}
		if ctx.Err() != nil {
			return nil
		}
		fmt.Fprintf(terminal.Raw(call.Out), "\x1b[J%s; trying again\n", terminal.Clean(fault.Text(err)))
		if wait(ctx, 2*time.Second) != nil {
			return nil
		}
	}
	return nil
}

func ended(r status.Report) bool { return r.Migration != nil && r.Migration.Complete }

// outcome returns the end of a status that was shown: what went wrong so far, else whether it is complete.
func outcome(r status.Report, exitStatus bool) error {
	code := exit.OfMigration(r.Migration, true)
	if code == exit.OK && exitStatus && !ended(r) {
		code = exit.NotYet
	}
	return exit.With(code, nil)
}

func printStatus(to io.Writer, r status.Report, shards bool) {
	w := terminal.NewWriter(to) // names of indices come from strangers
	fmt.Fprintf(w, "node %s (%s) %s", r.Node.Name, r.Node.Version, r.Node.State)
	if r.Node.Reason != "" {
		fmt.Fprintf(w, ": %s", terminal.Clean(r.Node.Reason))
	}
	fmt.Fprintf(w, ", %d of %d workers\n", r.Node.Running, r.Node.Wanted)
	if r.StoreError != "" {
		fmt.Fprintf(w, "the coordination store cannot be read: %s\n", terminal.Clean(r.StoreError))
	}
	m := r.Migration
	if m == nil {
		fmt.Fprintln(w, "the migration was not read yet")
		return
	}
	if r.Stale > 15 {
		fmt.Fprintf(w, "what follows is %s old\n", seconds(r.Stale))
	}
	printTotals(w, r, m)
	printPhases(w, m.Phases)
	printIndices(w, m.Indices, shards)
	printWorkers(w, r.Workers)
	for _, f := range m.Failures {
		fmt.Fprintf(w, "given up: %d × %s (such as %s)\n", f.Count, terminal.Clean(f.Reason), strings.Join(f.Examples, ", "))
	}
	switch {
	case m.SafeFrom == nil:
	case time.Now().Before(*m.SafeFrom):
		fmt.Fprintf(w, "safe to write from %s on\n", m.SafeFrom.Local().Format(time.DateTime))
	default:
		fmt.Fprintln(w, "safe to write")
	}
}

func printTotals(w io.Writer, r status.Report, m *progress.Migration) {
	t := m.Totals
	fmt.Fprintf(w, "snapshot %s", orDash(m.Snapshot))
	if m.Session != "" {
		fmt.Fprintf(w, ", session %s", m.Session)
	}
	fmt.Fprintf(w, "\n%s  %d of %d shards, %d documents, %s of %s", bar(t.BytesDone, t.Bytes, 30), t.ShardsDone, t.Shards, t.Indexed, progress.Bytes(t.BytesDone), progress.Bytes(t.Bytes))
	if t.Failed > 0 {
		fmt.Fprintf(w, ", %d documents failed", t.Failed)
	}
	if t.Filtered > 0 {
		fmt.Fprintf(w, ", %d filtered", t.Filtered)
	}
	if t.Kept > 0 {
		fmt.Fprintf(w, ", %d kept as the target had them", t.Kept)
	}
	if t.Reduced > 0 {
		fmt.Fprintf(w, ", %d with a reduced source", t.Reduced)
	}
	if r.Rate.Documents > 0 || r.Rate.Bytes > 0 {
		fmt.Fprintf(w, "\n%.0f documents/s, %s/s", r.Rate.Documents, progress.Bytes(int64(r.Rate.Bytes)))
	}
	if r.Rate.Left != nil && !m.Complete {
		fmt.Fprintf(w, ", about %s left", seconds(*r.Rate.Left))
	}
	fmt.Fprintln(w)
}

func printPhases(w io.Writer, all []progress.Phase) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range all {
		fmt.Fprintf(t, "  %s\t%s", p.Name, p.State)
		if p.Total > 0 {
			fmt.Fprintf(t, "\t%d of %d %s", p.Done, p.Total, p.Unit)
		} else {
			fmt.Fprint(t, "\t")
		}
		if p.Error != "" {
			fmt.Fprintf(t, "\t%s", terminal.Clean(p.Error))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}

func printIndices(w io.Writer, all []progress.Index, shards bool) {
	if len(all) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "INDEX\tSTATE\tSHARDS\tDOCUMENTS\tFAILED\tDONE\tTARGET")
	for _, x := range all {
		c := x.Counts
		fmt.Fprintf(t, "%s\t%s\t%d/%d\t%d\t%d\t%s\t%s", x.Name, x.State, c.ShardsDone, c.Shards, c.Indexed, c.Failed, bar(c.BytesDone, c.Bytes, 10), strings.Join(x.Targets, ","))
		if x.Error != "" {
			fmt.Fprintf(t, "\t%s", terminal.Clean(x.Error))
		}
		fmt.Fprintln(t)
		for _, s := range x.Shards {
			if shards {
				fmt.Fprintf(t, "  shard %d\t%s\t%s\t%d\t%d\t%3.0f %%\t%s\n", s.Number, s.State, progress.Bytes(s.Bytes), s.Counts.Indexed, s.Counts.Failed, 100*s.Fraction, s.Holder)
			}
		}
	}
	t.Flush()
}

func printWorkers(w io.Writer, all []status.Worker) {
	if len(all) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WORKER\tSTATE\tWORKS ON\tDOCUMENTS/S\tMEMORY\tRESTARTS\tLAST BAD END")
	for _, x := range all {
		on := "-"
		if x.Item != "" {
			on = fmt.Sprintf("%s shard %d", x.Index, x.Shard)
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%.0f\t%s\t%d\t%s\n", x.Slot, x.State, on, x.Rate, progress.Bytes(x.Resident), x.Restarts, terminal.Clean(orDash(x.LastExit)))
	}
	t.Flush()
}

// bar is a share as a picture and a number.
func bar(done, total int64, width int) string {
	share := 0.0
	if total > 0 {
		share = min(1, float64(done)/float64(total))
	}
	full := int(share * float64(width))
	return fmt.Sprintf("[%s%s] %3.0f %%", strings.Repeat("#", full), strings.Repeat(".", width-full), 100*share)
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}
