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
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

const verifyHelp = `Compares what migrate with the same options sends with what the target holds, document by
document: id, routing and every byte of the source; and the types of the fields of its mappings.
Lists what is missing, extra or different. No document is changed; target indices are refreshed.
The same command on several machines shares the work, if the target knows the session of the
migration.

Exit code 6: equal, but documents that the session lists as failed, or that have no source, are
not on the target. 7: equal as far as it was compared, but a part cannot be read. 8: different;
8 takes precedence over 7, and 7 over 6. Documents that rules leave out are no difference; nor is
what was written to the target after the migration, if its end is recorded. With --strict it is a
difference, too.`

// wholeTarget is what migrate --verify asks for.
var wholeTarget = config.Verification{Sample: 1, Differences: 1000}

// verifyMemory is the soft limit of a verification, in bytes.
const verifyMemory = 160 << 20

func verifyCommand() *cli.Command {
	return config.Raw[config.Verify](cli.Command{
		Name: "verify", Usage: "compare a target with the snapshot or the files that it was filled from", Description: verifyHelp,
	}, func(ctx context.Context, call *config.Call) error {
		values := call.Given()
		if values.Text("from") != "" {
			return verifyFiles(ctx, values, terminal.Raw(call.Out))
		}
		var v config.VerifySnapshot
		if err := config.Decode(values, &v); err != nil {
			return err
		}
		o, err := newOptions(v.Migrate)
		if err != nil {
			return err
		}
		return runVerify(ctx, o, v.Verification, terminal.Raw(call.Out))
	})
}

// verifyFiles compares a target with files.
func verifyFiles(ctx context.Context, values config.Values, out io.Writer) error {
	task := config.Settings(config.VerifyFiles{})
	for _, s := range config.Settings(config.VerifySnapshot{}) {
		if _, known := config.Find(task, s.Name); !known && values[s.Name] != nil {
			return config.Usage("--%s has no meaning for files (--from): leave it out, or name a snapshot instead of files", s.Name)
		}
	}
	var v config.VerifyFiles
	if err := config.Decode(values, &v); err != nil {
		return err
	}
	o := importOptions{options: options{s3: v.S3.Options(), from: v.Files.From}, types: importer.Types(v.Transfer.Types.Emit)}
	if err := o.transfer(v.Transfer); err != nil {
		return err
	}
	limitMemory(verifyMemory, os.Getenv)
	files, err := repo.Open(ctx, o.from, o.s3)
	if err != nil {
		return fmt.Errorf("--from %s: %w", o.from, err)
	}
	log, screen := newLogger(o.options)
	r, err := (&comparison{options: o.options, ask: v.Verification, memory: newBudget(o.options), log: log, screen: screen}).files(ctx, files, o.types)
	if err != nil {
		return err
	}
	return reportVerification(o.json, r, out)
}

// runVerify compares, reports, and returns the exit code as an error.
func runVerify(ctx context.Context, o options, ask config.Verification, out io.Writer) error {
	if o.snapshot == "" || o.target.URL == "" {
		return config.Usage("verify needs a snapshot (--snapshot-name) and a target (--target-host)")
	}
	limitMemory(verifyMemory, os.Getenv)
	blobs, err := openRepository(ctx, o)
	if err != nil {
		return exit.With(exit.Snapshot, fmt.Errorf("repository %s: %w", o.repoURI, err))
	}
	log, screen := newLogger(o)
	counted, memory := repo.NewCounting(blobs), newBudget(o)
	counted.LargeAlone(memory.Alone)
	r, err := (&comparison{options: o, ask: ask, memory: memory, log: log, screen: screen}).snapshot(ctx, counted)
	if err != nil {
		return err
	}
	return reportVerification(o.json, r, out)
}

// reportVerification prints a report and returns the exit code as an error.
func reportVerification(asJSON bool, r *verify.Report, out io.Writer) error {
	if asJSON {
		b, err := r.Seal()
		if err == nil {
			_, err = out.Write(b)
		}
		if err != nil {
			return fmt.Errorf("output: %w", err)
		}
	} else {
		printVerification(terminal.NewWriter(out), r)
	}
	return exit.With(exitOfVerification(r), nil)
}

