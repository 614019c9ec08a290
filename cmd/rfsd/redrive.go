package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/owner"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/redrive"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

const redriveHelp = `Sends the documents in --failed-documents again, as they were sent, after the cause was fixed.
Documents that arrive are removed from the files; those that fail again stay, with the new
reason. A file that a running process writes is not touched. The process may be killed at any
time: a file is replaced only after the outcome of its documents is known. Documents with
existing ids follow --existing-documents of the session. Documents that have no source, or whose
source cannot be sent, stay and count as failed. So do those for an index that the session did
not create, such as an existing index, unless --coordinator-file holds the session: the
report names the command line that sends them, with --index-allowlist.

Sources that the files do not hold (--failed-documents-content), and sources of documents that a
fleet has recorded (--from-control-index), are read again: from the snapshot with --repo-uri, and
--rules if the migration had rules; from the files of an import with --from.`

func redriveCommand() *cli.Command {
	return config.Command(cli.Command{
		Name: "redrive", Usage: "send failed documents again, after the cause was fixed", Description: redriveHelp,
	}, func(ctx context.Context, call *config.Call, c config.Redrive) error {
		o, err := newRedriveOptions(version, c)
		if err != nil {
			return err
		}
		return runRedrive(ctx, o, call.With, call.Out)
	})
}

// runRedrive sends failed documents again and reports it. again returns the command line with more options.
func runRedrive(ctx context.Context, o options, again func(more ...string) string, out *output.Writer) error {
	begin := time.Now()
	log, screen := report.Log(o.log)
	o.warnOfRisks(log)
	in := newResources(o)
	budget.LimitMemory(o.memory().Budget(config.InBucket(o.failedDir)), os.Getenv)
	o.target.Memory, o.coordinator.Memory = in.memory, in.memory
	o.target.Log = log
	client, err := target.New(ctx, o.target)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // every answer that matters was read
	if err := clusterOnly(o.target, "rfsd redrive"); err != nil {
		return err
	}
	if _, err := askTarget(ctx, client, log); err != nil {
		return err
	}
	kept, closeKept, err := openSession(ctx, o, client)
	if errors.Is(err, state.ErrNone) && o.sinkNamed && o.named { // its state was removed
		kept, closeKept, err = nil, func() error { return nil }, nil
	}
	if err != nil {
		return err
	}
	var ledger *rollback.Ledger
	if kept != nil {
		var closeFirst func() error
		if ledger, closeFirst, err = openLedger(ctx, o, kept, client, log); err != nil {
			return errors.Join(err, closeKept())
		}
		closeRound := closeKept
		closeKept = func() error { return errors.Join(closeFirst(), closeRound()) }
	}
	permit, err := newWritable(ctx, o, kept, ledger, again)
	if err != nil {
		return errors.Join(err, closeKept())
	}
	if o.existing, err = existingOf(ctx, kept); err != nil {
		return errors.Join(err, closeKept())
	}
	source, err := sourceOf(ctx, o, kept, in, log)
	if err != nil {
		return errors.Join(err, closeKept())
	}
	place, err := failedPlace(ctx, o, kept)
	if err != nil {
		return errors.Join(err, closeKept())
	}
	limits, stopLimits := in.sending(ctx, o, client, log)
	defer stopLimits() //nolint:errcheck // it only ends what it started
	sender, err := engine.ToCluster(in.counters.Sender(client), limits).Open(ctx, cms.ItemID{}, func() error { return nil })
	if err != nil {
		return errors.Join(err, closeKept())
	}
	opts := bulkOptions(o, in, client)
	opts.Sender = sender
	r := &redrive.Redrive{
		Place: place, Bulk: opts, Log: log, Select: o.indices.Match, Permit: permit.mayNot, MaxDocument: cmp.Or(o.maxDocument, shards.DefaultMaxDocument),
		Existing: func(ctx context.Context, index string) (bulk.Existing, error) {
			stream, err := objects.IsStream(ctx, client, index)
			if stream {
				return bulk.Keep, err
			}
			return o.existing, err
		},
	}
	r.Source = source
	if kept != nil {
		if r.Account, err = newRedriveAccount(o, kept); err != nil {
			return errors.Join(err, closeKept())
		}
		r.Arrived = func(ctx context.Context, arrived func(redrive.Document) bool) error {
			return session.RefusalsOf(kept).Forget(ctx, func(d session.Refused) bool {
				return arrived(redrive.Document{Index: d.Index, ID: d.ID, Shard: d.Shard, Ordinal: d.Ordinal})
			})
		}
	}
	stopProgress := report.Progress(func(elapsed float64) string {
		return fmt.Sprintf("%s documents, %s documents/s", progress.Count(r.Sent.Load()), progress.Count(int64(float64(r.Sent.Load())/elapsed))) + report.Failures(r.Failed.Load())
	}, log, screen)
	var done redrive.Report
	work := func() (err error) {
		done, err = r.Run(ctx)
		return err
	}
	if ledger != nil {
		err = ledger.Around(ctx, work)
	} else {
		err = work()
	}
	stopProgress()
	full := report.Redrive{Place: placeName(o), Report: done, Seconds: time.Since(begin).Seconds()}
	if kept != nil && err == nil {
		full.PoliciesWait, err = phase.PoliciesWaiting(ctx, kept)
	}
	return full.Conclude(out, errors.Join(err, closeKept()))
}

