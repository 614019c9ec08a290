package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/daemon/api/client"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/base/wait"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

func showStatus(ctx context.Context, call *config.Call, o config.ShowStatus) error {
	asked, through, err := throughNode(o.Either)
	if err != nil {
		return err
	}
	if !through && o.Either.Stored().Named() {
		return showStored(ctx, call, o)
	}
	n, err := openNodes(asked.Nodes)
	if err != nil {
		return err
	}
	if o.Watching.Watch {
		return followStatus(ctx, call, o, n, len(o.Either.Nodes.Nodes) == 0)
	}
	var r status.Report
	if _, err := n.Get(ctx, "/v1/status", nil, &r); err != nil {
		return err
	}
	if err := shownStatus(call, o, r); err != nil {
		return err
	}
	return outcome(r, o.Watching.ExitStatus)
}

func shownStatus(call *config.Call, o config.ShowStatus, r status.Report) error {
	if call.Out.JSON {
		return call.Out.Result(r)
	}
	printStatus(call.Out, r, o.Watching.Shards)
	return nil
}

// redraw draws a status over the previous one, and clears remaining lines below it.
func redraw(call *config.Call, o config.ShowStatus, r status.Report) {
	var screen bytes.Buffer
	printStatus(&screen, r, o.Watching.Shards)
	fmt.Fprint(call.Out.Raw(), "\x1b[H"+strings.ReplaceAll(screen.String(), "\n", "\x1b[K\n")+"\x1b[J")
}

// followStatus shows every status of a node. A command that was found on this machine is not waited for when it is gone.
func followStatus(ctx context.Context, call *config.Call, o config.ShowStatus, n *client.Client, found bool) error {
	var r status.Report
	for ctx.Err() == nil {
		var werr error // of the output
		err := n.Follow(ctx, func(b json.RawMessage) bool {
			r = status.Report{}
			if err := json.Unmarshal(b, &r); err != nil {
				return true
			}
			if !call.Out.JSON {
				redraw(call, o, r)
				return !ended(r)
			}
			werr = call.Out.Result(json.RawMessage(bytes.Clone(b)))
			if !ended(r) {
				werr = errors.Join(werr, call.Out.Flush())
			}
			return werr == nil && !ended(r)
		})
		switch {
		case werr != nil:
			return werr
		case err == nil:
			return outcome(r, o.Watching.ExitStatus)
		case ctx.Err() != nil:
			return nil
		case found && len(localSockets()) == 0:
			return fmt.Errorf("%w: the process has ended; --target-host or --coordinator-file reads the state of its work", err)
		}
		if tryAgain(ctx, call, err) != nil {
			return nil
		}
	}
	return nil
}

// tryAgain shows the error of a request for a status, and blocks until the next try. It returns the error of ctx.
func tryAgain(ctx context.Context, call *config.Call, err error) error {
	out := call.Out.Raw()
	if call.Out.JSON {
		out = terminal.Raw(call.Err) // each line of the output is a status
	}
	fmt.Fprintf(out, "\x1b[J%s; trying again\n", terminal.Clean(fault.Text(err)))
	return wait.For(ctx, 2*time.Second)
}

// storedEvery is the shortest time between two readings of a store that is watched.
const storedEvery = 5 * time.Second

