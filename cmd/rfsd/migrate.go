package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/help"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/cmd/wiring"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/foreground"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/estimate"
	"github.com/rfsd/rfsd/rfs/migration/load"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/rfs/operation/trial"
)

func migrateCommand() *cli.Command {
	return config.Command(cli.Command{
		Name:        "migrate",
		Usage:       "migrate a snapshot to a cluster or to files, in the foreground",
		Description: help.Migrate,
	}, func(ctx context.Context, call *config.Call, m config.MigrateCommand) error {
		o, err := wiring.ForMigrateCommand(version, m)
		if err != nil {
			return err
		}
		return migrate(ctx, o, call.Out)
	})
}

// pollOrders is the interval in which a process in the foreground looks for orders.
const pollOrders = 3 * time.Second

// migrate runs one migration and reports it.
func migrate(ctx context.Context, o wiring.Options, out *output.Writer) error {
	r, err := perform(ctx, o, out)
	if r == nil {
		return err
	}
	return r.Conclude(out, err)
}

// perform runs one migration and returns its report, also with an error. The report is nil if it failed before its start. Before a trial run
// starts, it prints to out what that reads and sends.
func perform(ctx context.Context, o wiring.Options, out *output.Writer) (*report.Migration, error) {
	log, screen := o.Driver, (*terminal.Screen)(nil)
	var lines *daemon.LogRing
	if o.Driver == nil {
		log, screen = report.Log(o.Log)
		log, lines = keepLines(log, o.Log.Level, keptLines)
		o.WarnOfRisks(log)
	}
	observed, t, err := o.Observe(ctx, "migrate", "", log)
	if err != nil {
		return nil, err
	}
	defer t.Stop()
	ctx = observed
	begin := time.Now()
	in := wiring.NewResources(o)
	counted, err := wiring.OpenCounted(ctx, o, in.Memory)
	if err != nil {
		return nil, err
	}
	wiring.LimitMemory(o, counted) // before it is planned: a snapshot has any number of indices
	var planned *plan.Plan
	read := func(ctx context.Context, name string) (*plan.Plan, error) {
		if planned != nil {
			return planned, nil
		}
		request := o.Request()
		request.SnapshotName, request.Sizes, request.Manifests = name, true, &in.Manifests
		p, err := plan.New(ctx, counted, request)
		if err != nil {
			return nil, wiring.PlanError(err)
		}
		planned = p
		announce(log, planned)
		announceTrial(o, planned, out)
		return planned, nil
	}
	if o.Snapshot != "" { // it exists: errors of reading it are reported before the target is asked
		if _, err := read(ctx, o.Snapshot); err != nil {
			return nil, err
		}
	}
	s, done, err := wiring.OpenMigration(ctx, o, log, counted, in)
	if err != nil {
		return nil, err
	}
	s.Plan = read
	owned, err := o.Claim(s.Holder)
	if err != nil {
		return nil, errors.Join(err, done())
	}
	orders := s.Coordinator
	if s.Root != nil { // orders are given to the session that is followed
		orders = s.Root
	}
	ctx, stop, err := session.OrdersOf(orders).Watch(ctx, pollOrders, in.Follow, s.Log)
	defer stop()
	if err != nil {
		return nil, errors.Join(err, done(), owned.Release())
	}
	m := &worker.Migration{Session: s, Dead: owned.Dead(), Freed: owned.Freed, Slots: o.Slots, Unavailable: o.Unavailable}
	var sum *summary.Summary
	if o.Driver != nil {
		m.Slots = 0
		sum, err = m.Run(ctx)
	} else {
		shown := shownMigration(o, s, counted, in, lines, log)
		if err = t.Measure(ctx, shown); err == nil {
			sum, err = runShown(ctx, m, shown, log, screen)
		}
	}
	r := &report.Migration{Summary: sum}
	if sum != nil && o.Trial == nil {
		r.Failures = status.FailureClasses(ctx, s.Coordinator, s.Runner.Failed, sum.Totals.Failed, log)
	}
	wall := time.Since(begin)
	tried := o.Estimate(planned, counted, in.Memory)
	var load estimate.Load
	if o.Measure > 0 && err == nil && sum.Complete {
		load, err = tried.Measure(ctx, s, o.Measure, o.FailedContent)
	}
	if err == nil && sum.Complete { // no lease is left
		if ferr := owned.Forget(); ferr != nil {
			log.Debug("the file of the process's name stays", "error", ferr)
		}
	}
	err = errors.Join(err, done(), owned.Release())
	r.Seconds = time.Since(begin).Seconds()
	r.RepositoryReads, r.RepositoryBytes = counted.Totals()
	p := m.Runner.Meter.Read(time.Now())
	r.Resent, r.Retries, r.ItemsRun = p.Resent, p.Retries, p.Items
	if o.Verify && err == nil && sum.Complete {
		o.Snapshot = sum.Snapshot
		r.Verification, err = compareAgain(ctx, o, counted, in.Memory, log, screen)
	}
	if o.Trial != nil && err == nil && sum.Complete {
		tried.Trial = *o.Trial
		r.Trial, err = tried.Whole(ctx, sum, r.ItemsRun, trial.Measured{Wall: wall, Busy: p.Busy, Leases: p.Leases, Load: load.All, Refresh: load.Refresh}, load.Problem)
		if errors.Is(err, estimate.ErrSnapshot) {
			err = exit.With(exit.Snapshot, err)
		}
	}
	if sum != nil {
		r.FailedDir = o.FailedDir
	}
	r.Cluster, r.DryRun, r.AcceptReduced = o.Target.URL != "", o.Discard, o.AcceptReduced
	r.ShardsLacking = planned != nil && len(planned.Missing) > 0
	return r, err
}

// runShown runs m to its end. Meanwhile it shows the progress here, and to rfsctl status.
func runShown(ctx context.Context, m *worker.Migration, shown *foreground.Command, log *slog.Logger, screen *terminal.Screen) (*summary.Summary, error) {
	stopShowing := show(ctx, shown, log, screen)
	sum, err := m.Run(ctx)
	stopShowing()
	return sum, err
}

// announce logs, before the run, the objects that will arrive changed or not at all.
func announce(log *slog.Logger, plan *plan.Plan) {
	for _, w := range plan.Warnings {
		log.Warn(w)
	}
	for _, x := range plan.Vanished {
		log.Warn("the snapshot lacks an index that the former one has: it stays on the target, except with --delete-indices", "index", x.Name)
	}
	for _, m := range plan.Missing {
		log.Warn("the snapshot lacks a shard", "shard", m)
	}
	for _, x := range plan.Indices {
		if x.Entry.Reduced != "" {
			log.Warn("stored sources differ from the indexed documents", "index", x.Name, "reason", x.Entry.Reduced)
		}
	}
	if len(plan.LeftOut) > 0 {
		log.Info("system indices are left out; --include-system migrates them", "indices", strings.Join(plan.LeftOut, ", "))
	}
}

// announceTrial prints what a trial run reads and sends, before it starts.
func announceTrial(o wiring.Options, p *plan.Plan, out *output.Writer) {
	if o.Trial == nil || o.Log.Quiet {
		return
	}
	text := progress.Sprintf("trial run: reads and sends at most %d documents of each of %s to indices named %s…", o.Trial.Documents, progress.Plural(int64(p.Shards()), "shard"), o.Trial.Prefix)
	if o.Measure > 0 {
		text += fmt.Sprintf("; then, for at most %s, at most %s of sources to indices that it deletes again", o.Measure, progress.Bytes(load.MaxSource(p)))
	}
	fmt.Fprintln(out, text)
}
