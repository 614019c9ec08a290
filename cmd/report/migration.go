package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/estimate"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/difference"
)

// Migration is the report of rfsd migrate.
type Migration struct {
	*summary.Summary
	Seconds         float64   `json:"seconds"`
	RepositoryBytes int64     `json:"repository_bytes"`
	RepositoryReads int64     `json:"repository_requests"`
	Resent          int64     `json:"documents_resent"`
	Retries         int64     `json:"requests_retried"`
	ItemsRun        int64     `json:"items_run"` // work items that this run worked on
	ExitCode        exit.Code `json:"-"`
	Cluster         bool      `json:"-"` // documents went to a cluster
	DryRun          bool      `json:"-"` // documents went nowhere
	ShardsLacking   bool      `json:"-"` // the snapshot lacks shards
	AcceptReduced   bool      `json:"-"` // reduced sources do not change the exit code
	// Failures are the classes of the documents that failed, as they failed first.
	Failures []status.RefusedGroup `json:"failures,omitempty"`
	// Verification is the comparison of --verify; nil without it.
	Verification *verify.Report `json:"verification,omitempty"`
	// Round is the round of a cluster that is followed; nil: it is not followed.
	Round *follow.Report `json:"round,omitempty"`
	// Trial is the result of a trial run; nil in any other.
	Trial *estimate.Trial `json:"trial,omitempty"`
}

// roundText describes a round and its changes.
func roundText(x *follow.Report, d *difference.Totals, unchanged int) string {
	text := fmt.Sprintf("round %d: snapshot %s", x.Number, cmp.Or(x.Snapshot, "-"))
	if x.Since != "" {
		text += " since " + x.Since
	}
	if d != nil {
		text += progress.Sprintf(": %s inserted, %d updated, %d deleted", progress.Plural(d.Inserted, "document"), d.Updated, d.Deleted)
	}
	if unchanged > 0 {
		text += fmt.Sprintf("; indices without a change: %s", progress.Count(int64(unchanged)))
	}
	if !x.Arrived {
		text += "; it has not arrived whole: repair the cause and run the same command again"
	}
	return text
}

// Arrived is the report of a snapshot that has arrived before.
type Arrived struct {
	Round follow.Report `json:"round"`
}

// Conclude prints the report.
func (a *Arrived) Conclude(w *output.Writer) error {
	if w.JSON {
		return w.Result(a)
	}
	_, err := fmt.Fprintf(terminal.NewWriter(w), "snapshot %s has arrived in round %d: nothing was sent\n", a.Round.Snapshot, a.Round.Number)
	return err
}

// WriteText prints what became of the phases, one line per index, the totals, and what an
// operator has to look at.
func (r *Migration) WriteText(w io.Writer) {
	r.writePhases(w)
	r.writeTable(w)
	r.writeIndices(w)
	r.writeProblems(w)
	r.writeDocuments(w)
	if r.DryRun {
		fmt.Fprintln(w, "this was a dry run (--discard): nothing was sent; \"indexed\" counts what would have been")
	}
	if r.SafeFrom != nil && r.Cluster && r.Round == nil {
		fmt.Fprintln(w, safety(*r.SafeFrom, time.Now()))
	}
	if r.Round != nil {
		fmt.Fprintln(w, roundText(r.Round, r.Changes, r.Unchanged))
	}
	if r.Trial != nil {
		writeTrial(w, r.Trial)
	} else if r.DoneBefore && r.ItemsRun == 0 && (r.ExitCode == exit.OK || r.ExitCode == exit.Documents) {
		fmt.Fprintln(w, r.before())
	}
	if r.Verification != nil {
		writeVerification(w, r.Verification)
	}
	fmt.Fprintf(w, "%.1f s, %s read from the repository\n", r.Seconds, progress.Bytes(r.RepositoryBytes))
}

// hasStarted reports whether anything was done.
func (r *Migration) hasStarted() bool { return len(r.Indices) > 0 || len(r.Problems) > 0 }

// before is the last line of a run that found nothing to do.
func (r *Migration) before() string {
	sent := slices.ContainsFunc(r.Phases, func(p summary.Phase) bool {
		return p.Phase == phase.PhaseDocuments && p.State == session.PhaseCompleted
	})
	if !sent {
		return "the phases of this run were done before it; documents are not sent yet (--phases)"
	}
	return "everything was done before this run; a new --session-name starts a new migration"
}

