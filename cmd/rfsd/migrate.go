package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/rfsd/rfsd/rfs/bulk"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/export"
	"github.com/rfsd/rfsd/rfs/failed"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/repo"
	"github.com/rfsd/rfsd/rfs/target"
	"github.com/rfsd/rfsd/rfs/worker"
)

const migrateHelp = `Reads a snapshot and writes every live document to a cluster or to files, in the foreground, to its end.
   Interrupted or killed, the same command continues where it was; documents are overwritten by id, never doubled.

   Bounds: requests under way (--max-connections) × their size (--documents-size-per-bulk-request), one body more
   per slot, and per slot one decompressed chunk (at most some MB, or the largest document); nothing is unpacked to disk.

   Exit codes: 0 every document arrived; 6 complete, but documents were refused or have no source (the failed-document
   file names them); 7 complete, but shards failed, are damaged or missing; 5 snapshot unreadable before any work;
   1 usage, configuration or target, or not complete. 7 wins over 6.`

func migrateCommand() *cli.Command {
	var flags []cli.Flag
	for _, group := range [][]cli.Flag{sourceFlags(), destinationFlags(), selectionFlags(), workFlags()} {
		flags = append(flags, group...)
	}
	return &cli.Command{
		Name:        "migrate",
		Usage:       "migrate a snapshot to a cluster or to files, in the foreground",
		Description: migrateHelp,
		Flags:       flags,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usage("unexpected argument %q: every option begins with --", c.Args().First())
			}
			o, err := parseOptions(c)
			if err != nil {
				return err
			}
			return migrate(c.Context, o)
		},
	}
}

// migrate runs one migration and reports it.
func migrate(ctx context.Context, o options) error {
	log := newLogger(o)
	begin := time.Now()
	blobs, err := repo.Open(ctx, o.repoURI, o.s3)
	if err != nil {
		return &codedError{exitSnapshot, fmt.Errorf("repository %s: %w", o.repoURI, err)}
	}
	counted := repo.NewCounting(blobs)
	request := worker.Request{
		SnapshotName: o.snapshot, Session: o.session, Allow: o.allow, IncludeSystem: o.includeSystem,
		AllowPartial: o.allowPartial, MultiType: o.multiType, EmitType: o.emitType, Sizes: true,
	}
	plan, err := worker.NewPlan(ctx, counted, request)
	if err != nil {
		return planError(err)
	}
	announce(log, plan)

	s, done, err := wire(ctx, o, log, counted)
	if err != nil {
		return err
	}
	s.Settings = request.Settings(repositoryIdentity(counted.URI()))
	s.Plan = func(context.Context) (*worker.Plan, error) { return plan, nil }
	m := &worker.Migration{Session: s, Plan: plan, Slots: o.slots, Unavailable: o.unavailable}
	stopProgress := showProgress(m.Runner.Meter, plan, log)
	sum, err := m.Run(ctx)
	stopProgress()
	err = errors.Join(err, done())

	r := &report{Summary: sum, Seconds: time.Since(begin).Seconds()}
	r.RepositoryReads, r.RepositoryBytes = counted.Totals()
	p := m.Runner.Meter.Read(time.Now())
	r.Resent, r.Retries = p.Resent, p.Retries
	return conclude(o, r, plan, err)
}

// repositoryIdentity names a repository for the settings of a session; a path means
// something on one machine only.
func repositoryIdentity(uri string) string {
	if strings.HasPrefix(uri, "file://") {
		return ""
	}
	return uri
}

// planError gives what NewPlan refuses its exit code: wrong names are the user's, the rest is the snapshot's.
func planError(err error) error {
	if errors.Is(err, fault.ErrConfig) || errors.Is(err, context.Canceled) {
		return err
	}
	return &codedError{exitSnapshot, err}
}

// announce says before the run what will not arrive as it was, or not at all.
func announce(log *slog.Logger, plan *worker.Plan) {
	for _, w := range plan.Warnings {
		log.Warn(w)
	}
	for _, m := range plan.Missing {
		log.Warn("the snapshot lacks a shard", "shard", m)
	}
	for _, x := range plan.Indices {
		if x.Entry.Reduced != "" {
			log.Warn("stored sources are not what was indexed", "index", x.Name, "reason", x.Entry.Reduced)
		}
	}
	if len(plan.LeftOut) > 0 {
		log.Info("system indices are left out; --include-system migrates them", "indices", strings.Join(plan.LeftOut, ", "))
	}
}

// wire puts the parts together; done closes them.
func wire(ctx context.Context, o options, log *slog.Logger, blobs *repo.Counting) (*worker.Session, func() error, error) {
	var closers []func() error
	done := func() error {
		var errs []error
		for i := len(closers) - 1; i >= 0; i-- {
			errs = append(errs, closers[i]())
		}
		return errors.Join(errs...)
	}
	give := func(err error) (*worker.Session, func() error, error) {
		return nil, nil, errors.Join(err, done())
	}
	writer := newHolder()
	s := &worker.Session{Holder: writer, Log: log}
	destination, closeDest, err := openDestination(ctx, o, s)
	if err != nil {
		return give(err)
	}
	closers = append(closers, closeDest)
	store, closeStore, err := openStore(o)
	if err != nil {
		return give(err)
	}
	closers = append(closers, closeStore)
	recorder, err := failed.Open(o.failedDir, writer)
	if err != nil {
		return give(fmt.Errorf("failed documents: %w", err))
	}
	closers = append(closers, recorder.Close)
	s.Coordinator, err = cms.New(cms.Config{Store: store, Creator: writer, InitialLease: o.lease})
	if err != nil {
		return give(err)
	}
	s.Runner = &worker.Runner{
		Repo: blobs, Destination: destination, Failed: recorder, Meter: worker.NewMeter(),
		Clock: cms.SystemClock(), Log: log, VerifyFirst: o.verifyFirst, Bulk: bulkOptions(o),
	}
	return s, done, nil
}

