package report

import (
	"fmt"
	"io"
	"time"

	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/migration/estimate"
)

// writeTrial prints the result of a trial run below the table of the documents.
func writeTrial(w io.Writer, t *estimate.Trial) {
	fmt.Fprintf(w, "\ntrial run: at most %s documents of each shard, in indices %s…; rfsctl cleanup --trial --yes removes them\n", progress.Count(t.Documents), t.Prefix)
	if len(t.Rejected) == 0 {
		fmt.Fprintln(w, "rejected: none")
	}
	for _, c := range t.Rejected {
		fmt.Fprintf(w, "rejected: %s × %s: %s\n    remedy: %s\n", progress.Count(c.Documents), terminal.Clean(c.Index), c.Class, terminal.Clean(c.Remedy))
	}
	for _, p := range t.Problems {
		fmt.Fprintln(w, "not in the estimate:", p)
	}
	e := t.Estimate
	if e == nil {
		fmt.Fprintln(w, "no estimate: the rate of sending is unknown")
		return
	}
	rate := func(v float64) string {
		if v == 0 {
			return "?"
		}
		return progress.Bytes(int64(v)) + "/s"
	}
	duration := func(s float64) string {
		return max(time.Second, time.Duration(s*float64(time.Second)).Round(time.Second)).String()
	}
	fmt.Fprintln(w, "the whole migration, estimated:")
	tw := terminal.NewTable(w)
	fmt.Fprintf(tw, "  documents\tabout %s, %s of sources\n", progress.Count(e.Documents), progress.Bytes(e.Bytes))
	fmt.Fprintf(tw, "  repository\tat most %s in %s requests\n", progress.Bytes(e.RepositoryBytes), progress.Count(e.RepositoryRequests))
	fmt.Fprintf(tw, "  fixed\t%.1f s, of it set-up %.2f s for each shard\n", e.Fixed, e.Setup)
	progress.Fprintf(tw, "  reading\t%s of decompressed sources by each of %d slots\n", rate(e.ReadRate), e.Slots)
	fmt.Fprintf(tw, "  sending\t%s by all slots, %.1f requests/s of %s\n", rate(e.SendRate), e.RequestRate, progress.Bytes(int64(e.RequestBytes)))
	if e.Least == 0 {
		fmt.Fprintf(tw, "  time\tless than %s\n", duration(e.Most))
	} else {
		fmt.Fprintf(tw, "  time\t%s (%s to %s), bound by %s\n", duration(e.Seconds), duration(e.Least), duration(e.Most), e.Bound)
	}
	if c := e.Cost; c != nil {
		fmt.Fprintf(tw, "  cost\t%.2f: %.2f for requests to the bucket, %.2f for egress, %.2f for the instance\n", c.Total, c.Requests, c.Egress, c.Instance)
	}
	if err := tw.Flush(); err != nil {
		return // nothing can be printed any more
	}
	for _, b := range e.Basis {
		fmt.Fprintln(w, "basis:", b)
	}
}
