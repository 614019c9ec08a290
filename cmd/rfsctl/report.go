package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

const reportHelp = `Sums up what the work items recorded: documents and bytes per index; for ended items the duration
of their last lease, the part of it that was setup (until the first document was read) and the
throughput. Documents that an item has from earlier leases are counted with its last one.

ITEMS, ENDED and GIVEN UP count work items. The next columns count documents: LIVE is the sum of
INDEXED, KEPT (the target had them already), FAILED (rejected by the target, or without a source)
and FILTERED (by --rules).

ON TARGET and LUCENE are the root documents and all Lucene documents (including nested ones) that
the target held when the last document of the index was sent; "-" before that, and if the target
does not permit counting them.

The suggested initial lease is 20 times the setup of the slowest tenth (then setup is about 5 %
of a lease), or long enough that nine of ten items end within it (4/3 of their duration, at most
1 h), the longer of the two; from 1 min to 6 h.

Documents sent more than once are counted by cause: requests that were repeated, hand-overs (a
holder ended or died behind what it had sent), and documents that replaced one from before this
session, as in a repeated run.

Failed documents that a fleet recorded are summed up; rfsctl failures lists each.

A node (--node, or the one on this machine if no store is named) reports the same, as of when it
last read the store. The JSON also has the migration as rfsctl status shows it, and the last
1,000 events.`

func reportCommand() *cli.Command {
	return config.Command(cli.Command{
		Name: "report", Usage: "report durations and throughput, and suggest an initial lease", Description: reportHelp,
	}, showReport)
}

func showReport(ctx context.Context, call *config.Call, o config.Either) error {
	a, err := account(ctx, call, o)
	if err != nil {
		return err
	}
	if call.Out.JSON {
		return call.Out.Result(a)
	}
	return printAccount(terminal.NewWriter(call.Out), a)
}

// account asks a node for the account of its session, or sums up what the store has.
func account(ctx context.Context, call *config.Call, o config.Either) (status.Account, error) {
	return look(ctx, call, originOf(o), "/v1/report", nil, func(s *coordination) (a status.Account, err error) {
		m, items, err := s.read(ctx)
		if err != nil {
			return a, err
		}
		f, err := s.failures(ctx, m)
		if err != nil {
			return a, err
		}
		events, err := status.ReadEvents(ctx, s.Coordinator)
		if err != nil {
			return a, fmt.Errorf("events in %s: %w", s.place, err)
		}
		return status.NewAccount(m, items, f, events), nil
	})
}

// shownEvents is the maximum number of events in the text of an account; the JSON has more.
const shownEvents = 20

func printWork(w io.Writer, m *progress.Migration, all status.Work) error {
	indices := map[string]progress.Index{}
	for _, x := range m.Indices {
		indices[x.Name] = x
	}
	t := terminal.NewTable(w)
	fmt.Fprintln(t, "INDEX\tITEMS\tENDED\tGIVEN UP\tLIVE\tINDEXED\tKEPT\tFAILED\tFILTERED\tBYTES\tON TARGET\tLUCENE\tLEASE s\tSETUP s\tDOCS/s\tMiB/s")
	row := func(x status.IndexWork, roots, lucene string) {
		progress.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%.1f\t%.1f\t%.0f\t%.1f\n", terminal.Clean(x.Index), x.Items, x.Ended, x.GivenUp,
			x.Live, x.Indexed, x.Kept, x.Failed, x.Filtered, progress.Bytes(x.Bytes), roots, lucene, x.Seconds, x.Setup, x.Rate, x.ByteRate/(1<<20))
	}
	var total progress.ArrivalTotal
	for _, x := range all.Indices {
		of := indices[x.Index]
		total.Add(of.Targets, of.OnTarget)
		roots, lucene := of.OnTarget.Texts()
		row(x, roots, lucene)
	}
	roots, lucene := total.Texts()
	row(all.Total, roots, lucene)
	return t.Flush()
}

func printAccount(w io.Writer, a status.Account) error {
	if err := printWork(w, a.Migration, a.Work); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nitems: %s\n", byState(a.Items))
	if f := a.Migration.Rounds; f != nil && len(f.Rounds) > 1 {
		fmt.Fprintf(w, "this is round 0; rfsctl report --session-name NAME-round-%d shows the last round\n", f.Rounds[len(f.Rounds)-1].Number)
	}
	if t := a.Work.Total; t.Retried+t.Resent+t.Replaced > 0 {
		fmt.Fprintln(w, progress.Again(t.Retried, t.Resent, t.Replaced))
	}
	if err := printRefused(w, a.Refused); err != nil {
		return err
	}
	printGivenUp(w, a.Migration.Failures)
	for i, e := range a.Events[max(0, len(a.Events)-shownEvents):] {
		if i == 0 {
			fmt.Fprintln(w, "\nlast events:")
		}
		printEvent(w, e)
	}
	r := a.Work
	if r.SuggestedLease == "" {
		_, err := fmt.Fprintln(w, "\nno item has ended yet")
		return err
	}
	if r.First != nil && r.Last != nil {
		fmt.Fprintf(w, "\nfrom %s to %s: %s\n", r.First.Format(time.RFC3339), r.Last.Format(time.RFC3339), max(r.Last.Sub(*r.First), 0).Round(time.Second))
	}
	fmt.Fprintf(w, "lease time per item: half within %.1f s, nine of ten within %.1f s\n", r.DurationP50, r.DurationP90)
	fmt.Fprintf(w, "setup per item: half within %.1f s, nine of ten within %.1f s; %.1f %% of all lease time\n", r.SetupP50, r.SetupP90, 100*r.SetupShare)
	_, err := fmt.Fprintf(w, "suggested: --initial-lease-duration %s\n", r.SuggestedLease)
	return err
}
