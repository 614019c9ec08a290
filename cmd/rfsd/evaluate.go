package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/preflight"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

const evaluateHelp = `Reports what migrate with the same options would create, change, skip and refuse on this target,
and how much it would read and write. Existing objects are compared with what would be created
(fields, types, settings, aliases), with the documents there, blocks, and other indices behind
the same aliases. Nothing is written: what migrate would create is passed to the target's
template simulation, which parses it with the target's own version and plugins and stores
nothing.`

func evaluateCommand() *cli.Command {
	return config.Command(cli.Command{
		Name: "evaluate", Usage: "report what a migration would do, without writing anything", Description: evaluateHelp,
	}, func(ctx context.Context, call *config.Call, m config.Migrate) error {
		o, err := newOptions(m)
		if err != nil {
			return err
		}
		return evaluate(ctx, o, terminal.Raw(call.Out))
	})
}

func evaluate(ctx context.Context, o options, out io.Writer) error {
	if o.snapshot == "" || o.target.URL == "" {
		return config.Usage("evaluate needs a snapshot that is there (--snapshot-name) and a target (--target-host)")
	}
	log, _ := newLogger(o)
	o.warnOfRisks(log)
	blobs, err := openRepository(ctx, o)
	if err != nil {
		return exit.With(exit.Snapshot, fmt.Errorf("repository %s: %w", o.repoURI, err))
	}
	counted := repo.NewCounting(blobs)
	limitMemory(memoryOfInput, os.Getenv) // no documents are read beside
	memory := newBudget(o)
	counted.LargeAlone(memory.Alone)
	o.target.Memory = memory
	plan, err := plan.New(ctx, counted, o.request())
	if err != nil {
		return planError(err)
	}
	client, err := target.New(ctx, o.target)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing was written through it
	v, err := client.Info(ctx)
	if err != nil {
		return err
	}
	dry := metadata.DryRunCluster{Target: client}
	globals := &worker.TargetGlobals{Cluster: dry, Version: v, Wanted: o.globals, Log: log}
	e := &preflight.Evaluator{
		Target: client, Version: v, Repo: counted, Existing: o.existing,
		Indices: &worker.TargetIndices{Cluster: dry, Version: v, Rules: o.rules, Overrides: o.overrides, Requester: client, Globals: globals, Log: log, UUIDs: client, AllowSource: o.allowSource},
		Globals: globals,
	}
	if warning := v.Untested(); warning != "" {
		plan.Warnings = append(plan.Warnings, warning)
	}
	r, err := e.Evaluate(ctx, plan)
	if err != nil {
		return err
	}
	if o.json {
		if err := writeJSON(out, r); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	} else {
		printEvaluation(terminal.NewWriter(out), r)
	}
	if len(r.Stops) > 0 || len(r.Missing) > 0 {
		return exit.With(exit.Parts, nil)
	}
	return nil
}

func printEvaluation(w io.Writer, r *preflight.Evaluation) {
	fmt.Fprintf(w, "snapshot %s (%s) to %s\n", r.Snapshot, r.State, r.Target)
	fmt.Fprintf(w, "%s in the repository; at most %s read in %d requests; about %s on the target with replicas\n\n",
		progress.Bytes(r.Size.Repository), progress.Bytes(r.Size.Read), r.Size.Requests, progress.Bytes(r.Size.Target))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "INDEX\tSHARDS\tSIZE\tTARGET\tWOULD BE\tDIFFERENCES")
	for _, x := range r.Indices {
		for _, o := range x.Targets {
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\n", x.Index, x.Shards, progress.Bytes(x.Bytes), o.Name, o.Action, changesText(o))
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
	var same terminal.Grouped
	for _, x := range r.Indices {
		if x.Sources.State != plan.SourcesStored {
			same.Add(x.Index, "%s: sources "+terminal.Escaped(fmt.Sprintf("%s: %s", x.Sources.State, x.Sources)))
		}
		if x.Stream != "" {
			same.Add(x.Index, "%s: backing index of a data stream: "+terminal.Escaped(x.Stream))
		}
	}
	same.Write(w, "index ")
	for title, all := range map[string][]string{"left out (--include-system takes them)": r.LeftOut, "shards that the snapshot lacks": r.Missing, "warnings": r.Warnings} {
		if len(all) > 0 {
			fmt.Fprintf(w, "%s: %s\n", title, strings.Join(all, "; "))
		}
	}
	for _, stop := range r.Stops {
		fmt.Fprintf(w, "REFUSED: %s\n", stop)
	}
}

func changesText(o preflight.EvaluatedObject) string {
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

func printDifferences(w io.Writer, r *preflight.Evaluation) {
	var same terminal.Grouped
	show := func(o preflight.EvaluatedObject) {
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
