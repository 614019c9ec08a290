package main

import (
	"context"
	"errors"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/help"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/cmd/wiring"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

func importCommand() *cli.Command {
	return config.Raw[config.ImportCommand](cli.Command{
		Name:        "import",
		Usage:       "import NDJSON files, such as the files of an export, into a cluster; any number of processes share the work",
		Description: help.Import,
	}, func(ctx context.Context, call *config.Call) error {
		return runOrWork(ctx, call, decodeImport, importTask, runImport)
	})
}

// decodeImport makes the options of an import of given settings.
func decodeImport(values config.Values) (wiring.ImportOptions, error) {
	var i config.Import
	if err := config.Decode(values, &i); err != nil {
		return wiring.ImportOptions{}, err
	}
	return wiring.ForImport(version, i), nil
}

// runImport imports windows of a session and writes its report.
func runImport(ctx context.Context, o wiring.ImportOptions, out *output.Writer) error {
	log, screen := report.Log(o.Options.Log)
	log, lines := keepLines(log, o.Log.Level, keptLines)
	o.WarnOfRisks(log)
	ctx, t, err := o.Observe(ctx, "import", "", log)
	if err != nil {
		return err
	}
	defer t.Stop()
	begin := time.Now()
	h, err := wiring.OpenImport(ctx, o, log, wiring.NewResources(o.Options))
	if err != nil {
		return err
	}
	shown := shownImport(o, h, lines, log)
	if err := t.Measure(ctx, shown); err != nil {
		return errors.Join(err, h.Close())
	}
	stopShowing := show(ctx, shown, log, screen)
	done, err := h.Run(ctx)
	stopShowing()
	r := &report.Import{Status: done, Source: h.Source.URI(), Session: o.Session, Seconds: time.Since(begin).Seconds(), FailedDir: o.FailedDir}
	if err == nil {
		r.Redriven, err = deliveredLater(ctx, h.Kept, r.Failed)
		r.Failed, r.Indexed = r.Failed-r.Redriven, r.Indexed+r.Redriven
	}
	r.Failures = status.FailureClasses(ctx, h.Kept, h.Failed, r.Failed, log)
	own := h.Own()
	r.OwnDocuments, r.OwnWindows = own.Documents, own.Windows
	return r.Conclude(out, errors.Join(err, h.Close()))
}

// deliveredLater returns how many of the failed documents of a session rfsd redrive has delivered.
func deliveredLater(ctx context.Context, kept *cms.Coordinator, failed int64) (int64, error) {
	again, err := progress.ReadRedrives(ctx, kept)
	if err != nil {
		return 0, err
	}
	return again.TakeAll(failed), nil
}