// writeTable prints one line per index and the totals.
func (r *Migration) writeTable(w io.Writer) {
	t := terminal.NewTable(w)
	kept := func(text string) string {
		if r.Totals.Kept == 0 {
			return ""
		}
		return text + "\t"
	}
	counted := slices.ContainsFunc(r.Indices, func(x summary.Index) bool { return x.Arrival != nil })
	arrived := func(roots, lucene string) string {
		if !counted {
			return ""
		}
		return roots + "\t" + lucene + "\t"
	}
	fmt.Fprintf(t, "INDEX\tSHARDS\tLIVE\tINDEXED\t%sFAILED\tFILTERED\tBYTES\t%s\n", kept("KEPT"), arrived("ON TARGET", "LUCENE"))
	row := func(index, shards string, c cms.Counts, roots, lucene string) {
		progress.Fprintf(t, "%s\t%s\t%d\t%d\t%s%d\t%d\t%s\t%s\n", index, shards, c.Live, c.Indexed, kept(strconv.FormatInt(c.Kept, 10)), c.Failed, c.Filtered, progress.Bytes(c.Bytes), arrived(roots, lucene))
	}
	var total progress.ArrivalTotal
	for _, x := range r.Indices {
		total.Add(x.Targets, x.Held())
		roots, lucene := x.Held().Texts()
		row(x.Index, progress.Sprintf("%d/%d", x.Done, x.Shards), x.Counts, roots, lucene)
	}
	roots, lucene := total.Texts()
	row("total", "", r.Totals, roots, lucene)
	if err := t.Flush(); err != nil {
		fmt.Fprintln(terminal.NewWriter(os.Stderr), "rfsd: write summary:", err)
	}
}

// writeIndices prints remarks on single indices.
func (r *Migration) writeIndices(w io.Writer) {
	var same terminal.Grouped
	for _, x := range r.Indices {
		if x.State == session.PhaseFailed {
			same.Add(x.Index, "%s: not created: "+terminal.Escaped(x.Error))
		}
		for _, d := range x.Differs {
			same.Add(x.Index, "%s: the target made it otherwise: "+terminal.Escaped(withoutName(d, x.Targets)))
		}
		if x.AliasesWait {
			same.Add(x.Index, "%s: aliases wait until all of its documents have arrived")
		}
		if x.Reduced != "" && x.Counts.Reduced > 0 {
			same.Add(x.Index, progress.Sprintf("%%s: %d of its documents are reduced, they may lack indexed parts: %s", x.Counts.Reduced, terminal.Escaped(x.Reduced)))
		} else if x.Reduced != "" && x.Failed > 0 {
			same.Add(x.Index, "%s: stored sources differ from the indexed documents: "+terminal.Escaped(x.Reduced))
		}
	}
	for _, x := range r.Indices {
		if x.Arrival != nil && x.Arrival.Shared {
			same.Add(x.Index, "%s: the number on the target counts all indices with the target "+terminal.Escaped(strings.Join(x.Targets, ", ")))
		}
	}
	same.Write(w, "index ")
	for _, x := range r.Indices {
		if a := x.Arrival; a != nil && a.Note != "" {
			roots, _ := a.Texts()
			progress.Fprintf(w, "index %s: the target has %s documents, %d were indexed: %s\n", x.Index, roots, a.Expected, a.Note)
		}
		if n := x.Lost(); n > 0 {
			progress.Fprintf(w, "warning: index %s: the target holds %d documents now, %d fewer than at the end of the migration: find out what deleted them; rfsd verify names them\n", x.Index, x.Now.Found, n)
		}
		if r.DoneBefore && x.Now == nil && x.Arrival != nil && !x.Arrival.Uncounted && !x.Arrival.Gone {
			fmt.Fprintf(w, "index %s: the number on the target is as of the end of the migration; it could not be counted again\n", x.Index)
		}
		if x.Rebuilt > 0 {
			progress.Fprintf(w, "index %s: the sources of %d documents were rebuilt from other fields\n", x.Index, x.Rebuilt)
		}
		if x.KeptLast > 0 {
			progress.Fprintf(w, "index %s: %d of its documents had duplicate keys; the last value of each was kept\n", x.Index, x.KeptLast)
		}
		if x.Paused != "" {
			fmt.Fprintf(w, "index %s is paused: %s\n", x.Index, x.Paused)
		}
	}
}

// writeProblems prints the items and indices that failed, and the objects that were left out.
func (r *Migration) writeProblems(w io.Writer) {
	failed := map[string]bool{}
	for _, x := range r.Indices {
		failed[x.Index] = x.State == session.PhaseFailed
	}
	for _, p := range r.Problems {
		if failed[p.Index] {
			continue // said once above
		}
		if p.Shard < 0 {
			fmt.Fprintf(w, "index %s is not complete: %s\n", p.Index, p.Reason)
			continue
		}
		fmt.Fprintf(w, "index %s shard %d failed: %s\n", p.Index, p.Shard, p.Reason)
		if p.Undelivered > 0 {
			fmt.Fprintf(w, "index %s shard %d: at most %s were not delivered\n", p.Index, p.Shard, progress.Plural(p.Undelivered, "document"))
		}
	}
	if len(r.LeftOut) > 0 {
		fmt.Fprintf(w, "left out (--include-system migrates them): %s\n", strings.Join(r.LeftOut, ", "))
	}
	if len(r.NotVerified) > 0 {
		progress.Fprintf(w, "%d files were not verified (they hold no live documents, or only a part of them is needed): %s\n",
			len(r.NotVerified), strings.Join(r.NotVerified[:min(5, len(r.NotVerified))], ", "))
	}
}