// showStored shows the status as it is read from the store, once or again and again. Who watches waits for a store that is unavailable.
func showStored(ctx context.Context, call *config.Call, o config.ShowStatus) (err error) {
	waits := func(err error) bool { return o.Watching.Watch && errors.Is(err, fault.ErrUnavailable) }
	s, err := openCoordination(ctx, call, o.Either.Stored())
	for ; waits(err); s, err = openCoordination(ctx, call, o.Either.Stored()) {
		if tryAgain(ctx, call, err) != nil {
			return nil
		}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	follower := &progress.Follower{Clock: timing.SystemClock(), Read: func(ctx context.Context) (*progress.Migration, error) {
		m, _, err := s.read(ctx)
		return m, err
	}}
	for {
		begin := time.Now()
		follower.Refresh(ctx)
		took := time.Since(begin)
		r := status.Report{Node: status.Node{Name: s.place, Version: version, State: "stored"}, Progress: follower.View(), Workers: []status.Worker{}}
		m, age, rerr := follower.Seen()
		if r.Migration = m; m == nil && waits(rerr) {
			if tryAgain(ctx, call, rerr) != nil {
				return nil
			}
			continue
		} else if m == nil {
			return cmp.Or(rerr, ctx.Err())
		}
		if r.Stale = age.Seconds(); rerr != nil {
			r.StoreError = fault.Text(rerr)
		}
		switch {
		case !o.Watching.Watch:
			err = shownStatus(call, o, r)
		case call.Out.JSON:
			if err = call.Out.Result(r); !ended(r) {
				err = errors.Join(err, call.Out.Flush())
			}
		default:
			redraw(call, o, r)
		}
		if err != nil {
			return err
		}
		if !o.Watching.Watch || ended(r) {
			return outcome(r, o.Watching.ExitStatus)
		}
		if wait.For(ctx, max(storedEvery, 20*took)) != nil {
			return nil
		}
	}
}

func ended(r status.Report) bool {
	return r.Migration != nil && (r.Migration.Complete || r.Migration.Undone)
}

// outcome returns the end of a status that was shown: what went wrong so far, else whether it is complete.
func outcome(r status.Report, exitStatus bool) error {
	code := exit.OfMigration(r.Migration, true)
	if code == exit.OK && exitStatus && (!ended(r) || r.Migration.Undone) {
		code = exit.NotYet
	}
	return exit.With(code, nil)
}

func printStatus(to io.Writer, r status.Report, shards bool) {
	w := terminal.NewWriter(to) // names of indices come from strangers
	if r.Node.State == "stored" {
		fmt.Fprintf(w, "state of the work in %s\n", r.Node.Name)
	} else {
		printNode(w, r.Node)
	}
	if r.StoreError != "" {
		fmt.Fprintf(w, "the coordination store cannot be read: %s\n", terminal.Clean(r.StoreError))
	}
	m := r.Migration
	if m == nil {
		fmt.Fprintln(w, "the migration was not read yet")
		return
	}
	if r.Stale > 15 {
		fmt.Fprintf(w, "what follows is %s old\n", progress.Span(r.Stale))
	}
	printIntent(w, m.Intent)
	printTotals(w, r, m)
	printSilence(w, r.Progress, m)
	printGivenUp(w, m.Failures)
	printPhases(w, m.Phases)
	if x := m.Stream; x != nil {
		progress.Fprintf(w, "topic %s, group %s: lag %d, %d processes, partitions assigned %d times\n", terminal.Clean(x.Topic), terminal.Clean(x.Group), x.Lag, x.Nodes, x.Assignments)
		for _, token := range x.Idle {
			fmt.Fprintf(w, "idle: %s\n", terminal.Clean(token))
		}
	}
	printIndices(w, m.Indices, shards)
	printWorkers(w, r.Workers)
	if x := r.Machines; x != nil {
		progress.Fprintf(w, "machines: %d of %d run, %.1f instance hours used, driven by %s: %s\n", x.Running, x.Wanted, x.Hours, x.Leader, terminal.Clean(x.Reason))
		if x.Error != "" {
			fmt.Fprintf(w, "machines could not be changed: %s\n", terminal.Clean(x.Error))
		}
	}
	if m.Rounds != nil {
		printRounds(w, m.Rounds, m.Lag)
	}
	if m.Cutover != nil {
		fmt.Fprintln(w, report.CutoverText(*m.Cutover))
	}
	switch {
	case m.Undone:
		fmt.Fprintln(w, "rfsctl undo removes what the session created, and rfsctl created lists the rest: rfsctl cleanup --force removes the records")
	case m.Following && m.Rounds == nil:
		fmt.Fprintln(w, "do not write to the target: rounds may still change it")
	case m.SafeFrom == nil:
	case time.Now().Before(*m.SafeFrom):
		fmt.Fprintf(w, "safe to write from %s on\n", m.SafeFrom.Local().Format(time.DateTime))
	default:
		fmt.Fprintln(w, "safe to write")
	}
}

// printSilence prints the last report and the leases of a session none of whose processes has reported for a while.
func printSilence(w io.Writer, v progress.View, m *progress.Migration) {
	if v.Silent == 0 {
		return
	}
	fmt.Fprintf(w, "last report of a process: %s, %s before this reading\n", m.LastReport.Local().Format(time.DateTime), progress.Span(v.Silent))
	for _, h := range m.Holders {
		fmt.Fprintf(w, "held: %s by %s, until %s\n", progress.Plural(int64(h.Items), "item"), terminal.Clean(h.Name), h.Expiry.Local().Format(time.DateTime))
	}
	if len(m.Holders) > 0 {
		fmt.Fprint(w, "if that process has ended: ")
	}
	fmt.Fprintln(w, "the command that started the session, run again with the same options, continues it (immediately on the same machine; elsewhere when the leases end)")
}

func printNode(w io.Writer, n status.Node) {
	fmt.Fprintf(w, "node %s (%s) %s", n.Name, n.Version, n.State)
	if n.Reason != "" {
		fmt.Fprintf(w, ": %s", terminal.Clean(n.Reason))
	}
	progress.Fprintf(w, ", %d of %d workers", min(n.Running, n.Wanted), n.Wanted)
	if more := n.Running - n.Wanted; more > 0 {
		fmt.Fprintf(w, ", %s to end", progress.Plural(int64(more), "worker"))
	}
	fmt.Fprintln(w)
}

// printIntent prints what the operators want and who gave the last order, once there was one.
func printIntent(w io.Writer, i progress.Intent) {
	if i.At == nil {
		return
	}
	fmt.Fprintf(w, "intent: %s", i.State)
	if i.Workers != nil {
		fmt.Fprintf(w, ", %s", progress.Plural(int64(*i.Workers), "worker"))
	}
	if set := i.Set.String(); set != "" {
		fmt.Fprintf(w, ", %s", set)
	}
	fmt.Fprintf(w, "; last order by %s at %s\n", terminal.Clean(i.By), i.At.Local().Format(time.DateTime))
}

// shownRounds is the number of rounds that the status shows, the last ones.
const shownRounds = 5

// printRounds prints the last rounds of a cluster that is followed.
func printRounds(w io.Writer, f *progress.Following, lag *float64) {
	for i, r := range f.Rounds {
		if i < len(f.Rounds)-shownRounds {
			continue
		}
		fmt.Fprintf(w, "round %d: snapshot %s: ", r.Number, orDash(terminal.Clean(r.Snapshot)))
		if r.Replaced {
			fmt.Fprintln(w, "replaced: the next round started over, because a snapshot was gone")
			continue
		}
		if r.Arrived == nil && f.Finished != nil {
			fmt.Fprintln(w, "not brought: the following ended before")
			continue
		}
		if r.Arrived == nil {
			fmt.Fprintf(w, "in progress since %s", r.Started.Local().Format(time.DateTime))
			if r.Number > 0 {
				fmt.Fprint(w, "; rfsctl status --session-name of its own session shows it")
			}
			fmt.Fprintln(w)
			continue
		}
		progress.Fprintf(w, "arrived at %s after %s: %s inserted, %d updated, %d deleted, %d failed\n", r.Arrived.Local().Format(time.DateTime),
			progress.Span(r.Took().Seconds()), progress.Plural(r.Inserted, "document"), r.Updated, r.Deleted, r.Failed)
	}
	if f.Failures > 0 && f.Finished == nil {
		fmt.Fprintf(w, "%s failed since a round arrived last; the last one: %s\n", progress.Plural(int64(f.Failures), "attempt"), terminal.Clean(f.Failure))
	}
	if len(f.Ended) > 0 {
		progress.Fprintf(w, "not followed any more: %d of the source's indices\n", len(f.Ended))
	}
	switch {
	case f.Finished != nil:
		fmt.Fprintf(w, "the following was finished at %s\n", f.Finished.Local().Format(time.DateTime))
	case lag != nil:
		fmt.Fprintf(w, "the target lags %s behind the source; do not write to it while it follows\n", progress.Span(*lag))
	}
}

func printTotals(w io.Writer, r status.Report, m *progress.Migration) {
	t := m.Totals
	kind := "" // import or consume: no snapshot and no shards
	if len(m.Phases) == 1 && slices.Contains([]string{status.ImportPhase, status.StreamPhase}, m.Phases[0].Name) {
		kind = m.Phases[0].Name
	}
	fmt.Fprint(w, cmp.Or(kind, "snapshot "+orDash(m.Snapshot)))
	if m.Session != "" {
		fmt.Fprintf(w, ", session %s", m.Session)
	}
	if v := r.Progress.State; v != "" {
		fmt.Fprintf(w, ": %s", v)
	}
	share := cmp.Or(r.Progress.Share, part(t.BytesDone, t.Bytes))
	switch fmt.Fprintf(w, "\n%s  ", bar(share, 30)); kind {
	case "":
		progress.Fprintf(w, "%d of %d shards", t.ShardsDone, t.Shards)
	case status.ImportPhase:
		progress.Fprintf(w, "%d of %d windows", t.Items-t.ItemsOpen, t.Items)
	default:
		progress.Fprintf(w, "%s", progress.Plural(t.Items, "partition"))
	}
	if t.ShardsFailed > 0 {
		progress.Fprintf(w, ", %d failed", t.ShardsFailed)
	}
	fmt.Fprintf(w, ", %s of %s", progress.Bytes(int64(share*float64(t.Bytes))), progress.Bytes(t.Bytes))
	if t.Expired > 0 {
		progress.Fprintf(w, ", %d leases are over and not taken yet", t.Expired)
	}
	if t.Filtered > 0 {
		progress.Fprintf(w, ", %d filtered", t.Filtered)
	}
	if t.Kept > 0 {
		progress.Fprintf(w, ", %d kept as the target had them", t.Kept)
	}
	if t.Reduced > 0 {
		progress.Fprintf(w, ", %d with a reduced source", t.Reduced)
	}
	if again := progress.Again(t.Retried, t.Resent, t.Replaced); again != "" {
		fmt.Fprintf(w, "\n%s", again)
	}
	fmt.Fprintf(w, "\n%s", r.Progress)
	fmt.Fprintln(w)
}

func printPhases(w io.Writer, all []progress.Phase) {
	t := terminal.NewTable(w)
	for _, p := range all {
		fmt.Fprintf(t, "  %s\t%s", p.Name, p.State)
		if p.Total > 0 {
			progress.Fprintf(t, "\t%d of %d %s", p.Done, p.Total, p.Unit)
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
	// Losses come first.
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b progress.Index) int { return cmp.Compare(worth(a), worth(b)) })
	t := terminal.NewTable(w)
	fmt.Fprintln(t, "INDEX\tSTATE\tSHARDS\tDOCUMENTS\tFAILED\tDONE\tTARGET")
	for _, x := range all {
		c := x.Counts
		progress.Fprintf(t, "%s\t%s\t%d/%d\t%d\t%d\t%s\t%s", x.Name, x.State, c.ShardsDone, c.Shards, c.Indexed, c.Failed, bar(part(c.BytesDone, c.Bytes), 10), strings.Join(x.Targets, ","))
		if x.Error != "" {
			fmt.Fprintf(t, "\t%s", terminal.Clean(x.Error))
		}
		fmt.Fprintln(t)
		for _, s := range x.Shards {
			if shards {
				fmt.Fprintf(t, "  shard %d\t%s\t%s\t%s\t%s\t%3.0f %%\t%s\n", s.Number, s.State, progress.Bytes(s.Bytes), progress.Count(s.Counts.Indexed), progress.Count(s.Counts.Failed), 100*s.Fraction, s.Holder)
			}
		}
	}
	t.Flush()
}

// worth orders indices: failed ones, those with failed documents, and all others.
func worth(x progress.Index) int {
	switch {
	case x.State == progress.Failed || x.Counts.ShardsFailed > 0:
		return 0
	case x.Counts.Failed > 0:
		return 1
	}
	return 2
}

func printWorkers(w io.Writer, all []status.Worker) {
	if len(all) == 0 {
		return
	}
	t := terminal.NewTable(w)
	fmt.Fprintln(t, "WORKER\tSTATE\tPHASE\tWORKS ON\tDOCUMENTS/S\tMEMORY\tRESTARTS\tLAST BAD END")
	for _, x := range all {
		on := "-"
		if x.Item != "" {
			on = fmt.Sprintf("%s shard %d", x.Index, x.Shard)
		}
		progress.Fprintf(t, "%d\t%s\t%s\t%s\t%d\t%s\t%d\t%s\n", x.Slot, x.State, orDash(strings.TrimSpace(x.Phase+" "+x.PhaseState)), on, int64(math.Round(x.Rate)), progress.Bytes(x.Resident), x.Restarts, terminal.Clean(orDash(x.LastExit)))
	}
	t.Flush()
}

// part returns how much of a total is done, 0 to 1.
func part(done, total int64) float64 {
	if total <= 0 {
		return 0
	}
	return float64(done) / float64(total)
}

// bar returns a share as a picture and a number.
func bar(share float64, width int) string {
	share = min(max(share, 0), 1)
	full := int(share*float64(width) + 0.5)
	percent := 100 * share
	if share < 1 { // only a complete share is drawn as complete
		full, percent = min(full, width-1), min(percent, 99)
	}
	return fmt.Sprintf("[%s%s] %3.0f %%", strings.Repeat("#", full), strings.Repeat(".", width-full), percent)
}