// newHolder names this process so that its leases are never taken for another's.
func newHolder() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "generated"
	}
	return host + "_" + rand.Text()
}

// bulkOptions bounds the bodies of one slot, so that all slots together keep to --max-connections.
func bulkOptions(o options) bulk.Options {
	opts := bulk.Options{
		MaxBytes: o.bulkBytes, MaxDocs: o.bulkDocs,
		MaxInFlight: max(1, (o.connections+o.slots-1)/o.slots),
		Breaker:     bulk.NewBreaker(o.maxFailed),
		GiveUp:      o.unavailable,
	}
	if o.exportDir != "" {
		opts.MaxInFlight = 1 // a file is written in order
	}
	return opts
}

// openStore opens the state of the work. A rehearsal keeps its state in a file of its own that goes with it.
func openStore(o options) (*boltcms.Store, func() error, error) {
	path, temporary := o.coordinatorFile, ""
	if path == "" {
		dir, err := os.MkdirTemp("", "rfsd-discard-")
		if err != nil {
			return nil, nil, fmt.Errorf("state of the rehearsal: %w", err)
		}
		temporary, path = dir, filepath.Join(dir, "coordinator.db")
	}
	store, err := boltcms.Open(path, time.Now)
	if err != nil {
		return nil, nil, fmt.Errorf("coordinator file %s: %w", path, err)
	}
	return store, func() error {
		err := store.Close()
		if temporary != "" {
			err = errors.Join(err, os.RemoveAll(temporary))
		}
		return err
	}, nil
}

// openDestination connects to the cluster, opens the export directory, or rehearses.
func openDestination(ctx context.Context, o options, s *worker.Session) (worker.Destination, func() error, error) {
	nothing := func() error { return nil }
	switch {
	case o.discard:
		return worker.ToNowhere(), nothing, nil
	case o.exportDir != "":
		dir, err := export.Open(o.exportDir, s.Holder, export.Compression(o.compression))
		if err != nil {
			return nil, nil, fmt.Errorf("export directory %s: %w", o.exportDir, err)
		}
		return worker.ToFiles(dir), dir.Close, nil
	}
	client, err := target.New(ctx, o.target)
	if err != nil {
		return nil, nil, err
	}
	v, err := client.Info(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("target %s: %w", client.Name(), err)
	}
	s.Log.Info("target", "url", client.Name(), "distribution", v.Distribution, "version", v.Number)
	s.Targets = client
	s.Prepare = func(ctx context.Context, plan *worker.Plan) error {
		return worker.PrepareTarget(ctx, client, v, plan, s.Log)
	}
	return worker.ToCluster(client, o.connections), nothing, nil
}

// newLogger logs JSON unless a person is watching.
func newLogger(o options) *slog.Logger {
	opts := &slog.HandlerOptions{Level: o.logLevel}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		if o.logLevel == slog.LevelInfo {
			opts.Level = slog.LevelWarn // the progress line says the rest
		}
		return slog.New(slog.NewTextHandler(os.Stderr, opts))
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, opts))
}

// showProgress draws or logs until the returned function is called.
func showProgress(meter *worker.Meter, plan *worker.Plan, log *slog.Logger) func() {
	var total int64
	for _, x := range plan.Indices {
		for _, b := range x.Entry.Bytes {
			total += b
		}
	}
	line := newProgressLine(meter, total)
	every := 30 * time.Second
	if line.tty {
		every = 500 * time.Millisecond
	}
	ticker, quit, ended := time.NewTicker(every), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case now := <-ticker.C:
				if line.tty {
					line.draw(now)
				} else {
					log.Info("progress", "progress", line.text(now))
				}
			case <-quit:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(quit)
		<-ended
		line.clear()
	}
}

// conclude prints the summary and decides the exit code.
func conclude(o options, r *report, plan *worker.Plan, err error) error {
	if r.Summary == nil {
		return err
	}
	r.FailedDir = o.failedDir
	code := exitOK
	switch {
	case err != nil || !r.Complete:
		code = exitFailed
	case len(r.Problems) > 0 || len(plan.Missing) > 0:
		code = exitDamaged
	case r.Totals.Failed > 0:
		code = exitRefused
	}
	r.ExitCode = code
	if err != nil {
		r.Error = err.Error()
	}
	if o.json {
		err = errors.Join(err, r.writeJSON(os.Stdout))
	} else {
		r.writeText(os.Stdout)
	}
	if code == exitOK {
		return err
	}
	return &codedError{code, err}
}
