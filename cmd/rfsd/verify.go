package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/help"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/cmd/wiring"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/migration/compare"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// wholeTarget asks for the comparison that migrate --verify makes.
var wholeTarget = config.Verification{Sample: 1, Differences: 1000}

// verifyMemory is the soft limit of a verification, in bytes.
const verifyMemory = 160 << 20

func verifyCommand() *cli.Command {
	return config.Raw[config.Verify](cli.Command{
		Name: "verify", Usage: "compare a target with the snapshot or the files that it was filled from", Description: help.Verify,
	}, func(ctx context.Context, call *config.Call) error {
		values := call.Given()
		if values.Text("from") != "" {
			return verifyFiles(ctx, values, call.Out)
		}
		var v config.VerifySnapshot
		if err := config.Decode(values, &v); err != nil {
			return err
		}
		if v.Migrate.Transfer.Target.Cluster.Host == "" {
			return config.Usage("verify compares a cluster: give --target-host")
		}
		o, err := wiring.ForMigration(version, config.Migrate(v.Migrate))
		if err != nil {
			return err
		}
		if v.Verification.Changed {
			if o, err = lastRound(ctx, o); err != nil {
				return err
			}
		}
		return runVerify(ctx, o, v.Verification, call.Out)
	})
}

// lastRound returns the options of the last round of the session that has arrived.
func lastRound(ctx context.Context, o wiring.Options) (wiring.Options, error) {
	r := rounds{Options: o}
	r.log, _ = report.Log(o.Log)
	if err := wiring.Contact(ctx, o, true, r.log); err != nil {
		return o, err
	}
	var x follow.Round
	err := r.chain(ctx, func(c *follow.Chain) (err error) {
		x, err = c.Last(ctx)
		return err
	})
	if err != nil {
		return o, err
	}
	return r.Options.Round(x)
}

// verifyFiles compares a target with files.
func verifyFiles(ctx context.Context, values config.Values, out *output.Writer) error {
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
	o := wiring.ForFiles(version, v)
	budget.LimitMemory(verifyMemory, os.Getenv)
	files, err := wiring.OpenFiles(ctx, o.Options)
	if err != nil {
		return err
	}
	log, screen := report.Log(o.Options.Log)
	r, err := wiring.CompareFiles(ctx, o, files, shownComparison(o.Options, v.Verification, o.Options.Memory().Input(), log, screen))
	if err != nil {
		return err
	}
	return report.Verification(out, r)
}

// runVerify compares, reports, and returns the exit code as an error.
func runVerify(ctx context.Context, o wiring.Options, ask config.Verification, out *output.Writer) error {
	budget.LimitMemory(verifyMemory, os.Getenv)
	log, screen := report.Log(o.Log)
	r, err := compareSource(ctx, o, ask, log, screen)
	if err != nil {
		return err
	}
	return report.Verification(out, r)
}

// compareSource compares the target with the snapshot of the options.
func compareSource(ctx context.Context, o wiring.Options, ask config.Verification, log *slog.Logger, screen *terminal.Screen) (*verify.Report, error) {
	memory := o.Memory().Input()
	counted, err := wiring.OpenCounted(ctx, o, memory)
	if err != nil {
		return nil, err
	}
	return wiring.CompareSnapshot(ctx, o, counted, shownComparison(o, ask, memory, log, screen))
}

func verifyProgress(v *verify.Verifier) func(elapsed float64) string {
	return func(elapsed float64) string {
		p := v.Progress()
		return fmt.Sprintf("source: %s; target: %s", report.Rates(p.SourceDocuments, p.SourceBytes, elapsed), report.Rates(p.TargetDocuments, p.TargetBytes, elapsed))
	}
}

// shownComparison returns what compares the target of the options, and shows its progress.
func shownComparison(o wiring.Options, ask config.Verification, memory *budget.Budget, log *slog.Logger, screen *terminal.Screen) *compare.Run {
	run := wiring.Comparison(o, ask, memory, log)
	run.Show = func(v *verify.Verifier) func() { return report.Progress(verifyProgress(v), log, screen) }
	return run
}

// compareAgain compares the whole target with the snapshot that was migrated, unless another process of the session has done so since.
func compareAgain(ctx context.Context, o wiring.Options, blobs repo.Repository, memory *budget.Budget, log *slog.Logger, screen *terminal.Screen) (*verify.Report, error) {
	run := shownComparison(o, wholeTarget, memory, log, screen)
	run.Reuse = true
	return wiring.CompareSnapshot(ctx, o, blobs, run)
}