// openLedger opens the records of what the session has created: of a round, the session of round 0 has them.
func openLedger(ctx context.Context, o options, kept *cms.Coordinator, client *target.Client, log *slog.Logger) (*rollback.Ledger, func() error, error) {
	own, nothing := rollback.NewLedger(client, kept, o.session, log), func() error { return nil }
	root, number, is := follow.RootOf(o.session)
	if !is {
		return own, nothing, nil
	}
	first := o
	first.session, first.coordinatorFile = root, strings.TrimSuffix(o.coordinatorFile, strings.TrimPrefix(o.session, root))
	records, closeFirst, err := openSession(ctx, first, client)
	switch {
	case errors.Is(err, state.ErrNone): // a session with such a name of its own
		return own, nothing, nil
	case err != nil:
		return nil, nil, fmt.Errorf("session %s, which is followed: %w", root, err)
	}
	all, err := session.RoundsOf(records).Read(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, closeFirst())
	}
	if !slices.ContainsFunc(all.Rounds, func(r session.Round) bool { return r.Number == number }) {
		return own, closeFirst, nil
	}
	return rollback.NewLedger(client, records, root, log), closeFirst, nil
}

// openSession opens the state of a session that has begun; state.ErrNone for another one.
func openSession(ctx context.Context, o options, client *target.Client) (*cms.Coordinator, func() error, error) {
	var store cms.Store
	end := func() error { return nil }
	switch {
	case o.coordinatorFile != "":
		file, err := state.OpenFile(o.coordinatorFile)
		if err != nil {
			return nil, nil, err
		}
		store, end = file, file.Close
	case o.bucket.URI != "":
		kept, _, err := state.OpenBucket(ctx, o.bucket, o.session)
		if err != nil {
			return nil, nil, err
		}
		store = kept
	default:
		if o.coordinator.URL != "" {
			var err error
			if client, err = target.New(ctx, o.coordinator); err != nil {
				return nil, nil, fmt.Errorf("coordinator: %w", err)
			}
			end = client.Close
		}
		kept, err := state.OpenCluster(ctx, client, o.session)
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		store = kept
	}
	c := cms.New(cms.Config{Store: store, Creator: owner.Name()})
	return c, end, nil
}

// existingOf returns what the session does with documents that the target has.
func existingOf(ctx context.Context, kept *cms.Coordinator) (bulk.Existing, error) {
	if kept == nil {
		return bulk.Overwrite, nil
	}
	identity, err := session.IdentityOf(kept).Read(ctx)
	if err != nil && !errors.Is(err, cms.ErrNotFound) {
		return "", fmt.Errorf("state of the session: %w", err)
	}
	settings, err := session.IdentityOf(kept).Settings(ctx)
	if err != nil && !errors.Is(err, cms.ErrNotFound) {
		return "", fmt.Errorf("state of the session: %w", err)
	}
	if settings[plan.FollowKey] != "" { // by their versions, documents that a later round changed stay
		return bulk.Newer, nil
	}
	if f, err := session.RoundsOf(kept).Read(ctx); err != nil || len(f.Rounds) > 1 {
		return "", cmp.Or(err, session.ErrFollowed)
	}
	return bulk.Existing(cmp.Or(identity[phase.ExistingKey], string(bulk.Overwrite))), nil
}
