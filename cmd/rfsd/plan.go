package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/preflight"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

const planHelp = `Reports what migrate with the same options would do, without writing a document. Sections:
- changes: what would be created, changed, left out and refused. What migrate would create is
passed to the target's template simulation, which stores nothing; existing objects are compared.
- sizes: bytes and requests to the repository; with --documents also documents.
- access: every permission of a migration, tested with requests that must fail for another
reason. Where only an index can show it (indexing into names that do not exist yet), an empty one
with the name NAME-rfsd-doctor-RANDOM is created and removed at once.
- versions: whether the target's version is tested.
- disks: whether the target has room.
- limits: health, clocks, shards, fields, heap and sizes of requests of the target.

--only names some of them. Without --target-host there are only sizes, and with --target-version
the changes on an empty target of that version. Each finding states what to do. Exit code 7: the
migration, or a part of it, would fail.`

func planCommand() *cli.Command {
	return config.Raw[config.Plan](cli.Command{
		Name: "plan", Usage: "report what a migration would do, and what would prevent it", Description: planHelp,
	}, func(ctx context.Context, call *config.Call) error {
		values := call.Given()
		if values.Text("target-host") == "" && values.Text("export-dir") == "" {
			values["discard"] = []string{"true"} // nothing is sent in any case
		}
		var p config.Plan
		if err := config.Decode(values, &p); err != nil {
			return err
		}
		o, err := newOptions(p.Migrate)
		if err != nil {
			return err
		}
		return planMigration(ctx, o, p.Planning, terminal.Raw(call.Out))
	})
}

// sectionsOf returns the sections of a plan: those that were asked for, or all that are possible.
func sectionsOf(o options, ask config.Planning) (preflight.Sections, error) {
	possible := preflight.AllSections()
	switch {
	case o.target.URL != "" && ask.Version != "":
		return nil, config.Usage("--target-host and --target-version exclude each other: the target reports its version")
	case ask.Version != "":
		possible = preflight.Sections{preflight.Changes, preflight.Sizes}
	case o.target.URL == "":
		possible = preflight.Sections{preflight.Sizes}
	}
	for _, x := range ask.Only {
		if !possible.Has(x) {
			return nil, config.Usage("--only %s needs a target (--target-host)", x)
		}
	}
	if len(ask.Only) > 0 {
		return preflight.Sections(ask.Only), nil
	}
	return possible, nil
}

// planMigration reports what a migration would do.
func planMigration(ctx context.Context, o options, ask config.Planning, out io.Writer) error {
	only, err := sectionsOf(o, ask)
	if err != nil {
		return err
	}
	if o.snapshot == "" {
		return config.Usage("plan needs a snapshot that is there (--snapshot-name)")
	}
	log, _ := newLogger(o)
	o.warnOfRisks(log)
	blobs, err := openRepository(ctx, o)
	if err != nil {
		return exit.With(exit.Snapshot, fmt.Errorf("repository %s: %w", o.repoURI, err))
	}
	counted := repo.NewCounting(blobs)
	limitMemory(memoryOfInput, os.Getenv) // no documents are read at the same time
	memory := newBudget(o)
	counted.LargeAlone(memory.Alone)
	o.target.Memory = memory
	p, err := plan.New(ctx, counted, o.request())
	if err != nil {
		return planError(err)
	}
	e := &preflight.Evaluator{
		Target: preflight.Offline{}, Version: versionOf(ask.Version), Repo: counted, Existing: o.existing, Only: only, Documents: ask.Documents,
		Needs: preflight.Needs{BulkBytes: int64(o.bulkBytes), Tolerance: o.skewTolerance(), Session: o.session, Now: time.Now},
	}
	indices := &creation.Indices{Rules: o.rules, Overrides: o.overrides, Log: log, AllowSource: o.allowSource}
	if o.target.URL != "" && only.NeedTarget() {
		client, err := target.New(ctx, o.target)
		if err != nil {
			return err
		}
		defer client.Close() //nolint:errcheck // nothing was written through it
		if e.Version, err = client.Info(ctx); err != nil {
			return err
		}
		e.Target, indices.UUIDs = client, client
	}
	dry := metadata.DryRunCluster{Target: e.Target}
	e.Globals = &creation.Globals{Cluster: dry, Version: e.Version, Wanted: o.globals, Log: log}
	indices.Cluster, indices.Version, indices.Requester, indices.Globals = dry, e.Version, e.Target, e.Globals
	e.Indices = indices
	r, err := e.Evaluate(ctx, p)
	if err != nil {
		return err
	}
	if o.json {
		if err := writeJSON(out, r); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	} else {
		printPlan(terminal.NewWriter(out), r)
	}
	if r.Problems() > 0 {
		return exit.With(exit.Parts, nil)
	}
	return nil
}

// versionOf returns a version of OpenSearch, as the setting has checked it; the zero Version for "".
func versionOf(s string) (v target.Version) {
	if s == "" {
		return v
	}
	v.Distribution, v.Number = "opensearch", s
	_, _ = fmt.Sscanf(s, "%d.%d", &v.Major, &v.Minor) // its form was checked
	return v
}

func printPlan(w io.Writer, r *preflight.Report) {
	fmt.Fprintf(w, "snapshot %s (%s)", r.Snapshot, r.State)
	if r.Target != "" {
		fmt.Fprintf(w, " to %s", r.Target)
	}
	fmt.Fprintln(w)
	if r.Sections.Has(preflight.Sizes) {
		printSizes(w, r)
	}
	if r.Sections.Has(preflight.Changes) {
		printChanges(w, r)
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
	printChecks(w, r)
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

func printSizes(w io.Writer, r *preflight.Report) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "index\tshards\tbytes\tto read at most\tdocuments\trequests\t")
	row := func(name string, s *preflight.Size) {
		documents := "?"
		if s.Documents != nil {
			documents = progress.Count(*s.Documents)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t\n", name, s.Shards, progress.Bytes(s.Repository), progress.Bytes(s.Read), documents, progress.Count(s.Requests))
	}
	for _, x := range r.Indices {
		row(x.Index, x.Size)
	}
	row("total", r.Size)
	t.Flush()
	fmt.Fprintf(w, "about %s on the target with replicas\n", progress.Bytes(r.Size.Target))
}

func printChanges(w io.Writer, r *preflight.Report) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nINDEX\tSHARDS\tTARGET\tWOULD BE\tDIFFERENCES")
	for _, x := range r.Indices {
		for _, o := range x.Targets {
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", x.Index, x.Shards, o.Name, o.Action, changesText(o))
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
	printDifferences(w, r)
}

func printChecks(w io.Writer, r *preflight.Report) {
	if len(r.Checks) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
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
	text := fmt.Sprintf("%d", len(o.Changes))
	if loses > 0 {
		text += fmt.Sprintf(", %d of which searches may notice", loses)
	}
	if o.Documents > 0 {
		text += fmt.Sprintf("; %d documents are there", o.Documents)
	}
	if o.FinalPipeline != "" {
		text += "; final pipeline " + o.FinalPipeline + " would change documents"
		if len(o.PipelineEffects) > 0 {
			text += " (" + strings.Join(o.PipelineEffects, ", ") + ")"
		}
	}
	return text
}

func printDifferences(w io.Writer, r *preflight.Report) {
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
