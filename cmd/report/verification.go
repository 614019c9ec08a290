package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/operation/verify"
)

// Verification prints a comparison and returns its exit code as an error.
func Verification(out *output.Writer, r *verify.Report) error {
	if out.JSON {
		sealed, err := r.Seal()
		if err == nil {
			err = out.Result(sealed)
		}
		if err != nil {
			return err
		}
	} else {
		writeVerification(terminal.NewWriter(out), r)
	}
	return exit.With(verificationCode(r), nil)
}

// verificationCode returns the exit code of a comparison alone.
func verificationCode(r *verify.Report) exit.Code {
	switch r.State {
	case verify.Different:
		return exit.Different
	case verify.Unreadable:
		return exit.Parts
	case verify.FailedDocuments:
		return exit.Documents
	}
	return exit.OK
}

// Differs returns in a few words in what a target index differs.
func Differs(x *verify.Index) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(x.Counts)) {
		parts = append(parts, progress.Sprintf("%d %s", x.Counts[kind], kind))
	}
	text := x.Target + ": " + strings.Join(append(parts, x.Problems...), ", ")
	if len(x.Differences) > 0 {
		text += fmt.Sprintf(", such as %q", x.Differences[0].ID)
	}
	return text
}

// shownDifferences is the maximum number of documents of an index that the text names.
const shownDifferences = 20

func writeVerification(w io.Writer, r *verify.Report) {
	for _, text := range r.Warnings {
		fmt.Fprintln(w, "warning:", text)
	}
	t := terminal.NewTable(w)
	fmt.Fprintln(t, "TARGET INDEX\tSTATE\tSOURCE\tTARGET\tMISSING\tEXTRA\tDIFFERENT\tSAME VALUE\tROUTING\tFIELDS\tSINCE\tFAILED\tFILTERED")
	for _, x := range r.Indices {
		failed := x.Failed
		for _, n := range x.Unsent {
			failed += n
		}
		progress.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", x.Target, x.State, x.SourceDocuments, x.TargetDocuments,
			x.Counts[verify.Missing], x.Counts[verify.Extra], x.Counts[verify.Changed], x.Counts[verify.SameValue], x.Counts[verify.OtherRouting], len(x.Fields), x.Counts[verify.ChangedSince], failed, x.Filtered)
	}
	t.Flush()
	for _, x := range r.Indices {
		writeIndex(w, x)
	}
	progress.Fprintf(w, "result: %s%s; %d target indices, %.0f s\n", r.State, partText(r), len(r.Indices), r.End.Sub(r.Begin).Seconds())
}

func partText(r *verify.Report) string {
	switch {
	case r.Quick:
		return " (numbers of documents only)"
	case r.Since != "" && r.Sample < 1:
		return fmt.Sprintf(" (a sample of %g%% of what changed from snapshot %s to %s)", 100*r.Sample, r.Since, r.Snapshot)
	case r.Since != "":
		return fmt.Sprintf(" (what changed from snapshot %s to %s)", r.Since, r.Snapshot)
	case r.Sample < 1:
		return fmt.Sprintf(" (sample of %g%% of the ids)", 100*r.Sample)
	}
	return ""
}

// writeIndex prints what an operator has to look at.
func writeIndex(w io.Writer, x *verify.Index) {
	for i, d := range x.Differences {
		if i == shownDifferences {
			progress.Fprintf(w, "%s: %d more documents are in the report (--output json)\n", x.Target, len(x.Differences)-i)
			break
		}
		kind := string(d.Kind)
		if d.Change != "" {
			kind += " (" + string(d.Change) + ")"
		}
		fmt.Fprintf(w, "%s: %s: %q%s\n", x.Target, kind, d.ID, placeText(d))
	}
	for i, f := range x.Fields {
		switch {
		case i == shownDifferences:
			progress.Fprintf(w, "%s: %d more fields are in the report (--output json)\n", x.Target, len(x.Fields)-i)
		case i < shownDifferences && f.Has == "":
			fmt.Fprintf(w, "%s: field %s: the mapping lacks it, and documents have values of it; the source maps it as %s\n", x.Target, f.Field, f.Want)
		case i < shownDifferences:
			fmt.Fprintf(w, "%s: field %s: the mapping has the type %s; the source maps it as %s\n", x.Target, f.Field, f.Has, f.Want)
		}
	}
	if n := x.NotNamed; n.Buckets > 0 {
		progress.Fprintf(w, "%s: %d of %d parts with %d documents differ, too, and were not read again\n", x.Target, n.Buckets, x.Buckets, n.Documents)
	}
	if x.NotComparable != "" {
		fmt.Fprintf(w, "%s: only ids and routing were compared: the target does not keep sources as they were sent: %s\n", x.Target, x.NotComparable)
	}
	if x.Note != "" {
		fmt.Fprintf(w, "%s: %s\n", x.Target, x.Note)
	}
	for reason, n := range x.Unsent {
		progress.Fprintf(w, "%s: %d documents of the snapshot cannot be sent: %s\n", x.Target, n, reason)
	}
	switch {
	case x.FailedDiffer:
		progress.Fprintf(w, "%s: %d documents are recorded as failed; the target has all of their ids, but other sources or routings for some of them (reasons: rfsctl failures)\n", x.Target, x.Failed)
	case 0 < x.Failed && x.Failed == x.FailedThere:
		progress.Fprintf(w, "%s: %d documents are recorded as failed; the target has all of them, as the source has them\n", x.Target, x.Failed)
	case x.Failed > 0:
		progress.Fprintf(w, "%s: %d documents are recorded as failed; the target has %d of them, which were not compared (reasons: rfsctl failures; to send them again: rfsd redrive)\n", x.Target, x.Failed, x.FailedThere)
	}
	for _, p := range x.Problems {
		fmt.Fprintf(w, "%s: cannot be read: %s\n", x.Target, p)
	}
}

func placeText(d verify.Difference) string {
	var b strings.Builder
	if d.Routing != "" {
		fmt.Fprintf(&b, ", routing %q", d.Routing)
	}
	if d.TargetRouting != nil {
		fmt.Fprintf(&b, ", at the target routing %q", *d.TargetRouting)
	}
	if d.Path != "" {
		fmt.Fprintf(&b, ", at %s", d.Path)
	}
	if d.Kind != verify.Extra && d.Change != verify.Extra {
		fmt.Fprintf(&b, " (shard %d, ordinal %d)", d.Shard, d.Ordinal)
	}
	return b.String()
}
