package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/preflight"
)

// Plan prints what a migration would do.
func Plan(w io.Writer, r *preflight.Report) {
	fmt.Fprintf(w, "snapshot %s (%s)", r.Snapshot, r.State)
	if r.Target != "" {
		fmt.Fprintf(w, " to %s", r.Target)
	}
	fmt.Fprintln(w)
	if r.Sections.Has(preflight.Sizes) {
		writeSizes(w, r)
	}
	if r.Sections.Has(preflight.Changes) {
		writeChanges(w, r)
	}
	var same terminal.Grouped
	for _, x := range r.Indices {
		if x.Sources.State != plan.SourcesStored {
			text := fmt.Sprintf("%s: %s", x.Sources.State, x.Sources)
			if x.Sources.Remedy != "" {
				text += " → " + x.Sources.Remedy
			}
			same.Add(x.Index, "%s: sources "+terminal.Escaped(text))
		}
		if x.Stream != "" {
			same.Add(x.Index, "%s: backing index of a data stream: "+terminal.Escaped(x.Stream))
		}
	}
	same.Write(w, "index ")
	writeChecks(w, r)
	for _, x := range []struct {
		title string
		all   []string
	}{{"left out (--include-system takes them)", r.LeftOut}, {"shards that the snapshot lacks", r.Missing}, {"warnings", r.Warnings}} {
		if len(x.all) > 0 {
			fmt.Fprintf(w, "%s: %s\n", x.title, strings.Join(x.all, "; "))
		}
	}
	for _, stop := range r.Stops {
		fmt.Fprintf(w, "REFUSED: %s\n", stop)
	}
}

func writeSizes(w io.Writer, r *preflight.Report) {
	t := terminal.NewTable(w)
	fmt.Fprintln(t, "INDEX\tSHARDS\tBYTES\tTO READ AT MOST\tDOCUMENTS\tREQUESTS")
	row := func(name string, s *preflight.Size) {
		documents := "?"
		if s.Documents != nil {
			documents = progress.Count(*s.Documents)
		}
		progress.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\n", name, s.Shards, progress.Bytes(s.Repository), progress.Bytes(s.Read), documents, progress.Count(s.Requests))
	}
	for _, x := range r.Indices {
		row(x.Index, x.Size)
	}
	row("total", r.Size)
	t.Flush()
	fmt.Fprintf(w, "about %s on the target with replicas\n", progress.Bytes(r.Size.Target))
}

func writeChanges(w io.Writer, r *preflight.Report) {
	t := terminal.NewTable(w)
	fmt.Fprintln(t, "\nINDEX\tSHARDS\tTARGET\tWOULD BE\tDIFFERENCES")
	for _, x := range r.Indices {
		for _, o := range x.Targets {
			progress.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", x.Index, x.Shards, o.Name, o.Action, changesText(o))
		}
	}
	t.Flush()
	if len(r.Globals) > 0 || r.GlobalsWarning != "" {
		fmt.Fprintln(w, "\ntemplates and other objects of the cluster:", r.GlobalsWarning)
	}
	for _, o := range r.Globals {
		reason := ""
		if o.Reason != "" {
			reason = ": " + o.Reason
		}
		fmt.Fprintf(w, "  %s: %s%s\n", o.Name, o.Action, reason)
	}
	writeDifferences(w, r)
}

func writeChecks(w io.Writer, r *preflight.Report) {
	if len(r.Checks) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := terminal.NewTable(w)
	for _, f := range r.Checks {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f.Section, f.Level, f.Check, terminal.Clean(f.Detail))
		if f.Remedy != "" {
			fmt.Fprintf(t, "\t\t\t→ %s\n", f.Remedy)
		}
	}
	t.Flush()
}

func changesText(o preflight.Object) string {
	loses := 0
	for _, d := range o.Changes {
		if d.Loses {
			loses++
		}
	}
	text := progress.Sprintf("%d", len(o.Changes))
	if loses > 0 {
		text += progress.Sprintf(", %d visible to searches", loses)
	}
	if o.Documents > 0 {
		text += "; there: " + progress.Plural(o.Documents, "document")
	}
	if o.FinalPipeline != "" {
		text += "; final pipeline " + o.FinalPipeline + " would change documents"
		if len(o.PipelineEffects) > 0 {
			text += " (" + strings.Join(o.PipelineEffects, ", ") + ")"
		}
	}
	return text
}

func writeDifferences(w io.Writer, r *preflight.Report) {
	var same terminal.Grouped
	show := func(o preflight.Object) {
		for _, d := range o.Changes {
			mark := " "
			if d.Loses {
				mark = "!"
			}
			same.Add(o.Name, mark+" %s: "+terminal.Escaped(fmt.Sprintf("%s: %s (%s)", d.Path, d.Detail, d.Rule)))
		}
	}
	fmt.Fprintln(w)
	for _, x := range r.Indices {
		for _, o := range x.Targets {
			show(o)
		}
	}
	same.Write(w, "")
	same = terminal.Grouped{}
	for _, o := range r.Globals {
		show(o)
	}
	same.Write(w, "")
}
