package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/rfs/budget"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/failed"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/repo"
	"github.com/rfsd/rfsd/rfs/rollback"
	"github.com/rfsd/rfsd/rfs/target"
	"github.com/rfsd/rfsd/rfs/terminal"
	"github.com/rfsd/rfsd/rfs/throttle"
	"github.com/rfsd/rfsd/rfs/verify"
	"github.com/rfsd/rfsd/rfs/worker"
)

const verifyHelp = `Compares what migrate with the same options sends with what the target holds, document by document: id, routing and every byte
   of the source. Names what is missing, extra or different. Writes nothing; target indices are refreshed.

   7: equal as far as it was compared, but a part cannot be read; 8 wins over 7. Documents that the account names as failed, that have no source or that rules leave
   out are counted and are no difference; nor is what was written to the target after the migration, where its end is recorded.`

// wholeTarget is what migrate --verify asks for.
var wholeTarget = config.Verification{Sample: 1, Differences: 1000}

// verifyMemory is the soft limit of a verification, in bytes.
const verifyMemory = 160 << 20

func verifyCommand() *cli.Command {
	return config.Command(cli.Command{
		Name: "verify", Usage: "compare a target with the snapshot that was migrated to it", Description: verifyHelp,
	}, func(ctx context.Context, call *config.Call, v config.Verify) error {
		o, err := newOptions(v.Migrate)
		if err != nil {
			return err
		}
		return runVerify(ctx, o, v.Verification, terminal.Raw(call.Out))
	})
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
	r, err := compare(ctx, o, counted, memory, ask, log, screen)
	if err != nil {
		return err
	}
	if o.json {
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
	switch r.State {
	case verify.Different:
		return exit.With(exit.Different, nil)
	case verify.Unreadable:
		return exit.With(exit.Parts, nil)
	}
	return nil
}

// compare reads both sides within the budget of the process.
func compare(ctx context.Context, o options, blobs repo.Repository, memory *budget.Budget, ask config.Verification, log *slog.Logger, screen *terminal.Screen) (*verify.Report, error) {
	r := &verify.Report{Version: version, Begin: time.Now().UTC().Truncate(time.Second), Source: blobs.URI(), Snapshot: o.snapshot, Sample: float64(ask.Sample), Quick: ask.Quick}
	plan, err := worker.NewPlan(ctx, blobs, o.request())
	if err != nil {
		return nil, planError(err)
	}
	o.target.Memory = memory
	client, err := target.New(ctx, o.target)
	if err != nil {
		return nil, err
	}
	defer client.Close() //nolint:errcheck // nothing was written through it
	v, err := client.Info(ctx)
	if err != nil {
		return nil, err
	}
	r.Target = client.Name()
	indices := &worker.TargetIndices{Cluster: client, Version: v, Rules: o.rules, Requester: client, Log: log}
	if err := indices.Locate(ctx, plan); err != nil {
		return nil, err
	}
	refused, err := accountOfFailures(ctx, o)
	if err != nil {
		return nil, err
	}
	bucket, pause := throttle.New(o.maxRate), cms.SystemClock().Sleep
	held := worker.ComparedTarget{Client: client, Version: v, Longest: o.maxDocument, Admit: bucket.Take, Pause: pause, Log: log,
		Sequence: func(ctx context.Context, name string) (map[string]int64, error) {
			return rollback.Sequence(ctx, client, name)
		}}
	if latency := throttle.NewLatency(ask.MaxLatency, pause); latency != nil {
		held.Pace = latency
	}
	if marks, why := sessionMarks(ctx, o, client, plan); why != nil {
		log.Info("documents that were changed since the migration are not told apart", "reason", fault.Text(why))
	} else {
		held.Marks = marks
	}
	identity := comparedIdentity(o, blobs.URI(), plan)
	kept := keptComparison(o, identity)
	checker := verify.New(verify.Options{
		Target: held, Store: kept,
		Sample: verify.Sample(float64(ask.Sample)), Failed: refused, Names: ask.Differences, Readers: o.slots, Pause: pause, Log: log,
	})
	source := worker.Comparison{Repo: blobs, Edit: o.editor, Redirects: o.rules.Targets, Memory: memory, MaxDocument: o.maxDocument, Identity: identity}
	stop := showProgress(verifyProgress(checker), log, screen)
	if ask.Quick {
		r.Indices, err = checker.Count(ctx, source.Groups(plan))
	} else {
		r.Indices, err = checker.Compare(ctx, source.Groups(plan))
	}
	stop()
	if err != nil {
		return nil, err
	}
	if kept != nil && !ask.Quick {
		if err := kept.Remove(); err != nil {
			log.Warn("what the comparison kept to go on after a crash cannot be removed", "error", err)
		}
	}
	for _, x := range plan.Unread {
		r.Indices = append(r.Indices, &verify.Index{Target: x.Entry.Naming.Index, Sources: []string{x.Name}, State: verify.Unreadable, Problems: []string{x.Reason}})
	}
	for _, m := range plan.Missing {
		r.Warnings = append(r.Warnings, "the snapshot lacks a shard: "+m)
	}
	r.State, r.End = r.Worst(), time.Now().UTC().Truncate(time.Second)
	return r, nil
}

// comparedIdentity identifies the snapshot and all settings that decide what is sent of it; "" when the snapshot has no identity.
func comparedIdentity(o options, uri string, plan *worker.Plan) string {
	if plan.Identity == "" {
		return ""
	}
	settings, err := json.Marshal(o.request().Settings(repositoryIdentity(uri)))
	if err != nil { // texts only
		return ""
	}
	return version + " " + plan.Identity + " " + string(settings)
}

// keptComparison is where a comparison of this snapshot with this target keeps what it has read; nil where nothing can be kept.
func keptComparison(o options, identity string) verify.Store {
	dir, err := stateDir()
	if err != nil || identity == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(identity + "\x00" + o.target.URL))
	return verify.Folder{Dir: filepath.Join(dir, "verify-"+hex.EncodeToString(sum[:8]))}
}