// exitOfVerification returns the exit code of a comparison alone.
func exitOfVerification(r *verify.Report) exit.Code {
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

func verifyProgress(v *verify.Verifier) func(elapsed float64) string {
	return func(elapsed float64) string {
		p := v.Progress()
		return fmt.Sprintf("source: %s; target: %s", rates(p.SourceDocuments, p.SourceBytes, elapsed), rates(p.TargetDocuments, p.TargetBytes, elapsed))
	}
}

// shownDifferences is how many documents of an index the table names.
const shownDifferences = 20

func printVerification(w io.Writer, r *verify.Report) {
	for _, text := range r.Warnings {
		fmt.Fprintln(w, "warning:", text)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TARGET INDEX\tSTATE\tSOURCE\tTARGET\tMISSING\tEXTRA\tDIFFERENT\tSAME VALUE\tROUTING\tFIELDS\tSINCE\tFAILED\tFILTERED")
	for _, x := range r.Indices {
		failed := x.Failed
		for _, n := range x.Unsent {
			failed += n
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", x.Target, x.State, x.SourceDocuments, x.TargetDocuments,
			x.Counts[verify.Missing], x.Counts[verify.Extra], x.Counts[verify.Changed], x.Counts[verify.SameValue], x.Counts[verify.OtherRouting], len(x.Fields), x.Counts[verify.ChangedSince], failed, x.Filtered)
	}
	t.Flush()
	for _, x := range r.Indices {
		printIndex(w, x)
	}
	fmt.Fprintf(w, "result: %s%s; %d target indices, %.0f s\n", r.State, partText(r), len(r.Indices), r.End.Sub(r.Begin).Seconds())
}

func partText(r *verify.Report) string {
	switch {
	case r.Quick:
		return " (numbers of documents only)"
	case r.Sample < 1:
		return fmt.Sprintf(" (sample of %g%% of the ids)", 100*r.Sample)
	}
	return ""
}

// printIndex prints what an operator has to look at.
func printIndex(w io.Writer, x *verify.Index) {
	for i, d := range x.Differences {
		if i == shownDifferences {
			fmt.Fprintf(w, "%s: %d more documents are in the report (--output json)\n", x.Target, len(x.Differences)-i)
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
			fmt.Fprintf(w, "%s: %d more fields are in the report (--output json)\n", x.Target, len(x.Fields)-i)
		case i < shownDifferences && f.Has == "":
			fmt.Fprintf(w, "%s: field %s: the mapping lacks it, and documents have values of it; the source maps it as %s\n", x.Target, f.Field, f.Want)
		case i < shownDifferences:
			fmt.Fprintf(w, "%s: field %s: the mapping has the type %s; the source maps it as %s\n", x.Target, f.Field, f.Has, f.Want)
		}
	}
	if n := x.NotNamed; n.Buckets > 0 {
		fmt.Fprintf(w, "%s: %d of %d parts with %d documents differ, too, and were not read again\n", x.Target, n.Buckets, x.Buckets, n.Documents)
	}
	if x.NotComparable != "" {
		fmt.Fprintf(w, "%s: only ids and routing were compared: the target does not keep sources as they were sent: %s\n", x.Target, x.NotComparable)
	}
	if x.Note != "" {
		fmt.Fprintf(w, "%s: %s\n", x.Target, x.Note)
	}
	for reason, n := range x.Unsent {
		fmt.Fprintf(w, "%s: %d documents of the snapshot cannot be sent: %s\n", x.Target, n, reason)
	}
	if x.Failed > 0 {
		fmt.Fprintf(w, "%s: %d documents are recorded as failed; the target has %d of them, which were not compared (reasons: rfsctl failures; to send them again: rfsd redrive)\n", x.Target, x.Failed, x.FailedThere)
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