// writeDocuments prints the numbers of failed, repeated and reduced documents.
func (r *Migration) writeDocuments(w io.Writer) {
	if r.Redriven > 0 {
		progress.Fprintf(w, "%d documents did not arrive when they were sent; rfsd redrive has delivered %d of them\n", r.Totals.Failed+r.Redriven, r.Redriven)
	}
	if r.Totals.Failed > 0 {
		if r.FailedDir == "" {
			progress.Fprintf(w, "%d documents could not be sent; name --failed-documents to keep them with the reason of each\n", r.Totals.Failed)
		} else {
			progress.Fprintf(w, "%d documents did not arrive; %s holds them with the reason of each, until rfsd redrive delivers them\n", r.Totals.Failed, r.FailedDir)
		}
		Classes(w, r.Failures)
	}
	if again := progress.Again(r.Totals.Retried, r.Totals.Resent, r.Totals.Replaced); again != "" {
		fmt.Fprintln(w, again)
	}
	if r.Totals.Reduced > 0 {
		progress.Fprintf(w, "%d documents are reduced: the snapshot lacks the missing parts of their sources, or does not show where they belong; --accept-reduced-sources accepts that (exit code 0)\n", r.Totals.Reduced)
	}
}

// writePhases prints the state of each phase, and what the phases did.
func (r *Migration) writePhases(w io.Writer) {
	for _, p := range r.Phases {
		fmt.Fprintf(w, "phase %s: %s", p.Phase, strings.ReplaceAll(strings.ToLower(p.State), "_", " "))
		switch {
		case p.Error != "":
			fmt.Fprintf(w, ": %s", p.Error)
		case p.Phase == phase.PhaseSnapshot:
			fmt.Fprintf(w, ": %s", r.Snapshot)
		case p.Phase == phase.PhaseMetadata && r.Globals != nil:
			progress.Fprintf(w, ": %d created, %d existed, %d left out", len(r.Globals.Created), len(r.Globals.Existed), len(r.Globals.LeftOut))
		case p.Phase == phase.PhaseIndices:
			created, existed, failed := r.indexCounts()
			progress.Fprintf(w, ": %d created, %d existed, %d failed", created, existed, failed)
		}
		fmt.Fprintln(w)
	}
	if r.Globals != nil {
		if r.Globals.Warning != "" {
			fmt.Fprintln(w, r.Globals.Warning)
		}
		for _, left := range r.Globals.LeftOut {
			fmt.Fprintf(w, "left out: %s %s: %s\n", left.Kind, left.Name, left.Reason)
		}
	}
	for _, e := range r.Events {
		fmt.Fprintf(w, "event %s %s %s: %s\n", e.Time.Format(time.RFC3339), e.Subject, e.Code, e.Detail)
	}
}

// indexCounts counts target indices.
func (r *Migration) indexCounts() (created, existed, failed int) {
	for _, x := range r.Indices {
		switch x.State {
		case session.PhaseCompleted:
			created += len(x.Created)
			existed += len(x.Targets) - len(x.Created)
		case session.PhaseFailed:
			failed += len(x.Targets)
		}
	}
	return created, existed, failed
}

// safety reports whether others may write to the migrated indices.
func safety(from, now time.Time) string {
	if !now.Before(from) {
		return "safe to write: yes"
	}
	return fmt.Sprintf("safe to write: not before %s: until then a request that was sent before may still arrive", from.UTC().Format(time.RFC3339))
}

// withoutName cuts the name of the index off the start of a text.
func withoutName(text string, targets []string) string {
	for _, name := range targets {
		for _, prefix := range []string{"index " + name + ": ", name + ": "} {
			if rest, ok := strings.CutPrefix(text, prefix); ok {
				return rest
			}
		}
	}
	return text
}

// Conclude decides the exit code, prints the report to w, and returns the error that ends the command.
func (r *Migration) Conclude(w *output.Writer, err error) error {
	if r.Summary == nil {
		return err
	}
	code := exit.OK
	var failed *phase.PhaseFailed
	var coded *exit.Error
	switch {
	case errors.As(err, &coded):
		code = coded.Code
	case errors.As(err, &failed) && failed.Phase == phase.PhaseSnapshot:
		code = exit.Snapshot
	case errors.Is(err, phase.ErrSnapshotRuns):
		code = exit.NotYet
	case err != nil || !r.Complete:
		code = exit.Failed
	case r.Verification != nil && r.Verification.State == verify.Different:
		code = exit.Different
	case len(r.Problems) > 0 || r.ShardsLacking || r.Verification != nil && r.Verification.State == verify.Unreadable:
		code = exit.Parts
	case r.Totals.Failed > 0, r.Totals.Reduced > 0 && !r.AcceptReduced, r.Verification != nil && r.Verification.State == verify.FailedDocuments:
		code = exit.Documents
	}
	r.ExitCode = code
	return Print(w, r, code, err)
}