// errNoMarks means that nothing is recorded of the end of the migration.
var errNoMarks = errors.New("no session of this name has migrated this snapshot to this target, as far as its state shows")

// sessionMarks reads the sequence numbers that the target had at the end of the migration of this snapshot.
func sessionMarks(ctx context.Context, o options, client *target.Client, plan *worker.Plan) (m rollback.Marks, err error) {
	if o.coordinatorFile != "" { // opening would create it
		if _, err := os.Stat(o.coordinatorFile); err != nil {
			return m, err
		}
	}
	kept, end, err := keptFailures(ctx, o, client)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if kept == nil {
		return m, errNoMarks
	}
	identity, err := kept.Identity(ctx)
	switch {
	case errors.Is(err, cms.ErrNotFound), err == nil && !worker.IsOf(identity, plan):
		return m, errNoMarks
	case err != nil:
		return m, err
	}
	return rollback.ReadMarks(ctx, client, kept)
}

// accountOfFailures reads which documents the migration has recorded as failed: from its directory or bucket.
func accountOfFailures(ctx context.Context, o options) (*verify.Failed, error) {
	all := &verify.Failed{}
	if o.failedDir == "" {
		return all, nil
	}
	kept, err := repo.Open(ctx, o.failedDir, o.s3)
	if err != nil {
		if _, serr := os.Stat(o.failedDir); !config.InBucket(o.failedDir) && errors.Is(serr, fs.ErrNotExist) {
			return all, nil
		}
		return nil, fmt.Errorf("failed documents: %w", err)
	}
	for blob, err := range kept.List(ctx, "") {
		if err != nil {
			return nil, fmt.Errorf("failed documents in %s: %w", o.failedDir, err)
		}
		if !strings.HasSuffix(blob.Name, ".ndjson") {
			continue
		}
		r, err := kept.Open(ctx, blob.Name, 0, -1)
		if err != nil {
			return nil, fmt.Errorf("failed documents: %w", err)
		}
		err = failed.Names(r, func(index, id string) error {
			if !all.Add(index, id) {
				return config.Usage("%s names more than %d failed documents, which is more than can be held", o.failedDir, all.Len())
			}
			return nil
		})
		if err = errors.Join(err, r.Close()); err != nil {
			return nil, fmt.Errorf("failed documents in %s: %w", blob.Name, err)
		}
	}
	return all, nil
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
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TARGET INDEX\tSTATE\tSOURCE\tTARGET\tMISSING\tEXTRA\tDIFFERENT\tSAME VALUE\tROUTING\tSINCE\tFAILED\tFILTERED")
	for _, x := range r.Indices {
		failed := x.Failed
		for _, n := range x.Unsent {
			failed += n
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", x.Target, x.State, x.SourceSide.Documents, x.TargetSide.Documents,
			x.Counts[verify.Missing], x.Counts[verify.Extra], x.Counts[verify.Changed], x.Counts[verify.SameValue], x.Counts[verify.OtherRouting], x.Counts[verify.ChangedSince], failed, x.Filtered)
	}
	t.Flush()
	for _, x := range r.Indices {
		printIndex(w, x)
	}
	for _, text := range r.Warnings {
		fmt.Fprintln(w, "warning:", text)
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
		fmt.Fprintf(w, "%s: %d documents are recorded as failed; the target has %d of them, which were not compared\n", x.Target, x.Failed, x.FailedThere)
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
